//! What to emulate: the part of an experiment file that the emulator reads itself.
//!
//! Rates are in Mbit/s (10^6 bit/s, of bytes from the IP header on for the path, of the PHY for
//! the air), times in ms, probabilities between 0 and 1, queues in packets or bytes.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

mod check;
mod discipline;
mod elements;
mod problem;
mod standard;
mod varying;

pub use check::{LONGEST_MS, RATES_MBIT, SMALLEST_BURST};
pub use discipline::{Discipline, Isolate, Kind};
pub use problem::Problem;
pub use standard::Standard;
pub(crate) use varying::OPPORTUNITY_BYTES;
pub use varying::{Arrivals, Cross, Handover, Trace};

/// All that one run emulates: who hangs where, and what lies between.
///
/// ```text
/// stations ~~~ air ~~~ access point ═══ path ═══ far hosts
///                            │                       │
///                       near hosts            a path of its own
///                                                     │
///                                              cellular hosts
/// ```
///
/// A near or far host may have a link of its own to the switch, so that several links lead into
/// one path.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Plan {
    /// The same seed gives the same losses, duplicates, reorderings, frame errors and backoffs.
    pub seed: u64,
    /// Needed as soon as one port is on the air.
    pub air: Option<Air>,
    pub path: Path,
    pub ports: Vec<Port>,
    /// Own links of near and far hosts, by the names of their ports; `up` is from the host.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub access_links: BTreeMap<String, Path>,
    /// Who has which address: a cellular host's packets name nobody else.
    pub owners: BTreeMap<IpAddr, [u8; 6]>,
    /// How much earlier the thread wakes up before a packet is due than it has learned to, to
    /// watch the clock until then, µs. 0, the default, costs next to no CPU.
    pub spin_us: u32,
}

/// Where one host is plugged in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Port {
    /// The host's name, for the log.
    pub name: String,
    /// Of the host's interface: the switch learns nothing, it is told.
    pub mac: [u8; 6],
    pub side: Side,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(clippy::large_enum_variant, reason = "a plan has few ports, and none is ever moved")]
pub enum Side {
    /// Over the air to the access point.
    Air(Station),
    /// By wire at the access point, before the path.
    Near,
    /// By wire at the other end of the path.
    Far,
    /// Over a path of its own, `up` from the host, which ends where the far hosts are. The host's
    /// interface has no link header: raw IP, from a TUN device.
    Cellular(Path),
}

/// The path between the access point, or a cellular host, and the far hosts. Absent fields change nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Path {
    /// Round trip that the path adds, half in each direction, on top of each `delay_ms`.
    pub rtt_ms: f64,
    /// Towards the far hosts.
    pub up: Direction,
    /// Towards the access point, its stations and the near hosts.
    pub down: Direction,
}

/// One direction of the path, or one of its stages, in the order a packet meets it: loss,
/// duplication, policer, queue and rate, delay, reordering, further stages.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Direction {
    pub delay_ms: f64,
    pub rate_mbit: Option<f64>,
    /// Instead of it, a rate from each moment on: `[s, Mbit/s]`, the first at 0 s. At 0 Mbit/s
    /// packets wait.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rates: Vec<(f64, f64)>,
    /// Or a recording of opportunities to send.
    pub trace: Option<Trace>,
    /// Instead of `delay_ms`, a delay from each moment on: `[s, ms]`. Packets keep their order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub delays: Vec<(f64, f64)>,
    /// Times at which the link is gone, and then another one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub handovers: Vec<Handover>,
    /// Traffic that is not of the hosts.
    pub cross: Option<Cross>,
    /// Limits of what waits for `rate_mbit`, without the packet being sent; none: unlimited, or the
    /// default of the discipline. Bytes count from the IP header on.
    pub queue_packets: Option<u32>,
    pub queue_bytes: Option<u64>,
    /// Which packets of the queue are dropped or marked; none: drop-tail.
    pub discipline: Option<Discipline>,
    /// A policer: what exceeds this rate, after a burst of so many bytes, is dropped, and nothing
    /// waits (RFC 2697's committed rate and burst, red dropped).
    pub police_mbit: Option<f64>,
    pub police_burst_bytes: Option<u64>,
    /// Share of packets that are lost.
    pub loss: f64,
    /// Mean number of packets lost in a row, ≥ 1 (Gilbert's model); none: independent losses,
    /// which is 1 / (1 - `loss`).
    pub loss_burst: Option<f64>,
    /// Share of packets that arrive twice.
    pub duplicate: f64,
    /// Share of packets that are held back by `reorder_ms`, so that later ones pass them.
    pub reorder: f64,
    pub reorder_ms: f64,
    /// Further stages behind this one, in the order a packet meets them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<Direction>,
}

/// The medium that all stations and the access point share, half duplex, with the timing of
/// 802.11g, or 802.11n.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Air {
    /// Which frames the access point and stations with an MCS use. Stations without one are of
    /// 802.11g in both.
    #[serde(skip_serializing_if = "Standard::is_g")]
    pub standard: Standard,
    pub access: Access,
    /// Each data frame is announced with a CTS to the sender itself (802.11b stations around).
    pub cts_to_self: bool,
    /// Slots of 20 µs instead of 9: the access point serves 802.11b stations, or never says that
    /// it does not.
    pub long_slot: bool,
    /// Packets that the access point holds for each station (drop-tail); default 100.
    pub queue_packets: Option<u32>,
    /// Attempts a frame gets before it is dropped; default 7 (dot11ShortRetryLimit).
    pub retry_limit: Option<u32>,
    /// Width of the channel for 802.11n's frames, 20 or 40 MHz; default 20.
    pub channel_mhz: Option<u32>,
    /// Most frames in one A-MPDU, 1 to 64; default 64, and 1 is no aggregation.
    pub ampdu_packets: Option<u32>,
    /// Most bytes in one A-MPDU, with MAC headers and delimiters; default 65,535.
    pub ampdu_bytes: Option<u32>,
    /// Longest time an A-MPDU takes, with its preamble; default 5.484, the standard's limit.
    pub ampdu_ms: Option<f64>,
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
    /// 802.11n: modulation and coding scheme, 0 to 31 (8 per number of streams), instead of
    /// `phy_mbit`.
    pub mcs: Option<u32>,
    /// 802.11n: symbols with the short guard interval, 0.4 µs; default no.
    pub short_gi: Option<bool>,
    /// Packets that wait in the station for the air (drop-tail), without the one on the air.
    pub queue_packets: u32,
    /// Share of frames from the station that the access point cannot decode.
    pub frame_errors_up: f64,
    /// Share of frames to the station that it cannot decode.
    pub frame_errors_down: f64,
    /// Times when the link is worse; none: it is always the same.
    pub fading: Option<Fading>,
    /// What the station's processor can take in; none: all that arrives.
    pub receive: Option<Receive>,
    /// The driver's queue between the kernel and the radio; none: the radio takes all at once.
    pub sending_queue: Option<SendingQueue>,
    /// What each packet costs the station's only processor; none: nothing.
    pub processor: Option<Processor>,
}

/// Fades that come and go at random times, exponentially distributed, on both directions of a
/// station's link at once: it is one channel.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fading {
    /// Mean time from the beginning of a fade to that of the next.
    pub every_ms: f64,
    /// Mean length of a fade, below `every_ms`.
    pub lasts_ms: f64,
    /// In a fade, share of frames from the station that the access point cannot decode.
    #[serde(default = "all")]
    pub errors_up: f64,
    /// In a fade, share of frames to the station that it cannot decode.
    #[serde(default = "all")]
    pub errors_down: f64,
}

fn all() -> f64 {
    1.0
}

/// A queue of the driver, behind the kernel: what the kernel has handed over it counts as sent, so
/// nothing tells it that the queue was full and the packet dropped. It waits while the radio's
/// queue (`queue_packets`) is full.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SendingQueue {
    /// Without the one that is being transferred to the radio.
    pub packets: u32,
    /// Of the bus to the radio; none: it takes no time.
    pub rate_mbit: Option<f64>,
}

/// One processor for everything that a station does with packets. What the kernel sends goes first;
/// receiving and transferring take turns of two packets. What is sent in vain takes time from the
/// rest, as in Mogul and Ramakrishnan, "Eliminating receive livelock in an interrupt-driven kernel",
/// 1996.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Processor {
    /// For each packet from the kernel, whether the sending queue then has room or not.
    pub send_us: f64,
    /// For each packet that is transferred from the sending queue to the radio.
    pub transfer_us: f64,
    /// For each packet from the radio.
    pub receive_us: f64,
}

/// A receiver short of resources: what its ring cannot hold is lost after the air.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Receive {
    pub rate_mbit: f64,
    pub queue_packets: u32,
}

const DEFAULT_PHY_MBIT: u32 = 54;

impl Default for Station {
    fn default() -> Station {
        Station {
            phy_mbit: DEFAULT_PHY_MBIT,
            mcs: None,
            short_gi: None,
            queue_packets: 100,
            frame_errors_up: 0.0,
            frame_errors_down: 0.0,
            fading: None,
            receive: None,
            sending_queue: None,
            processor: None,
        }
    }
}
