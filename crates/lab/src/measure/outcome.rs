//! What a simulation reports, as the receiving iperf would print it.

use std::path::Path;

use anyhow::{Context, Result};
use transom_scenario::{FlowOutcome, Outcome, Transfer};

use super::iperf::Received;
use crate::simulated::engine;

/// Metrics of the emulator that say nothing in virtual time.
pub const OF_REAL_TIME: [&str; 2] = ["lateness_p99_ms", "emulator_cpu_s"];

/// None: the run took place in real time.
pub fn read(run_dir: &Path) -> Result<Option<Outcome>> {
    if run_dir.join(Outcome::FILE).exists() { engine::read(run_dir).map(Some) } else { Ok(None) }
}

/// What a flow's receiver got.
pub fn received(outcome: &Outcome, flow: &str) -> Result<Received> {
    let flow = outcome
        .flows
        .get(flow)
        .with_context(|| format!("{} says nothing of the flow \"{flow}\"", Outcome::FILE))?;
    // Without the one that the end cuts short.
    let per_second =
        flow.per_second.iter().take(seconds(flow) as usize).map(|bytes| *bytes as f64 * 8e-6);
    let lost = |(sent, received): (u64, u64)| sent.saturating_sub(received) as f64 / sent as f64;
    Ok(Received {
        mbit: mbit(flow),
        per_second: per_second.collect(),
        lost_share: flow.datagrams.filter(|(sent, _)| *sent > 0).map(lost),
    })
}

/// iperf's server counts from the first byte that it reads to the last, of all connections: those
/// that send one after the other share the link in time.
fn mbit(flow: &FlowOutcome) -> f64 {
    let is_whole = |it: &&Transfer| it.ended_s.is_some() && it.first_read_s.is_some();
    let bytes: u64 = flow.transfers.iter().filter(is_whole).map(|it| it.bytes).sum();
    let seconds = seconds(flow);
    if seconds > 0.0 { bytes as f64 * 8e-6 / seconds } else { 0.0 }
}

fn seconds(flow: &FlowOutcome) -> f64 {
    let first = flow.transfers.iter().filter_map(|it| it.first_read_s).reduce(f64::min);
    let last = flow.transfers.iter().filter_map(|it| it.ended_s).reduce(f64::max);
    first.zip(last).map_or(0.0, |(first, last)| (last - first).max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transfer(first: f64, last: f64, bytes: u64) -> Transfer {
        Transfer { began_s: 0.0, first_read_s: Some(first), ended_s: Some(last), bytes }
    }

    fn of(flow: FlowOutcome) -> Received {
        let mut outcome = Outcome::default();
        outcome.flows.insert("f".into(), flow);
        received(&outcome, "f").unwrap()
    }

    #[test]
    fn it_counts_from_the_first_byte_read_to_the_last() {
        let flow = FlowOutcome {
            transfers: vec![transfer(0.5, 2.75, 2_250_000)],
            per_second: vec![1_000_000, 1_000_000, 250_000],
            ..FlowOutcome::default()
        };
        let received = of(flow);
        assert_eq!(received.mbit, 8.0);
        assert_eq!(received.per_second, [8.0, 8.0], "the last one was cut short");
        assert_eq!(received.lost_share, None);
    }

    #[test]
    fn connections_side_by_side_are_added() {
        let transfers = vec![transfer(0.0, 1.0, 125_000), transfer(0.0, 1.0, 250_000)];
        assert_eq!(of(FlowOutcome { transfers, ..FlowOutcome::default() }).mbit, 3.0);
    }

    #[test]
    fn connections_one_after_the_other_are_no_faster_than_one() {
        let transfers = vec![transfer(0.0, 1.0, 125_000), transfer(1.0, 2.0, 125_000)];
        assert_eq!(of(FlowOutcome { transfers, ..FlowOutcome::default() }).mbit, 1.0);
    }

    #[test]
    fn of_nothing_received_the_goodput_is_plainly_0() {
        assert!(of(FlowOutcome::default()).mbit.is_sign_positive());
    }

    #[test]
    fn datagrams_tell_their_losses() {
        let flow = FlowOutcome { datagrams: Some((200, 150)), ..FlowOutcome::default() };
        assert_eq!(of(flow).lost_share, Some(0.25));
    }

    #[test]
    fn a_flow_that_is_missing_is_named() {
        let error = received(&Outcome::default(), "up").unwrap_err().to_string();
        assert!(error.contains("\"up\""), "{error}");
    }
}
