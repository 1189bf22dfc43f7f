//! Is a connection stable? Its window is looked at again and again: falls of a
//! quarter or more are counted (thesis, section 4: a window that falls though
//! nothing is congested).

use std::collections::VecDeque;
use std::time::Instant;

use crate::policy::{Stability, StabilitySettings};

/// Of one connection, within the time that the settings give.
#[derive(Debug, Default)]
pub struct WindowFalls {
    /// Largest window since the last fall, segments.
    high: u32,
    falls: VecDeque<Instant>,
}

impl WindowFalls {
    /// Takes the window of now, and says what that makes of the connection.
    pub fn look(&mut self, now: Instant, cwnd: u32, settings: &StabilitySettings) -> Stability {
        if cwnd <= self.high - self.high / 4 && cwnd < self.high {
            self.falls.push_back(now);
            self.high = cwnd;
        }
        self.high = self.high.max(cwnd);
        while self.falls.front().is_some_and(|&at| now - at > settings.within) {
            self.falls.pop_front();
        }
        match self.falls.len() >= settings.falls as usize {
            true => Stability::Unstable,
            false => Stability::Stable,
        }
    }

    /// What was before does not count: somebody changed the algorithm.
    pub fn restart(&mut self) {
        *self = WindowFalls::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn at(seconds: u64) -> Instant {
        static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
        *START.get_or_init(Instant::now) + Duration::from_secs(seconds)
    }

    #[test]
    fn two_falls_within_ten_seconds_are_unstable_and_are_forgotten() {
        let (mut falls, settings) = (WindowFalls::default(), StabilitySettings::default());
        assert_eq!(falls.look(at(0), 40, &settings), Stability::Stable);
        assert_eq!(falls.look(at(1), 20, &settings), Stability::Stable);
        assert_eq!(falls.look(at(2), 30, &settings), Stability::Stable);
        assert_eq!(falls.look(at(3), 15, &settings), Stability::Unstable);
        assert_eq!(falls.look(at(11), 16, &settings), Stability::Unstable);
        assert_eq!(falls.look(at(14), 17, &settings), Stability::Stable);
    }

    #[test]
    fn a_window_that_gives_an_eighth_or_only_grows_is_stable() {
        let (mut falls, settings) = (WindowFalls::default(), StabilitySettings::default());
        for second in 0..40 {
            let cwnd = 80 - 10 * (second as u32 % 2) + second as u32;
            assert_eq!(falls.look(at(second), cwnd, &settings), Stability::Stable);
        }
    }
}
