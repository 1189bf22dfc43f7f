//! A token bucket that drops what exceeds it: a rate without a queue.

use crate::packet::Nanos;

#[derive(Clone, Debug)]
pub(crate) struct Policer {
    bytes_per_nano: f64,
    most: f64,
    tokens: f64,
    filled_at: Nanos,
}

impl Policer {
    /// The bucket is full at first.
    pub fn new(rate_mbit: f64, burst_bytes: u64) -> Policer {
        let most = burst_bytes as f64;
        Policer { bytes_per_nano: rate_mbit / 8_000.0, most, tokens: most, filled_at: 0 }
    }

    /// Whether the packet may pass. Times of calls never go back.
    pub fn conforms(&mut self, now: Nanos, bytes: usize) -> bool {
        let earned = now.saturating_sub(self.filled_at) as f64 * self.bytes_per_nano;
        self.filled_at = now;
        self.tokens = (self.tokens + earned).min(self.most);
        let passes = self.tokens >= bytes as f64;
        if passes {
            self.tokens -= bytes as f64;
        }
        passes
    }
}

#[cfg(test)]
mod tests {
    use super::Policer;

    #[test]
    fn a_burst_passes_and_then_the_rate() {
        // 8 Mbit/s: one byte a µs.
        let mut policer = Policer::new(8.0, 3000);
        let passed = |policer: &mut Policer, now| policer.conforms(now, 1000);
        assert!((0..3).all(|_| passed(&mut policer, 0)));
        assert!(!passed(&mut policer, 999_000));
        assert!(passed(&mut policer, 1_000_000));
        assert!(!passed(&mut policer, 1_500_000));
    }

    #[test]
    fn an_idle_time_earns_no_more_than_the_burst() {
        let mut policer = Policer::new(8.0, 3000);
        assert!((0..3).all(|_| policer.conforms(1_000_000_000, 1000)));
        assert!(!policer.conforms(1_000_000_000, 1000));
    }
}
