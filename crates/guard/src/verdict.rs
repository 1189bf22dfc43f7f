//! The guard of one path: samples in, verdict out.
//!
//! It judges a path, not a connection: loss and queues belong to the path, and a new connection must
//! not start the harm again. A withdrawal lasts `retry`, twice as long each time it follows another,
//! and the path must look well before it ends: so a path that is hurt is left alone for ever longer.

use std::collections::VecDeque;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{EACH, GuardSettings, Sample};

/// Fewer segments than this say nothing about loss.
const LEAST_SEGMENTS: u64 = 20;
/// Fewer looks than this say nothing about a queue that stands.
const LEAST_LOOKS: usize = 4;
/// The longest withdrawal is `retry` times this.
const MOST_RETRIES: u32 = 16;
/// What was lost longer ago than so many times the time that it must last is forgotten.
const PAUSES: u32 = 10;
/// Into so many parts the time is cut; loss must show in most, for a single burst is no harm.
const PARTS: u32 = 4;
/// For so many times `after`, competition must show: others' windows move slowly.
const COMPETITION: u32 = 20;
/// Losses with a queue that it takes in that time.
const EPISODES: usize = 2;
/// A queue that goes with losses, µs; and a quarter of the least round trip.
const QUEUE_AT_LOSS_US: u32 = 15_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hurt {
    Loss,
    /// A queue stands.
    Inflation,
    Share,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Allowed,
    Withdrawn(Hurt),
}

#[derive(Debug)]
pub struct Guard {
    samples: VecDeque<(Duration, Sample)>,
    /// The last one of a look at which something was sent.
    rtt: Duration,
    withdrawn: Option<(Duration, Hurt)>,
    /// In a row.
    withdrawals: u32,
    since: Duration,
}

/// Whether it holds for three quarters of them.
fn mostly<T>(of: &[T], holds: impl Fn(&T) -> bool) -> bool {
    !of.is_empty() && of.iter().filter(|one| holds(one)).count() * 4 >= of.len() * 3
}

fn share_of_loss<'a>(samples: impl Iterator<Item = &'a Sample>) -> (u64, f64) {
    let (sent, again) =
        samples.fold((0, 0), |(sent, again), one| (sent + one.sent, again + one.retransmitted));
    (sent, again as f64 / sent.max(1) as f64)
}

impl Guard {
    pub fn new(now: Duration) -> Guard {
        Guard {
            samples: VecDeque::new(),
            rtt: Duration::ZERO,
            withdrawn: None,
            withdrawals: 0,
            since: now,
        }
    }

    pub fn verdict(&self) -> Verdict {
        self.withdrawn.map_or(Verdict::Allowed, |(_, hurt)| Verdict::Withdrawn(hurt))
    }

    /// The round trip by which it counts.
    pub fn rtt(&self) -> Duration {
        self.rtt
    }

    /// Takes what happened and says what holds from now on.
    pub fn look(&mut self, now: Duration, sample: Sample, settings: &GuardSettings) -> Verdict {
        if !settings.on {
            return Verdict::Allowed;
        }
        if let Some(srtt_us) = sample.srtt_us {
            self.rtt = Duration::from_micros(srtt_us.into());
        }
        self.samples.push_back((now, sample));
        let losses = PAUSES * settings.loss_lasts(self.rtt);
        let longest = losses.max(settings.after * COMPETITION);
        while self.samples.front().is_some_and(|&(at, _)| now - at > longest) {
            self.samples.pop_front();
        }
        match self.withdrawn {
            None => self.watch(now, settings),
            Some((at, _)) => self.wait(now, at, settings),
        }
        self.verdict()
    }

    fn watch(&mut self, now: Duration, settings: &GuardSettings) {
        // It did well for as long as it would be withdrawn: what was is forgotten.
        if now - self.since > self.lasts(settings) {
            self.withdrawals = 0;
        }
        let hurt = self.hurts(now, settings).or_else(|| self.competes(now, settings));
        if let Some(hurt) = hurt {
            self.withdrawals += 1;
            self.withdrawn = Some((now, hurt));
            self.samples.clear();
        }
    }

    fn wait(&mut self, now: Duration, at: Duration, settings: &GuardSettings) {
        let is_over = now - at >= self.lasts(settings);
        if is_over && self.hurts(now, &settings.halved()).is_none() {
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

    fn hurts(&self, now: Duration, settings: &GuardSettings) -> Option<Hurt> {
        if self.loses(settings) {
            return Some(Hurt::Loss);
        }
        self.queues(now, settings).then_some(Hurt::Inflation)
    }

    /// Samples of the last so long; none before the guard has watched for so long.
    fn recent(&self, now: Duration, span: Duration) -> Vec<&(Duration, Sample)> {
        if now - self.since < span {
            return Vec::new();
        }
        self.samples.iter().filter(|&&(at, _)| now - at <= span).collect()
    }

    /// Looks at which ours were sending, the last ones first, for so long in all; none before there
    /// are enough. Pauses do not count: a transfer that loses is followed by one that does.
    fn sending(&self, span: Duration) -> Vec<(Duration, &Sample)> {
        let mut sum = Duration::ZERO;
        let mut found = Vec::new();
        let earlier = self.samples.iter().rev().skip(1).map(|&(at, _)| Some(at)).chain([None]);
        for ((at, sample), before) in self.samples.iter().rev().zip(earlier) {
            if !sample.is_busy() {
                continue;
            }
            found.push((sum, sample));
            sum += before.map_or(EACH, |before| *at - before);
            if sum >= span {
                return found;
            }
        }
        Vec::new()
    }

    /// Whether too much was retransmitted over all the time, and in most of its parts.
    fn loses(&self, settings: &GuardSettings) -> bool {
        let span = settings.loss_lasts(self.rtt);
        let looks = self.sending(span);
        let (sent, loss) = share_of_loss(looks.iter().map(|(_, sample)| *sample));
        if sent < LEAST_SEGMENTS || loss <= settings.loss {
            return false;
        }
        let part = |number: u32| {
            let (from, to) = (span * number / PARTS, span * (number + 1) / PARTS);
            let of_part = looks.iter().filter(move |(ago, _)| (from..to).contains(ago));
            share_of_loss(of_part.map(|(_, sample)| *sample))
        };
        let parts: Vec<(u64, f64)> = (0..PARTS).map(part).filter(|&(sent, _)| sent > 0).collect();
        mostly(&parts, |&(_, loss)| loss > settings.loss)
    }

    /// Whether a queue stood: at every look it was longer than it may be.
    fn queues(&self, now: Duration, settings: &GuardSettings) -> bool {
        let recent = self.recent(now, settings.queue_lasts(self.rtt));
        let busy: Vec<&(Duration, Sample)> =
            recent.iter().filter(|(_, sample)| sample.is_busy()).copied().collect();
        if busy.len() < LEAST_LOOKS || busy.len() * 4 < recent.len() * 3 {
            return false;
        }
        // The first look says what came over before it.
        let (first, rest) = (busy[0].0, &busy[1..]);
        let segments: u64 = rest.iter().map(|(_, sample)| sample.ours.segments).sum();
        let connections = rest.iter().map(|(_, sample)| sample.ours.connections).max().unwrap_or(1);
        let segment_us = (now - first).as_secs_f64() * 1e6 * connections as f64 / segments as f64;
        busy.iter().all(|(_, sample)| {
            let least_us = f64::from(sample.least_us.unwrap_or(0));
            f64::from(sample.queue_us()) >= settings.queue_us(least_us, segment_us)
        })
    }

    /// Whether others of this machine starve beside ours, or losses come with a queue.
    fn competes(&self, now: Duration, settings: &GuardSettings) -> Option<Hurt> {
        let whole = settings.after * COMPETITION;
        if settings.share == 0.0 {
            return None;
        }
        let recent = self.recent(now, whole);
        let is_full = recent.first().is_some_and(|&&(at, _)| now - at + settings.after > whole);
        if !is_full {
            return None;
        }
        let all: Vec<&Sample> = recent.iter().map(|(_, sample)| sample).collect();
        (starves(&all, settings.share) || loses_with_a_queue(&all)).then_some(Hurt::Share)
    }
}

fn starves(all: &[&Sample], share: f64) -> bool {
    let each = |brought: fn(&Sample) -> crate::Brought| {
        let sum = all
            .iter()
            .map(|sample| brought(sample))
            .fold((0, 0), |(n, segments), one| (n + one.connections, segments + one.segments));
        sum.1 as f64 / sum.0.max(1) as f64
    };
    mostly(all, |sample| sample.others.connections > 0)
        && each(|sample| sample.others) < share * each(|sample| sample.ours)
}

/// Windows that were chosen only: one that is found gives way there.
fn loses_with_a_queue(all: &[&Sample]) -> bool {
    let busy: Vec<&&Sample> = all.iter().filter(|sample| sample.is_busy()).collect();
    let has_queue =
        |sample: &Sample, us: u32| sample.queue_us() >= us.max(sample.least_us.unwrap_or(0) / 4);
    let lost = |sample: &Sample| sample.retransmitted > 0 && has_queue(sample, QUEUE_AT_LOSS_US);
    let begins = busy.windows(2).filter(|two| !lost(two[0]) && lost(two[1])).count();
    mostly(&busy, |sample| sample.chosen)
        && begins >= EPISODES
        && mostly(&busy, |sample| has_queue(sample, QUEUE_AT_LOSS_US / 2))
}
