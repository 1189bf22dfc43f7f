//! `stabilise` (DICOMO 2011, sections 5.3 and 6.1): few terminals, a long path, and one of them is
//! unstable while the others are not. Then nothing is congested: ACKs were lost between it and the
//! access point, and it may keep its window.

use super::{Decision, Why, each, is_long};
use crate::report::{Algorithm, Flow, Report, Treatment};
use crate::rules::Stabilise;

pub fn decide(rules: &Stabilise, group: &[&Report]) -> Vec<Decision> {
    let hungry = group.iter().filter(|report| report.hungry()).count();
    let unstable = group.iter().filter(|report| is_unstable(report)).count();
    let judge = |flow: &Flow| {
        if !flow.hungry {
            Why::NotHungry
        } else if hungry > rules.few {
            Why::TooMany { hungry }
        } else if !flow.unstable {
            Why::Stable
        } else if !is_long(flow, rules.rtt_from_ms) {
            Why::ShortPath { min_rtt_us: flow.min_rtt_us }
        } else if unstable > 1 {
            Why::OthersUnstableToo { unstable }
        } else {
            Why::OnlyUnstable { unsteady: flow.unsteady }
        }
    };
    let choose = |flow: &Flow| {
        let why = judge(flow);
        let algorithm = match why {
            Why::OnlyUnstable { .. } => Algorithm::Steady,
            _ => Algorithm::Default,
        };
        (Treatment { algorithm, cap: None }, why)
    };
    group.iter().map(|report| each(report, None, choose)).collect()
}

fn is_unstable(report: &Report) -> bool {
    report.flows.iter().any(|flow| flow.hungry && flow.unstable)
}
