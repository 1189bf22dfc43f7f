//! The rate of the bottleneck and the round trip without its queue, from the round trips.
//!
//! What the sender handed over is run through a queue at each rate that could be; the true one
//! leaves of every round trip the same rest, which is the path's own.

use crate::interval::median;
use crate::observation::Observation;
use crate::parameter::Parameter;
use crate::queue::{Misfit, Rests, misfit};

/// Rates that are tried at first are so far from one another.
const COARSE: f64 = 1.25;
/// And so near to one another in the end.
const FINE: f64 = 1.0005;
/// Around what was delivered, so many steps of this each way.
const CLOSE: f64 = 1.002;
const NEAR: i32 = 20;
/// Bytes/s above which no rate is looked for: 40 Gbit/s.
const MOST: f64 = 5e9;
/// A rate agrees with the trace if the mean distance is so many times the least one at most …
const AGREES: f64 = 1.06;
/// … or so much above it, s: what timers and threads of hosts take.
const AGREES_S: f64 = 20e-6;
/// Fewer round trips say nothing.
const FEWEST: usize = 8;

/// Bytes/s of IP packets, and s.
#[derive(Clone, Debug, PartialEq)]
pub struct Bottleneck {
    pub rate: Parameter,
    pub base_s: Parameter,
    /// Mean distance of the round trips from the model, s.
    pub misfit_s: f64,
    /// The tenth of the time in which it is greatest, and how far it is there, s.
    pub worst: [f64; 3],
    /// Whether any queue was seen: where not, the rate is only known to be no less.
    pub seen: bool,
}

pub fn bottleneck(seen: &Observation) -> Option<Bottleneck> {
    if seen.round_trips.len() < FEWEST {
        return None;
    }
    let at = |rate: f64| misfit(seen, rate);
    let least = delivered(seen) / seen.seconds.max(1e-3) / 2.0;
    let (best, least_misfit) = search(least, &delivery_rates(seen), &at);
    let without = at(f64::INFINITY);
    let most = agreed(least_misfit.mean_s);
    let agrees = |rate: f64| at(rate).mean_s <= most;
    let low = edge(best, 1.0 / COARSE, least, &agrees);
    let open = without.mean_s <= most;
    let high = (!open).then(|| edge(best, COARSE, MOST, &agrees));
    let quartile = round_trip_quantile(seen, 0.01);
    let reason = match open {
        true => "no queue was seen: the round trip is the same however much was in flight",
        false => "the rate at which a queue explains the round trips",
    };
    let base = least_misfit.base_s;
    let spread = least_misfit.mean_s;
    Some(Bottleneck {
        rate: Parameter::new(best, low, high, reason),
        base_s: Parameter::new(
            base,
            (base.min(quartile) - spread).max(0.0),
            Some(base + spread),
            "what is left of the round trips without the queue",
        ),
        misfit_s: spread,
        worst: worst(seen, best),
        seen: !open,
    })
}

/// Quantiles of the bytes/s that were acknowledged, over twentieths of the time, and their mean: of
/// few packets in each no twentieth is exact.
fn delivery_rates(seen: &Observation) -> Vec<f64> {
    const PARTS: usize = 20;
    let length = seen.seconds / PARTS as f64;
    let mut parts = [0.0; PARTS];
    let mut before = 0;
    for trip in &seen.round_trips {
        let at_s = seen.departures[trip.of].at_s + trip.seconds;
        let part = ((at_s / length) as usize).min(PARTS - 1);
        let newly = seen.departures[before..=trip.of.max(before)].iter();
        parts[part] += newly.filter(|it| !it.lost).map(|it| it.bytes).sum::<f64>();
        before = before.max(trip.of + 1);
    }
    parts.sort_unstable_by(f64::total_cmp);
    let mean = parts.iter().sum::<f64>() / seen.seconds;
    let quantiles = [0.5, 0.75, 0.95].map(|share| parts[(PARTS as f64 * share) as usize] / length);
    quantiles.into_iter().chain([mean]).collect()
}

/// From, to, and the median distance in the tenth of the time where it is greatest: a few round trips
/// whose acknowledgement was lost are not what most of them are.
fn worst(seen: &Observation, rate: f64) -> [f64; 3] {
    const PARTS: usize = 10;
    let length = seen.seconds / PARTS as f64;
    let mut parts: [Vec<f64>; PARTS] = Default::default();
    for (trip, apart) in seen.round_trips.iter().zip(Rests::of(seen, rate).distances()) {
        let part = (seen.departures[trip.of].at_s / length) as usize;
        parts[part.min(PARTS - 1)].push(apart);
    }
    let typical = parts.map(|all| median(all).unwrap_or(0.0));
    let at = (0..PARTS).max_by(|a, b| typical[*a].total_cmp(&typical[*b])).unwrap_or(0);
    [at as f64 * length, (at + 1) as f64 * length, typical[at]]
}

fn agreed(mean_s: f64) -> f64 {
    (mean_s * AGREES).max(mean_s + AGREES_S)
}

fn delivered(seen: &Observation) -> f64 {
    seen.departures.iter().filter(|it| !it.lost).map(|it| it.bytes).sum()
}

fn round_trip_quantile(seen: &Observation, share: f64) -> f64 {
    let mut all: Vec<f64> = seen.round_trips.iter().map(|trip| trip.seconds).collect();
    let at = ((all.len() - 1) as f64 * share) as usize;
    *all.select_nth_unstable_by(at, f64::total_cmp).1
}

/// The rate with the least misfit: coarse steps, then golden sections around the best of them.
///
/// Where a queue never empties, a rate that is wrong by a hundredth fits as badly as any other: so
/// those near to what was delivered are tried more finely.
fn search(least: f64, delivered: &[f64], at: &impl Fn(f64) -> Misfit) -> (f64, Misfit) {
    let near = delivered
        .iter()
        .flat_map(|&rate| (-NEAR..=NEAR).map(move |i| (rate * CLOSE.powi(i), CLOSE)));
    let steps = (MOST / least.max(1.0)).ln() / COARSE.ln();
    let rates = (0..=steps.max(1.0) as i32).map(|i| least.max(1.0) * COARSE.powi(i));
    let coarse = rates.map(|rate| (rate, COARSE));
    let tried = coarse.chain(near).map(|(rate, step)| (rate, step, at(rate)));
    let best = tried.min_by(|a, b| a.2.mean_s.total_cmp(&b.2.mean_s));
    let (rate, step, _) = best.unwrap_or((MOST, COARSE, at(MOST)));
    let (mut low, mut high) = ((rate / step).ln(), (rate * step).ln());
    let golden = (5.0_f64.sqrt() - 1.0) / 2.0;
    let misfit = |log: f64| at(log.exp()).mean_s;
    let (mut a, mut b) = (high - golden * (high - low), low + golden * (high - low));
    let (mut at_a, mut at_b) = (misfit(a), misfit(b));
    while high - low > FINE.ln() {
        if at_a <= at_b {
            (high, b, at_b) = (b, a, at_a);
            a = high - golden * (high - low);
            at_a = misfit(a);
        } else {
            (low, a, at_a) = (a, b, at_b);
            b = low + golden * (high - low);
            at_b = misfit(b);
        }
    }
    let best = f64::midpoint(low, high).exp();
    (best, at(best))
}

/// The last rate on the way to `end` that still agrees.
fn edge(from: f64, step: f64, end: f64, agrees: &impl Fn(f64) -> bool) -> f64 {
    let beyond = |rate: f64| if step > 1.0 { rate >= end } else { rate <= end };
    let mut inside = from;
    let mut stride = step;
    // Strides shrink until they are as fine as the search was.
    while (stride - 1.0).abs() > FINE - 1.0 {
        while !beyond(inside) && agrees(inside * stride) {
            inside *= stride;
        }
        stride = stride.sqrt();
    }
    inside
}
