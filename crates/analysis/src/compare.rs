//! Two recordings beside one another, by what their connections have in common.

use std::collections::{BTreeMap, BTreeSet};

use crate::summary::median;
use crate::{Analysis, Cause};

/// What many connections did together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Group {
    pub connections: usize,
    /// Of both directions.
    pub bytes: u64,
    /// Over the time from the first event to the last, bit/s.
    pub goodput: f64,
    /// Medians over the connections, µs; `None` where nothing was measured.
    pub rtt_us: Option<u32>,
    pub min_rtt_us: Option<u32>,
    /// Segments.
    pub retransmitted: u64,
    /// Retransmitted segments per segment sent, 0 to 1.
    pub loss_share: f64,
    pub timeouts: u64,
    /// The cause under which most of the bytes were carried.
    pub cause: Option<Cause>,
}

impl Group {
    pub fn of<'a>(members: impl IntoIterator<Item = &'a Analysis>) -> Group {
        let members: Vec<&Analysis> = members.into_iter().collect();
        let sum = |of: fn(&Analysis) -> u64| members.iter().map(|a| of(a)).sum::<u64>();
        let start_ns = members.iter().map(|a| a.start_ns).min().unwrap_or(0);
        let end_ns = members.iter().map(|a| a.start_ns + a.summary.duration_ns).max().unwrap_or(0);
        let rtts = |of: fn(&crate::Rtt) -> u32| -> Option<u32> {
            let all: Vec<u32> =
                members.iter().filter_map(|a| a.summary.rtt.as_ref()).map(of).collect();
            (!all.is_empty()).then(|| median(all))
        };
        let bytes = sum(Analysis::bytes);
        let retransmitted = sum(|a| a.summary.retransmitted.total());
        let segments: f64 = members.iter().map(|a| a.summary.segments()).sum();
        let again = sum(|a| a.summary.retransmitted.data()) as f64;
        Group {
            connections: members.len(),
            bytes,
            goodput: bytes as f64 * 8.0e9 / end_ns.saturating_sub(start_ns).max(1) as f64,
            rtt_us: rtts(|rtt| rtt.median_us),
            min_rtt_us: rtts(|rtt| rtt.min_us),
            retransmitted,
            loss_share: if again > 0.0 { again / (segments + again) } else { 0.0 },
            timeouts: sum(|a| a.summary.timeouts),
            cause: shares(&members).first().map(|share| share.cause),
        }
    }
}

/// How much of the traffic a verdict is about.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CauseShare {
    pub cause: Cause,
    pub connections: usize,
    pub bytes: u64,
}

/// The verdicts of these connections, the one with most bytes first.
pub fn shares(analyses: &[&Analysis]) -> Vec<CauseShare> {
    let mut shares: Vec<CauseShare> = Vec::new();
    for analysis in analyses {
        let cause = analysis.verdict.cause;
        match shares.iter_mut().find(|share| share.cause == cause) {
            Some(share) => {
                share.connections += 1;
                share.bytes += analysis.bytes();
            }
            None => shares.push(CauseShare { cause, connections: 1, bytes: analysis.bytes() }),
        }
    }
    shares.sort_by_key(|share| std::cmp::Reverse((share.bytes, share.connections)));
    shares
}

/// One line of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared {
    /// Program and peer; empty for all connections together.
    pub name: String,
    /// `None` where a recording has no such connection.
    pub groups: [Option<Group>; 2],
}

/// All connections, then each program and peer, those with the most bytes first.
pub fn compare(a: &[Analysis], b: &[Analysis]) -> Vec<Compared> {
    let members = [by_name(a), by_name(b)];
    let names: BTreeSet<&String> = members.iter().flat_map(BTreeMap::keys).collect();
    let group = |side: usize, name: &String| {
        members[side].get(name).map(|all| Group::of(all.iter().copied()))
    };
    let mut rows: Vec<Compared> = names
        .into_iter()
        .map(|name| Compared { name: name.clone(), groups: [group(0, name), group(1, name)] })
        .collect();
    let bytes = |row: &Compared| row.groups.iter().flatten().map(|group| group.bytes).sum::<u64>();
    rows.sort_by_key(|row| std::cmp::Reverse(bytes(row)));
    let all = |analyses: &[Analysis]| (!analyses.is_empty()).then(|| Group::of(analyses));
    rows.insert(0, Compared { name: String::new(), groups: [all(a), all(b)] });
    rows
}

fn by_name(analyses: &[Analysis]) -> BTreeMap<String, Vec<&Analysis>> {
    let mut groups: BTreeMap<String, Vec<&Analysis>> = BTreeMap::new();
    for analysis in analyses {
        groups.entry(name(analysis)).or_default().push(analysis);
    }
    groups
}

/// Ports that a kernel chooses differ in every run: a server is named by its own port, a client by
/// its server's end.
fn name(analysis: &Analysis) -> String {
    let program = if analysis.program.is_empty() { "?" } else { &analysis.program };
    match analysis.ends {
        None => program.to_owned(),
        Some(ends) if analysis.serves => {
            format!("{program} :{} from {}", ends.local.port(), ends.remote.ip())
        }
        Some(_) => format!("{program} to {}", analysis.remote_name),
    }
}
