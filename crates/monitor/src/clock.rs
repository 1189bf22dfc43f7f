//! The clocks of events.

use rustix::time::{ClockId, clock_getres, clock_gettime};

/// CLOCK_BOOTTIME, ns: the clock of every event.
pub fn boottime_ns() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// CLOCK_REALTIME minus CLOCK_BOOTTIME, ns: turns event times into dates.
pub fn wall_offset_ns() -> i64 {
    let wall = clock_gettime(ClockId::Realtime);
    wall.tv_sec * 1_000_000_000 + wall.tv_nsec - boottime_ns() as i64
}

/// One jiffy: the coarse clocks tick with it.
pub fn microseconds_per_jiffy() -> u32 {
    (clock_getres(ClockId::MonotonicCoarse).tv_nsec / 1000) as u32
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
    fn boot_time_and_offset_make_the_wall_clock() {
        let wall = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let ours = boottime_ns() as i64 + wall_offset_ns();
        assert!((wall.as_nanos() as i64 - ours).abs() < 1_000_000_000);
    }
}
