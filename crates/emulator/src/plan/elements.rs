//! What is wrong with the elements of a direction that go beyond one rate and one queue.

use super::Direction;
use super::problem::{Problem, Problems};

/// More in a row is taken for a mistake.
const MOST_STAGES: usize = 64;

impl Direction {
    /// Problems of its discipline and of its list of stages, by key, as the table `at`; the
    /// stages themselves are to be looked at one by one.
    pub fn problems(&self, at: &str) -> Vec<Problem> {
        let mut problems = Problems::below(at);
        if let Some(discipline) = &self.discipline {
            problems.found.extend(discipline.problems(&format!("{at}.discipline")));
            if self.rate_mbit.is_none() {
                problems.add("discipline", "without a rate nothing waits", "set `rate_mbit`");
            }
        }
        if self.stages.len() >= MOST_STAGES {
            let what = format!("{} stages", self.stages.len() + 1);
            problems.add("stages", what, format!("give at most {}", MOST_STAGES - 1));
        }
        for (index, stage) in self.stages.iter().enumerate() {
            if !stage.stages.is_empty() {
                let key = format!("stages.{index}.stages");
                problems.add(&key, "stages of a stage", "put all into one list, in their order");
            }
        }
        problems.found
    }
}
