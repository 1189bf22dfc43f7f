//! The time that a question is about.

use anyhow::{Context, Result, bail, ensure};
use chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime, TimeDelta};
use transom_spool::Time;

/// Longer ones are other questions: each hour is a folder that is looked for.
const LONGEST_US: i64 = 31 * 24 * 3_600_000_000;

pub fn now() -> Time {
    Time(chrono::Utc::now().timestamp_micros())
}

/// # Errors
/// A word is no time, or the range is empty, too long or not yet.
pub fn range(since: &str, until: Option<&str>, now: Time) -> Result<(Time, Time)> {
    let end = until.map_or(Ok(now), |until| time(until, now)).context("--until")?;
    let begin = time(since, now).context("--since")?;
    ensure!(begin < now, "--since: {since} has not been yet");
    ensure!(begin < end, "the time ends before it begins: {}", words(begin, end));
    ensure!(
        end.0 - begin.0 <= LONGEST_US,
        "{} is more than 31 days: ask for less at once",
        words(begin, end)
    );
    Ok((begin, end))
}

/// One moment, which is over.
///
/// # Errors
/// It is no time, or still to come.
pub fn moment(word: &str, now: Time) -> Result<Time> {
    let at = time(word, now)?;
    ensure!(at < now, "{word} has not been yet");
    Ok(at)
}

pub fn words(begin: Time, end: Time) -> String {
    format!("{} to {}", utc(begin), utc(end))
}

/// To the second.
pub fn utc(time: Time) -> String {
    let time = DateTime::from_timestamp_micros(time.0).unwrap_or_default();
    time.format("%Y-%m-%dT%H:%M:%SZ").to_string()
}

fn time(word: &str, now: Time) -> Result<Time> {
    if let Some(ago) = ago(word) {
        return Ok(Time(now.0.saturating_sub(ago)));
    }
    if let Ok(time) = DateTime::parse_from_rfc3339(word) {
        return Ok(Time(time.timestamp_micros()));
    }
    // UTC, as it is said here: `2026-11-23T14:03Z`.
    let of_utc = word.strip_suffix('Z').unwrap_or(word);
    for form in ["%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S"] {
        if let Ok(time) = NaiveDateTime::parse_from_str(of_utc, form) {
            return Ok(Time(time.and_utc().timestamp_micros()));
        }
    }
    let of_day = ["%H:%M", "%H:%M:%S"].map(|form| NaiveTime::parse_from_str(word, form).ok());
    if let Some(of_day) = of_day.into_iter().flatten().next() {
        return last_before(of_day, now).with_context(|| format!("'{word}'"));
    }
    match word.parse::<NaiveDate>().ok().and_then(|date| date.and_hms_opt(0, 0, 0)) {
        Some(midnight) => Ok(Time(midnight.and_utc().timestamp_micros())),
        None => bail!(
            "'{word}' is neither a time in UTC, as 14:03 or 2026-11-23T14:03, nor how long ago, as 90m, 3h or 2d"
        ),
    }
}

/// A time of day is the last one that was, as in `transom ask`.
fn last_before(of_day: NaiveTime, now: Time) -> Result<Time> {
    let now = DateTime::from_timestamp_micros(now.0).context("the clock is far off")?.naive_utc();
    let today = now.date().and_time(of_day);
    let last = if today < now { today } else { today - TimeDelta::days(1) };
    Ok(Time(last.and_utc().timestamp_micros()))
}

/// µs.
pub fn ago(word: &str) -> Option<i64> {
    let (number, unit) = word.split_at_checked(word.len().checked_sub(1)?)?;
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => return None,
    };
    number.parse::<u32>().ok().map(|number| i64::from(number) * seconds * 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// 2026-11-23 12:00 UTC.
    const NOW: Time = Time(1_795_435_200_000_000);

    fn asked(since: &str, until: Option<&str>) -> Result<String> {
        range(since, until, NOW).map(|(begin, end)| words(begin, end))
    }

    #[test]
    fn times_are_of_utc_or_of_how_long_ago() {
        for since in [
            "90m",
            "2026-11-23T10:30",
            "2026-11-23T10:30Z",
            "2026-11-23 10:30:00",
            "2026-11-23T11:30:00+01:00",
        ] {
            let found = asked(since, None).unwrap();
            assert_eq!(found, "2026-11-23T10:30:00Z to 2026-11-23T12:00:00Z", "{since}");
        }
        assert_eq!(
            asked("10:30", Some("10:31:30")).unwrap(),
            "2026-11-23T10:30:00Z to 2026-11-23T10:31:30Z"
        );
        let yesterday = asked("14:03", None).unwrap();
        assert_eq!(yesterday, "2026-11-22T14:03:00Z to 2026-11-23T12:00:00Z", "not yet today");
        let found = asked("2026-11-22", Some("2d")).unwrap_err().to_string();
        assert!(found.contains("ends before it begins"), "{found}");
    }

    #[test]
    fn what_is_no_time_or_none_that_can_be_asked_for_is_refused_by_its_name() {
        let refused = |since, until| format!("{:#}", asked(since, until).unwrap_err());
        assert!(refused("noon", None).contains("--since: 'noon' is neither"));
        assert!(refused("1h", Some("")).contains("--until: '' is neither"));
        assert!(refused("25:00", None).contains("--since: '25:00' is neither"));
        let to_come = moment("2027-01-01", NOW).unwrap_err().to_string();
        assert_eq!(to_come, "2027-01-01 has not been yet");
        assert!(refused("2027-01-01", Some("2027-01-02")).contains("has not been yet"));
        assert!(refused("400d", None).contains("more than 31 days"));
    }

    proptest! {
        #[test]
        fn any_text_never_panics(since in ".*", until in proptest::option::of(".*")) {
            let _ = range(&since, until.as_deref(), NOW);
        }
    }
}
