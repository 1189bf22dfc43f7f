//! Where a generation is, and what comes next.

use serde::{Deserialize, Serialize};

use crate::gate::Judged;
use crate::waves::Waves;

/// A harmless generation is undone with this chance at most, whatever the number of looks and gates.
const ERRS: f64 = 0.005;
/// As suspicious as that at a wave's end, it is repeated with the same hosts.
const SUSPICIOUS: f64 = 0.2;
const MOST_HOLDS: u32 = 3;

/// What to do after a window.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub enum Step {
    /// The wave goes on.
    Wait,
    /// The same hosts once more: something is suspicious, and not more than that.
    Hold,
    /// The same hosts once more: those that had no rows have some now.
    Repeat,
    Next,
    /// All have it.
    Done,
    Undo(Decision),
}

/// Which gate, and on what.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Decision {
    pub by: Judged,
    /// The chance that was asked for at this look.
    pub bound: f64,
}

/// The state of the controller between two windows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rollout {
    pub wave: usize,
    /// Windows of this wave that are over.
    pub window: u32,
    pub holds: u32,
    /// How often gates were asked.
    pub looks: u32,
}

/// All that the controller has to remember of a generation. It lies signed in `policy/current`, so
/// that whoever makes the next step can be another process on another machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// When the first wave began, seconds since 1970; windows are counted from it.
    pub origin_s: u64,
    /// Rows from before it are of hosts that had something else yet.
    #[serde(default)]
    pub since_s: u64,
    /// The first window of each wave so far.
    pub began: Vec<i64>,
    pub rollout: Rollout,
    /// All have it, and nothing is judged any more.
    pub is_done: bool,
    /// What the gates found in the last window.
    #[serde(default)]
    pub judged: Vec<Judged>,
    /// Why this generation undid the one before, if it did.
    #[serde(default)]
    pub because: String,
    /// Which one that was.
    #[serde(default)]
    pub undone: Option<Undone>,
}

/// A generation that was taken back, and the wave that it had come to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Undone {
    pub generation: u64,
    pub wave: usize,
    /// The gate that found harm; none: somebody took it back by hand.
    pub gate: Option<String>,
}

impl Rollout {
    /// A window is over, and the gates were asked.
    pub fn after(&mut self, waves: &Waves, judged: &[Judged]) -> Step {
        self.window += 1;
        self.looks += 1;
        let look = f64::from(self.looks);
        // Bounds over all looks add up to the chance to err.
        let bound = ERRS / (2.0 * judged.len().max(1) as f64) / (look * (look + 1.0));
        let chance = |it: &Judged| it.chance_of_mean.min(it.chance_of_hosts);
        let worst = judged.iter().min_by(|a, b| chance(a).total_cmp(&chance(b)));
        if let Some(worst) = worst.filter(|it| chance(it) < bound) {
            return Step::Undo(Decision { by: worst.clone(), bound });
        }
        if !self.window.is_multiple_of(2 * waves.windows) {
            return Step::Wait;
        }
        let is_suspicious = worst.is_some_and(|it| chance(it) < SUSPICIOUS);
        if is_suspicious && self.holds < MOST_HOLDS && !waves.is_last(self.wave) {
            self.holds += 1;
            return Step::Hold;
        }
        if waves.is_last(self.wave) {
            return Step::Done;
        }
        (self.wave, self.window, self.holds) = (self.wave + 1, 0, 0);
        Step::Next
    }

    /// After a window that would have been the last one of its wave.
    pub(crate) fn repeat(&mut self) -> Step {
        self.window += 1;
        self.looks += 1;
        self.holds += 1;
        Step::Repeat
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(chance: f64) -> Vec<Judged> {
        vec![Judged { chance_of_mean: 1.0, chance_of_hosts: chance, ..Judged::default() }]
    }

    /// Steps but waits, when each look finds this.
    fn steps(chance: f64) -> Vec<Step> {
        let (waves, mut rollout, mut steps) = (Waves::default(), Rollout::default(), Vec::new());
        for _ in 0..500 {
            let step = rollout.after(&waves, &judged(chance));
            let ends = matches!(step, Step::Done | Step::Undo(_));
            steps.extend((step != Step::Wait).then_some(step));
            if ends {
                return steps;
            }
        }
        panic!("it has no end");
    }

    #[test]
    fn without_suspicion_each_wave_is_followed_by_the_next() {
        assert_eq!(steps(0.5), [Step::Next, Step::Next, Step::Next, Step::Next, Step::Done]);
    }

    #[test]
    fn a_suspicious_wave_is_repeated_three_times() {
        let of_one = [Step::Hold, Step::Hold, Step::Hold, Step::Next];
        assert_eq!(steps(0.01)[..8], [of_one.clone(), of_one].concat());
    }

    #[test]
    fn harm_is_undone_at_once() {
        let [Step::Undo(decision)] = &steps(1e-6)[..] else { panic!() };
        assert_eq!(decision.bound, 0.005 / 2.0 / 2.0);
    }
}
