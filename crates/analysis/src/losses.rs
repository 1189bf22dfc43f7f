//! When segments were lost: at which load, and behind which queue. That tells a queue that
//! overflows from a policer, and both from a path that loses at random.

use std::collections::BTreeMap;

use serde::Serialize;
use transom_event::{CaState, Kind, RetransmitReason};

use crate::summary::{median, quantile};
use crate::track::Step;

/// Fewer losses than this, each in a round trip of its own, show no pattern.
pub const FEWEST_LOSSES: usize = 3;
/// And than this none that they are chance.
const FEWEST_BY_CHANCE: usize = 4;
/// Mean rank of the round trip at the losses up to which a queue is what overflows. In the
/// situations it was 0.01 at most behind a queue, and 0.23 at least without one.
pub const QUEUE_RANK: f64 = 0.12;
/// Mean rank of the flight at the losses up to which they follow the load: 0.14 at most there.
pub const LOAD_RANK: f64 = 0.24;
/// And from which they do not: 0.35 at least there.
pub const CHANCE_RANK: f64 = 0.3;

/// How many standard deviations a mean rank must lie below that of chance.
const SIGMAS: f64 = 2.5;
/// Segments sent before a lost one among which its neighbour with a known round trip is sought.
const BEFORE: usize = 4;

/// Where what was met at the losses stands among all that was met: 0 is the greatest value, 1 the
/// least. Losses that know nothing of it have a mean of 0.5.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Rank {
    pub losses: usize,
    pub mean: f64,
}

impl Rank {
    fn of(ranks: &[f64]) -> Rank {
        let losses = ranks.len();
        Rank { losses, mean: ranks.iter().sum::<f64>() / losses.max(1) as f64 }
    }

    fn is_below(self, limit: f64) -> bool {
        // A uniform rank has a variance of 1/12.
        let sigmas = (0.5 - self.mean) * (12.0 * self.losses as f64).sqrt();
        self.losses >= FEWEST_LOSSES && self.mean <= limit && sigmas >= SIGMAS
    }
}

/// The losses of a connection, the first of each round trip.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Losses {
    pub count: usize,
    /// Of the segments in flight, out of slow start and recovery.
    pub load: Rank,
    /// Of the round trip of the segment before, without the first loss (that of slow start).
    pub delay: Rank,
    /// Segments in flight: tenth percentile, median, ninetieth percentile.
    pub flight: [u32; 3],
    /// Round trip of the segment before, µs, median.
    pub rtt_us: u32,
    /// The least round trip of all segments but one in a hundred, µs.
    pub base_us: u32,
}

impl Losses {
    pub(crate) fn of(steps: &[Step], ignores_ssthresh: bool) -> Losses {
        let mut sent = sends(steps, ignores_ssthresh);
        measure(&mut sent, steps);
        let lost = first_of_each_round_trip(&sent, &lost(&sent, steps));
        summarise(&sent, &lost)
    }

    /// Whether they come behind the longest queues.
    pub fn follow_delay(&self) -> bool {
        self.delay.is_below(QUEUE_RANK)
    }

    /// Segments that waited when one was lost, at this rate in segments/s.
    pub fn queue(&self, rate: f64) -> f64 {
        f64::from(self.rtt_us.saturating_sub(self.base_us)) * rate / 1e6
    }

    /// Whether they come at the greatest loads.
    pub fn follow_load(&self) -> bool {
        self.load.is_below(LOAD_RANK)
    }

    /// Whether they come at any load.
    pub fn ignore_load(&self) -> bool {
        self.load.losses >= FEWEST_BY_CHANCE && self.load.mean >= CHANCE_RANK
    }

    /// Round trip at the losses, in least round trips.
    pub fn inflation(&self) -> f64 {
        f64::from(self.rtt_us.max(self.base_us)) / f64::from(self.base_us.max(1))
    }
}

/// A piece of data that left for the first time.
#[derive(Clone, Copy, Debug)]
struct Sent {
    time_ns: u64,
    /// Unwrapped sequence number behind it.
    end: u64,
    /// Segments in flight with it, and how many of them it is.
    in_flight: u32,
    segments: u32,
    /// Neither slow start nor a recovery: the algorithm was looking for the limit.
    steady: bool,
    rtt_us: Option<u32>,
}

fn is_open(step: &Step) -> bool {
    matches!(step.ca(), Some(CaState::Open | CaState::Disorder))
}

fn sends(steps: &[Step], ignores_ssthresh: bool) -> Vec<Sent> {
    let mut sent: Vec<Sent> = Vec::new();
    let mut recovered = false;
    for pair in steps.windows(2) {
        let (before, step) = (&pair[0], &pair[1]);
        recovered |= is_open(step) && !is_open(before);
        if step.kind() != Kind::Send || step.sent <= before.sent {
            continue;
        }
        let state = step.settled();
        let searching = if ignores_ssthresh { recovered } else { state.cwnd >= state.ssthresh };
        sent.push(Sent {
            time_ns: step.time_ns(),
            end: step.sent,
            in_flight: state.in_flight(),
            segments: step.point.aux[1].max(1),
            steady: is_open(step) && searching,
            rtt_us: None,
        });
    }
    sent
}

/// The round trip of the last piece that each ACK was for, out of recovery.
fn measure(sent: &mut [Sent], steps: &[Step]) {
    let mut next = 0;
    for pair in steps.windows(2) {
        let (before, step) = (&pair[0], &pair[1]);
        if step.kind() != Kind::Ack || step.acked <= before.acked {
            continue;
        }
        let mut last = None;
        while next < sent.len() && sent[next].end <= step.acked {
            last = Some(next);
            next += 1;
        }
        if let Some(last) = last.filter(|_| is_open(step)) {
            let waited = step.time_ns().saturating_sub(sent[last].time_ns) / 1000;
            sent[last].rtt_us = Some(waited.min(u64::from(u32::MAX)) as u32);
        }
    }
}

/// Indices of the pieces that were retransmitted, ascending.
fn lost(sent: &[Sent], steps: &[Step]) -> Vec<usize> {
    let mut all = Vec::new();
    for step in steps.iter().filter(|step| step.kind() == Kind::Retransmit) {
        let reason = RetransmitReason::from_number(step.point.aux[0] & 0xff);
        let ahead = step.point.aux[1].wrapping_sub(step.state().snd_una);
        let is_probe = matches!(reason, Some(RetransmitReason::Tlp | RetransmitReason::Syn));
        if is_probe || ahead >= 1 << 31 {
            continue;
        }
        let start = step.acked.saturating_add(u64::from(ahead));
        let at = sent.partition_point(|piece| piece.end <= start);
        all.extend((at < sent.len()).then_some(at));
    }
    all.sort_unstable();
    all.dedup();
    all
}

fn first_of_each_round_trip(sent: &[Sent], lost: &[usize]) -> Vec<usize> {
    let mut first = Vec::new();
    let (mut until_ns, mut rtt_us, mut seen) = (0, 0, 0);
    for &at in lost {
        rtt_us = sent[seen..=at].iter().rev().find_map(|piece| piece.rtt_us).unwrap_or(rtt_us);
        seen = at;
        if sent[at].time_ns >= until_ns {
            first.push(at);
        }
        until_ns = until_ns.max(sent[at].time_ns.saturating_add(u64::from(rtt_us) * 1000));
    }
    first
}

/// The share of the weight that lies above a value, and half of what is equal.
fn rank(weights: &BTreeMap<u32, u64>, total: u64, value: u32) -> f64 {
    let above: u64 = weights.range(value.saturating_add(1)..).map(|(_, weight)| weight).sum();
    let equal = weights.get(&value).copied().unwrap_or(0);
    (above as f64 + equal as f64 / 2.0) / total.max(1) as f64
}

fn summarise(sent: &[Sent], lost: &[usize]) -> Losses {
    let mut flights: BTreeMap<u32, u64> = BTreeMap::new();
    for piece in sent.iter().filter(|piece| piece.steady) {
        *flights.entry(piece.in_flight).or_default() += u64::from(piece.segments);
    }
    let total = flights.values().sum();
    let mut rtts: Vec<u32> = sent.iter().filter_map(|piece| piece.rtt_us).collect();
    rtts.sort_unstable();
    let delay_rank = |rtt: u32| {
        let (below, up_to) =
            (rtts.partition_point(|&r| r < rtt), rtts.partition_point(|&r| r <= rtt));
        1.0 - (below + up_to) as f64 / 2.0 / rtts.len().max(1) as f64
    };
    let before = |at: usize| {
        let near = &sent[at.saturating_sub(BEFORE)..=at];
        near.iter().rev().find_map(|piece| piece.rtt_us)
    };
    let steady: Vec<u32> =
        lost.iter().filter(|&&at| sent[at].steady).map(|&at| sent[at].in_flight).collect();
    let loads: Vec<f64> = steady.iter().map(|&flight| rank(&flights, total, flight)).collect();
    let delays: Vec<f64> =
        lost.iter().skip(1).filter_map(|&at| before(at)).map(delay_rank).collect();
    Losses {
        count: lost.len(),
        load: Rank::of(&loads),
        delay: Rank::of(&delays),
        flight: [0.1, 0.5, 0.9].map(|share| quantile(steady.clone(), share)),
        rtt_us: median(lost.iter().filter_map(|&at| before(at)).collect()),
        base_us: rtts.get(rtts.len() / 100).copied().unwrap_or(0),
    }
}
