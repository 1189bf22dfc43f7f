//! `--from` and `--to`: which part of a recording's time a command is about.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use transom_analysis::Recording;
use transom_event::text::Utc;
use transom_trace::Meta;

use crate::filters::duration;

#[derive(clap::Args)]
pub struct RangeArgs {
    /// Leave out what came before: a time since the recording began (3s, 1.5m) or a time of day
    /// in UTC (14:05:11, 2026-03-02T14:05:11.5)
    #[arg(long, value_name = "TIME", value_parser = moment, allow_hyphen_values = true)]
    from: Option<Moment>,

    /// Leave out what came after, written as for --from
    #[arg(long, value_name = "TIME", value_parser = moment, allow_hyphen_values = true)]
    to: Option<Moment>,
}

/// A time as the command line names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    SinceBegin(Duration),
    /// Time of day; of the day on which the recording began, or the one after it.
    OfDay(Duration),
    /// Since 1970, UTC.
    Wall(Duration),
}

pub(crate) const DAY: Duration = Duration::from_secs(86_400);

pub(crate) fn moment(text: &str) -> Result<Moment> {
    if !text.contains(':') {
        return duration(text).map(Moment::SinceBegin).with_context(hint);
    }
    let text = text.trim_end_matches('Z');
    let Some((date, time)) = text.split_once(['T', ' ']) else {
        return time_of_day(text).map(Moment::OfDay).with_context(hint);
    };
    let day = date_since_1970(date).with_context(hint)?;
    Ok(Moment::Wall(day + time_of_day(time).with_context(hint)?))
}

fn hint() -> &'static str {
    "a time is a number with a unit (3s, 500ms, 1.5m) or of the day in UTC (14:05:11)"
}

fn time_of_day(text: &str) -> Option<Duration> {
    // A sign is that of a zone, as in `14:03+02:00`.
    let is_written = |byte: u8| byte.is_ascii_digit() || matches!(byte, b':' | b'.');
    if !text.bytes().all(is_written) {
        return None;
    }
    let mut parts = text.split(':');
    let (hour, minute): (u64, u64) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    let second: f64 = parts.next().unwrap_or("0").parse().ok()?;
    let sound = hour < 24 && minute < 60 && (0.0..61.0).contains(&second) && parts.next().is_none();
    sound.then(|| Duration::from_secs(3600 * hour + 60 * minute) + Duration::from_secs_f64(second))
}

/// Midnight of YYYY-MM-DD.
fn date_since_1970(text: &str) -> Option<Duration> {
    let midnight = Utc::of_date(text)?.seconds();
    u64::try_from(midnight).ok().map(Duration::from_secs)
}

impl RangeArgs {
    pub fn is_given(&self) -> bool {
        self.from.is_some() || self.to.is_some()
    }

    /// The recording without what is outside.
    ///
    /// # Errors
    /// Nothing of the recording is inside, or its wall-clock time is not known.
    pub fn cut(&self, recording: Recording, meta: &Meta) -> Result<Recording> {
        if !self.is_given() || recording.events == 0 {
            return Ok(recording);
        }
        let (start, end) = (recording.start_ns, recording.end_ns);
        let at = |moment: &Option<Moment>, otherwise| match moment {
            Some(moment) => moment.boottime(start, end, meta),
            None => Ok(otherwise),
        };
        let (from, to) = (at(&self.from, start)?, at(&self.to, end)?);
        if from > end || to < start {
            let length = Duration::from_nanos(end.saturating_sub(start));
            bail!("nothing was recorded between --from and --to: the recording lasts {length:.1?}");
        }
        ensure!(from < to, "--from is not before --to");
        // What happens at --to itself comes after it, so that parts add up.
        let last = if self.to.is_some() { to - 1 } else { to };
        Ok(recording.between(from..=last))
    }
}

impl Moment {
    /// In ns of CLOCK_BOOTTIME, for a recording of this time.
    fn boottime(self, start_ns: u64, end_ns: u64, meta: &Meta) -> Result<u64> {
        let offset = meta.realtime_offset_ns;
        let wall = |ns: u64| Duration::from_nanos(ns.saturating_add_signed(offset));
        let (began, ended) = (wall(start_ns), wall(end_ns));
        if !matches!(self, Moment::SinceBegin(_)) && offset == 0 {
            bail!(
                "this trace does not say at which time of day it was made: give times since it began, as 3s"
            );
        }
        let since_1970 = match self {
            Moment::SinceBegin(time) => return Ok(start_ns.saturating_add(nanos(time))),
            Moment::Wall(time) => time,
            Moment::OfDay(time) => {
                let midnight = DAY * (began.as_secs() / DAY.as_secs()) as u32;
                let today = midnight + time;
                let tomorrow = today + DAY;
                // Where both are outside: a little before the begin is before the begin, and hours
                // before it is after midnight.
                let is_next_day = today < began && (tomorrow <= ended || today + DAY / 2 < began);
                if is_next_day { tomorrow } else { today }
            }
        };
        Ok(nanos(since_1970).saturating_add_signed(-offset))
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NS: u64 = 1_000_000_000;

    fn boottime(text: &str, start_ns: u64, began: &str) -> u64 {
        within(text, start_ns, began, Duration::from_secs(60))
    }

    fn within(text: &str, start_ns: u64, began: &str, lasts: Duration) -> u64 {
        let Moment::Wall(began) = moment(began).unwrap() else { panic!("{began}") };
        let realtime_offset_ns = nanos(began) as i64 - start_ns as i64;
        let meta = Meta { realtime_offset_ns, ..Meta::default() };
        moment(text).unwrap().boottime(start_ns, start_ns + nanos(lasts), &meta).unwrap()
    }

    #[test]
    fn times_since_the_begin_and_of_the_day() {
        let at = |text| boottime(text, 100 * NS, "2026-03-02T14:05:11Z");
        assert_eq!(at("3s"), 103 * NS);
        assert_eq!(at("1.5m"), 190 * NS);
        assert_eq!(at("14:05:21"), 110 * NS);
        assert_eq!(at("14:06"), 149 * NS);
        assert_eq!(at("14:05:11.5"), 100 * NS + NS / 2);
        assert_eq!(at("2026-03-02 14:05:12"), 101 * NS);
        assert_eq!(at("14:05:01"), 90 * NS, "before it began");
    }

    #[test]
    fn after_midnight_it_is_the_next_day() {
        assert_eq!(boottime("00:00:05", 100 * NS, "2024-02-29T23:59:55Z"), 110 * NS);
    }

    #[test]
    fn what_is_in_the_recording_on_the_next_day_only_is_meant_there() {
        const HOUR: u64 = 3600 * NS;
        let at = |text, hours: u64| {
            within(text, HOUR, "2026-03-02T10:00:00Z", Duration::from_secs(hours * 3600)) / HOUR
        };
        assert_eq!([at("02:00", 20), at("05:00", 20)], [17, 20], "to 06:00 of the next day");
        assert_eq!(at("09:00", 20), 0, "an hour before the begin, and hours after the end");
        assert_eq!([at("09:00", 48), at("11:00", 48)], [24, 2], "the first there is");
    }

    #[test]
    fn what_is_no_time_is_refused_with_a_hint() {
        for text in ["soon", "25:00", "12:60:00", "2026-13-01T00:00:00", "-3s", "1:2:3:4"] {
            let error = format!("{:#}", moment(text).unwrap_err());
            assert!(error.contains("14:05:11"), "{text}: {error}");
        }
    }

    #[test]
    fn a_trace_without_a_clock_knows_no_time_of_day() {
        let moment = moment("14:05").unwrap();
        assert!(moment.boottime(5, 6, &Meta::default()).is_err());
    }
}
