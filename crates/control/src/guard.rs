//! The guard: withdraws an aggressive window from a path on which it hurts.
//!
//! It judges a path, not a connection: loss and queues belong to the path, and
//! a new connection must not start the harm again. Four things count as harm:
//! loss that lasts, a round trip that grew by a factor or by a time, others of
//! this machine that starve, and losses that come with a queue, as they do
//! where somebody competes. A withdrawal lasts `retry`, twice as long each time
//! it follows another, and the path must look well before it ends: so a path
//! that is hurt is left alone for ever longer.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::contract::Seen;
use crate::policy::GuardSettings;

/// Fewer segments than this say nothing about loss.
const LEAST_SEGMENTS: u64 = 20;
/// The longest withdrawal is `retry` times this.
const MOST_RETRIES: u32 = 16;
/// Into so many parts `after` is cut; loss must show in most of them, for a single burst is no harm.
const PARTS: usize = 4;
/// For so many times `after`, competition must show: others' windows move slowly.
const COMPETITION: u32 = 5;
/// Losses with a queue that it takes in that time.
const EPISODES: usize = 2;
/// A queue that goes with losses, µs; and a quarter of the least round trip.
const QUEUE_AT_LOSS_US: u32 = 15_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hurt {
    Loss,
    Inflation,
    Share,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Allowed,
    Withdrawn(Hurt),
}

/// Connections, and the segments of them that arrived.
#[derive(Clone, Copy, Debug, Default)]
pub struct Brought {
    pub connections: u64,
    pub segments: u64,
}

impl Brought {
    fn add(&mut self, delivered: u32) {
        self.connections += 1;
        self.segments += u64::from(delivered);
    }
}

/// What the connections of a path did since the last look.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sample {
    /// Segments with data, retransmissions included.
    pub sent: u64,
    pub retransmitted: u64,
    /// The least of their smoothed by their least round trips.
    pub inflation: f64,
    /// The smoothed beyond the least round trip of that connection, µs.
    pub queue_us: u32,
    /// Its least round trip, µs.
    pub least_us: u32,
    pub ours: Brought,
    /// Connections that are not watched, and have data waiting.
    pub others: Brought,
}

/// What a connection did since the last look, segments.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    pub sent: u32,
    pub retransmitted: u32,
    pub delivered: u32,
}

impl Progress {
    pub fn between(before: &Seen, now: &Seen) -> Progress {
        Progress {
            sent: now.sent.wrapping_sub(before.sent),
            retransmitted: now.retransmitted.wrapping_sub(before.retransmitted),
            delivered: now.delivered.wrapping_sub(before.delivered),
        }
    }
}

impl Sample {
    /// What one watched connection of the path did.
    pub fn add(&mut self, seen: &Seen, progress: Progress) {
        self.sent += u64::from(progress.sent);
        self.retransmitted += u64::from(progress.retransmitted);
        self.ours.add(progress.delivered);
        if progress.sent > 0 && seen.min_rtt_us != u32::MAX {
            let inflation = f64::from(seen.srtt_us) / f64::from(seen.min_rtt_us.max(1));
            if self.inflation == 0.0 || inflation < self.inflation {
                self.inflation = inflation;
                self.queue_us = seen.srtt_us.saturating_sub(seen.min_rtt_us);
                self.least_us = seen.min_rtt_us;
            }
        }
    }

    /// What one of the others did; it counts if it could have had more.
    pub fn beside(&mut self, seen: &Seen, progress: Progress) {
        if seen.unsent > 0 {
            self.others.add(progress.delivered);
        }
    }

    fn is_busy(&self) -> bool {
        self.sent > 0
    }

    /// A queue of this length, or of a quarter of the least round trip where that is more.
    fn has_queue(&self, us: u32) -> bool {
        self.queue_us >= us.max(self.least_us / 4)
    }
}

#[derive(Debug)]
pub struct Guard {
    /// Of the last [`COMPETITION`] times `after`.
    samples: VecDeque<(Instant, Sample)>,
    withdrawn: Option<(Instant, Hurt)>,
    /// In a row.
    withdrawals: u32,
    since: Instant,
}

/// From which values on there is harm.
#[derive(Clone, Copy)]
struct Limits {
    loss: f64,
    inflation: f64,
    delay_us: u32,
}

impl Limits {
    fn of(settings: &GuardSettings) -> Limits {
        let delay_us = settings.delay.as_micros().try_into().unwrap_or(u32::MAX);
        Limits { loss: settings.loss, inflation: settings.inflation, delay_us }
    }

    /// Half of them, so that a window does not come back to what hurts.
    fn halved(self) -> Limits {
        let inflation = 1.0 + (self.inflation - 1.0) / 2.0;
        Limits { loss: self.loss / 2.0, inflation, delay_us: self.delay_us / 2 }
    }
}

fn share_of_loss<'a>(samples: impl Iterator<Item = &'a Sample>) -> (u64, f64) {
    let (sent, again) =
        samples.fold((0, 0), |(sent, again), one| (sent + one.sent, again + one.retransmitted));
    (sent, again as f64 / sent.max(1) as f64)
}

/// Whether it holds for three quarters of them.
fn mostly<T>(of: &[T], holds: impl Fn(&T) -> bool) -> bool {
    !of.is_empty() && of.iter().filter(|one| holds(one)).count() * 4 >= of.len() * 3
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
        let longest = settings.after * COMPETITION;
        while self.samples.front().is_some_and(|&(at, _)| now - at > longest) {
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
        let hurt = self.hurts(now, settings.after, Limits::of(settings));
        if let Some(hurt) = hurt.or_else(|| self.competes(now, settings)) {
            self.withdrawals += 1;
            self.withdrawn = Some((now, hurt));
            self.samples.clear();
        }
    }

    fn wait(&mut self, now: Instant, at: Instant, settings: &GuardSettings) {
        let limits = Limits::of(settings).halved();
        let is_over = now - at >= self.lasts(settings);
        if is_over && self.hurts(now, settings.after, limits).is_none() {
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

    fn hurts(&self, now: Instant, after: Duration, limits: Limits) -> Option<Hurt> {
        let recent: Vec<&(Instant, Sample)> =
            self.samples.iter().filter(|&&(at, _)| now - at <= after).collect();
        let samples = || recent.iter().map(|(_, sample)| sample);
        let (sent, loss) = share_of_loss(samples());
        if sent < LEAST_SEGMENTS {
            return None;
        }
        let part = |number: usize| {
            let (from, to) = (after * number as u32 / 4, after * (number as u32 + 1) / 4);
            let of_part = recent.iter().filter(move |(at, _)| {
                let age = now - *at;
                age >= from && age < to
            });
            share_of_loss(of_part.map(|(_, sample)| sample))
        };
        let parts: Vec<(u64, f64)> = (0..PARTS).map(part).filter(|&(sent, _)| sent > 0).collect();
        if loss > limits.loss && mostly(&parts, |&(_, loss)| loss > limits.loss) {
            return Some(Hurt::Loss);
        }
        let busy: Vec<&Sample> = samples().filter(|sample| sample.is_busy()).collect();
        let long = mostly(&busy, |sample| sample.inflation > limits.inflation)
            || mostly(&busy, |sample| sample.has_queue(limits.delay_us));
        long.then_some(Hurt::Inflation)
    }

    /// Whether others of this machine starve beside ours, or losses come with a queue.
    fn competes(&self, now: Instant, settings: &GuardSettings) -> Option<Hurt> {
        let whole = settings.after * COMPETITION;
        let is_full =
            self.samples.front().is_some_and(|&(at, _)| now - at + settings.after > whole);
        if settings.share == 0.0 || now - self.since < whole || !is_full {
            return None;
        }
        let all: Vec<&Sample> = self.samples.iter().map(|(_, sample)| sample).collect();
        (starves(&all, settings.share) || loses_with_a_queue(&all)).then_some(Hurt::Share)
    }
}

fn starves(all: &[&Sample], share: f64) -> bool {
    let each = |brought: fn(&Sample) -> Brought| {
        let sum = all
            .iter()
            .map(|sample| brought(sample))
            .fold((0, 0), |(n, segments), one| (n + one.connections, segments + one.segments));
        sum.1 as f64 / sum.0.max(1) as f64
    };
    mostly(all, |sample| sample.others.connections > 0)
        && each(|sample| sample.others) < share * each(|sample| sample.ours)
}

fn loses_with_a_queue(all: &[&Sample]) -> bool {
    let busy: Vec<&&Sample> = all.iter().filter(|sample| sample.is_busy()).collect();
    let lost = |sample: &Sample| sample.retransmitted > 0 && sample.has_queue(QUEUE_AT_LOSS_US);
    let begins = busy.windows(2).filter(|two| !lost(two[0]) && lost(two[1])).count();
    begins >= EPISODES && mostly(&busy, |sample| sample.has_queue(QUEUE_AT_LOSS_US / 2))
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
        Sample { sent: 50, inflation: 1.1, least_us: 48_000, ..Sample::default() }
    }

    fn lossy() -> Sample {
        Sample { retransmitted: 10, ..well() }
    }

    fn full_queue() -> Sample {
        Sample { inflation: 9.0, ..well() }
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
        let idle = Sample { sent: 0, ..full_queue() };
        assert_eq!(switches(&verdicts([idle; 300])), 0);
        let samples = (0..300).map(|n| if n == 100 { lossy() } else { well() });
        assert_eq!(switches(&verdicts(samples)), 0);
    }

    /// Half a second of overshoot, as slow start ends with: a tenth of all that was sent in two seconds.
    #[test]
    fn a_burst_of_loss_that_is_over_within_half_a_second_is_no_harm() {
        let burst = Sample { retransmitted: 25, ..well() };
        let told = verdicts((0..300).map(|n| if (50..54).contains(&n) { burst } else { well() }));
        assert_eq!(switches(&told), 0);
    }

    fn queued(queue_ms: u32, least_ms: u32) -> Sample {
        let inflation = f64::from(queue_ms + least_ms) / f64::from(least_ms);
        Sample { inflation, queue_us: queue_ms * 1000, least_us: least_ms * 1000, ..well() }
    }

    #[test]
    fn a_ping_that_grows_by_47_ms_withdraws_it_though_the_factor_is_small() {
        assert_eq!(*verdicts([queued(47, 48); 30]).last().unwrap(), HURT_BY_QUEUE);
        assert_eq!(switches(&verdicts([queued(12, 48); 300])), 0, "a short queue is no harm");
        assert_eq!(switches(&verdicts([queued(40, 200); 300])), 0, "nor a fifth of a long way");
    }

    const HURT_BY_QUEUE: Verdict = Verdict::Withdrawn(Hurt::Inflation);
    const HURTS_OTHERS: Verdict = Verdict::Withdrawn(Hurt::Share);

    fn beside(ours: u64, others: u64) -> Sample {
        let brought = |segments| Brought { connections: 1, segments };
        Sample { ours: brought(ours), others: brought(others), ..well() }
    }

    #[test]
    fn a_hungry_neighbour_that_is_left_a_fifth_withdraws_it() {
        assert_eq!(*verdicts([beside(80, 20); 150]).last().unwrap(), HURTS_OTHERS);
        assert_eq!(switches(&verdicts([beside(60, 40); 300])), 0, "a fair neighbour does not");
        let sated = Sample { others: Brought::default(), ..beside(80, 20) };
        assert_eq!(switches(&verdicts([sated; 300])), 0, "who asks for no more has enough");
        let start = (0..300).map(|n| if n < 40 { beside(80, 5) } else { beside(50, 50) });
        assert_eq!(switches(&verdicts(start)), 0, "who has just begun is given time");
    }

    #[test]
    fn losses_that_come_with_a_queue_are_competition_and_others_are_not() {
        let losing = |every: usize, sample: Sample| {
            verdicts((0..300).map(|n| match n % every {
                0 => Sample { retransmitted: 1, ..sample },
                _ => sample,
            }))
        };
        assert_eq!(*losing(40, queued(20, 48)).last().unwrap(), HURTS_OTHERS);
        assert_eq!(switches(&losing(10, queued(3, 48))), 0, "losses of the air");
        assert_eq!(switches(&verdicts([queued(20, 48); 300])), 0, "a queue without losses");
    }

    #[test]
    fn it_comes_back_only_when_the_path_looks_well() {
        let after = |rest: Sample| {
            let told = verdicts((0..400).map(|n| if n < 30 { lossy() } else { rest }));
            *told.last().unwrap()
        };
        assert_eq!(after(well()), Verdict::Allowed);
        let half = Sample { retransmitted: 2, ..well() };
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
        fn it_never_flaps(kinds in prop::collection::vec(0..6, 1..2000)) {
            let kind = |n: &i32| match n {
                0 => well(),
                1 => lossy(),
                2 => full_queue(),
                3 => queued(47, 48),
                4 => beside(80, 20),
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
