//! How often something may be done.

use std::time::{Duration, Instant};

/// So many at once, and then as many again within each minute.
pub struct Pace {
    per_minute: u32,
    left: f64,
    last: Instant,
}

impl Pace {
    pub fn new(per_minute: u32, now: Instant) -> Pace {
        Pace { per_minute, left: f64::from(per_minute), last: now }
    }

    /// Takes one, if there is one.
    pub fn allows(&mut self, now: Instant) -> bool {
        let minutes =
            now.duration_since(self.last).as_secs_f64() / Duration::from_secs(60).as_secs_f64();
        self.last = now;
        let most = f64::from(self.per_minute);
        self.left = (self.left + minutes * most).min(most);
        let is_one = self.left >= 1.0;
        if is_one {
            self.left -= 1.0;
        }
        is_one
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_so_many_one_comes_back_each_part_of_a_minute() {
        let begin = Instant::now();
        let at = |ms| begin + Duration::from_millis(ms);
        let mut pace = Pace::new(60, begin);
        assert_eq!((0..100).filter(|_| pace.allows(at(0))).count(), 60);
        assert!(!pace.allows(at(500)));
        assert!(pace.allows(at(1100)) && !pace.allows(at(1200)));
        assert_eq!((0..100).filter(|_| pace.allows(at(1_000_000))).count(), 60);
    }
}
