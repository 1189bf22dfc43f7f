//! What the sending program wrote and when.

use transom_analysis::{Analysis, Limit, Span, Step};
use transom_event::{Kind, TcpState};

use crate::interval::median;
use crate::model::Program;

/// The share of the time, until the last byte was acknowledged, in which the program had nothing to
/// send from which its writes matter.
const WAITS: f64 = 0.03;
/// Between these shares it may be either: a replay decides.
const MAY_WAIT: [f64; 2] = [0.003, 0.15];
/// Writes that lie closer together than this are one, s.
const ONE_WRITE_S: f64 = 0.0015;
/// Share of the writes that must follow an answer for a dialogue.
const ANSWERED: f64 = 0.9;
/// How much the sizes of a dialogue may differ.
const ALIKE: f64 = 0.1;

/// Bytes that were written at a time, and what had been received before.
#[derive(Clone, Copy, Debug)]
struct Write {
    at_s: f64,
    bytes: u64,
    received: u64,
    /// When the last of what was received came.
    answered_s: f64,
}

/// What it did; and if it is not clear whether it waited, the other that it may be.
pub fn program(analysis: &Analysis, steps: &[Step], first_ns: u64) -> (Program, Option<Program>) {
    let writes = writes(steps, first_ns);
    let total: u64 = writes.iter().map(|write| write.bytes).sum();
    let ended = steps.last().is_some_and(|step| step.state().tcp() != Some(TcpState::Established));
    let at_once = if ended { Program::Bytes { bytes: total } } else { Program::Endless };
    if writes.len() < 2 {
        return (if writes.is_empty() { Program::Endless } else { at_once }, None);
    }
    let share = waited_s(analysis, &writes, first_ns) / busy_s(steps, first_ns).max(1e-9);
    let [least, most] = MAY_WAIT;
    let now_and_then = || {
        dialogue(&writes).unwrap_or_else(|| Program::Writes {
            writes: writes.iter().map(|write| (write.at_s, write.bytes)).collect(),
        })
    };
    match share {
        share if share < least => (at_once, None),
        share if share < WAITS => (at_once, Some(now_and_then())),
        share if share < most => (now_and_then(), Some(at_once)),
        _ => (now_and_then(), None),
    }
}

/// Until the last byte was acknowledged, or left.
fn busy_s(steps: &[Step], first_ns: u64) -> f64 {
    let moves = |pair: &&[Step]| pair[1].acked > pair[0].acked || pair[1].sent > pair[0].sent;
    let last = steps.windows(2).rev().find(moves).map_or(first_ns, |pair| pair[1].time_ns());
    last.saturating_sub(first_ns) as f64 / 1e9
}

/// Time in which there was nothing to send and that a write ended. What ends otherwise was no wait
/// for the program: it was not let write.
fn waited_s(analysis: &Analysis, writes: &[Write], first_ns: u64) -> f64 {
    let waits = [Limit::Application, Limit::Idle, Limit::Receiving];
    let seconds = |time_ns: u64| time_ns.saturating_sub(first_ns) as f64 / 1e9;
    let until_write = |span: &Span| {
        let (start_s, end_s) = (seconds(span.start_ns), seconds(span.end_ns) + ONE_WRITE_S);
        let behind = writes.partition_point(|write| write.at_s <= end_s);
        let last = writes[..behind].last().map_or(0.0, |write| write.at_s);
        (last - start_s).clamp(0.0, end_s - start_s)
    };
    let spans = analysis.limits.spans.iter().filter(|span| waits.contains(&span.limit));
    spans.map(until_write).sum()
}

/// What was written, and when: data that could leave is seen as it leaves. What is first seen with
/// another event had to wait, and was written after the event before that one at the earliest.
fn writes(steps: &[Step], first_ns: u64) -> Vec<Write> {
    let mut writes: Vec<Write> = Vec::new();
    let mut blocked = false;
    let (mut written, mut received, mut answered_s) = (0, 0, 0.0);
    let (mut last_s, mut before_s) = (0.0, 0.0);
    let mut arrives = false;
    // A FIN takes a sequence number, too.
    let most = steps.last().map_or(0, |step| step.sent + u64::from(step.settled().unsent));
    let ended = steps.last().filter(|step| step.settled().unsent == 0).map(|step| step.sent);
    for step in steps {
        let at_s = step.time_ns().saturating_sub(first_ns) as f64 / 1e9;
        let left = step.settled();
        if step.received > received {
            // What arrives meets the state before it: the next event is the first to show it.
            (received, answered_s) = (step.received, if arrives { before_s } else { at_s });
        }
        arrives = step.kind() == Kind::Ack && !step.is_after();
        let now = (step.sent + u64::from(left.unsent)).min(ended.unwrap_or(most));
        if now > written {
            let bytes = now - written;
            let since_s = if step.kind() == Kind::Send { at_s } else { before_s };
            match writes.last_mut() {
                Some(write) if blocked || since_s - last_s < ONE_WRITE_S => write.bytes += bytes,
                _ => writes.push(Write { at_s: since_s, bytes, received, answered_s }),
            }
            (written, last_s) = (now, at_s);
        }
        // Data that waits, or a program that does, shows that the program is ahead of the socket.
        blocked = left.is_write_blocked() || left.unsent > u32::from(left.mss);
        before_s = at_s;
    }
    writes
}

/// Each write but the first follows what the other side answered to the one before.
fn dialogue(writes: &[Write]) -> Option<Program> {
    let rounds: Vec<(&Write, &Write)> = writes.iter().zip(&writes[1..]).collect();
    let answered = rounds.iter().filter(|(a, b)| b.received > a.received).count();
    if (answered as f64) < ANSWERED * rounds.len() as f64 {
        return None;
    }
    let request = median(writes.iter().map(|write| write.bytes).collect())?;
    let response = median(rounds.iter().map(|(a, b)| b.received - a.received).collect())?;
    let think_s = median(rounds.iter().map(|(_, b)| b.at_s - b.answered_s).collect())?;
    let alike = |bytes: u64, of: u64| bytes.abs_diff(of) as f64 <= ALIKE * of as f64;
    let same = writes.iter().filter(|write| alike(write.bytes, request)).count();
    (same as f64 >= ANSWERED * writes.len() as f64).then_some(Program::Requests {
        request,
        response,
        think_s,
        count: writes.len() as u64,
    })
}
