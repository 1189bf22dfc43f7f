//! The decision: one pure function of all terminals' reports. Terminals with the same reports decide
//! the same; there is no leader. Integers only, so that it is the same on every machine.

mod share;
mod stabilise;
mod table;

use std::fmt;

use serde::Serialize;

use crate::report::{Flow, FlowId, Report, TerminalId, Treatment};
use crate::rules::{Function, Rules};

/// Why a flow is treated as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// No other terminal is there.
    Alone,
    /// The flow takes less than it may.
    NotHungry,
    /// No other terminal wants more than it gets.
    NoContest,
    /// The group has not yet seen the air full.
    AirUnknown,
    /// Each has its part of the air without us.
    Shared,
    /// The rules give `steady` to every flow of a path as long as this.
    LongPath {
        min_rtt_us: u32,
    },
    /// It lost on the air, and its path is too long to get the window back soon.
    LostOnAir {
        min_rtt_us: u32,
    },
    /// It had more than its part of the air: this much, at this round-trip time without queues (µs).
    Share {
        kbit: u64,
        min_rtt_us: u32,
        room: bool,
    },
    /// More terminals want to send than `few`.
    TooMany {
        hungry: usize,
    },
    /// Its path is so short that `steady` would harm.
    ShortPath {
        min_rtt_us: u32,
    },
    Stable,
    /// So many are unstable at once: that is congestion.
    OthersUnstableToo {
        unstable: usize,
    },
    /// It alone is unstable.
    OnlyUnstable {
        unsteady: u8,
    },
    /// The row of the table for this round-trip time.
    Row {
        rtt_us: u64,
    },
    /// No row or column of the table fits.
    NoRow,
}

fn ms(us: u32) -> String {
    format!("{:.1} ms", f64::from(us) / 1000.0)
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Why::Alone => write!(f, "alone here"),
            Why::NotHungry => write!(f, "takes less than it may"),
            Why::NoContest => write!(f, "no other terminal wants more"),
            Why::AirUnknown => write!(f, "the air has not been full yet"),
            Why::Shared => write!(f, "each has its share"),
            Why::LongPath { min_rtt_us } => write!(f, "long path of {}", ms(min_rtt_us)),
            Why::LostOnAir { min_rtt_us } => {
                write!(f, "lost on the air, long path of {}", ms(min_rtt_us))
            }
            Why::Share { kbit, min_rtt_us, room } => {
                write!(f, "share {:.2} Mbit/s × {}", kbit as f64 / 1000.0, ms(min_rtt_us))?;
                if room {
                    write!(f, ", air not full")?;
                }
                Ok(())
            }
            Why::TooMany { hungry } => write!(f, "{hungry} terminals are more than a few"),
            Why::ShortPath { min_rtt_us } => write!(f, "path of {} is short", ms(min_rtt_us)),
            Why::Stable => write!(f, "stable"),
            Why::OthersUnstableToo { unstable } => {
                write!(f, "{unstable} are unstable: congestion")
            }
            Why::OnlyUnstable { unsteady } => {
                write!(f, "the only unstable one (lacks {unsteady} % of its window)")
            }
            Why::Row { rtt_us } => write!(f, "table row {} ms", rtt_us as f64 / 1000.0),
            Why::NoRow => write!(f, "no row of the table fits"),
        }
    }
}

impl Serialize for Why {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

/// What is decided for one flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Choice {
    pub flow: FlowId,
    pub treatment: Treatment,
    pub why: Why,
}

/// What is decided for one terminal, flow by flow in the order of its report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Decision {
    pub terminal: TerminalId,
    /// Its part of the air, kbit/s; None where none is dealt out.
    pub share_kbit: Option<u64>,
    pub flows: Vec<Choice>,
}

/// What a new connection gets when its handshake ends, before it is in anybody's report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening {
    /// Round-trip times for which it holds, µs, both included.
    pub from_us: u32,
    pub to_us: u32,
    pub treatment: Treatment,
}

/// What new connections of this terminal get, so that they need not be found and judged first. Of
/// one that matches none nothing is changed.
pub fn openings(rules: &Rules, reports: &[Report], own: &Report) -> Vec<Opening> {
    let group = sorted(reports);
    if group.len() < 2 {
        return Vec::new();
    }
    let mut openings = match rules.function {
        Function::Table => table::openings(&rules.table, own),
        // Only what is seen to be unstable is treated.
        Function::Stabilise => Vec::new(),
        Function::Share => share::openings(&rules.share, &group, own),
    };
    openings.retain(|opening| !opening.treatment.is_none());
    openings
}

/// Whether the air is full, as far as the group can see: what is lost then may be congestion.
pub fn is_full(rules: &Rules, reports: &[Report]) -> bool {
    share::is_full(&rules.share, &sorted(reports))
}

/// What is decided for all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    pub function: Function,
    /// Terminals that want to send more than they can.
    pub hungry: usize,
    /// What the air is taken to carry, kbit/s; 0 = not known.
    pub air_kbit: u64,
    /// By terminal.
    pub decisions: Vec<Decision>,
}

/// Decides for all terminals. The order of the reports does not matter; of two with the same
/// identity the one that compares greater counts.
pub fn decide(rules: &Rules, reports: &[Report]) -> Verdict {
    let group = sorted(reports);
    let hungry = group.iter().filter(|report| report.hungry()).count();
    let air_kbit = air(rules, &group);
    let decisions = if group.len() < 2 {
        group.iter().map(|report| untouched(report, Why::Alone)).collect()
    } else {
        match rules.function {
            Function::Table => table::decide(&rules.table, &group),
            Function::Stabilise => stabilise::decide(&rules.stabilise, &group),
            Function::Share => share::decide(&rules.share, air_kbit, &group),
        }
    };
    Verdict { function: rules.function, hungry, air_kbit, decisions }
}

fn sorted(reports: &[Report]) -> Vec<&Report> {
    let mut group: Vec<&Report> = reports.iter().filter(|report| !report.leaving).collect();
    // Any total order will do for twins, as long as it is everybody's.
    group.sort_by(|a, b| a.terminal.cmp(&b.terminal).then_with(|| bytes(b).cmp(&bytes(a))));
    group.dedup_by_key(|report| report.terminal);
    group
}

fn bytes(report: &Report) -> Vec<u8> {
    let (asks, answers) = (Vec::new(), Vec::new());
    crate::wire::encode(&crate::wire::Message { report: report.clone(), asks, answers })
}

/// What the air carries: as the rules say, or the (upper) median of what the terminals have seen
/// the group reach, and no less than it has now, so that one that lies moves it little. Not known
/// before more than half of them know it.
fn air(rules: &Rules, group: &[&Report]) -> u64 {
    if let Some(mbit) = rules.share.air_mbit {
        return (mbit * 1000.0).round() as u64;
    }
    let mut seen: Vec<u64> =
        group.iter().map(|r| r.air_kbit.into()).filter(|&kbit| kbit > 0).collect();
    if seen.len() * 2 <= group.len() {
        return 0;
    }
    seen.sort_unstable();
    let present = group.iter().map(|report| report.goodput_kbit()).sum();
    seen[seen.len() / 2].max(present)
}

fn untouched(report: &Report, why: Why) -> Decision {
    each(report, None, |_| (Treatment::default(), why))
}

fn each(
    report: &Report,
    share_kbit: Option<u64>,
    mut choose: impl FnMut(&Flow) -> (Treatment, Why),
) -> Decision {
    let flows = report.flows.iter().map(|flow| {
        let (treatment, why) = choose(flow);
        Choice { flow: flow.id, treatment, why }
    });
    Decision { terminal: report.terminal, share_kbit, flows: flows.collect() }
}

/// Whether a path is long enough for `steady`. Once given, it stays until the path is an eighth
/// shorter, so that a flow at the limit does not go back and forth.
fn is_long(flow: &Flow, from_ms: u32) -> bool {
    use crate::report::Algorithm;
    let from_us = u64::from(from_ms) * 1000;
    let is_given = flow.treatment.algorithm == Algorithm::Steady;
    let limit = if is_given { from_us - from_us / 8 } else { from_us };
    u64::from(flow.min_rtt_us) >= limit
}
