//! `share`: where the path is long and the terminals few, `steady`, which fills a long path at once
//! and does not give the window up to losses of the air (DICOMO 2011, tables 2 and 3). And where the
//! air is full and does not share itself out, caps: each hungry terminal gets its part by weighted
//! max-min fairness, and each of its flows the window that holds just that part,
//!
//! cap = part × (min_rtt + queue) / MSS

use super::{Decision, Opening, Why, each, is_long};
use crate::report::{Algorithm, Flow, Report, Treatment};
use crate::rules::Share;

/// Segments.
const MOST_CAP: u32 = 1_000_000;

pub fn decide(rules: &Share, air_kbit: u64, group: &[&Report]) -> Vec<Decision> {
    let hungry = group.iter().filter(|report| contends(report)).count();
    let few = hungry <= rules.few;
    let full = is_full(rules, group);
    let uncapped = |why: Why| {
        let of_one =
            |report: &&Report| each(report, None, |flow| free(rules, flow, few, full, why));
        group.iter().map(of_one).collect()
    };
    if hungry < 2 {
        return uncapped(Why::NoContest);
    }
    if air_kbit == 0 {
        return uncapped(Why::AirUnknown);
    }
    let parts = deal(air_kbit, &group.iter().map(|r| Claim::of(rules, r)).collect::<Vec<_>>());
    let caps = if !needs_caps(rules, group, &parts) {
        Caps::None
    } else if has_room(rules, group) || (!full && are_wide(rules, group, &parts)) {
        Caps::Wide
    } else {
        Caps::Close
    };
    let one = |(report, part): (&&Report, &u64)| of_one(rules, report, *part, few, full, caps);
    group.iter().zip(&parts).map(one).collect()
}

/// What a new connection of this terminal gets before it has sent anything. What it will want
/// is not known yet.
pub fn openings(rules: &Share, group: &[&Report], own: &Report) -> Vec<Opening> {
    let others = group.iter().filter(|report| report.terminal != own.terminal);
    let hungry = others.filter(|report| contends(report)).count();
    if hungry >= rules.few {
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

#[derive(Clone, Copy, PartialEq, Eq)]
enum Caps {
    None,
    Close,
    /// Half as large again.
    Wide,
}

fn algorithm(rules: &Share, flow: &Flow, few: bool) -> Algorithm {
    let steady = few && is_long(flow, rules.steady_from_ms);
    if steady { Algorithm::Steady } else { Algorithm::Default }
}

/// No share to keep to: on a long path `steady`, whose window grows while there is room.
fn free(rules: &Share, flow: &Flow, few: bool, full: bool, why: Why) -> (Treatment, Why) {
    match algorithm(rules, flow, few) {
        Algorithm::Default => (Treatment::default(), why),
        Algorithm::Steady => {
            let room = !full && flow.waits_us() < rules.short_us();
            let cap = if room { grown(flow) } else { flow.treatment.cap };
            let why = Why::LongPath { min_rtt_us: flow.min_rtt_us };
            (Treatment { algorithm: Algorithm::Steady, cap }, why)
        }
    }
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

fn of_one(
    rules: &Share,
    report: &Report,
    part: u64,
    few: bool,
    full: bool,
    caps: Caps,
) -> Decision {
    let kbit = part / hungry_flows(report);
    each(report, Some(part), |flow| {
        if !flow.hungry || caps == Caps::None {
            let why = if flow.hungry { Why::Shared } else { Why::NotHungry };
            return free(rules, flow, few, full, why);
        }
        let algorithm = algorithm(rules, flow, few);
        let room = caps == Caps::Wide;
        let cap = if room { cap(rules, flow, kbit + kbit / 2) } else { close(rules, flow, kbit) };
        let steady = algorithm == Algorithm::Steady;
        let why = Why::Share { kbit, min_rtt_us: flow.min_rtt_us, room, steady };
        (Treatment { algorithm, cap: Some(cap) }, why)
    })
}

/// Whether packets of half of the hungry terminals wait, and of two at least: of one alone it may
/// be its own link.
pub fn is_full(rules: &Share, group: &[&Report]) -> bool {
    let hungry = group.iter().filter(|report| contends(report)).count();
    let waits = |flow: &Flow| flow.hungry && flow.waits_us() >= rules.short_us();
    let waiting = group.iter().filter(|report| report.flows.iter().any(waits)).count();
    waiting >= 2 && waiting * 2 >= hungry
}

/// Whether the air shares itself out badly: one terminal has an eighth more than its part and
/// another an eighth less, or packets wait four times as long as they should. Caps that are there
/// stay, or it would go back and forth.
fn needs_caps(rules: &Share, group: &[&Report], parts: &[u64]) -> bool {
    let hungry = || group.iter().zip(parts).filter(|(report, _)| contends(report));
    let flows = || group.iter().flat_map(|r| &r.flows).filter(|flow| flow.hungry);
    let above = |(r, part): (&&Report, &u64)| r.goodput_kbit() * 8 > part * 9;
    let below = |(r, part): (&&Report, &u64)| r.goodput_kbit() * 8 < part * 7;
    flows().any(|flow| flow.treatment.cap.is_some())
        || hungry().any(above) && hungry().any(below)
        || flows().any(|flow| flow.waits_us() > 4000 * rules.queue_ms)
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

/// Whether capped flows find the air not full: no packets wait even half as long as `queue_ms`
/// would let them. Then what the group reached was bound by our own caps, and they may grow. Losses
/// without a queue are the air's own.
fn has_room(rules: &Share, group: &[&Report]) -> bool {
    let mut hungry = group.iter().flat_map(|r| &r.flows).filter(|flow| flow.hungry).peekable();
    hungry.peek().is_some()
        && hungry.all(|flow| flow.waits_us() < rules.short_us() && flow.treatment.cap.is_some())
}

/// Whether caps are wide already. They stay so until the air is full: one whose packets wait for a
/// moment is no reason to go back and forth.
fn are_wide(rules: &Share, group: &[&Report], parts: &[u64]) -> bool {
    group.iter().zip(parts).any(|(report, part)| {
        let kbit = part / hungry_flows(report);
        let close = |flow: &Flow| u64::from(cap(rules, flow, kbit));
        let is_wide = |cap: u32, flow: &Flow| u64::from(cap) * 4 >= close(flow) * 5;
        let mut hungry = report.flows.iter().filter(|flow| flow.hungry);
        hungry.any(|flow| flow.treatment.cap.is_some_and(|cap| is_wide(cap, flow)))
    })
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
    fn of(rules: &Share, report: &Report) -> Claim {
        let demand = match rules.growth {
            0 if report.hungry() => u64::MAX,
            growth if contends(report) => report.goodput_kbit() * u64::from(growth),
            _ => report.goodput_kbit(),
        };
        Claim { weight: report.class.max(1).into(), demand }
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
