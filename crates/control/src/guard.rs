//! The guard: withdraws an aggressive window from a path on which it hurts.
//!
//! It judges a path, not a connection: loss and queues belong to the path, and
//! a new connection must not start the harm again. A withdrawal lasts `retry`,
//! twice as long each time it follows another, and the path must look well
//! before it ends: so a path that is hurt is left alone for ever longer.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::contract::Seen;
use crate::policy::GuardSettings;

/// Fewer segments than this say nothing about loss.
const LEAST_SEGMENTS: u64 = 20;
/// The longest withdrawal is `retry` times this.
const MOST_RETRIES: u32 = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hurt {
    Loss,
    Inflation,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Allowed,
    Withdrawn(Hurt),
}

/// What the connections of a path did since the last look.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sample {
    /// Segments with data, retransmissions included.
    pub sent: u64,
    pub retransmitted: u64,
    /// The least of their smoothed by their least round trips.
    pub inflation: f64,
}

impl Sample {
    /// What one connection of the path did since the last look, in segments.
    pub fn add(&mut self, seen: &Seen, sent: u32, retransmitted: u32) {
        self.sent += u64::from(sent);
        self.retransmitted += u64::from(retransmitted);
        if sent > 0 && seen.min_rtt_us != u32::MAX {
            let inflation = f64::from(seen.srtt_us) / f64::from(seen.min_rtt_us.max(1));
            let least = self.inflation;
            self.inflation = if least == 0.0 { inflation } else { least.min(inflation) };
        }
    }
}

#[derive(Debug)]
pub struct Guard {
    samples: VecDeque<(Instant, Sample)>,
    withdrawn: Option<(Instant, Hurt)>,
    /// In a row.
    withdrawals: u32,
    since: Instant,
}

impl Guard {
    pub fn new(now: Instant) -> Guard {
        Guard { samples: VecDeque::new(), withdrawn: None, withdrawals: 0, since: now }
    }

    pub fn verdict(&self) -> Verdict {
        self.withdrawn.map_or(Verdict::Allowed, |(_, hurt)| Verdict::Withdrawn(hurt))
    }

    /// Takes what happened and says what holds from now on.
    pub fn look(&mut self, now: Instant, sample: Sample, settings: &GuardSettings) -> Verdict {
        if !settings.on {
            return Verdict::Allowed;
        }
        self.samples.push_back((now, sample));
        while self.samples.front().is_some_and(|&(at, _)| now - at > settings.after) {
            self.samples.pop_front();
        }
        match self.withdrawn {
            None => self.watch(now, settings),
            Some((at, _)) => self.wait(now, at, settings),
        }
        self.verdict()
    }

    fn watch(&mut self, now: Instant, settings: &GuardSettings) {
        // It did well for as long as it would be withdrawn: what was is forgotten.
        if now - self.since > self.lasts(settings) {
            self.withdrawals = 0;
        }
        if now - self.since < settings.after {
            return;
        }
        if let Some(hurt) = self.hurts(settings.loss, settings.inflation) {
            self.withdrawals += 1;
            self.withdrawn = Some((now, hurt));
            self.samples.clear();
        }
    }

    /// Half the thresholds, so that it does not come back to what hurts.
    fn wait(&mut self, now: Instant, at: Instant, settings: &GuardSettings) {
        let half_way = 1.0 + (settings.inflation - 1.0) / 2.0;
        if now - at >= self.lasts(settings) && self.hurts(settings.loss / 2.0, half_way).is_none() {
            self.withdrawn = None;
            self.since = now;
            self.samples.clear();
        }
    }

    /// How long the withdrawal that is, or would come next, lasts.
    fn lasts(&self, settings: &GuardSettings) -> Duration {
        let times = 1u32 << self.withdrawals.saturating_sub(1).min(31);
        settings.retry * times.min(MOST_RETRIES)
    }

    fn hurts(&self, loss: f64, inflation: f64) -> Option<Hurt> {
        let sent: u64 = self.samples.iter().map(|(_, sample)| sample.sent).sum();
        let again: u64 = self.samples.iter().map(|(_, sample)| sample.retransmitted).sum();
        if sent >= LEAST_SEGMENTS && again as f64 / sent as f64 > loss {
            return Some(Hurt::Loss);
        }
        let busy = || self.samples.iter().filter(|(_, sample)| sample.sent > 0);
        let all_long = busy().all(|(_, sample)| sample.inflation > inflation);
        (sent >= LEAST_SEGMENTS && all_long).then_some(Hurt::Inflation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TICK: Duration = Duration::from_millis(100);

    fn settings() -> GuardSettings {
        GuardSettings::default()
    }

    /// What the guard says at each tick, for ticks of these kinds.
    fn verdicts(samples: impl IntoIterator<Item = Sample>) -> Vec<Verdict> {
        let start = Instant::now();
        let mut guard = Guard::new(start);
        let at = |n: usize| start + TICK * n as u32;
        let look = |(n, sample)| guard.look(at(n), sample, &settings());
        samples.into_iter().enumerate().map(look).collect()
    }

    fn well() -> Sample {
        Sample { sent: 50, retransmitted: 0, inflation: 1.1 }
    }

    fn lossy() -> Sample {
        Sample { sent: 50, retransmitted: 10, inflation: 1.1 }
    }

    fn full_queue() -> Sample {
        Sample { sent: 50, retransmitted: 0, inflation: 9.0 }
    }

    fn switches(verdicts: &[Verdict]) -> usize {
        verdicts.windows(2).filter(|two| two[0] != two[1]).count()
    }

    #[test]
    fn a_path_that_is_well_keeps_its_window() {
        assert_eq!(switches(&verdicts([well(); 3000])), 0);
    }

    #[test]
    fn loss_for_long_enough_withdraws_it_and_says_so() {
        let told = verdicts([lossy(); 30]);
        assert_eq!(told[10], Verdict::Allowed, "not at once");
        assert_eq!(told[29], Verdict::Withdrawn(Hurt::Loss));
    }

    #[test]
    fn a_queue_that_stays_full_withdraws_it_and_says_so() {
        assert_eq!(verdicts([full_queue(); 30])[29], Verdict::Withdrawn(Hurt::Inflation));
    }

    #[test]
    fn one_burst_of_loss_or_an_idle_time_does_not() {
        let idle = Sample { sent: 0, retransmitted: 0, inflation: 9.0 };
        assert_eq!(switches(&verdicts([idle; 300])), 0);
        let samples = (0..300).map(|n| if n == 100 { lossy() } else { well() });
        assert_eq!(switches(&verdicts(samples)), 0);
    }

    #[test]
    fn it_comes_back_only_when_the_path_looks_well() {
        let after = |rest: Sample| {
            let told = verdicts((0..400).map(|n| if n < 30 { lossy() } else { rest }));
            *told.last().unwrap()
        };
        assert_eq!(after(well()), Verdict::Allowed);
        let half = Sample { sent: 50, retransmitted: 2, inflation: 1.1 };
        assert_eq!(after(half), Verdict::Withdrawn(Hurt::Loss), "4 % is more than half of 5 %");
    }

    /// A path that is hurt whenever the window is aggressive, for an hour.
    #[test]
    fn on_a_path_that_it_hurts_it_is_tried_ever_more_rarely() {
        let start = Instant::now();
        let mut guard = Guard::new(start);
        let mut told = Vec::new();
        for n in 0..36_000 {
            let hurt = guard.verdict() == Verdict::Allowed;
            let sample = if hurt { lossy() } else { well() };
            told.push(guard.look(start + TICK * n, sample, &settings()));
        }
        let allowed = told.iter().filter(|&&verdict| verdict == Verdict::Allowed).count();
        assert!(switches(&told) <= 24, "{} switches in an hour", switches(&told));
        assert!(allowed < 360, "aggressive for less than a hundredth of the time: {allowed} ticks");
    }

    proptest! {
        /// Whatever happens, a withdrawal lasts its time and a window is given its own.
        #[test]
        fn it_never_flaps(kinds in prop::collection::vec(0..4, 1..2000)) {
            let kind = |n: &i32| match n {
                0 => well(),
                1 => lossy(),
                2 => full_queue(),
                _ => Sample::default(),
            };
            let told = verdicts(kinds.iter().map(kind));
            let changes: Vec<usize> =
                (1..told.len()).filter(|&n| told[n] != told[n - 1]).collect();
            for two in changes.windows(2) {
                let least = match told[two[0]] {
                    Verdict::Withdrawn(_) => settings().retry,
                    Verdict::Allowed => settings().after,
                };
                let lasted = TICK * (two[1] - two[0]) as u32;
                prop_assert!(lasted >= least, "{:?} for {:?}", told[two[0]], lasted);
            }
        }
    }
}
