//! The clocks of events.

use std::time::{SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_getres, clock_gettime};
use transom_event::text::Utc;

/// CLOCK_BOOTTIME, ns: the clock of every event.
pub fn boottime_ns() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// CLOCK_REALTIME now, ns since 1970.
pub fn realtime_ns() -> i64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    t.tv_sec * 1_000_000_000 + t.tv_nsec
}

/// One jiffy: the coarse clocks tick with it.
pub fn microseconds_per_jiffy() -> u32 {
    (clock_getres(ClockId::MonotonicCoarse).tv_nsec / 1000) as u32
}

/// `20261121-203005` (UTC), for file names.
pub fn calendar(time: SystemTime) -> String {
    let us = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as i64);
    Utc::from_us(us).format("%Y%m%d-%H%M%S")
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
    fn a_file_name_has_the_date_and_the_time() {
        let at = |seconds| calendar(UNIX_EPOCH + std::time::Duration::from_secs(seconds));
        assert_eq!(at(1_795_293_005), "20261121-203005");
    }
}
