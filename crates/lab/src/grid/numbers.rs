//! What one run gives.

use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use transom_emulator::log::Log;
use transom_scenario::{FlowOutcome, GuardOutcome, Outcome, Scenario};

use super::draw::{Point, Sends};
use super::harm::{self, Fate};
use super::point::RIVAL;
use crate::measure::jain;
use crate::metrics::Measured;

/// The name of its queue in the emulator's log.
const BOTTLENECK: &str = "path up";

/// Of one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Numbers {
    /// Of all terminals, Mbit/s. Of short flows: bytes of the transfers that ended, in the time
    /// that transfers took.
    pub goodput_mbit: f64,
    /// Of the competitor; none: there is none.
    pub competitor_mbit: Option<f64>,
    /// Median and 95th percentile of the wait in the bottleneck's queue, ms.
    pub queue_p50_ms: f64,
    pub queue_p95_ms: f64,
    /// Of the terminals' data segments.
    pub retransmitted: f64,
    /// Jain's index of the terminals.
    pub jain: f64,
    /// What it cost, s of CPU time.
    pub cpu_s: f64,
    /// Of each terminal that is guarded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub guarded: Vec<Fate>,
}

/// # Errors
/// If a flow failed, or the log cannot be read.
pub fn of(point: &Point, scenario: &Scenario, outcome: &Outcome, folder: &Path) -> Result<Numbers> {
    if let Some(failure) = outcome.failures.first() {
        bail!("{}: {}", failure.flow.as_deref().unwrap_or("the simulation"), failure.what);
    }
    let log = log(folder)?;
    let waits = log.up.queue_delay;
    let mut terminals = Vec::new();
    let (mut segments, mut retransmitted) = (0, 0);
    let mut competitor_mbit = None;
    for (name, flow) in &outcome.flows {
        let seconds = scenario.most_seconds - scenario.flows[name].start_s;
        if name == RIVAL {
            competitor_mbit = Some(mbit(flow.received, seconds));
            continue;
        }
        segments += flow.segments;
        retransmitted += flow.retransmitted;
        terminals.push(match point.traffic {
            Sends::Short { bytes, .. } => of_transfers(flow, bytes, scenario.most_seconds),
            Sends::Bulk | Sends::OnOff { .. } => mbit(flow.received, seconds),
        });
    }
    Ok(Numbers {
        goodput_mbit: terminals.iter().sum(),
        competitor_mbit,
        queue_p50_ms: waits.p50_ms,
        queue_p95_ms: waits.p95_ms,
        retransmitted: retransmitted as f64 / segments.max(1) as f64,
        jain: jain(&terminals),
        cpu_s: outcome.cpu_s,
        guarded: guarded(point, scenario, outcome, &log),
    })
}

/// Of a run by the lab, of bulk flows as iperf reports them. Nothing was recorded, so it does not
/// say what was retransmitted.
///
/// # Errors
/// If the log cannot be read.
pub fn of_measured(measured: &Measured, folder: &Path) -> Result<Numbers> {
    let waits = log(folder)?.up.queue_delay;
    let goodput = |name: &String| measured.flows[name].get("goodput_mbit").copied();
    let terminals = measured.flows.keys().filter(|name| *name != RIVAL);
    let terminals: Vec<f64> = terminals.filter_map(goodput).collect();
    Ok(Numbers {
        goodput_mbit: terminals.iter().sum(),
        competitor_mbit: measured
            .flows
            .contains_key(RIVAL)
            .then(|| goodput(&RIVAL.into()))
            .flatten(),
        queue_p50_ms: waits.p50_ms,
        queue_p95_ms: waits.p95_ms,
        jain: jain(&terminals),
        ..Numbers::default()
    })
}

/// What the guards did, judged by what was.
fn guarded(point: &Point, scenario: &Scenario, outcome: &Outcome, log: &Log) -> Vec<Fate> {
    let series = log.queues.iter().find(|series| series.name == BOTTLENECK);
    let rtt_s = (point.rtt_ms + log.up.queue_delay.mean_ms) / 1e3;
    let of_host = |(host, seen): (&String, &GuardOutcome)| {
        let settings = scenario.hosts[host].guard.as_ref()?.settings;
        let queues = series.map(|it| harm::queues(it, &seen.looks, point, &settings));
        let mut stretches = queues.unwrap_or_default();
        stretches.extend(harm::losses(&seen.looks, rtt_s, &settings));
        Some(harm::fate(seen, &stretches, rtt_s, &settings))
    };
    outcome.guards.iter().filter_map(of_host).collect()
}

fn log(folder: &Path) -> Result<Log> {
    let path = folder.join("emulator.json");
    let log = std::fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
    serde_json::from_slice(&log).with_context(|| format!("{} is damaged", path.display()))
}

fn mbit(bytes: u64, seconds: f64) -> f64 {
    bytes as f64 * 8e-6 / seconds.max(1e-9)
}

/// A transfer that had not ended counts with its time and without bytes.
fn of_transfers(flow: &FlowOutcome, bytes: u64, end: f64) -> f64 {
    let ended = flow.transfers.iter().filter(|transfer| transfer.ended_s.is_some()).count();
    let took = |it: &transom_scenario::Transfer| it.ended_s.unwrap_or(end) - it.began_s;
    mbit(bytes * ended as u64, flow.transfers.iter().map(took).sum())
}

#[cfg(test)]
mod tests {
    use super::*;
    use transom_scenario::Transfer;

    #[test]
    fn the_rate_of_short_flows_is_that_of_the_time_in_which_they_transfer() {
        let transfer = |began_s, ended_s| Transfer { began_s, ended_s, ..Transfer::default() };
        let transfers = vec![transfer(0.0, Some(1.0)), transfer(5.0, Some(6.0))];
        let mut flow = FlowOutcome { transfers, ..FlowOutcome::default() };
        assert_eq!(of_transfers(&flow, 125_000, 20.0), 1.0, "pauses do not count");
        flow.transfers.push(transfer(18.0, None));
        assert_eq!(of_transfers(&flow, 125_000, 20.0), 0.5, "what hangs takes time");
    }
}
