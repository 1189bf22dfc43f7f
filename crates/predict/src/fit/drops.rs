//! Which losses belong to a full queue or to a policer, and which to chance.

use crate::observation::{Departure, Observation};
use crate::parameter::Parameter;
use crate::queue::meetings;

/// A limit must explain the losses by so much better than chance alone (log-likelihood) …
pub const CLEAR: f64 = 4.0;
/// … and a policer by so much, as its rate is free, too.
pub const CLEARER: f64 = 12.0;
/// One that explains less may be what dropped if it explains so much of the losses: of few it cannot
/// explain more, and of many by chance it explains little.
const MAY_BE: f64 = 0.5;

/// Whether a limit that explains so much better than chance, of so much, may be what dropped.
pub fn may_be(gain: f64, most: f64) -> bool {
    gain >= MAY_BE * most
}

/// Limits agree with the trace whose log-likelihood is so little below the best: 95 %.
pub const AGREES: f64 = 1.92;
/// Rates of a policer that are tried lie so close together.
const RATES: f64 = 1.004;
/// 95 % of a normal distribution, standard deviations.
const SIGMAS: f64 = 1.96;

/// Segments that would exceed `limit` bytes waiting at `rate` are dropped.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    /// Bytes that are ahead of a segment that is dropped.
    pub bytes: Parameter,
    /// How much better the losses are explained than by chance.
    pub gain: f64,
    /// How much better they could be: none left to chance.
    pub most: f64,
}

/// Losses that no limit explains.
#[derive(Clone, Debug, PartialEq)]
pub struct Chance {
    /// Share of segments.
    pub share: Parameter,
    /// Mean number lost in a row; none: as many as independent losses have.
    pub burst: Option<f64>,
    pub losses: usize,
}

/// The limit of a queue at this rate, bytes/s; none: the losses do not come where it is longest, by so
/// much at least.
pub fn limit(seen: &Observation, rate: f64, least_gain: f64) -> Option<Limit> {
    let ahead: Vec<f64> = meetings(&seen.departures, rate).iter().map(|it| it.ahead).collect();
    let sorted = |lost: bool| {
        let of = seen.departures.iter().zip(&ahead).filter(|(it, _)| it.lost == lost);
        let mut of: Vec<f64> = of.map(|(_, ahead)| *ahead).collect();
        of.sort_unstable_by(f64::total_cmp);
        of
    };
    let (lost, passed) = (sorted(true), sorted(false));
    let explained = |limit: f64| likelihood(&lost, &passed, limit);
    let chance = explained(f64::INFINITY);
    let candidates: Vec<f64> = lost.iter().copied().filter(|&ahead| ahead > 0.0).collect();
    let (best, most) = candidates
        .iter()
        .map(|&limit| (limit, explained(limit)))
        .max_by(|a, b| a.1.total_cmp(&b.1))?;
    if most - chance < least_gain {
        return None;
    }
    let agree = || candidates.iter().copied().filter(|&it| explained(it) >= most - AGREES);
    let packet = seen.packet();
    let low = agree().fold(best, f64::min) - packet;
    let high = agree().fold(best, f64::max) + packet;
    let reason = "losses come where so much waits, and seldom where less does";
    let bytes = Parameter::new(best, low.max(0.0), Some(high), reason);
    Some(Limit { bytes, gain: most - chance, most: -chance })
}

/// Of the losses, if what meets the limit is dropped with one probability and the rest with another.
fn likelihood(lost: &[f64], passed: &[f64], limit: f64) -> f64 {
    let below = |of: &[f64]| of.partition_point(|&ahead| ahead < limit);
    let (lost_below, passed_below) = (below(lost), below(passed));
    binomial(lost_below, passed_below)
        + binomial(lost.len() - lost_below, passed.len() - passed_below)
}

/// Log-likelihood of a share under its own estimate.
fn binomial(hits: usize, misses: usize) -> f64 {
    let all = (hits + misses) as f64;
    let part = |n: usize| if n == 0 { 0.0 } else { n as f64 * (n as f64 / all).ln() };
    part(hits) + part(misses)
}

/// A rate above which segments were dropped though nothing waited: bytes/s, and the burst.
#[derive(Clone, Debug, PartialEq)]
pub struct Policer {
    pub rate: Parameter,
    pub burst: Parameter,
    /// As of a limit.
    pub gain: f64,
    pub most: f64,
}

/// The policer that explains the losses best; none: not better than chance.
pub fn policer(seen: &Observation) -> Option<Policer> {
    let passed: f64 = seen.departures.iter().filter(|it| !it.lost).map(|it| it.bytes).sum();
    if seen.lost() < 3 || passed == 0.0 {
        return None;
    }
    let mean = passed / seen.seconds.max(1e-3);
    let rates =
        (0..).map(|i| mean * 0.5 * (RATES * RATES).powi(i)).take_while(|&it| it < 4.0 * mean);
    let tried: Vec<(f64, Limit)> =
        rates.filter_map(|rate| Some((rate, limit(seen, rate, CLEAR)?))).collect();
    let best = tried.iter().max_by(|a, b| a.1.gain.total_cmp(&b.1.gain))?;
    let agree = || tried.iter().filter(|it| it.1.gain >= best.1.gain - AGREES);
    let low = agree().map(|it| it.0).fold(best.0, f64::min) / RATES;
    let high = agree().map(|it| it.0).fold(best.0, f64::max) * RATES;
    // A segment conforms as long as it fits into the bucket whole.
    let burst = |bytes: f64| bytes + seen.packet();
    let bytes = &best.1.bytes;
    let least = agree().map(|it| it.1.bytes.low).fold(bytes.low, f64::min);
    let most = agree().filter_map(|it| it.1.bytes.high).fold(bytes.value, f64::max);
    Some(Policer {
        rate: Parameter::new(best.0, low, Some(high), "losses come above this rate"),
        burst: Parameter::new(
            burst(bytes.value),
            burst(least),
            Some(burst(most)),
            "and after so much that came faster",
        ),
        gain: best.1.gain,
        most: best.1.most,
    })
}

/// Share of the segments that must not have met a limit to tell what chance loses.
const TELLING: f64 = 0.1;

/// What is lost where `limited` says that no limit was met.
pub fn chance(seen: &Observation, limited: &[bool]) -> Chance {
    let free = || seen.departures.iter().zip(limited).filter(|(_, limited)| !**limited);
    let all = free().count();
    let losses = free().filter(|(it, _)| it.lost).count();
    let share = losses as f64 / all.max(1) as f64;
    let [low, high] = wilson(losses, all);
    let reason = match losses {
        0 => format!("none of {all} segments was lost away from a limit"),
        _ => format!("{losses} of {all} segments were lost where no queue was full"),
    };
    let runs = runs(&seen.departures, limited);
    let mean = losses as f64 / runs.max(1) as f64;
    // Independent losses have runs of 1/(1 - p), each with a variance of p/(1 - p)².
    let independent = 1.0 / (1.0 - share);
    let sigma = share.sqrt() * independent / (runs.max(1) as f64).sqrt();
    let bursty = losses >= 6 && mean > independent + 3.0 * sigma.max(0.05);
    // Where nearly all met a limit, the others tell nothing.
    let is_told =
        losses > 0 || seen.lost() == 0 || all as f64 >= TELLING * seen.departures.len() as f64;
    Chance {
        share: Parameter::new(share, low, is_told.then_some(high), reason),
        burst: bursty.then_some(mean),
        losses,
    }
}

/// Rows of losses without an arrival in between.
fn runs(departures: &[Departure], limited: &[bool]) -> usize {
    let mut runs = 0;
    let mut before = false;
    for (departure, limited) in departures.iter().zip(limited) {
        let lost = departure.lost && !limited;
        runs += usize::from(lost && !before);
        before = departure.lost;
    }
    runs
}

/// 95 % interval of a share (Wilson).
fn wilson(hits: usize, all: usize) -> [f64; 2] {
    let (n, z2) = (all.max(1) as f64, SIGMAS * SIGMAS);
    let share = hits as f64 / n;
    let centre = share + z2 / (2.0 * n);
    let half = SIGMAS * (share * (1.0 - share) / n + z2 / (4.0 * n * n)).sqrt();
    [(centre - half).max(0.0) / (1.0 + z2 / n), ((centre + half) / (1.0 + z2 / n)).min(1.0)]
}
