//! When to speak: at least once a second, and at once when something changed, but never so often
//! that talking costs the air that it is to save.

use std::time::Duration;

/// Between two reports when nothing happens. A bit less than a second, so that three in a row must
/// be lost before a terminal is forgotten ([`crate::EXPIRY`]).
pub const PERIOD: Duration = Duration::from_millis(900);
/// Between two reports at least.
const GAP: Duration = Duration::from_millis(200);
/// Early reports that may follow each other; one more is allowed each two periods.
const BURST: u32 = 4;

#[derive(Clone, Debug)]
pub struct Pace {
    last: Option<Duration>,
    early: u32,
    refilled: Duration,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace { last: None, early: BURST, refilled: Duration::ZERO }
    }
}

impl Pace {
    /// When to speak next: `urgent` if there is news.
    pub fn due(&mut self, now: Duration, urgent: bool) -> Duration {
        let Some(last) = self.last else { return now };
        while self.early < BURST && now >= self.refilled + 2 * PERIOD {
            self.early += 1;
            self.refilled += 2 * PERIOD;
        }
        if urgent && self.early > 0 { last + GAP } else { last + PERIOD }
    }

    /// A report has just gone out.
    pub fn spoke(&mut self, now: Duration) {
        if self.last.is_some_and(|last| now < last + PERIOD) {
            if self.early == BURST {
                self.refilled = now;
            }
            self.early = self.early.saturating_sub(1);
        }
        self.last = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(urgent: bool, seconds: u64) -> usize {
        let (mut pace, mut now, mut spoken) = (Pace::default(), Duration::ZERO, 0);
        while now < Duration::from_secs(seconds) {
            if pace.due(now, urgent) <= now {
                pace.spoke(now);
                spoken += 1;
            }
            now += Duration::from_millis(10);
        }
        spoken
    }

    #[test]
    fn a_quiet_terminal_speaks_each_period() {
        assert_eq!(run(false, 90), 100);
    }

    #[test]
    fn the_first_report_and_the_first_news_are_not_held_back() {
        let mut pace = Pace::default();
        assert_eq!(pace.due(Duration::from_secs(7), false), Duration::from_secs(7));
        pace.spoke(Duration::from_secs(7));
        assert_eq!(pace.due(Duration::from_secs(7), true), Duration::from_secs(7) + GAP);
    }

    #[test]
    fn endless_news_cost_at_most_three_reports_for_each_two_periods() {
        let most = 90_000 / PERIOD.as_millis() as usize * 3 / 2 + BURST as usize + 1;
        let spoken = run(true, 90);
        assert!(spoken <= most, "{spoken} of {most}");
    }
}
