//! When a shipper tries again, so that the machines of a fleet do not come back all at once.

use std::time::Duration;

use sha2::{Digest, Sha256};

const FIRST_WAIT: Duration = Duration::from_millis(500);

/// Waits twice as long after each failure. When that comes near to the time that a fleet is spread
/// over, it tries once in that time, at a moment of its own: that of the host's hash.
pub struct Pace {
    spread: Duration,
    /// After each full `spread` since 1970.
    moment: Duration,
    pub failures: u32,
}

impl Pace {
    pub fn of(host: &str, spread: Duration) -> Pace {
        let digest = Sha256::digest(host.as_bytes());
        let number = digest[..8].iter().fold(0u64, |number, byte| number << 8 | u64::from(*byte));
        let share = number as f64 / 2f64.powi(64);
        Pace { spread, moment: spread.mul_f64(share), failures: 0 }
    }

    pub fn succeeded(&mut self) {
        self.failures = 0;
    }

    /// How long to wait now; `now` is since 1970, `random` from 0 to 1.
    pub fn failed(&mut self, now: Duration, random: f64) -> Duration {
        let wait = FIRST_WAIT * 2u32.saturating_pow(self.failures.min(20));
        self.failures += 1;
        if wait < self.spread / 2 {
            return wait.mul_f64(0.5 + random / 2.0);
        }
        self.until_own_moment(now)
    }

    pub fn until_own_moment(&self, now: Duration) -> Duration {
        let spread = self.spread.as_millis().max(1);
        let (now, moment) = (now.as_millis() % spread, self.moment.as_millis());
        let wait = (moment + spread - now) % spread;
        Duration::from_millis(u64::try_from(wait.max(1)).unwrap_or(u64::MAX))
    }
}

/// From 0 to 1.
pub fn random() -> f64 {
    use std::hash::{BuildHasher, Hasher};
    // Its keys come from the kernel, once a thread, and are other ones each time.
    let number = std::hash::RandomState::new().build_hasher().finish();
    number as f64 / 2f64.powi(64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPREAD: Duration = Duration::from_secs(600);

    /// The seconds at which hosts ask, with an outage from second 0 on that ends at `end`.
    fn first_after(end: u64, host: usize) -> f64 {
        let mut pace = Pace::of(&format!("web-{host}"), SPREAD);
        let mut now = Duration::from_secs(1_800_000_000);
        let end = now + Duration::from_secs(end);
        while now < end {
            let of_host = (host as f64 * 0.618_034).fract();
            now += pace.failed(now, of_host);
        }
        (now - end).as_secs_f64()
    }

    #[test]
    fn ten_thousand_hosts_come_back_over_ten_minutes_after_an_hour() {
        let mut seconds = vec![0u32; 601];
        for host in 0..10_000 {
            seconds[first_after(3600, host) as usize] += 1;
        }
        let most = seconds.iter().max().unwrap();
        // 16.7 a second on average; by chance no second has twice and a half of that.
        assert!(*most < 42, "{most} in one second");
        assert_eq!(seconds.iter().sum::<u32>(), 10_000);
    }

    #[test]
    fn a_short_trouble_is_waited_for_shortly() {
        for host in 0..100 {
            assert!(first_after(10, host) < 20.0);
        }
    }

    #[test]
    fn a_host_keeps_its_moment() {
        let pace = Pace::of("web-1", SPREAD);
        let now = Duration::from_secs(1_800_000_123);
        let next = now + pace.until_own_moment(now);
        let later = next + Duration::from_secs(1);
        let again = later + pace.until_own_moment(later);
        assert_eq!(again - next, SPREAD);
    }
}
