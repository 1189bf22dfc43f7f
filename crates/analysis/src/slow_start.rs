//! Slow start, and how it ended.

use transom_event::{CaState, Kind};

use crate::track::{Step, time_at};
use crate::{CollapseCause, Connection, Episode, EpisodeKind, SlowStartEnd, cwnd_falls};

/// The one algorithm of Linux that leaves slow start by HyStart (`tcp_cubic.c`).
const HAS_HYSTART: &str = "cubic";

/// A step in slow start: cwnd below ssthresh, outside of a reduction.
/// A window at its clamp no longer grows and is past it.
fn is_in(step: &Step) -> bool {
    let state = step.state();
    // The end of a recovery is told before it sets cwnd to ssthresh (`tcp_end_cwnd_reduction`).
    let is_told_early =
        step.kind() == Kind::CaState && matches!(state.ca(), Some(CaState::Recovery));
    !is_told_early
        && state.cwnd < state.ssthresh
        && state.clamp_set().is_none_or(|clamp| state.cwnd < clamp)
        && !matches!(step.ca(), Some(CaState::Recovery | CaState::Cwr))
}

pub(crate) fn find(connection: &Connection, steps: &[Step]) -> Vec<Episode> {
    let mut episodes = Vec::new();
    let mut i = 0;
    while let Some(skip) = steps[i..].iter().position(is_in) {
        let start = i + skip;
        let mut next = start + 1;
        // A window that falls in between begins another slow start; BBR sets ssthresh when its
        // startup is over and leaves cwnd below it.
        while next < steps.len()
            && is_in(&steps[next])
            && steps[next].state().cwnd >= steps[next - 1].state().cwnd
            && steps[next].state().ssthresh == steps[next - 1].state().ssthresh
        {
            next += 1;
        }
        let (cwnd_from, last) = (steps[start].state().cwnd, &steps[next - 1]);
        let end = how_it_ended(connection, last, steps.get(next));
        let reached = match (end, steps.get(next)) {
            (
                SlowStartEnd::Delay
                | SlowStartEnd::Algorithm
                | SlowStartEnd::Threshold
                | SlowStartEnd::Clamp,
                Some(step),
            ) => step.state().cwnd,
            _ => last.state().cwnd,
        };
        // Who sends little, as a receiver does, has a window that grows and is of no account.
        let carried = steps.get(next).unwrap_or(last).acked - steps[start].acked;
        let grown = u64::from(reached.saturating_sub(cwnd_from)) * u64::from(last.state().mss);
        if reached > cwnd_from && 2 * carried >= grown {
            episodes.push(Episode {
                start_ns: steps[start].time_ns(),
                end_ns: time_at(steps, next),
                kind: EpisodeKind::SlowStart { cwnd_from, cwnd_to: reached, end },
            });
        }
        i = next;
    }
    episodes
}

fn how_it_ended(connection: &Connection, last: &Step, next: Option<&Step>) -> SlowStartEnd {
    let Some(next) = next else { return SlowStartEnd::Still };
    match next.ca() {
        Some(CaState::Recovery | CaState::Loss) if last.ca() != next.ca() => {
            return SlowStartEnd::Loss;
        }
        Some(CaState::Cwr) => {
            return match cwnd_falls::cwr_cause(connection, last.time_ns(), next) {
                CollapseCause::LocalCongestion => SlowStartEnd::LocalCongestion,
                CollapseCause::Ecn => SlowStartEnd::Ecn,
                CollapseCause::TailLoss => SlowStartEnd::Loss,
                _ => SlowStartEnd::Unused,
            };
        }
        _ => {}
    }
    let (before, after) = (last.state(), next.state());
    if next.kind() == Kind::Rto {
        SlowStartEnd::Loss
    } else if after.cwnd < before.cwnd {
        if cwnd_falls::lowers_without_loss(connection) {
            SlowStartEnd::Algorithm
        } else {
            SlowStartEnd::Unused
        }
    } else if after.clamp_set().is_some_and(|clamp| after.cwnd >= clamp) {
        SlowStartEnd::Clamp
    } else if after.ssthresh != before.ssthresh {
        if connection.algorithm() == HAS_HYSTART {
            SlowStartEnd::Delay
        } else {
            SlowStartEnd::Algorithm
        }
    } else {
        SlowStartEnd::Threshold
    }
}
