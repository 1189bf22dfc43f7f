//! A host that is a terminal of a group (docs/peer.md), and one that lies to it.

use serde::{Deserialize, Serialize};
use transom_peers::{Report, Rules, Treatment};

/// What `transom peer run` is given there. All hosts with one are one group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Peer {
    /// How fast the device is, relative to the others.
    pub class: f64,
    pub rules: Rules,
    /// What it reports instead of the truth; absent: it is honest.
    pub lie: Option<Lie>,
}

impl Default for Peer {
    fn default() -> Peer {
        Peer { class: 1.0, rules: Rules::default(), lie: None }
    }
}

/// What a terminal changes in its reports. It decides by them, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Lie {
    /// Its class; absent: the true one.
    pub class: Option<f64>,
    /// Times the true goodput.
    pub goodput: Option<f64>,
    /// Times the true least and smoothed round-trip times.
    pub min_rtt: Option<f64>,
    pub srtt: Option<f64>,
    /// All its flows want more.
    pub hungry: bool,
    /// Its flows are unstable.
    pub unstable: bool,
    /// What the air carries, Mbit/s.
    pub air_mbit: Option<f64>,
    /// It says that it does what was decided, and does nothing.
    pub disobeys: bool,
}

fn times(value: u32, factor: Option<f64>, most: u32) -> u32 {
    factor.map_or(value, |factor| (f64::from(value) * factor).clamp(1.0, most.into()) as u32)
}

impl Lie {
    /// The report as the others get it; `decided`: what a terminal that obeys would have done.
    pub fn tell(&self, report: &mut Report, decided: impl Fn(u32) -> Option<Treatment>) {
        if let Some(class) = self.class {
            report.class = (class * 10.0).round().clamp(1.0, 1000.0) as u16;
        }
        if let Some(mbit) = self.air_mbit {
            report.air_kbit = (mbit * 1000.0).round().clamp(0.0, 1e8) as u32;
        }
        for flow in &mut report.flows {
            flow.goodput_kbit = times(flow.goodput_kbit, self.goodput, 100_000_000);
            flow.min_rtt_us = times(flow.min_rtt_us, self.min_rtt, 120_000_000);
            flow.srtt_us = times(flow.srtt_us, self.srtt, 120_000_000);
            flow.hungry |= self.hungry;
            flow.unstable |= self.unstable;
            if let Some(treatment) = decided(flow.id).filter(|_| self.disobeys) {
                flow.treatment = treatment;
            }
        }
    }
}

/// What a terminal of the group did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PeerOutcome {
    /// Terminals of the group at the end, itself included.
    pub terminals: usize,
    /// Messages sent, and those of others that were believed.
    pub spoken: u64,
    pub believed: u64,
    pub actions: Vec<PeerAction>,
}

/// Something done to a connection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PeerAction {
    pub at_s: f64,
    /// The scenario's flow.
    pub flow: String,
    /// On `steady`, rather than on its own algorithm.
    pub steady: bool,
    /// Segments.
    pub cap: Option<u32>,
    pub why: String,
}
