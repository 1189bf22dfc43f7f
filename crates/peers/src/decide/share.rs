//! `share`: three rules, and else nothing is done.
//!
//! 1. A flow that lost on the air, over a long path, gets its window back: `steady`, which does not
//!    give it up to such losses (DICOMO 2011, tables 2 and 3).
//! 2. Where the air is full, the group gets all of it, and a terminal waits though it has less than
//!    half of its part by weighted max-min fairness, those with more than theirs are capped to
//!
//!    cap = part × (min_rtt + queue) / MSS
//!
//!    and follow what the last cap brought. All others stay free, so what is left is taken.
//! 3. A cap grows again, and ends, when the air is not full or the group gets less than it carries.

use super::{Decision, Opening, Why, each, is_long};
use crate::report::{Algorithm, Flow, Report, Treatment};
use crate::rules::Share;

/// Segments.
const MOST_CAP: u32 = 1_000_000;

pub fn decide(rules: &Share, air_kbit: u64, group: &[&Report]) -> Vec<Decision> {
    let hungry = group.iter().filter(|report| contends(report)).count();
    let (few, full) = (hungry <= rules.few, is_full(rules, group));
    let why = if hungry < 2 { Why::NoContest } else { Why::AirUnknown };
    if hungry < 2 || air_kbit == 0 {
        let scene = Scene { few, full, scarce: false, uneven: false, worse: false };
        let free = |flow: &Flow| of_flow(rules, &scene, flow, None, why);
        return group.iter().map(|report| each(report, None, free)).collect();
    }
    let parts = Part::of_all(rules, air_kbit, group);
    let sum: u64 = group.iter().map(|report| report.goodput_kbit()).sum();
    let scarce = full && sum * 128 >= air_kbit * 127;
    let scene = Scene {
        few,
        full,
        scarce,
        uneven: scarce && one_waits_below(rules, group, &parts, rules.waits_below),
        worse: scarce && one_waits_below(rules, group, &parts, rules.waits_below.midpoint(100)),
    };
    let one = |(report, part): (&&Report, &Part)| {
        let kbit = part.most / hungry_flows(report);
        let share = |flow: &Flow| of_flow(rules, &scene, flow, Some(kbit), Why::Shared);
        each(report, Some(part.by_class), share)
    };
    group.iter().zip(&parts).map(one).collect()
}

/// A terminal's part of the air, kbit/s. A class cannot be checked, so it protects and does not
/// take: nobody is held for one that has an equal part, and nobody is held to less than that.
struct Part {
    by_class: u64,
    /// It waits if it has less than this,
    least: u64,
    /// and has too much with more than this.
    most: u64,
}

impl Part {
    fn of_all(rules: &Share, air_kbit: u64, group: &[&Report]) -> Vec<Part> {
        let most_class = 2 * median_class(group);
        let of_one = |report: &&Report| Claim::of(rules, report, most_class);
        let claims: Vec<Claim> = group.iter().map(of_one).collect();
        let by_class = deal(air_kbit, &claims);
        if rules.believe_class {
            let believed = |by_class| Part { by_class, least: by_class, most: by_class };
            return by_class.into_iter().map(believed).collect();
        }
        let alike: Vec<Claim> = claims.iter().map(|claim| Claim { weight: 1, ..*claim }).collect();
        let both = by_class.into_iter().zip(deal(air_kbit, &alike));
        both.map(|(by_class, alike)| Part {
            by_class,
            least: by_class.min(alike),
            most: by_class.max(alike),
        })
        .collect()
    }
}

/// The lower one of two.
fn median_class(group: &[&Report]) -> u64 {
    let mut classes: Vec<u64> = group.iter().map(|report| report.class.max(1).into()).collect();
    classes.sort_unstable();
    classes.get(classes.len().saturating_sub(1) / 2).copied().unwrap_or(1)
}

/// What holds for the whole group.
struct Scene {
    few: bool,
    full: bool,
    /// The air is full, and the group gets nearly all that it carries at best. Where the air varies,
    /// as in weak moments, that holds seldom: caps there would keep the others from what one cannot
    /// use.
    scarce: bool,
    /// … and one terminal has less than `waits_below` of its part, or less than
    /// halfway from there to its part: then caps begin, or go on shrinking.
    uneven: bool,
    worse: bool,
}

/// Whether a hungry terminal has less than so many percent of its part because others go first: its
/// packets wait. Of one whose packets do not wait, its own window is the limit, and of one that is
/// unstable its own link: caps on others would help neither.
fn one_waits_below(rules: &Share, group: &[&Report], parts: &[Part], percent: u8) -> bool {
    group.iter().zip(parts).any(|(report, part)| {
        let waits =
            |flow: &Flow| flow.hungry && !flow.unstable && flow.waits_us() >= rules.short_us();
        contends(report)
            && report.goodput_kbit() * 100 < part.least * u64::from(percent)
            && report.flows.iter().any(waits)
    })
}

fn of_flow(
    rules: &Share,
    scene: &Scene,
    flow: &Flow,
    kbit: Option<u64>,
    why: Why,
) -> (Treatment, Why) {
    let min_rtt_us = flow.min_rtt_us;
    let loses = flow.unstable || rules.open_steady;
    if scene.few && loses && is_long(flow, rules.steady_from_ms) {
        let cap = given_back(rules, scene, flow, kbit);
        let why = match flow.unstable {
            true => Why::LostOnAir { min_rtt_us },
            false => Why::LongPath { min_rtt_us },
        };
        return (Treatment { algorithm: Algorithm::Steady, cap }, why);
    }
    let default = |why: Why| (Treatment::default(), why);
    let Some(kbit) = kbit else { return default(why) };
    if !flow.hungry {
        return default(Why::NotHungry);
    }
    match held(rules, scene, flow, kbit) {
        None => default(why),
        Some(cap) => {
            let treatment = Treatment { algorithm: Algorithm::Default, cap: Some(cap) };
            (treatment, Why::Share { kbit, min_rtt_us, room: !scene.scarce })
        }
    }
}

/// The cap of a flow that has more than its part while another waits for its own. Only such flows
/// are capped: one at least is free to take what is left, so that nothing is wasted.
fn held(rules: &Share, scene: &Scene, flow: &Flow, kbit: u64) -> Option<u32> {
    let goodput = u64::from(flow.goodput_kbit);
    let by_path = cap(rules, flow, kbit);
    let Some(now) = flow.treatment.cap else {
        let takes_too_much = scene.uneven && goodput * 8 > kbit * 9 && !flow.unstable;
        return takes_too_much.then(|| by_path.max(flow.cwnd - flow.cwnd / 16));
    };
    if goodput * 8 < kbit * 7 {
        return None;
    }
    if !rules.correct_caps {
        return Some(by_path);
    }
    if !scene.scarce {
        let is_used = u64::from(flow.cwnd) * 8 >= u64::from(now) * 7;
        let wider = if is_used { now + now.div_ceil(8) } else { now };
        return (wider < 2 * by_path).then_some(wider);
    }
    if scene.worse && goodput * 32 > kbit * 33 {
        return Some((now - now.div_ceil(64)).max(rules.least_cap));
    }
    Some(now)
}

/// The window of a flow on `steady`. It began with what it had before the loss, and grows while it
/// is filled and nothing waits; where the air is full, it is held to its part.
fn given_back(rules: &Share, scene: &Scene, flow: &Flow, kbit: Option<u64>) -> Option<u32> {
    let part = kbit.map(|kbit| cap(rules, flow, kbit));
    if flow.treatment.algorithm == Algorithm::Default {
        if !flow.unstable {
            return None;
        }
        let before = flow.cwnd.max(flow.ssthresh.unwrap_or(0));
        let back = (before + before / 2).max(rules.least_cap);
        return Some(if scene.full { part.map_or(before, |part| part.min(back)) } else { back });
    }
    let now = flow.treatment.cap;
    if scene.full {
        return kbit.map(|kbit| close(rules, flow, kbit)).or(now);
    }
    if flow.waits_us() < rules.short_us() { grown(flow) } else { now }
}

/// What a new connection of this terminal gets before it has sent anything. What it will want
/// is not known yet.
pub fn openings(rules: &Share, group: &[&Report], own: &Report) -> Vec<Opening> {
    let others = group.iter().filter(|report| report.terminal != own.terminal);
    let hungry = others.filter(|report| contends(report)).count();
    if !rules.open_steady || hungry >= rules.few {
        return Vec::new();
    }
    vec![Opening {
        from_us: rules.steady_from_ms.saturating_mul(1000),
        to_us: u32::MAX,
        treatment: Treatment { algorithm: Algorithm::Steady, cap: None },
    }]
}

/// Whether a terminal contends for the air: it wants more, and it sends.
fn contends(report: &Report) -> bool {
    report.hungry() && report.goodput_kbit() > 0
}

/// Half as large a window again, if the one that is there is filled: `steady` jumps to it, where
/// slow start would take a loss to find it. What was granted last must show in the goodput first,
/// so that a queue would, too.
fn grown(flow: &Flow) -> Option<u32> {
    let bytes = u64::from(flow.goodput_kbit) * u64::from(flow.srtt_us) / 8000;
    let is_filled = bytes * 5 >= u64::from(flow.cwnd) * u64::from(flow.mss) * 4;
    let granted = flow.treatment.cap;
    let is_used = granted.is_none_or(|cap| u64::from(flow.cwnd) * 8 >= u64::from(cap) * 7);
    if !flow.hungry || !is_filled || !is_used {
        return granted;
    }
    Some((flow.cwnd + flow.cwnd / 2).min(MOST_CAP).max(granted.unwrap_or(0)))
}

/// Whether packets of half of the hungry terminals wait, and of two at least: of one alone it may
/// be its own link.
pub fn is_full(rules: &Share, group: &[&Report]) -> bool {
    let hungry = group.iter().filter(|report| contends(report)).count();
    let waits = |flow: &Flow| flow.hungry && flow.waits_us() >= rules.short_us();
    let waiting = group.iter().filter(|report| report.flows.iter().any(waits)).count();
    waiting >= 2 && waiting * 2 >= hungry
}

/// Segments that this rate keeps on the path and, for `queue_ms`, in queues.
fn cap(rules: &Share, flow: &Flow, kbit: u64) -> u32 {
    let time_us = u64::from(flow.min_rtt_us) + u64::from(rules.queue_ms) * 1000;
    // kbit/s × µs = 10^-3 bit
    let bytes = kbit.saturating_mul(time_us) / 8000;
    let segments = bytes.div_ceil(u64::from(flow.mss.max(1)));
    segments.clamp(rules.least_cap.into(), MOST_CAP.into()) as u32
}

/// A close cap, corrected by what came of the last one. A flow that began when the queue was full
/// takes the queue for a part of its path, so that its cap is too large, and keeps the queue full;
/// its goodput shows it. A flow that began first cannot make up for it, since its cap is right: so
/// even a small excess is taken back, in steps that are smaller than what goodput varies by.
fn close(rules: &Share, flow: &Flow, kbit: u64) -> u32 {
    let by_path = cap(rules, flow, kbit);
    let Some(now) = flow.treatment.cap.filter(|_| rules.correct_caps) else { return by_path };
    let goodput = u64::from(flow.goodput_kbit);
    let off = goodput.abs_diff(kbit);
    let step = match off {
        _ if off * 8 > kbit => now.div_ceil(16),
        _ if off * 32 > kbit => now.div_ceil(64),
        _ => return now.clamp(rules.least_cap.min(by_path), by_path),
    };
    let corrected = match goodput > kbit {
        true => now.saturating_sub(step),
        false => now.saturating_add(step),
    };
    corrected.clamp(rules.least_cap.min(by_path), by_path)
}

/// At least one, so that its part can be divided among them.
fn hungry_flows(report: &Report) -> u64 {
    report.flows.iter().filter(|flow| flow.hungry).count().max(1) as u64
}

/// What a terminal asks of the air.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    pub weight: u64,
    /// kbit/s.
    pub demand: u64,
}

impl Claim {
    /// A terminal's part of the air is what it can use, not what it says that it would: one that
    /// sends nothing gets nothing.
    fn of(rules: &Share, report: &Report, most_class: u64) -> Claim {
        let demand = match rules.growth {
            0 if report.hungry() => u64::MAX,
            growth if contends(report) => report.goodput_kbit() * u64::from(growth),
            _ => report.goodput_kbit(),
        };
        let class = u64::from(report.class.max(1));
        let weight = if rules.believe_class { class } else { class.min(most_class) };
        Claim { weight, demand }
    }
}

/// Weighted max-min fairness: no terminal gets more than it demands, and what it leaves goes to the
/// others by their weights. The parts' sum is at most `air`.
pub fn deal(air: u64, claims: &[Claim]) -> Vec<u64> {
    let mut parts = vec![0; claims.len()];
    let mut open: Vec<usize> = (0..claims.len()).collect();
    let mut left = u128::from(air);
    loop {
        let weights: u128 = open.iter().map(|&i| u128::from(claims[i].weight)).sum();
        if weights == 0 {
            return parts;
        }
        let fair = |i: usize| left * u128::from(claims[i].weight) / weights;
        let (sated, rest): (Vec<usize>, Vec<usize>) =
            open.iter().partition(|&&i| u128::from(claims[i].demand) <= fair(i));
        if sated.is_empty() {
            rest.iter().for_each(|&i| parts[i] = fair(i) as u64);
            return parts;
        }
        for &i in &sated {
            parts[i] = claims[i].demand;
            left -= u128::from(claims[i].demand);
        }
        open = rest;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn claims() -> impl Strategy<Value = Vec<Claim>> {
        let demand = prop_oneof![Just(u64::MAX), 0..200_000u64];
        let claim = (1..=1000u64, demand).prop_map(|(weight, demand)| Claim { weight, demand });
        proptest::collection::vec(claim, 1..40)
    }

    proptest! {
        #[test]
        fn the_parts_fill_the_air_and_no_more(air in 0..1_000_000u64, claims in claims()) {
            let sum: u64 = deal(air, &claims).iter().sum();
            prop_assert!(sum <= air);
            if claims.iter().any(|claim| claim.demand == u64::MAX) {
                prop_assert!(sum + claims.len() as u64 >= air, "{sum} of {air}");
            }
        }

        #[test]
        fn no_terminal_gets_more_than_it_demands(air in 0..1_000_000u64, claims in claims()) {
            for (part, claim) in deal(air, &claims).into_iter().zip(&claims) {
                prop_assert!(part <= claim.demand);
            }
        }

        #[test]
        fn a_terminal_with_less_than_it_demands_has_as_much_by_weight_as_any_other(
            air in 0..1_000_000u64, claims in claims(),
        ) {
            let parts = deal(air, &claims);
            for (i, claim) in claims.iter().enumerate() {
                for (j, other) in claims.iter().enumerate() {
                    if parts[i] < claim.demand {
                        // One unit of rounding each.
                        let (mine, theirs) = (parts[i] + 1, parts[j]);
                        prop_assert!(
                            mine * other.weight + other.weight >= theirs * claim.weight,
                            "{i} {claim:?} {mine}, {j} {other:?} {theirs}"
                        );
                    }
                }
            }
        }
    }
}
