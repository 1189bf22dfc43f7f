//! Numbers of one simulated case.

use std::path::Path;

use anyhow::Result;
use transom_analysis::{Recording, Summary, analyse};
use transom_emulator::log::Log;
use transom_scenario::{FlowOutcome, Outcome, Scenario, trace_file};
use transom_trace::Reader;

use crate::measure::jain;

/// What of a flow, by its name, or of the whole run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Mbit/s.
    Goodput(&'static str),
    /// Of all flows' bytes, percent.
    Share(&'static str),
    /// Of its transfers, ms.
    Completion50(&'static str),
    Completion95(&'static str),
    /// Of its segments, percent.
    Retransmitted(&'static str),
    /// Retransmission timeouts.
    Timeouts(&'static str),
    /// Of the smoothed RTT, ms.
    Rtt95(&'static str),
    /// Of packets in the bottleneck's queue, ms.
    QueueDelay95,
    /// Jain's index of the flows' goodput.
    Jain,
    /// Of all flows, Mbit/s.
    Sum,
    /// When the last transfer of all flows ended, ms.
    Last,
}

impl Measure {
    pub fn name(self) -> String {
        match self {
            Measure::Goodput(flow) => format!("goodput of {flow}, Mbit/s"),
            Measure::Share(flow) => format!("share of {flow}, %"),
            Measure::Completion50(flow) => format!("transfer of {flow}, median, ms"),
            Measure::Completion95(flow) => format!("transfer of {flow}, 95th percentile, ms"),
            Measure::Retransmitted(flow) => format!("retransmitted by {flow}, %"),
            Measure::Timeouts(flow) => format!("timeouts of {flow}"),
            Measure::Rtt95(flow) => format!("RTT of {flow}, 95th percentile, ms"),
            Measure::QueueDelay95 => "queue delay, 95th percentile, ms".to_owned(),
            Measure::Jain => "Jain's index".to_owned(),
            Measure::Sum => "goodput of all, Mbit/s".to_owned(),
            Measure::Last => "last transfer ends, ms".to_owned(),
        }
    }
}

/// A finished simulation.
pub struct Finished<'a> {
    pub scenario: &'a Scenario,
    pub outcome: &'a Outcome,
    pub folder: &'a Path,
}

impl Finished<'_> {
    /// None: the run has not this number; a flow never got a byte through, for example.
    ///
    /// # Errors
    /// If a file of the run cannot be read.
    pub fn of(&self, measure: Measure) -> Result<Option<f64>> {
        let flow = |name: &str| self.outcome.flows.get(name);
        Ok(match measure {
            Measure::Goodput(name) => flow(name).map(|it| self.goodput(it)),
            Measure::Share(name) => {
                let all: u64 = self.outcome.flows.values().map(|it| it.received).sum();
                flow(name).filter(|_| all > 0).map(|it| 100.0 * it.received as f64 / all as f64)
            }
            Measure::Completion50(name) => flow(name).and_then(|it| quantile(times(it), 0.5)),
            Measure::Completion95(name) => flow(name).and_then(|it| quantile(times(it), 0.95)),
            Measure::Retransmitted(name) => {
                Some(100.0 * self.senders(name)?.iter().map(Summary::loss_share).sum::<f64>())
            }
            Measure::Timeouts(name) => {
                Some(self.senders(name)?.iter().map(|it| it.timeouts as f64).sum())
            }
            Measure::Rtt95(name) => {
                let rtts = self.senders(name)?.into_iter().filter_map(|it| it.rtt);
                quantile(rtts.map(|rtt| f64::from(rtt.p95_us) / 1e3).collect(), 1.0)
            }
            Measure::QueueDelay95 => {
                let log = std::fs::read(self.folder.join("emulator.json"))?;
                let log: Log = serde_json::from_slice(&log)?;
                Some(log.up.queue_delay.p95_ms)
            }
            Measure::Jain => Some(jain(&self.goodputs())),
            Measure::Sum => Some(self.goodputs().iter().sum()),
            Measure::Last => {
                let transfers = self.outcome.flows.values().flat_map(|flow| &flow.transfers);
                quantile(transfers.filter_map(|it| it.ended_s).map(|s| s * 1e3).collect(), 1.0)
            }
        })
    }

    fn goodputs(&self) -> Vec<f64> {
        let flows = self.outcome.flows.values();
        flows.map(|flow| self.goodput(flow)).collect()
    }

    /// Of a flow that did not come to its end: over the whole simulation.
    fn goodput(&self, flow: &FlowOutcome) -> f64 {
        let until_now = || flow.received as f64 * 8e-6 / self.outcome.virtual_s.max(1e-9);
        flow.goodput_mbit().unwrap_or_else(until_now)
    }

    /// Connections of a flow's sender that sent anything.
    fn senders(&self, flow: &str) -> Result<Vec<Summary>> {
        let flow = &self.scenario.flows[flow];
        let mut recording = Recording::default();
        let mut reader = Reader::open(self.folder.join(trace_file(&flow.from)))?;
        for event in &mut reader {
            recording.push(&event?);
        }
        let all = analyse(&recording).into_iter().map(|analysis| analysis.summary);
        Ok(all.filter(|summary| summary.sent > 0).collect())
    }
}

/// How long the transfers took, ms; those that did not end count as endless.
fn times(flow: &FlowOutcome) -> Vec<f64> {
    let took = |it: &transom_scenario::Transfer| {
        it.ended_s.map_or(f64::INFINITY, |ended| (ended - it.began_s) * 1e3)
    };
    flow.transfers.iter().map(took).collect()
}

fn quantile(mut values: Vec<f64>, share: f64) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let last = values.len().checked_sub(1)?;
    values.get((last as f64 * share).round() as usize).copied().filter(|it| it.is_finite())
}
