//! What is simulated and what came of it: the contract between those who ask (the lab, `whatif`)
//! and the program `transom-simulate`, which runs Linux's own TCP in virtual time.
//!
//! ```text
//! scenario.json ──► transom-simulate ──► outcome.json, emulator.json, trace-HOST.parquet
//! ```
//!
//! Pure: descriptions and their checks, no I/O but that of the two files. What an absent field
//! means is what Linux does without the setting.

#![warn(clippy::print_stdout, clippy::print_stderr)]

mod check;
mod guard;
mod outcome;
mod peer;

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use transom_emulator::plan::Plan;

pub use check::{LEAST_IPV6_MTU, MOST_SECONDS, MTUS};
pub use guard::{GuardAction, GuardLook, GuardOutcome, Guarded};
pub use outcome::{Failure, FlowOutcome, Outcome, Transfer, trace_file};
pub use peer::{Lie, Peer, PeerAction, PeerOutcome};

/// A run in virtual time. The same scenario gives the same outcome, byte for byte, on every machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Scenario {
    /// Of the hosts' kernels and of the links: ports, sequence numbers, losses, backoffs.
    pub seed: u64,
    /// Virtual time at which everything ends at the latest, s; it ends earlier when all flows have.
    pub most_seconds: f64,
    /// `CLOCK_REALTIME` at virtual time 0, ns since 1970: the traces' wall time.
    pub wall_ns: u64,
    /// Write `trace-HOST.parquet` of every host.
    pub record: bool,
    /// What lies between the hosts. Each port's name is that of a host; a cellular one's is
    /// `HOST.INTERFACE`. Its seed is not read: the scenario's is.
    pub links: Plan,
    pub hosts: BTreeMap<String, Host>,
    /// By name; a host meets flows that begin at one moment in the order of their names.
    pub flows: BTreeMap<String, Flow>,
}

/// A machine with one Linux, behind the port of its name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Host {
    /// Series of its Linux, as `transom-simulate kernels` lists them (`6.12`); absent: the newest.
    pub kernel: Option<String>,
    pub interface: String,
    /// IPv4 and IPv6; all hosts are on one link as far as their routes know.
    pub addresses: Vec<IpAddr>,
    /// Bytes of an IP packet.
    pub mtu: u32,
    /// Packets that wait for the device (`txqueuelen`).
    pub queue_packets: u32,
    /// Of the device, bytes from the Ethernet header on; absent: it takes all at once.
    pub device_mbit: Option<f64>,
    /// Bytes that the device passes on at once after a pause: a token bucket of this depth, as
    /// `tbf` has it. Absent: a frame leaves when its last bit does.
    pub device_burst: Option<u32>,
    /// Segments in what the kernel hands to the device at once (`gso_max_segs`).
    pub gso_max_segs: u32,
    /// Receives segments joined, as by GRO.
    pub gro: bool,
    /// Without the leading `net.`, with dots or slashes.
    pub sysctl: BTreeMap<String, String>,
    /// Metrics of its routes.
    pub route: Route,
    pub cellular: Option<Cellular>,
    /// It is a terminal of the group.
    pub peer: Option<Peer>,
    /// Its connections on `steady` are guarded.
    pub guard: Option<Guarded>,
}

/// The second interface, raw IP: what is sent from its addresses leaves by it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cellular {
    pub interface: String,
    pub addresses: Vec<IpAddr>,
}

/// Route metrics, as of `ip route`. Windows in segments.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Route {
    pub initcwnd: Option<u32>,
    pub initrwnd: Option<u32>,
    /// `cwnd N`, locked.
    pub cwnd: Option<u32>,
    /// `rto_min`, locked, ms.
    pub rto_min_ms: Option<u32>,
    /// `congctl`.
    pub congctl: Option<String>,
    pub quickack: bool,
}

/// Data from one host to another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Flow {
    /// The host that sends (of requests: the one that asks).
    pub from: String,
    pub to: String,
    /// TCP or UDP port of the listening side.
    pub port: u16,
    pub protocol: Protocol,
    /// The receiving host opens the connection.
    pub reverse: bool,
    /// IPv6 instead of IPv4.
    pub ipv6: bool,
    /// The opening host's second interface, if `cellular`.
    pub over_cellular: bool,
    /// After the start, s.
    pub start_s: f64,
    /// Connections side by side.
    pub connections: u32,
    pub traffic: Traffic,
    /// Settings of the sender's socket.
    pub sender: Socket,
    /// Settings of the receiver's socket.
    pub receiver: Socket,
    /// Bytes of one `send`; absent: 128 KiB.
    pub write_bytes: Option<u32>,
    /// What is exchanged before the data.
    pub greeting: Option<Greeting>,
    /// A `send` that has begun waits until all its bytes are taken, but for so long at most
    /// (`SO_SNDTIMEO`), s, even when the flow's time is over meanwhile; absent: it takes what there
    /// is room for.
    pub send_timeout_s: Option<f64>,
    /// The receiver reads at this rate at most, Mbit/s.
    pub read_mbit: Option<f64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    #[default]
    Tcp,
    Udp,
    Mptcp,
}

/// What the program does. Times are s, sizes bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Traffic {
    /// Writes as much as the socket takes, for so long from the first write on, or until so many
    /// bytes are sent; then closes, and the kernel still sends what waits.
    Bulk { seconds: Option<f64>, bytes: Option<u64> },
    /// Asks and waits for the whole answer, then thinks.
    Requests { request: u64, response: u64, think_s: f64, count: u64 },
    /// Bulk while on, silent while off; means of exponential times.
    OnOff { on_s: f64, off_s: f64, seconds: f64 },
    /// Each write when its time has come and the one before it is in the socket: time after the
    /// flow's start, and bytes. The connection is closed after the last.
    Writes { writes: Vec<(f64, u64)> },
    /// UDP: datagrams of this size at this rate.
    Constant { mbit: f64, datagram: u32, seconds: f64 },
}

/// Messages at the start of each connection of a stream, as iperf 2 has them. The receiver's makes
/// its end interactive for the kernel, which then delays ACKs from the start; the sender's is a
/// segment of its own, and one of its initial window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Greeting {
    /// Bytes of the sender's first `send`; they are the first of its data.
    pub bytes: u32,
    /// Bytes that the receiver answers when it has read something.
    pub answer: u32,
}

/// Socket options; absent ones are not set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Socket {
    /// `TCP_CONGESTION`.
    pub congestion: Option<String>,
    /// `SO_SNDBUF` and `SO_RCVBUF`, as the program gives them (the kernel doubles them).
    pub send_buffer: Option<u32>,
    pub receive_buffer: Option<u32>,
    /// `SO_MAX_PACING_RATE`, bytes/s.
    pub max_pacing_rate: Option<u64>,
    /// `TCP_WINDOW_CLAMP`, bytes.
    pub window_clamp: Option<u32>,
    /// `TCP_MAXSEG`, bytes.
    pub mss: Option<u32>,
    pub nodelay: bool,
}

impl Default for Host {
    fn default() -> Host {
        Host {
            kernel: None,
            interface: "eth0".to_owned(),
            addresses: Vec::new(),
            mtu: 1500,
            queue_packets: 1000,
            device_mbit: None,
            device_burst: None,
            gso_max_segs: 65_535,
            gro: false,
            sysctl: BTreeMap::new(),
            route: Route::default(),
            cellular: None,
            peer: None,
            guard: None,
        }
    }
}

impl Default for Flow {
    fn default() -> Flow {
        Flow {
            from: String::new(),
            to: String::new(),
            port: 5001,
            protocol: Protocol::Tcp,
            reverse: false,
            ipv6: false,
            over_cellular: false,
            start_s: 0.0,
            connections: 1,
            traffic: Traffic::Bulk { seconds: Some(10.0), bytes: None },
            sender: Socket::default(),
            receiver: Socket::default(),
            write_bytes: None,
            greeting: None,
            send_timeout_s: None,
            read_mbit: None,
        }
    }
}

impl Flow {
    /// The host whose program opens the connection.
    pub fn opens(&self) -> &str {
        if self.reverse { &self.to } else { &self.from }
    }

    /// The host whose program waits for it.
    pub fn listens(&self) -> &str {
        if self.reverse { &self.from } else { &self.to }
    }
}
