//! When segments were lost: at which load, and behind which queue. That tells a queue that
//! overflows from a policer, and both from a path that loses at random.

use std::collections::BTreeMap;

use serde::Serialize;
use transom_event::{CaState, Kind, RetransmitReason, State, fields};

use crate::summary::quantile;
use crate::track::{Step, is_synchronized};

/// Fewer losses than this, each in a round trip of its own, are no reason to look at them.
pub const FEWEST_LOSSES: usize = 3;
/// Fewer than this do not show that they are chance.
const FEWEST_BY_CHANCE: usize = 4;
/// Fewer segments than this waiting at a loss, at the mean rate, are no queue: a sender cannot tell
/// it from a policer.
pub const SHORTEST_QUEUE: f64 = 3.0;
/// Mean rank of the round trip at the losses up to which a queue is what overflows. In the
/// situations it was 0.14 at most behind a queue, and 0.18 at least where chance lost.
pub const QUEUE_RANK: f64 = 0.16;
/// Mean rank of the flight at the losses up to which they follow the load.
pub const LOAD_RANK: f64 = 0.24;
/// And where so many losses have it that chance has less than 1 in 100,000: a window that hardly
/// changes stands at every flight that it has when it meets a policer.
const CLEAR_LOAD_RANK: (f64, f64) = (0.38, 1e-5);
/// And from which they do not: 0.35 at least there.
pub const CHANCE_RANK: f64 = 0.3;

/// The probability below which a mean rank is not that of losses that know nothing of the quantity.
const UNLIKELY: f64 = 0.005;
/// So many segments, and such a share of those in flight, lost in one round trip of slow start are
/// what it sent too much.
const OVERSHOOT: (usize, f64) = (4, 0.1);
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
        // The sum of none is -0.0.
        let sum = ranks.iter().fold(0.0, |sum, rank| sum + rank);
        Rank { losses, mean: sum / losses.max(1) as f64 }
    }

    fn is_below(self, limit: f64) -> bool {
        self.is_below_by(limit, UNLIKELY)
    }

    fn is_below_by(self, limit: f64, chance: f64) -> bool {
        self.losses > 0 && self.mean <= limit && self.chance() < chance
    }

    /// The probability of such a mean or a smaller one if the ranks were uniform (Irwin and Hall).
    fn chance(self) -> f64 {
        /// From here on the normal distribution is near enough, and the sum loses its digits.
        const MANY: usize = 12;
        let n = self.losses as f64;
        if self.losses > MANY {
            // A uniform rank has a variance of 1/12.
            let sigmas = (0.5 - self.mean) * (12.0 * n).sqrt();
            return (-0.5 * sigmas * sigmas).exp() / (2.5 * sigmas).max(1.0);
        }
        let sum = n * self.mean;
        let (mut term, mut total) = (1.0, 0.0);
        for k in 0..=self.losses.min(sum as usize) {
            total += term * (sum - k as f64).powi(self.losses as i32);
            term *= -(n - k as f64) / (k as f64 + 1.0);
        }
        total / (1..=self.losses).map(|k| k as f64).product::<f64>()
    }
}

/// The losses of a connection, the first of each round trip.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Losses {
    pub count: usize,
    /// Of the segments in flight, out of slow start and recovery.
    pub load: Rank,
    /// Of the round trip of the segment before; in slow start only where it sent too much.
    pub delay: Rank,
    /// Segments in flight: tenth percentile, median, ninetieth percentile.
    pub flight: [u32; 3],
    /// Round trip of the segment before, µs, median.
    pub rtt_us: u32,
    /// The least round trip of all segments but one in a hundred, µs.
    pub base_us: u32,
    /// Pieces of data that were retransmitted, and of these what this machine's own device refused.
    pub pieces: usize,
    pub refused_here: usize,
}

impl Losses {
    pub(crate) fn of(steps: &[Step], ignores_ssthresh: bool) -> Losses {
        let ahead = in_flight_before(steps);
        let mut sent = sends(steps, ignores_ssthresh, ahead);
        measure(&mut sent, steps);
        let lost = lost(&sent, steps, ahead);
        let refused_here = lost.iter().filter(|&&at| sent[at].refused).count();
        let losses = summarise(&sent, &by_round_trip(&sent, &lost));
        Losses { pieces: lost.len(), refused_here, ..losses }
    }

    /// Whether most of them were in this machine's own queue. That alone does not make it the
    /// bottleneck: netem drops there, too, and at any load.
    pub fn are_here(&self) -> bool {
        self.refused_here > 0 && 2 * self.refused_here >= self.pieces
    }

    /// Whether they come behind the longest queues.
    pub fn follow_delay(&self) -> bool {
        let more_than_load = self.load.losses == 0 || self.delay.mean < self.load.mean;
        let clear = self.delay.mean <= QUEUE_RANK / 2.0 || more_than_load;
        clear && self.delay.is_below(QUEUE_RANK)
    }

    /// Segments that waited when one was lost, at this rate in segments/s.
    pub fn queue(&self, rate: f64) -> f64 {
        f64::from(self.rtt_us.saturating_sub(self.base_us)) * rate / 1e6
    }

    /// Whether they come at the greatest loads.
    pub fn follow_load(&self) -> bool {
        let (rank, chance) = CLEAR_LOAD_RANK;
        self.load.is_below(LOAD_RANK) || self.load.is_below_by(rank, chance)
    }

    /// Whether they come at any load.
    pub fn ignore_load(&self) -> bool {
        let enough = self.load.losses >= FEWEST_BY_CHANCE;
        enough && self.load.mean >= CHANCE_RANK && !self.follow_load()
    }

    /// Whether enough of them come at the greatest loads. A window grows until it loses, whatever
    /// loses: its first losses always come there.
    pub fn are_of_the_load(&self) -> bool {
        self.follow_load() && self.load.losses >= FEWEST_LOSSES
    }

    /// Whether the load brings them, and none waits there, at this rate in segments/s.
    pub fn are_policed(&self, rate: f64) -> bool {
        let any_delay = self.delay.losses >= FEWEST_LOSSES && self.delay.mean >= CHANCE_RANK;
        let without_queue = self.queue(rate) < SHORTEST_QUEUE || any_delay;
        self.are_of_the_load() && without_queue
    }

    /// Whether they come at the greatest loads, and behind a queue, at this rate in segments/s, that
    /// is one of the longest. By its delay alone so few losses may be chance, above all where the
    /// round trip varies by itself, as on a radio link: the load has to say the same.
    pub fn come_behind_a_queue(&self, rate: f64) -> bool {
        let at_the_longest = self.delay.losses > 0 && self.delay.mean <= QUEUE_RANK;
        self.follow_load() && self.queue(rate) >= SHORTEST_QUEUE && at_the_longest
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
    /// Bytes from the first unacknowledged one of the recording to its end.
    end: u64,
    /// Segments in flight with it, and how many of them it is.
    in_flight: u32,
    segments: u32,
    /// Neither slow start nor a recovery: the algorithm was looking for the limit.
    steady: bool,
    rtt_us: Option<u32>,
    /// Where it begins, and whether this machine's own device or its queue dropped some of it.
    seq: u32,
    refused: bool,
}

fn is_open(step: &Step) -> bool {
    matches!(step.ca(), Some(CaState::Open | CaState::Disorder))
}

/// Bytes that were in flight when the recording began: what is sent counts from behind them, what is
/// acknowledged counts them too.
fn in_flight_before(steps: &[Step]) -> u64 {
    let first = steps.iter().map(Step::state).find(|state| is_synchronized(state));
    first.map_or(0, State::outstanding).into()
}

fn sends(steps: &[Step], ignores_ssthresh: bool, ahead: u64) -> Vec<Sent> {
    let mut sent: Vec<Sent> = Vec::new();
    let mut recovered = false;
    for pair in steps.windows(2) {
        let (before, step) = (&pair[0], &pair[1]);
        recovered |= is_open(step) && !is_open(before);
        if let (Kind::LocalCongestion, Some(last)) = (step.kind(), sent.last_mut()) {
            // What the kernel knows to be refused stays unsent, and what is retransmitted begins earlier.
            last.refused |= last.seq == step.state().snd_nxt;
        }
        if step.kind() != Kind::Send || step.sent <= before.sent {
            continue;
        }
        let state = step.settled();
        let searching = if ignores_ssthresh { recovered } else { state.cwnd >= state.ssthresh };
        sent.push(Sent {
            time_ns: step.time_ns(),
            end: step.sent.saturating_add(ahead),
            in_flight: state.in_flight(),
            segments: fields::sent(step.point.aux).1.max(1),
            steady: is_open(step) && searching,
            rtt_us: None,
            seq: step.state().snd_nxt,
            refused: false,
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

/// Indices of the pieces that were retransmitted, ascending; what left before the recording is none.
fn lost(sent: &[Sent], steps: &[Step], ahead: u64) -> Vec<usize> {
    let mut all = Vec::new();
    for step in steps.iter().filter(|step| step.kind() == Kind::Retransmit) {
        let (reason, _) = fields::retransmit(step.point.aux);
        let offset = fields::retransmitted_seq(step.point.aux).wrapping_sub(step.state().snd_una);
        let is_probe = matches!(reason, Some(RetransmitReason::Tlp | RetransmitReason::Syn));
        let start = step.acked.saturating_add(u64::from(offset));
        if is_probe || offset >= 1 << 31 || start < ahead {
            continue;
        }
        let at = sent.partition_point(|piece| piece.end <= start);
        all.extend((at < sent.len()).then_some(at));
    }
    all.sort_unstable();
    all.dedup();
    all
}

/// The first loss of each round trip, and how many there were.
fn by_round_trip(sent: &[Sent], lost: &[usize]) -> Vec<(usize, usize)> {
    let mut rounds: Vec<(usize, usize)> = Vec::new();
    let (mut until_ns, mut rtt_us, mut seen) = (0, 0, 0);
    for &at in lost {
        rtt_us = sent[seen..=at].iter().rev().find_map(|piece| piece.rtt_us).unwrap_or(rtt_us);
        seen = at;
        match rounds.last_mut() {
            Some((_, losses)) if sent[at].time_ns < until_ns => *losses += 1,
            _ => rounds.push((at, 1)),
        }
        until_ns = until_ns.max(sent[at].time_ns.saturating_add(u64::from(rtt_us) * 1000));
    }
    rounds
}

/// The share of the weight that lies above a value, and half of what is equal.
fn rank(weights: &BTreeMap<u32, u64>, total: u64, value: u32) -> f64 {
    let above: u64 = weights.range(value.saturating_add(1)..).map(|(_, weight)| weight).sum();
    let equal = weights.get(&value).copied().unwrap_or(0);
    (above as f64 + equal as f64 / 2.0) / total.max(1) as f64
}

/// The lesser one of the two in the middle: one of two losses may be that of an interruption, whose
/// round trip is no queue's.
fn lower_median(values: Vec<u32>) -> u32 {
    let middle = values.len().saturating_sub(1) / 2;
    let mut sorted = values;
    sorted.sort_unstable();
    sorted.get(middle).copied().unwrap_or(0)
}

fn summarise(sent: &[Sent], lost: &[(usize, usize)]) -> Losses {
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
    let firsts = || lost.iter().map(|&(at, _)| at);
    let steady: Vec<u32> =
        firsts().filter(|&at| sent[at].steady).map(|at| sent[at].in_flight).collect();
    let loads: Vec<f64> = steady.iter().map(|&flight| rank(&flights, total, flight)).collect();
    let overshoot = |at: usize, losses: usize| {
        losses >= OVERSHOOT.0 && losses as f64 >= OVERSHOOT.1 * f64::from(sent[at].in_flight)
    };
    let telling = lost.iter().enumerate().filter(|(i, (at, n))| *i > 0 || overshoot(*at, *n));
    let delays: Vec<f64> = telling.filter_map(|(_, &(at, _))| before(at)).map(delay_rank).collect();
    Losses {
        count: lost.len(),
        load: Rank::of(&loads),
        delay: Rank::of(&delays),
        flight: [0.1, 0.5, 0.9].map(|share| quantile(steady.clone(), share)),
        rtt_us: lower_median(firsts().filter_map(before).collect()),
        base_us: rtts.get(rtts.len() / 100).copied().unwrap_or(0),
        ..Losses::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chance(losses: usize, mean: f64) -> f64 {
        Rank { losses, mean }.chance()
    }

    #[test]
    fn without_losses_the_mean_is_zero_and_not_a_negative_one() {
        assert!(Rank::of(&[]).mean.is_sign_positive());
    }

    #[test]
    fn the_chance_of_a_mean_rank_is_that_of_uniform_ones() {
        for (rank, expected) in [
            (chance(1, 0.01), 0.01),
            (chance(2, 0.5), 0.5),
            (chance(3, 0.1), 0.0045),
            (chance(12, 0.5), 0.5),
            // Half a percent of all lie 2.6 standard deviations below.
            (chance(48, 0.5 - 2.576 / 24.0), 0.005),
        ] {
            assert!((rank / expected - 1.0).abs() < 0.15, "{rank} {expected}");
        }
    }

    #[test]
    fn one_loss_behind_the_longest_queue_of_a_thousand_segments_tells_and_one_of_a_hundred_does_not()
     {
        let of = |mean| Losses { delay: Rank { losses: 1, mean }, ..Losses::default() };
        assert!(of(0.001).follow_delay());
        assert!(!of(0.01).follow_delay());
    }

    #[test]
    fn three_losses_at_the_greatest_loads_without_a_queue_are_policed_and_fewer_or_later_ones_are_not()
     {
        let policed = |load, delay, rtt_us| {
            let rank = |(losses, mean)| Rank { losses, mean };
            let (load, delay) = (rank(load), rank(delay));
            Losses { load, delay, rtt_us, base_us: 66_000, ..Losses::default() }
                .are_policed(1_300.0)
        };
        assert!(policed((7, 0.05), (6, 0.4), 66_500));
        assert!(policed((3, 0.05), (0, 0.0), 66_500));
        assert!(policed((7, 0.05), (6, 0.5), 90_000), "the round trip varies, losses or not");
        assert!(!policed((2, 0.031), (1, 0.077), 66_500), "too few");
        assert!(!policed((7, 0.05), (6, 0.2), 153_000), "115 segments wait");
        assert!(!policed((3, 0.05), (2, 0.4), 153_000), "115 segments wait, as far as can be told");
        assert!(!policed((7, 0.5), (6, 0.4), 66_500), "they come at any load");
    }

    #[test]
    fn two_losses_behind_a_long_queue_tell_of_it_only_if_they_come_at_the_greatest_loads_too() {
        let behind = |load: f64, delay: f64, rtt_us| {
            let [load, delay] = [(2, load), (1, delay)].map(|(losses, mean)| Rank { losses, mean });
            let losses = Losses { load, delay, rtt_us, base_us: 66_000, ..Losses::default() };
            assert!(!losses.follow_delay(), "one rank of {} may be chance", delay.mean);
            losses.come_behind_a_queue(1_300.0)
        };
        assert!(behind(0.031, 0.077, 153_000));
        assert!(!behind(0.2, 0.077, 153_000), "the round trip was long, and the load was not");
        assert!(!behind(0.031, 0.2, 153_000), "others waited longer");
        assert!(!behind(0.031, 0.077, 67_000), "nothing waited");
    }
}
