//! Fast recovery and timeouts: what was lost, what it cost, whether it was undone.

use std::ops::Range;

use transom_event::{CaState, Kind, fields};

use crate::track::{Step, ca_spells, resend_cause, time_at};
use crate::{Connection, Episode, EpisodeKind};

pub(crate) fn find(connection: &Connection, steps: &[Step]) -> Vec<Episode> {
    let spells = ca_spells(steps);
    let mut episodes = Vec::new();
    for (ca, range) in &spells {
        match ca {
            Some(CaState::Recovery) => episodes.push(fast_recovery(connection, steps, range)),
            Some(CaState::Loss) => episodes.push(loss(connection, steps, range)),
            _ => {}
        }
    }
    episodes.extend(stray_timeouts(connection, steps, &spells));
    episodes
}

fn fast_recovery(connection: &Connection, steps: &[Step], range: &Range<usize>) -> Episode {
    let (start_ns, end_ns) = (steps[range.start].time_ns(), time_at(steps, range.end));
    Episode {
        start_ns,
        end_ns,
        kind: EpisodeKind::FastRecovery {
            cwnd_before: before(steps, range).0,
            cwnd_after: after(steps, range),
            retransmitted: retransmitted(connection, steps, range),
            undone: is_undone(steps, range),
        },
    }
}

/// A spell in which all that was in flight counted as lost: by a timer, or for another cause.
fn loss(connection: &Connection, steps: &[Step], range: &Range<usize>) -> Episode {
    // What the kernel reports first comes just before the change of the state.
    let all = &steps[range.start.saturating_sub(1)..range.end];
    let expired = all.iter().any(|step| step.is_timeout() || step.state().backoff > 0);
    let mut told = all.iter().filter(|step| step.kind() == Kind::Rto);
    let cause = told.find_map(|step| resend_cause(step.point.aux));
    let Some(cause) = cause.filter(|_| !expired) else { return timeout(connection, steps, range) };
    Episode {
        start_ns: steps[range.start].time_ns(),
        end_ns: time_at(steps, range.end),
        kind: EpisodeKind::Resend {
            cause,
            cwnd_before: before(steps, range).0,
            cwnd_after: after(steps, range),
            retransmitted: retransmitted(connection, steps, range),
        },
    }
}

fn timeout(connection: &Connection, steps: &[Step], range: &Range<usize>) -> Episode {
    let (start_ns, end_ns) = (steps[range.start].time_ns(), time_at(steps, range.end));
    let timeouts = steps[range.clone()]
        .iter()
        .map(|step| match step.kind() {
            Kind::Rto if step.is_timeout() => fields::in_a_row(step.point.aux),
            _ => u32::from(step.state().backoff),
        })
        .max();
    Episode {
        start_ns,
        end_ns,
        kind: EpisodeKind::Timeout {
            timeouts: timeouts.unwrap_or(1).max(1),
            stalled_ns: stalled_ns(steps, range.start, range.end),
            cwnd_before: before(steps, range).0,
            cwnd_after: after(steps, range),
            retransmitted: retransmitted(connection, steps, range),
            undone: is_undone(steps, range),
        },
    }
}

/// Timeouts that no Loss state was seen around: the recording ends with them, or is sampled.
fn stray_timeouts(
    connection: &Connection,
    steps: &[Step],
    spells: &[(Option<CaState>, Range<usize>)],
) -> Vec<Episode> {
    let in_loss = |i: usize| {
        spells.iter().any(|(ca, range)| {
            *ca == Some(CaState::Loss) && (range.contains(&i) || range.start == i + 1)
        })
    };
    let mut episodes: Vec<Episode> = Vec::new();
    for (i, step) in steps.iter().enumerate() {
        if !step.is_timeout() || in_loss(i) {
            continue;
        }
        let count = fields::in_a_row(step.point.aux).max(1);
        let end_ns = time_at(steps, i + 1);
        let row = episodes.last_mut().filter(|_| count > 1);
        if let Some(Episode { end_ns: end, kind: EpisodeKind::Timeout { timeouts, .. }, .. }) = row
        {
            (*timeouts, *end) = (count, end_ns);
            continue;
        }
        let kind = EpisodeKind::Timeout {
            timeouts: count,
            stalled_ns: stalled_ns(steps, i, i + 1),
            cwnd_before: step.state().cwnd,
            cwnd_after: steps.get(i + 1).unwrap_or(step).state().cwnd,
            retransmitted: retransmitted(connection, steps, &(i..i + 1)),
            undone: false,
        };
        episodes.push(Episode { start_ns: step.time_ns(), end_ns, kind });
    }
    episodes
}

/// cwnd and ssthresh that the spell met.
fn before(steps: &[Step], range: &Range<usize>) -> (u32, u32) {
    // `tcp_enter_loss` reports its state before it cuts; so does the first step of a spell
    // that began with a `ca_state` event.
    let at = match steps[range.start].kind() {
        Kind::CaState | Kind::Rto => range.start,
        _ => range.start.saturating_sub(1),
    };
    let state = steps[at.max(range.start.saturating_sub(1))].state();
    let previous = steps[range.start.saturating_sub(1)].state();
    (state.cwnd.max(previous.cwnd), previous.ssthresh)
}

/// cwnd once the spell was over.
fn after(steps: &[Step], range: &Range<usize>) -> u32 {
    let end = steps.get(range.end).unwrap_or(&steps[range.end - 1]);
    let (cwnd, ssthresh) = (end.state().cwnd, end.state().ssthresh);
    // An undo comes before the change of the state that tells the end, `tcp_end_cwnd_reduction` after.
    let next = steps.get(range.end + 1).filter(|_| end.kind() == Kind::CaState);
    let is_set = next.is_some_and(|next| cwnd < ssthresh && ssthresh <= next.state().cwnd);
    if is_set { ssthresh } else { cwnd }
}

/// `tcp_undo_cwnd_reduction`: ssthresh was set anew, and both windows came back.
/// (BBR leaves ssthresh alone and has nothing to undo.)
fn is_undone(steps: &[Step], range: &Range<usize>) -> bool {
    let (cwnd, ssthresh) = before(steps, range);
    let cut = steps[range.clone()].iter().any(|step| step.state().ssthresh != ssthresh);
    let next = steps[range.end..].iter().take(2).map(Step::state);
    cut && next.into_iter().any(|state| state.ssthresh >= ssthresh && state.cwnd >= cwnd)
}

/// From the last progress before step `from`, or from the data that left after it where nothing was
/// outstanding then, to the first progress at or after step `to - 1`. Data that was not seen leaving
/// left after all that was seen before `from`.
fn stalled_ns(steps: &[Step], from: usize, to: usize) -> u64 {
    let mut timeouts = (from..to).filter(|&i| steps[i].kind() == Kind::Rto);
    let last = timeouts.next_back().unwrap_or(from);
    let stuck = steps[from].acked;
    let last_progress = steps[..=from].iter().rposition(|step| step.acked < stuck);
    let stuck_from = last_progress.map_or(0, |i| i + 1);
    let waits = |step: &Step| step.settled().outstanding() > 0;
    let start = (stuck_from..from).find(|&i| waits(&steps[i])).unwrap_or(from);
    let end = steps[last..].iter().position(|step| step.acked > steps[last].acked);
    let end_ns = end.map_or(time_at(steps, steps.len()), |i| steps[last + i].time_ns());
    end_ns.saturating_sub(steps[start].time_ns())
}

/// Segments retransmitted in the spell; those at its end belong to the next one.
fn retransmitted(connection: &Connection, steps: &[Step], range: &Range<usize>) -> u64 {
    let start_ns = steps[range.start].time_ns();
    let end_ns = match steps.get(range.end) {
        Some(next) => next.time_ns().saturating_sub(1),
        None => u64::MAX,
    };
    connection
        .marks_between(start_ns, end_ns)
        .iter()
        .filter(|mark| mark.kind == Kind::Retransmit)
        .map(|mark| u64::from(fields::retransmit(mark.aux).1).max(1))
        .sum()
}
