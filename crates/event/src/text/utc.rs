//! Wall time as people and programs write it.

use chrono::{DateTime, Datelike as _, NaiveDate, Timelike as _};

/// A moment of the proleptic Gregorian calendar, UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Utc(DateTime<chrono::Utc>);

impl Utc {
    /// From microseconds since 1970; what no calendar reaches is the last moment that it knows.
    pub fn from_us(us: i64) -> Utc {
        let end = if us < 0 {
            DateTime::<chrono::Utc>::MIN_UTC
        } else {
            DateTime::<chrono::Utc>::MAX_UTC
        };
        Utc(DateTime::from_timestamp_micros(us).unwrap_or(end))
    }

    /// Midnight of a date, `2026-03-02`.
    pub fn of_date(text: &str) -> Option<Utc> {
        let date: NaiveDate = text.parse().ok()?;
        Some(Utc(date.and_hms_opt(0, 0, 0)?.and_utc()))
    }

    /// Seconds since 1970.
    pub fn seconds(&self) -> i64 {
        self.0.timestamp()
    }

    /// As strftime(3) writes it.
    pub fn format(&self, pattern: &str) -> String {
        self.0.format(pattern).to_string()
    }
}

/// ISO 8601 with microseconds: `2026-11-21T20:30:05.000001Z`. Every row of a CSV file has one, so
/// no pattern is read.
impl std::fmt::Display for Utc {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (date, time) = (self.0.date_naive(), self.0.time());
        write!(
            f,
            "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}Z",
            date.year(),
            date.month(),
            date.day(),
            time.hour(),
            time.minute(),
            time.second(),
            time.nanosecond() / 1000
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_calendar_knows_leap_years_and_times_before_1970() {
        let at = |us| Utc::from_us(us).to_string();
        assert_eq!(at(0), "1970-01-01T00:00:00.000000Z");
        assert_eq!(at(-1), "1969-12-31T23:59:59.999999Z");
        assert_eq!(at(951_782_400_000_000), "2000-02-29T00:00:00.000000Z");
        assert_eq!(at(1_795_293_005_000_001), "2026-11-21T20:30:05.000001Z");
        assert!(at(i64::MAX) > at(0) && at(i64::MIN).starts_with('-'));
    }

    #[test]
    fn a_date_is_its_midnight() {
        let seconds = |text| Utc::of_date(text).map(|date| date.seconds());
        assert_eq!(seconds("1970-01-01"), Some(0));
        assert_eq!(seconds("2000-02-29"), Some(951_782_400));
        assert_eq!(seconds("2026-03-02"), Some(1_772_409_600));
        assert_eq!(seconds("2026-02-30"), None);
    }
}
