//! Connections of one recording that belong together: a proxy passes on what it receives, and each end
//! of a connection may have been recorded.
//!
//! A proxy that "reads slowly" waits for its other connection, and one that "has nothing to send" for
//! its source. Neither can be seen in one connection alone.

use std::collections::{HashMap, HashSet};

use crate::units::bytes;
use crate::{Analysis, Cause, are_both_ends};

/// What is less may be as much by chance.
const LEAST_BYTES: u64 = 100_000;
/// What comes in and what goes out differ by at most this share, headers for example, beside what may
/// wait in the two buffers.
const DIFFERENCE: f64 = 0.05;
/// And of what came, so much has left at least, however large the buffers are.
const LEAST_SHARE: f64 = 0.5;
/// What one that passes on carries the other way, as a share: one that answers with as much echoes.
const BACK: f64 = 0.5;
/// With more connections than these, a process has many that carry as much.
const MOST_CONNECTIONS: usize = 1000;
/// Of the shorter connection's time, the other one existed at least in this share.
const BESIDE: f64 = 0.8;

/// Adds to each verdict what the other connections of the recording say about it.
pub(crate) fn relate(all: &mut [Analysis]) {
    for at in with_other_end(all) {
        all[at].verdict = all[at].verdict.clone().beside_other_end();
    }
    for (inbound, outbound) in passed_on(all) {
        let (from, to) = (name(&all[inbound]), name(&all[outbound]));
        let reads_slowly = all[inbound].verdict.cause == Cause::SlowReader;
        let starved = all[outbound].verdict.cause == Cause::Application;
        if reads_slowly && !starved {
            let sent = bytes(all[outbound].summary.acked);
            let finding =
                format!("It passes on what it reads: {sent} went out over {to} meanwhile.");
            let remedy = "Look at that connection, for which the program waits.";
            add(&mut all[inbound], finding, remedy);
        } else if starved && !reads_slowly {
            let came = bytes(all[inbound].summary.received);
            let finding =
                format!("It passes on what it reads: {came} came in over {from} meanwhile.");
            let remedy = "Look at that connection, from which the program gets what it sends.";
            add(&mut all[outbound], finding, remedy);
        }
    }
}

fn add(analysis: &mut Analysis, finding: String, remedy: &str) {
    analysis.verdict.findings.push(finding);
    analysis.verdict.remedy = Some(remedy.to_owned());
}

fn name(analysis: &Analysis) -> String {
    format!("{} > {}", analysis.local, analysis.remote)
}

/// Those of which the recording has the other end, too.
fn with_other_end(all: &[Analysis]) -> Vec<usize> {
    let mut by_ends: HashMap<_, Vec<usize>> = HashMap::new();
    for (at, ends) in all.iter().enumerate().filter_map(|(at, one)| Some((at, one.ends?))) {
        by_ends.entry((ends.local, ends.remote)).or_default().push(at);
    }
    let has_other = |one: &Analysis| {
        let others = one.ends.and_then(|ends| by_ends.get(&(ends.remote, ends.local)));
        others.into_iter().flatten().any(|&other| are_beside(one, &all[other]))
    };
    (0..all.len()).filter(|&at| has_other(&all[at])).collect()
}

/// Pairs of an inbound and an outbound connection of one process that carried as much at the same time.
/// Of several that did, those that began closest to one another; each belongs to one pair.
fn passed_on(all: &[Analysis]) -> Vec<(usize, usize)> {
    let mut of_process: HashMap<u32, Vec<usize>> = HashMap::new();
    for (at, one) in all.iter().enumerate().filter(|(_, one)| one.tgid != 0) {
        if one.summary.received.max(one.summary.acked) >= LEAST_BYTES {
            of_process.entry(one.tgid).or_default().push(at);
        }
    }
    let mut pairs = Vec::new();
    for connections in of_process.values().filter(|all| all.len() <= MOST_CONNECTIONS) {
        for &inbound in connections {
            let outbound = connections.iter().filter(|&&out| passes_on(&all[inbound], &all[out]));
            pairs.extend(outbound.map(|&outbound| (inbound, outbound)));
        }
    }
    let apart = |&(a, b): &(usize, usize)| (all[a].start_ns.abs_diff(all[b].start_ns), a, b);
    pairs.sort_unstable_by_key(apart);
    // None both receives and sends most of what it carries: one set is enough.
    let mut chosen = HashSet::new();
    pairs.retain(|pair| {
        let is_free = !chosen.contains(&pair.0) && !chosen.contains(&pair.1);
        chosen.extend(is_free.then_some([pair.0, pair.1]).into_iter().flatten());
        is_free
    });
    pairs
}

fn passes_on(inbound: &Analysis, outbound: &Analysis) -> bool {
    let (came, went) = (inbound.summary.received, outbound.summary.acked);
    let slack = DIFFERENCE * came.max(went) as f64;
    let buffered = inbound.summary.max_recv_queue.saturating_add(outbound.summary.max_send_queue);
    came.min(went) >= LEAST_BYTES
        && inbound.summary.acked as f64 <= BACK * came as f64
        && outbound.summary.received as f64 <= BACK * went as f64
        && went.saturating_sub(came) as f64 <= slack
        && came.saturating_sub(went) as f64 <= slack + f64::from(buffered)
        && went as f64 >= LEAST_SHARE * came as f64
        && are_beside(inbound, outbound)
        && !are_both_ends(inbound, outbound)
}

fn are_beside(a: &Analysis, b: &Analysis) -> bool {
    let end = |one: &Analysis| one.start_ns + one.summary.duration_ns;
    let (begin, end) = (a.start_ns.max(b.start_ns), end(a).min(end(b)));
    let shorter = a.summary.duration_ns.min(b.summary.duration_ns);
    // One of which a single event is known takes no time, and is at another time all the same.
    begin <= end && (end - begin) as f64 >= BESIDE * shorter as f64
}
