//! A question in words: `14:03..14:05 port 443`.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use transom_spool::{Cause, Question, Time, Wanted};

use crate::filters::duration;
use crate::range::Moment;
use crate::service::port;

/// What can be said, for messages.
const WORDS: &str = "a question has a time (14:03..14:05, 14:03, last 10m) and any of: port N or service, \
                     program NAME, unit NAME, pod UID, container ID, to ADDRESS, verdict NAME, \
                     failed, #COOKIE";

/// Without a time: so long until now.
const USUAL: Duration = Duration::from_secs(600);
/// A moment without an end is a minute.
const MINUTE_US: i64 = 60_000_000;

/// # Errors
/// A word that is none, or a value that its word cannot have.
pub fn question(words: &[String], now: Time) -> Result<Question> {
    let all = words.join(" ");
    let mut words = all.split_whitespace();
    let mut question =
        Question { from: Time(now.0 - micros(USUAL)), to: now, wanted: Wanted::default() };
    while let Some(word) = words.next() {
        let mut value = || words.next().with_context(|| format!("'{word}' of what? {WORDS}"));
        let wanted = &mut question.wanted;
        match word {
            "last" => question.from = Time(now.0 - micros(duration(value()?)?)),
            "port" => wanted.port = Some(port(value()?)?),
            "program" => wanted.program = Some(value()?.into()),
            "unit" => wanted.unit = Some(value()?.into()),
            "pod" => wanted.pod = Some(value()?.into()),
            "container" => wanted.container = Some(value()?.into()),
            "to" => wanted.to = Some(value()?.into()),
            "verdict" => wanted.verdict = Some(cause(value()?)?),
            "failed" => wanted.failed = true,
            _ if word.starts_with('#') => wanted.cookie = Some(number(&word[1..])?),
            _ if word.contains(':') => (question.from, question.to) = times(word, now)?,
            _ => bail!("'{word}' is no word of a question: {WORDS}"),
        }
    }
    Ok(question)
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T> {
    let Ok(number) = text.parse() else {
        bail!("'{text}' is no number that can stand there: {WORDS}")
    };
    Ok(number)
}

fn cause(text: &str) -> Result<Cause> {
    let found = Cause::ALL.iter().find(|cause| cause.name() == text);
    let names = || Cause::ALL.iter().map(|cause| cause.name()).collect::<Vec<_>>().join(", ");
    found.copied().with_context(|| format!("'{text}' is no verdict: {}", names()))
}

/// `FROM..TO`, or one moment and the minute after it. A time of day is the last one that was.
fn times(text: &str, now: Time) -> Result<(Time, Time)> {
    let Some((from, to)) = text.split_once("..") else {
        let from = moment(text, now)?;
        return Ok((from, Time(from.0 + MINUTE_US)));
    };
    let from = moment(from, now)?;
    let to = if to.is_empty() { now } else { moment(to, now)? };
    // 23:59..00:01 ends on the next day.
    let to = if to < from { Time(to.0 + micros(crate::range::DAY)) } else { to };
    ensure!(from < to, "'{text}' ends when it begins");
    Ok((from, to))
}

fn moment(text: &str, now: Time) -> Result<Time> {
    let now = Duration::from_micros(now.0.max(0) as u64);
    let time = crate::range::moment(text)?.until(now).with_context(|| format!("'{text}'"))?;
    Ok(Time(micros(time)))
}

impl Moment {
    /// The last such moment until now, since 1970.
    fn until(self, now: Duration) -> Result<Duration> {
        match self {
            Moment::Wall(time) => Ok(time),
            Moment::OfDay(time) => {
                let day = crate::range::DAY;
                let midnight = day * (now.as_secs() / day.as_secs()) as u32;
                let today = midnight + time;
                Ok(if today > now { today.saturating_sub(day) } else { today })
            }
            Moment::SinceBegin(_) => bail!("give a time of day in UTC, or `last 10m`"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-23T14:10:00Z
    const NOW: Time = Time(1_795_443_000_000_000);

    fn asked(text: &str) -> Question {
        question(&[text.to_owned()], NOW).unwrap()
    }

    fn minutes_ago(time: Time) -> i64 {
        (NOW.0 - time.0) / MINUTE_US
    }

    #[test]
    fn a_time_of_day_is_the_last_one_that_was() {
        let question = asked("14:03..14:05 port 443");
        assert_eq!((minutes_ago(question.from), minutes_ago(question.to)), (7, 5));
        assert_eq!(question.wanted.port, Some(443));
        assert_eq!(minutes_ago(asked("14:11").from), 24 * 60 - 1);
    }

    #[test]
    fn without_a_time_it_is_about_the_last_ten_minutes() {
        assert_eq!(minutes_ago(asked("program curl").from), 10);
        assert_eq!(minutes_ago(asked("last 2h failed").from), 120);
    }

    #[test]
    fn a_stretch_may_go_over_midnight_or_be_open() {
        let night = asked("23:59..00:01");
        assert_eq!((night.to.0 - night.from.0) / MINUTE_US, 2);
        assert_eq!(asked("14:00..").to, NOW);
        assert_eq!(minutes_ago(asked("2026-11-22T14:10:00..2026-11-22T14:11:00").from), 24 * 60);
    }

    #[test]
    fn a_mistake_is_named() {
        let refusal = |text: &str| format!("{:#}", question(&[text.to_owned()], NOW).unwrap_err());
        assert!(refusal("port").contains("'port' of what?"));
        assert!(refusal("port nonsuch").contains("'nonsuch' is neither"));
        assert!(refusal("yesterday").contains("'yesterday' is no word"));
        assert!(refusal("verdict slow").contains("receiver_window"));
        assert!(refusal("14:05..14:05").contains("ends when it begins"));
    }
}
