//! What the controller makes of the rows that have come: which windows are to be judged, and what
//! becomes of the roll-out.

use std::ops::Range;

use crate::contrast::{Windows, contrasts};
use crate::gate::{Gate, Judged};
use crate::generation::{Current, Generation};
use crate::progress::Step;
use crate::silence::{Silence, silence};
use crate::waves::{History, Waves};

/// For one gate: the windows of each host that has rows.
pub type HostWindows = Vec<(String, Windows)>;

/// Windows before the first wave that a host is compared with.
const BEFORE: i64 = 18;

/// What became of the windows that were due.
#[derive(Debug, Default, PartialEq)]
pub struct Looked {
    /// Each window that was judged, and what it led to.
    pub steps: Vec<(i64, Step)>,
    /// From here on no host has rows: they are late, or lost.
    pub missing: Option<i64>,
    /// At its end the wave is not good, since hosts that have the generation have no rows. It is held
    /// until they have some, or until its lease ends.
    pub silent: Vec<Silence>,
}

impl Current {
    /// The windows that are to be judged: those that were over a lag ago, since rows come late.
    pub fn due(&self, waves: &Waves, now_s: u64, lag_s: u64) -> Range<i64> {
        let progress = &self.progress;
        let began = progress.began.last().copied().unwrap_or(0);
        let next = began + i64::from(progress.rollout.window);
        next..self.window_at(waves, now_s.saturating_sub(lag_s)).max(next)
    }

    /// The windows that say something of it, before its first wave and up to `end`.
    pub fn compared(&self, waves: &Waves, end: i64) -> Range<i64> {
        let known = self.progress.origin_s.saturating_sub(self.progress.since_s);
        let known = i64::try_from(known / waves.window_s.max(1)).unwrap_or(i64::MAX);
        -known.min(BEFORE)..end
    }

    /// When a window begins, seconds since 1970.
    pub fn begins_s(&self, waves: &Waves, window: i64) -> u64 {
        let length = i64::try_from(waves.window_s).unwrap_or(i64::MAX);
        self.progress.origin_s.saturating_add_signed(window.saturating_mul(length))
    }

    /// The window of a time.
    fn window_at(&self, waves: &Waves, at_s: u64) -> i64 {
        let [at, origin, length] = [at_s, self.progress.origin_s, waves.window_s.max(1)]
            .map(|seconds| i64::try_from(seconds).unwrap_or(i64::MAX));
        (at - origin).div_euclid(length)
    }

    /// Whether so much of the lease is over that it should be renewed.
    pub fn is_to_renew(&self, now_s: u64) -> bool {
        now_s.saturating_sub(self.written_s) >= self.lease_s / 4
    }

    /// Judges what is due, by the sums of each gate in their order. Nothing is asked in the last
    /// wave, which has no control.
    pub fn look(
        &mut self,
        generation: &Generation,
        sums: &[HostWindows],
        due: Range<i64>,
        now_s: u64,
    ) -> Looked {
        let waves = &generation.waves;
        let is_last = waves.is_last(self.wave);
        let newest =
            sums.iter().flatten().flat_map(|(_, windows)| windows).map(|(at, _)| *at).max();
        let mut looked = Looked::default();
        for window in due {
            if !is_last && newest.is_none_or(|newest| newest < window) {
                looked.missing = Some(window);
                break;
            }
            let judged = if is_last { Vec::new() } else { self.judged(generation, sums, window) };
            let mut rollout = self.progress.rollout.clone();
            let mut step = rollout.after(waves, &judged);
            if step == Step::Next && !self.silent(generation, sums, window).is_empty() {
                looked.silent = self.silent(generation, sums, i64::MAX);
                if !looked.silent.is_empty() {
                    break;
                }
                rollout = self.progress.rollout.clone();
                step = rollout.repeat();
            }
            self.progress.rollout = rollout;
            if !is_last {
                self.progress.judged = judged;
            }
            let is_end = matches!(step, Step::Next | Step::Done | Step::Undo(_));
            if step == Step::Next {
                self.next_wave(waves, now_s);
            }
            if step == Step::Done {
                self.set_done();
            }
            looked.steps.push((window, step));
            if is_end {
                break;
            }
        }
        looked
    }

    fn next_wave(&mut self, waves: &Waves, now_s: u64) {
        // Not in the middle of a window, of which each is with or without.
        let window = self.window_at(waves, now_s) + 1;
        self.wave = self.progress.rollout.wave;
        self.progress.began.push(window);
        self.began_s = self.begins_s(waves, window);
    }

    fn history(&self, generation: &Generation) -> History {
        History {
            waves: generation.waves.clone(),
            generation: self.generation,
            first: self.first.clone(),
            began: self.progress.began.clone(),
        }
    }

    /// For each gate that has nothing to judge, by rows up to this window.
    fn silent(&self, generation: &Generation, sums: &[HostWindows], until: i64) -> Vec<Silence> {
        let history = self.history(generation);
        let (sums, judged) = (self.told(sums, until), self.judged(generation, sums, until));
        let of = generation.gates.iter().zip(&sums).zip(&judged);
        of.filter_map(|((gate, hosts), judged)| silence(&history, gate, hosts, judged)).collect()
    }

    fn judged(&self, generation: &Generation, sums: &[HostWindows], window: i64) -> Vec<Judged> {
        let history = self.history(generation);
        let sums = self.told(sums, window);
        let judge = |(gate, hosts): (&Gate, &HostWindows)| {
            gate.judge(&contrasts(&history, hosts, gate.least))
        };
        generation.gates.iter().zip(&sums).map(judge).collect()
    }

    /// Windows up to this one that say something.
    fn told(&self, sums: &[HostWindows], until: i64) -> Vec<HostWindows> {
        // Hosts take up a new wave when they see it, in the window before it begins.
        let is_mixed = |at: i64| self.progress.began.iter().skip(1).any(|began| *began == at + 1);
        let told = |windows: &Windows| -> Windows {
            windows.iter().filter(|(at, _)| *at <= until && !is_mixed(*at)).copied().collect()
        };
        let of_gate = |hosts: &HostWindows| {
            hosts.iter().map(|(host, windows)| (host.clone(), told(windows))).collect()
        };
        sums.iter().map(of_gate).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FORMAT;
    use crate::contrast::Sums;

    const START: u64 = 1_800_000_000;

    fn generation() -> Generation {
        let waves = Waves { shares: vec![0.0, 0.2, 1.0], window_s: 100, windows: 2 };
        let gate: Gate = "loss = retransmitted / sent, higher, 0.1".parse().unwrap();
        Generation {
            format: FORMAT,
            number: 7,
            policy: None,
            waves,
            gates: vec![gate],
            expected: vec![],
        }
    }

    fn current() -> Current {
        Current::begin(7, None, "host-0", START, 600)
    }

    /// 60 hosts that lose one in a hundred, a little more or less, and `factor` times as much with it.
    fn sums(current: &Current, windows: Range<i64>, factor: f64) -> Vec<HostWindows> {
        let history = History {
            waves: generation().waves,
            generation: 7,
            first: "host-0".to_owned(),
            began: current.progress.began.clone(),
        };
        let of = |host: &str, n: i64, at: i64| {
            let scatter = 1.0 + 0.1 * ((n * 7 + at * 13) % 11 - 5) as f64 / 5.0;
            let worse = if history.had(host, at) { factor } else { 1.0 };
            Sums { of: 1000.0 * scatter * worse, per: 100_000.0 }
        };
        let host = |n: i64| {
            let name = format!("host-{n}");
            let windows = windows.clone().map(|at| (at, of(&name, n, at))).collect();
            (name, windows)
        };
        vec![(0..60).map(host).collect()]
    }

    /// From the beginning to its end, a look in each window; how it ended, and in which wave.
    fn roll_out(factor: f64) -> (Step, usize) {
        let mut current = current();
        for window in 1..200 {
            let now_s = START + window * 100 + 50;
            let due = current.due(&generation().waves, now_s, 100);
            let all = current.compared(&generation().waves, due.end);
            let sums = sums(&current, all, factor);
            let looked = current.look(&generation(), &sums, due, now_s);
            assert_eq!(looked.missing, None);
            for (_, step) in looked.steps {
                if matches!(step, Step::Done | Step::Undo(_)) {
                    return (step, current.wave);
                }
            }
        }
        panic!("it has no end");
    }

    #[test]
    fn what_is_harmless_reaches_all_and_what_harms_is_undone_before() {
        assert_eq!(roll_out(1.0), (Step::Done, 2));
        let (step, wave) = roll_out(2.0);
        assert!(matches!(step, Step::Undo(_)) && wave < 2, "{step:?} in wave {wave}");
    }

    #[test]
    fn windows_are_due_a_lag_after_their_end_and_once() {
        let mut current = current();
        let due =
            |current: &Current, seconds| current.due(&generation().waves, START + seconds, 30);
        assert_eq!(due(&current, 0), 0..0);
        assert_eq!(due(&current, 129), 0..0);
        assert_eq!(due(&current, 130), 0..1);
        current.progress.rollout.window = 1;
        assert_eq!(due(&current, 130), 1..1);
        assert_eq!(due(&current, 430), 1..4);
    }

    #[test]
    fn windows_without_rows_are_not_judged_and_those_before_them_are() {
        let mut current = current();
        let none = current.clone().look(&generation(), &[vec![]], 0..2, START + 300);
        assert_eq!((none.steps, none.missing), (vec![], Some(0)));
        let sums = sums(&current, -18..1, 1.0);
        let looked = current.look(&generation(), &sums, 0..3, START + 400);
        assert_eq!((looked.steps, looked.missing), (vec![(0, Step::Wait)], Some(1)));
        assert_eq!(current.progress.rollout.window, 1);
    }

    #[test]
    fn a_wave_begins_with_a_window_and_its_time_agrees() {
        let mut current = current();
        let sums = sums(&current, -18..4, 1.0);
        let looked = current.look(&generation(), &sums, 0..4, START + 550);
        assert_eq!(looked.steps.last().unwrap(), &(3, Step::Next));
        assert_eq!((current.wave, current.progress.began.as_slice()), (1, &[0, 6][..]));
        assert_eq!(current.began_s, START + 600);
        assert_eq!(current.due(&generation().waves, START + 700, 0), 6..7);
    }

    #[test]
    fn rows_of_before_are_compared_only_if_all_hosts_had_the_same_then() {
        let mut current = current();
        assert_eq!(current.compared(&generation().waves, 4), -18..4);
        current.progress.since_s = START - 350;
        assert_eq!(current.compared(&generation().waves, 4), -3..4);
    }

    #[test]
    fn a_lease_is_renewed_after_a_quarter_of_it() {
        let current = current();
        assert!(!current.is_to_renew(START + 149) && current.is_to_renew(START + 150));
    }
    /// A look in each window at these rows: up to which wave it comes, and what was silent last.
    fn looked_at(rows: impl Fn(&Current, Range<i64>) -> Vec<HostWindows>) -> (usize, Vec<Silence>) {
        let (mut current, mut silent) = (current(), vec![]);
        let gate: Gate = "timeouts = timeouts / connections, higher, 0.1".parse().unwrap();
        let mut generation = generation();
        for window in 1..60 {
            let now_s = START + window * 100 + 50;
            let due = current.due(&generation.waves, now_s, 100);
            let rows = rows(&current, current.compared(&generation.waves, due.end));
            generation.gates.resize(rows.len(), gate.clone());
            let looked = current.look(&generation, &rows, due, now_s);
            assert_eq!(looked.missing, None);
            silent = looked.silent;
            if current.progress.is_done {
                break;
            }
        }
        (current.wave, silent)
    }

    /// The rows of all but these windows of hosts.
    fn without(
        current: &Current,
        windows: Range<i64>,
        is_silent: impl Fn(&History, &str, i64) -> bool,
    ) -> Vec<HostWindows> {
        let history = current.history(&generation());
        let mut sums = sums(current, windows, 1.0);
        for (host, windows) in &mut sums[0] {
            windows.retain(|(at, _)| !is_silent(&history, host, *at));
        }
        sums[0].retain(|(_, windows)| !windows.is_empty());
        sums
    }

    #[test]
    fn a_wave_whose_host_has_no_rows_is_not_good() {
        let nobody =
            |current: &Current, windows| without(current, windows, |_, host, _| host == "host-0");
        let (wave, silent) = looked_at(nobody);
        assert_eq!((wave, silent.len()), (0, 1));
        assert_eq!((silent[0].gate.name.as_str(), silent[0].of), ("loss", 1));
        assert_eq!(silent[0].hosts, ["host-0"]);
        // Nor is one whose host falls silent while it has it.
        let broken = |current: &Current, windows| {
            without(current, windows, |history, host, at| history.had(host, at))
        };
        let (wave, silent) = looked_at(broken);
        assert_eq!((wave, silent[0].hosts.as_slice()), (0, &["host-0".to_owned()][..]));
        // The control: it has rows.
        assert_eq!(
            looked_at(|current, windows| without(current, windows, |_, _, _| false)),
            (2, vec![])
        );
    }

    #[test]
    fn a_wave_goes_on_when_its_host_has_rows_again() {
        let until = |window| {
            move |current: &Current, windows: Range<i64>| {
                without(current, windows, |_, host, at| {
                    host == "host-0" && (0..window).contains(&at)
                })
            }
        };
        assert_eq!(looked_at(until(8)), (2, vec![]));
        assert_eq!(looked_at(until(60)).0, 0);
    }

    #[test]
    fn hosts_that_fall_silent_by_the_third_hold_a_wave_and_those_that_are_silent_anyway_do_not() {
        let number = |host: &str| host.strip_prefix("host-").unwrap().parse::<u32>().unwrap();
        let (wave, silent) = looked_at(|current, windows| {
            without(current, windows, |history, host, at| {
                number(host) % 3 == 1 && history.had(host, at)
            })
        });
        let Silence { hosts, of, .. } = &silent[0];
        assert_eq!(wave, 1);
        assert!(hosts.len() >= 2 && hosts.len() < *of, "{silent:?}");
        // As many have no rows at some times, whatever they have.
        let idle = looked_at(|current, windows| {
            without(current, windows, |_, host, at| number(host) % 3 == 1 && at >= 0)
        });
        assert_eq!(idle, (2, vec![]));
    }

    #[test]
    fn a_gate_over_a_column_that_nobody_fills_is_named() {
        let (wave, silent) = looked_at(|current, windows| {
            let mut all = without(current, windows, |_, _, _| false);
            all.push(vec![]);
            all
        });
        assert_eq!((wave, silent.len(), silent[0].gate.name.as_str()), (0, 1, "timeouts"));
    }
}
