//! Whether a replay of the unchanged settings is what was recorded.

use serde::Serialize;

use crate::interval::Interval;
use crate::measure::Measured;
use crate::model::{Misfit, Model};

/// Goodput may differ by this share.
pub const GOODPUT: f64 = 0.1;
/// Throughput in the tenths of the time, by this share of the mean, on average.
pub const COURSE: f64 = 0.25;
/// Round trips (median, 95th percentile), by this share and so many s.
pub const ROUND_TRIP: (f64, f64) = (0.2, 2e-3);
/// Retransmissions, by this factor, and so many segments or such a share of all.
pub const RETRANSMITTED: (f64, f64, f64) = (2.0, 10.0, 0.01);
/// Round trips that a part of the time must have for its throughput to mean anything.
const PART_RTTS: f64 = 4.0;
/// cwnd (median), by this share and so many segments.
pub const CWND: (f64, f64) = (0.35, 3.0);

/// Round trips of the recording may be so far from those over the fitted path, on average: by this
/// share of the path's own, so many s, and this share of the time that the rate takes for a full
/// packet, as the small ones, such as those of the handshake, wait in the queue, too.
pub const MISFIT: (f64, f64, f64) = (0.025, 1e-3, 0.1);
/// And so far in the tenth of the time where they are furthest: what else uses the path comes and goes,
/// timers and threads of hosts are the same all the time.
pub const WORST_MISFIT: (f64, f64, f64) = (0.05, 2e-3, 1.0);

/// A number of a replay that is not that of the recording.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Mismatch {
    pub what: &'static str,
    /// How far beyond the bound it is, bounds.
    pub excess: f64,
    /// In a whole sentence.
    pub text: String,
}

/// Whether one queue at one rate explains the round trips.
pub fn unexplained(model: &Model) -> Option<Mismatch> {
    let misfit = model.misfit?;
    let Misfit { mean_s, from_s, to_s, worst_s } = misfit;
    let path = &model.path;
    let packet_s = model.packet / path.rate.value;
    let excess = |is_s: f64, (share, seconds, packets): (f64, f64, f64)| {
        is_s / (share * path.rtt_s.value + seconds + packets * packet_s)
    };
    let excess = excess(mean_s, MISFIT).max(excess(worst_s, WORST_MISFIT));
    let text = format!(
        "The round trips are {:.1} ms from those of one queue at one rate ({:.1} ms from {from_s:.2} to {to_s:.2} s): other flows, or a rate that changes.",
        mean_s * 1e3,
        worst_s * 1e3
    );
    mismatch("round trips over time", excess, text)
}

/// What does not match, the worst first. Of several replays, which differ by chance and by what the
/// trace leaves open, the recording may lie anywhere between.
pub fn mismatches(recorded: &Measured, replayed: &[&Measured]) -> Vec<Mismatch> {
    let rtt = |what, of: fn(&Measured) -> f64| {
        round_trip(what, of(recorded), nearest(recorded, replayed, of))
    };
    let mut all: Vec<Mismatch> = [
        goodput(recorded, replayed),
        course(recorded, replayed),
        rtt("RTT (median)", |it| it.rtt_median_s),
        rtt("RTT (95th percentile)", |it| it.rtt_p95_s),
        retransmitted(recorded, replayed),
        cwnd(recorded, replayed),
    ]
    .into_iter()
    .flatten()
    .collect();
    all.sort_by(|a, b| b.excess.total_cmp(&a.excess));
    all
}

/// Of what one more replay is known to reach, what is nearest to the recorded value.
fn nearest(recorded: &Measured, replayed: &[&Measured], of: impl Fn(&Measured) -> f64) -> f64 {
    let Interval { low, high, .. } = Interval::reach(replayed.iter().map(|it| of(it)).collect());
    of(recorded).clamp(low.min(high), high)
}

fn mismatch(what: &'static str, excess: f64, text: String) -> Option<Mismatch> {
    (excess > 1.0).then_some(Mismatch { what, excess, text })
}

fn goodput(recorded: &Measured, replayed: &[&Measured]) -> Option<Mismatch> {
    let is = nearest(recorded, replayed, |it| it.goodput_mbit);
    let was = recorded.goodput_mbit;
    let excess = (is / was.max(1e-9)).ln().abs() / (1.0 + GOODPUT).ln();
    mismatch("goodput", excess, format!("Goodput was {was:.2} Mbit/s, replayed it is {is:.2}."))
}

fn course(recorded: &Measured, replayed: &[&Measured]) -> Option<Mismatch> {
    let long = recorded.seconds / (PART_RTTS * recorded.rtt_p95_s).max(1e-6);
    let count = (1..=recorded.parts.len()).rev().find(|count| {
        recorded.parts.len().is_multiple_of(*count) && *count as f64 <= long.max(1.0)
    })?;
    let each = recorded.parts.len() / count;
    let part =
        |it: &Measured, i: usize| it.parts[i * each..][..each].iter().sum::<f64>() / each as f64;
    let pairs: Vec<(f64, f64)> = (0..count)
        .map(|i| (part(recorded, i), nearest(recorded, replayed, |it| part(it, i))))
        .collect();
    let count = count as f64;
    let mean = pairs.iter().map(|pair| pair.0).sum::<f64>() / count;
    let apart = pairs.iter().map(|(a, b)| (a - b).abs()).sum::<f64>() / count / mean.max(1e-9);
    let distance = |pair: &(f64, f64)| (pair.0 - pair.1).abs();
    let worst = pairs.iter().enumerate().max_by(|a, b| distance(a.1).total_cmp(&distance(b.1)));
    let (i, (was, is)) = worst?;
    let part = recorded.seconds / count;
    let (from, to) = (i as f64 * part, (i + 1) as f64 * part);
    let text = format!(
        "From {from:.2} to {to:.2} s {was:.2} Mbit/s were delivered, replayed {is:.2}: the model has no cause for that."
    );
    mismatch("throughput over time", apart / COURSE, text)
}

fn round_trip(what: &'static str, was: f64, is: f64) -> Option<Mismatch> {
    let (share, seconds) = ROUND_TRIP;
    let excess = (was - is).abs() / (share * was + seconds);
    let text = format!("{what} was {:.1} ms, replayed it is {:.1}.", was * 1e3, is * 1e3);
    mismatch(what, excess, text)
}

fn retransmitted(recorded: &Measured, replayed: &[&Measured]) -> Option<Mismatch> {
    let (factor, segments, share) = RETRANSMITTED;
    let segments = segments.max(share * recorded.segments);
    let was = recorded.retransmitted as f64;
    let is = nearest(recorded, replayed, |it| it.retransmitted as f64);
    let excess = (was.max(is) - segments) / (factor * was.min(is)).max(1.0);
    let text = format!("{was} segments were retransmitted, replayed {is:.0}.");
    mismatch("retransmissions", excess, text)
}

fn cwnd(recorded: &Measured, replayed: &[&Measured]) -> Option<Mismatch> {
    let (share, segments) = CWND;
    let was = f64::from(recorded.cwnd_median);
    let is = nearest(recorded, replayed, |it| it.cwnd_median.into());
    let excess = (was - is).abs() / (share * was + segments);
    mismatch("cwnd", excess, format!("cwnd was {was} (median), replayed it is {is:.0}."))
}
