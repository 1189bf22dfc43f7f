//! `outcome.json`: what a simulation reports beside traces and the emulator's log.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::guard::GuardOutcome;
use crate::peer::PeerOutcome;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Virtual time that passed, s.
    pub virtual_s: f64,
    /// Time that it took, and of it the CPU's, s. The only numbers that differ between two runs of
    /// one scenario.
    pub wall_s: f64,
    pub cpu_s: f64,
    /// Packets that reached a host.
    pub packets: u64,
    /// The kernel of each host: its release.
    pub kernels: BTreeMap<String, String>,
    pub flows: BTreeMap<String, FlowOutcome>,
    /// Of the hosts that are terminals of the group.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub peers: BTreeMap<String, PeerOutcome>,
    /// Of the hosts whose connections are guarded.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub guards: BTreeMap<String, GuardOutcome>,
    /// What went wrong, one each; the other flows are whole.
    pub failures: Vec<Failure>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowOutcome {
    /// One for each connection, request and answer, or for the whole stream of datagrams.
    pub transfers: Vec<Transfer>,
    /// What the receiving program read, all connections, bytes.
    pub received: u64,
    /// In each second after the first byte was read, bytes; the last second may be cut short.
    pub per_second: Vec<u64>,
    /// Data segments that the sending side sent, with retransmissions, all connections.
    #[serde(default)]
    pub segments: u64,
    /// Of these, retransmissions.
    #[serde(default)]
    pub retransmitted: u64,
    /// UDP: datagrams sent and received.
    pub datagrams: Option<(u64, u64)>,
}

/// Bytes from a first write to the last byte read, s after the start of the simulation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Transfer {
    pub began_s: f64,
    /// When the first byte was read; none: no byte was.
    pub first_read_s: Option<f64>,
    /// None: it had not ended when the simulation did.
    pub ended_s: Option<f64>,
    pub bytes: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// None: of no flow alone.
    pub flow: Option<String>,
    pub what: String,
}

impl Outcome {
    pub const FILE: &str = "outcome.json";
}

impl FlowOutcome {
    /// Share of its data segments that were retransmissions; none before it sent any.
    pub fn retransmitted_share(&self) -> Option<f64> {
        (self.segments > 0).then(|| self.retransmitted as f64 / self.segments as f64)
    }

    /// From the first write to the last byte read of all transfers, Mbit/s; none before a byte
    /// came.
    pub fn goodput_mbit(&self) -> Option<f64> {
        let began = self.transfers.iter().map(|it| it.began_s).fold(f64::INFINITY, f64::min);
        let ended = self.transfers.iter().filter_map(|it| it.ended_s).fold(0.0, f64::max);
        (ended > began && self.received > 0).then(|| self.received as f64 * 8e-6 / (ended - began))
    }
}

/// The name of a host's trace in the folder of a simulation.
pub fn trace_file(host: &str) -> String {
    format!("trace-{host}.parquet")
}
