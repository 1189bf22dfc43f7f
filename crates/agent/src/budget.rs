//! What the agent may cost, and what it gives up to keep to it: level 2, then level 1, then new
//! connections of level 0. Pure: measurements in, level out.

use std::collections::VecDeque;
use std::time::Duration;

/// What is still done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Connections that begin are counted, not remembered.
    Counting,
    /// One row per connection.
    Connections,
    /// And rare decisions.
    Decisions,
    /// And chosen connections, event by event.
    Recording,
}

impl Level {
    /// As rows and metrics have it: 0 to 2 are levels of detail, 255 is less than any.
    pub fn number(self) -> u8 {
        match self {
            Level::Counting => 255,
            Level::Connections => 0,
            Level::Decisions => 1,
            Level::Recording => 2,
        }
    }

    fn less(self) -> Level {
        match self {
            Level::Recording => Level::Decisions,
            Level::Decisions => Level::Connections,
            _ => Level::Counting,
        }
    }

    fn more(self) -> Level {
        match self {
            Level::Counting => Level::Connections,
            Level::Connections => Level::Decisions,
            _ => Level::Recording,
        }
    }
}

/// Measurements that a decision looks at.
const WINDOW: usize = 12;
/// After so many measurements below the half, a level is tried again; twice as many after each
/// time that this was wrong.
const CALM: u32 = 60;
const LONGEST_CALM: u32 = 720;

pub struct Budget {
    /// Share of one CPU, on average.
    most: f64,
    wanted: Level,
    level: Level,
    shares: VecDeque<f64>,
    calm: u32,
    calm_needed: u32,
}

impl Budget {
    pub fn new(most: f64, wanted: Level) -> Budget {
        Budget { most, wanted, level: wanted, shares: VecDeque::new(), calm: 0, calm_needed: CALM }
    }

    /// From now on this share.
    pub fn set_most(&mut self, most: f64) {
        self.most = most;
    }

    pub fn level(&self) -> Level {
        self.level
    }

    /// The level where the budget allows it.
    pub fn wanted(&self) -> Level {
        self.wanted
    }

    /// Average of the last minute.
    pub fn share(&self) -> f64 {
        if self.shares.is_empty() {
            return 0.0;
        }
        self.shares.iter().sum::<f64>() / self.shares.len() as f64
    }

    /// One measurement: CPU time of agent and probes in this time. Returns the level from now on.
    pub fn measured(&mut self, cpu: Duration, time: Duration) -> Level {
        if time.is_zero() {
            return self.level;
        }
        if self.shares.len() == WINDOW {
            self.shares.pop_front();
        }
        self.shares.push_back(cpu.as_secs_f64() / time.as_secs_f64());
        let full = self.shares.len() == WINDOW;
        if full && self.share() > self.most && self.level > Level::Counting {
            if self.level < self.wanted || self.calm_needed > CALM {
                self.calm_needed = (2 * self.calm_needed).min(LONGEST_CALM);
            }
            self.change(self.level.less());
        } else if full && self.share() < self.most / 2.0 && self.level < self.wanted {
            self.calm += 1;
            if self.calm >= self.calm_needed {
                self.change(self.level.more());
                self.calm_needed = (2 * self.calm_needed).min(LONGEST_CALM);
            }
        } else {
            self.calm = 0;
        }
        self.level
    }

    fn change(&mut self, to: Level) {
        self.level = to;
        // What was measured was another level's.
        self.shares.clear();
        self.calm = 0;
    }
}

/// Looks at all connections take at most this part of the budget.
const LOOKS: f64 = 0.25;

/// How long to wait after a look that took `took`: at least `least`, and at most as long as rows
/// of connections that go on may be late.
pub fn until_next_look(took: Duration, cpu: f64, least: Duration, most: Duration) -> Duration {
    took.div_f64(cpu * LOOKS).clamp(least, most.max(least))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: Duration = Duration::from_secs(5);

    fn after(budget: &mut Budget, share: f64, measurements: usize) -> Level {
        for _ in 0..measurements {
            budget.measured(TIME.mul_f64(share), TIME);
        }
        budget.level()
    }

    #[test]
    fn the_more_a_look_costs_the_less_often_there_is_one() {
        let (s, ms) = (Duration::from_secs, Duration::from_millis);
        let next = |took| until_next_look(took, 0.01, s(10), s(300));
        assert_eq!(next(ms(1)), s(10));
        assert_eq!(next(ms(100)), s(40));
        assert_eq!(next(s(3)), s(300));
        assert_eq!(until_next_look(s(3), 0.01, s(20), s(10)), s(20));
    }

    #[test]
    fn within_the_budget_nothing_is_given_up() {
        let mut budget = Budget::new(0.01, Level::Decisions);
        assert_eq!(after(&mut budget, 0.009, 1000), Level::Decisions);
    }

    #[test]
    fn over_it_recordings_go_before_decisions() {
        let mut budget = Budget::new(0.01, Level::Recording);
        assert_eq!(after(&mut budget, 0.02, WINDOW), Level::Decisions);
        assert_eq!(after(&mut budget, 0.02, WINDOW), Level::Connections);
        assert_eq!(after(&mut budget, 0.001, 3 * CALM as usize), Level::Decisions);
        assert_eq!(after(&mut budget, 0.001, 6 * CALM as usize), Level::Recording);
    }

    #[test]
    fn over_it_decisions_go_first_and_then_new_connections() {
        let mut budget = Budget::new(0.01, Level::Decisions);
        assert_eq!(after(&mut budget, 0.02, WINDOW - 1), Level::Decisions);
        assert_eq!(after(&mut budget, 0.02, 1), Level::Connections);
        assert_eq!(after(&mut budget, 0.02, WINDOW), Level::Counting);
        assert_eq!(after(&mut budget, 0.02, 1000), Level::Counting);
    }

    #[test]
    fn one_busy_moment_is_no_reason() {
        let mut budget = Budget::new(0.01, Level::Decisions);
        after(&mut budget, 0.001, WINDOW);
        assert_eq!(after(&mut budget, 0.1, 1), Level::Decisions);
    }

    #[test]
    fn what_was_given_up_comes_back_when_it_is_calm() {
        let mut budget = Budget::new(0.01, Level::Decisions);
        after(&mut budget, 0.02, WINDOW);
        assert_eq!(after(&mut budget, 0.001, WINDOW + CALM as usize - 2), Level::Connections);
        assert_eq!(after(&mut budget, 0.001, 1), Level::Decisions);
    }

    #[test]
    fn what_does_not_fit_is_tried_more_and_more_rarely() {
        let mut budget = Budget::new(0.01, Level::Decisions);
        let share = |level| if level == Level::Decisions { 0.02 } else { 0.001 };
        let mut tries = 0;
        let mut before = budget.level();
        for _ in 0..17_280 {
            let level = budget.measured(TIME.mul_f64(share(before)), TIME);
            tries += u32::from(level > before);
            before = level;
        }
        assert!((3..=26).contains(&tries), "{tries} tries in a day");
    }

    #[test]
    fn a_level_that_was_not_asked_for_is_never_reached() {
        let mut budget = Budget::new(0.01, Level::Connections);
        assert_eq!(after(&mut budget, 0.0, 1000), Level::Connections);
    }
}
