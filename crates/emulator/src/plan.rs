//! What to emulate: the part of an experiment file that the emulator reads itself.
//!
//! Rates are in Mbit/s (10^6 bit/s, of bytes from the IP header on for the path, of the PHY for
//! the air), times in ms, probabilities between 0 and 1, queues in packets or bytes.

use serde::{Deserialize, Serialize};

/// The path between the access point and the wired hosts. Absent fields change nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Path {
    /// Round trip that the path adds, half in each direction, on top of each `delay_ms`.
    pub rtt_ms: f64,
    /// Towards the wired hosts.
    pub up: Direction,
    /// Towards the stations.
    pub down: Direction,
}

/// One direction of the path, in the order a packet meets it: loss, duplication, queue and rate,
/// delay, reordering.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Direction {
    pub delay_ms: f64,
    pub rate_mbit: Option<f64>,
    /// Drop-tail limits of what waits for `rate_mbit`; none: unlimited.
    pub queue_packets: Option<u32>,
    pub queue_bytes: Option<u64>,
    /// Share of packets that are lost.
    pub loss: f64,
    /// Mean number of packets lost in a row, ≥ 1 (Gilbert's model); 1: independent losses.
    pub loss_burst: Option<f64>,
    /// Share of packets that arrive twice.
    pub duplicate: f64,
    /// Share of packets that are held back by `reorder_ms`, so that later ones pass them.
    pub reorder: f64,
    pub reorder_ms: f64,
}

/// The medium that all stations and the access point share, half duplex, with 802.11g timing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Air {
    pub access: Access,
    /// Each data frame is announced with a CTS to the sender itself (802.11b stations around).
    pub cts_to_self: bool,
    /// Packets that the access point holds for each station (drop-tail); default 100.
    pub queue_packets: Option<u32>,
    /// Attempts a frame gets before it is dropped; default 7 (dot11ShortRetryLimit).
    pub retry_limit: Option<u32>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// Contention: random backoff, collisions, contention window doubling.
    #[default]
    Dcf,
    /// Each with something to send in turn, no collisions.
    RoundRobin,
}

/// How one host hangs on the air.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Station {
    /// PHY rate, one of 6, 9, 12, 18, 24, 36, 48, 54 Mbit/s.
    pub phy_mbit: u32,
    /// Packets that wait in the station for the air (drop-tail).
    pub queue_packets: u32,
    /// Share of frames from the station that the access point cannot decode.
    pub frame_errors_up: f64,
    /// Share of frames to the station that it cannot decode.
    pub frame_errors_down: f64,
    /// What the station's processor can take in; none: all that arrives.
    pub receive: Option<Receive>,
}

/// A receiver short of resources: what its ring cannot hold is lost after the air.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Receive {
    pub rate_mbit: f64,
    pub queue_packets: u32,
}

impl Default for Station {
    fn default() -> Station {
        Station {
            phy_mbit: 54,
            queue_packets: 100,
            frame_errors_up: 0.0,
            frame_errors_down: 0.0,
            receive: None,
        }
    }
}
