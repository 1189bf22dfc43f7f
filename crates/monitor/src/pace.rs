//! How long the reader waits: the less, the more happens. What it takes at once keeps a CPU from the
//! programs that are watched: 0.1 s of 200,000 events/s are more than a millisecond.

use std::time::{Duration, Instant};

/// So many records are taken in about 0.2 ms.
const BURST: f64 = 3000.0;
/// To wake up costs about as much as 100 records.
const LEAST: Duration = Duration::from_millis(5);

pub(crate) struct Pace {
    looked: Instant,
    /// Records a second, of late.
    rate: f64,
}

impl Pace {
    pub fn start(now: Instant) -> Pace {
        Pace { looked: now, rate: 0.0 }
    }

    /// How long to wait until the next look, `most` if little happens.
    pub fn wait(&self, most: Duration) -> Duration {
        if self.rate * most.as_secs_f64() <= BURST {
            return most;
        }
        Duration::from_secs_f64(BURST / self.rate).max(LEAST).min(most)
    }

    pub fn took(&mut self, records: usize, now: Instant) {
        let time = now.duration_since(self.looked).as_secs_f64();
        self.looked = now;
        self.rate = records as f64 / time.max(1e-6);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: Duration = Duration::from_millis(100);

    fn wait_at(rate: usize) -> Duration {
        let now = Instant::now();
        let mut pace = Pace::start(now);
        pace.took(rate, now + Duration::from_secs(1));
        pace.wait(MOST)
    }

    #[test]
    fn while_little_happens_it_waits_as_long_as_it_may() {
        assert_eq!(Pace::start(Instant::now()).wait(MOST), MOST);
        assert_eq!(wait_at(0), MOST);
        assert_eq!(wait_at(30_000), MOST);
    }

    #[test]
    fn the_more_happens_the_less_is_taken_at_once() {
        assert_eq!(wait_at(60_000), Duration::from_millis(50));
        assert_eq!(wait_at(300_000), Duration::from_millis(10));
        assert_eq!(wait_at(100_000_000), LEAST, "waking up costs, too");
    }

    #[test]
    fn it_never_waits_longer_than_it_may() {
        let mut pace = Pace::start(Instant::now());
        pace.took(1_000_000, Instant::now() + Duration::from_secs(1));
        assert_eq!(pace.wait(Duration::from_millis(1)), Duration::from_millis(1));
    }
}
