//! The clocks of events.

use std::time::{SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_getres, clock_gettime};

/// CLOCK_BOOTTIME, ns: the clock of every event.
pub fn boottime_ns() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// One jiffy: the coarse clocks tick with it.
pub fn microseconds_per_jiffy() -> u32 {
    (clock_getres(ClockId::MonotonicCoarse).tv_nsec / 1000) as u32
}

/// `20261121-203005` (UTC), for file names.
pub fn calendar(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64);
    let (days, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Days to a date in the proleptic Gregorian calendar, in years that begin in March.
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let day_of_era = z.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}{month:02}{day:02}-{hour:02}{minute:02}{second:02}")
}

/// Asks the scheduler to run us before the load we watch, if it lets us: a
/// reader that comes late loses events.
pub fn go_first() {
    let _ = rustix::process::setpriority_process(None, -10);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jiffy_is_one_of_those_a_kernel_can_be_built_with() {
        let hz = 1_000_000 / microseconds_per_jiffy();
        assert!([100, 250, 300, 1000].contains(&hz), "HZ = {hz}");
    }

    #[test]
    fn the_calendar_knows_leap_years() {
        let at = |seconds| calendar(UNIX_EPOCH + std::time::Duration::from_secs(seconds));
        assert_eq!(at(0), "19700101-000000");
        assert_eq!(at(951_782_400), "20000229-000000");
        assert_eq!(at(1_795_293_005), "20261121-203005");
    }
}
