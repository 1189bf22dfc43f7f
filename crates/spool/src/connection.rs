//! One row per connection: what it was, what it moved, what the kernel waited for, and why it
//! ended. Counters are those of the whole connection, so the last row of a connection has all.

use crate::column::{Text, Time};
use crate::columns;
use crate::{Cause, named};

named! {
    /// Why a row was written.
    RowKind {
        /// The connection ended.
        End = "end",
        /// It goes on; another row follows.
        Interim = "interim",
        /// It was never established.
        Failed = "failed",
    }
}

named! {
    /// Which side began.
    Direction {
        /// The connection existed before the agent.
        Existing = "existing",
        Connect = "connect",
        Accept = "accept",
    }
}

named! {
    /// How a connection ended.
    Ended {
        /// It has not.
        Open = "open",
        /// This side sent the first FIN.
        ClosedHere = "closed here",
        /// The other side sent the first FIN.
        ClosedThere = "closed by peer",
        /// A segment with RST came.
        ResetByPeer = "reset by peer",
        /// The program here gave it up: SO_LINGER of 0, or unread data at close.
        AbortedHere = "aborted here",
        /// Nothing came back: `error` is ETIMEDOUT.
        TimedOut = "timed out",
        /// A router said so, or the neighbour did not tell its address: `error` has which.
        Unreachable = "unreachable",
        /// Nobody listens there.
        Refused = "refused",
        /// The program closed it before the other side had answered.
        GivenUp = "given up",
        /// Whoever wrote the row could not know: it came from sock_diag.
        Unknown = "unknown",
    }
}

named! {
    /// Why a connection is recorded event by event (level 2).
    Chosen {
        No = "no",
        Sample = "sample",
        Watch = "watch",
        Timeouts = "timeouts",
        Retransmitted = "retransmitted",
        Handshake = "handshake",
        PeerLimited = "peer_limited",
        Device = "device",
        Condition = "condition",
    }
}

named! {
    /// Where a row came from.
    Source {
        /// The probe at the end of each connection, which sees why.
        Probes = "probes",
        /// sock_diag(7), without BPF: counters, but no times and no causes.
        SockDiag = "sock_diag",
    }
}

/// One row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Connection {
    pub time: Time,
    pub kind: RowKind,
    pub duration_us: Option<u64>,
    pub handshake_us: Option<u64>,
    pub cookie: u64,
    pub level: u8,
    pub chosen: Chosen,
    pub level_changed: u8,
    pub source: Source,
    pub program: Option<Text>,
    pub pid: Option<u32>,
    pub unit: Option<Text>,
    pub pod: Option<Text>,
    pub container: Option<Text>,
    pub cgroup: Option<Text>,
    pub netns: u32,
    pub interface: Option<Text>,
    pub direction: Direction,
    pub service: u16,
    pub local_port: u16,
    pub remote_port: u16,
    pub remote_prefix: Option<Text>,
    pub remote_tag: Option<u64>,
    pub local_address: Option<Text>,
    pub remote_address: Option<Text>,
    pub algorithm: Option<Text>,
    pub mptcp: Option<u32>,
    pub bytes_sent: u64,
    pub bytes_acked: u64,
    pub bytes_received: u64,
    pub bytes_retransmitted: u64,
    pub segments_sent: u32,
    pub segments_received: u32,
    pub data_segments_sent: u32,
    pub data_segments_received: u32,
    pub retransmitted: u32,
    pub retransmitted_by_recovery: Option<u32>,
    pub retransmitted_by_timeout: Option<u32>,
    pub retransmitted_by_probe: Option<u32>,
    pub timeouts: Option<u32>,
    pub spurious: u32,
    pub reordered: u32,
    pub out_of_order: u32,
    pub ce_marked: u32,
    pub unsent: u32,
    pub busy_us: u64,
    pub receive_window_limited_us: u64,
    pub send_buffer_limited_us: u64,
    pub min_rtt_us: Option<u32>,
    pub srtt_us: Option<u32>,
    pub mdev_us: Option<u32>,
    pub median_rtt_us: Option<u32>,
    pub p99_rtt_us: Option<u32>,
    pub rtt_samples: u32,
    pub cwnd: u32,
    pub largest_cwnd: u32,
    pub ssthresh: Option<u32>,
    pub largest_peer_window: u32,
    pub mss: u32,
    pub ended: Ended,
    pub error: Option<Text>,
    pub verdict: Cause,
    pub verdict_share: f64,
    pub last_decisions: Option<Text>,
    /// The kernel's boot, by which `cookie` is unique: of the file that it was read from, and no column.
    pub boot: Option<Text>,
}

columns! { Connection, boot in boot {
    time, "µs", "when the row was written: for `end`, when the connection ended", Technical;
    kind, "", "`end`, `interim` or `failed`", Technical;
    duration_us, "µs", "since the first SYN was sent, or the handshake of an accepted connection ended; null: the connection existed before the agent", Technical;
    handshake_us, "µs", "from the first SYN, lost or not, to established, of connections made here; null: of others", Technical;
    cookie, "", "the socket's cookie: the same in all rows of a connection, until the next boot", Technical;
    level, "", "level of detail: 0; 1 with retransmissions by cause; 2 recorded event by event, too", Technical;
    chosen, "", "why it is recorded, `no` if it is not: `sample`, `watch`, `timeouts`, `retransmitted`, `handshake`, `peer_limited`, `device`, `condition`; a row `interim` is written at that moment", Technical;
    level_changed, "", "1: the agent changed its level while the connection lived, so that its details have a gap", Technical;
    source, "", "`probes`, or `sock_diag` where there is no BPF: then `duration_us`, `handshake_us` and `error` are null, `ended` is `unknown`, and `direction` is inferred", Technical;
    program, "", "name of the process that connected or listened (its first thread's comm)", Personal;
    pid, "", "its number", Technical;
    unit, "", "systemd unit, from the cgroup", Technical;
    pod, "", "UID of the Kubernetes pod, from the cgroup", Technical;
    container, "", "identity of the container, from the cgroup, 12 digits", Technical;
    cgroup, "", "path of the cgroup", Technical;
    netns, "", "inode of the network namespace", Technical;
    interface, "", "device of the route; in other namespaces than the agent's its number", Technical;
    direction, "", "`connect`, `accept`, or `existing`: from before the agent", Technical;
    service, "", "the port that does not change: of the listener, or of the peer", Technical;
    local_port, "", "", Technical;
    remote_port, "", "", Technical;
    remote_prefix, "", "/24 or /48 of the peer", Personal;
    remote_tag, "", "keyed hash of the peer's address: equal for equal addresses of this machine", Personal;
    local_address, "", "null unless `addresses = \"full\"`", Address;
    remote_address, "", "null unless `addresses = \"full\"`", Address;
    algorithm, "", "congestion control when the row was written", Technical;
    mptcp, "", "token of the MPTCP connection that this is a subflow of", Technical;
    bytes_sent, "B", "payload, with retransmissions (tcp_sock.bytes_sent)", Technical;
    bytes_acked, "B", "payload acknowledged by the peer, SYN and FIN as a byte each (bytes_acked)", Technical;
    bytes_received, "B", "payload, the FIN as a byte (bytes_received)", Technical;
    bytes_retransmitted, "B", "payload (bytes_retrans)", Technical;
    segments_sent, "", "(segs_out)", Technical;
    segments_received, "", "(segs_in)", Technical;
    data_segments_sent, "", "(data_segs_out)", Technical;
    data_segments_received, "", "(data_segs_in)", Technical;
    retransmitted, "segments", "SYN and attempts that failed among them (total_retrans)", Technical;
    retransmitted_by_recovery, "segments", "after duplicate ACKs or SACK (CA_Recovery); level 1", Technical;
    retransmitted_by_timeout, "segments", "after the timer, SYN among them (CA_Loss); level 1", Technical;
    retransmitted_by_probe, "segments", "tail loss probes and others outside recovery, as after ICMP told of a smaller MTU; level 1", Technical;
    timeouts, "", "of the retransmission timer: level 1, or Linux from 6.7 (total_rto)", Technical;
    spurious, "", "retransmissions that the peer had already: D-SACK (dsack_dups)", Technical;
    reordered, "", "times that reordering was seen by the sender (reord_seen)", Technical;
    out_of_order, "segments", "received out of order (rcv_ooopack)", Technical;
    ce_marked, "segments", "delivered with a mark of congestion (delivered_ce)", Technical;
    unsent, "B", "written but not acknowledged when the row was written", Technical;
    busy_us, "µs", "data was outstanding or waiting (chrono_stat); resolution: a jiffy", Technical;
    receive_window_limited_us, "µs", "part of it: the peer's window was full", Technical;
    send_buffer_limited_us, "µs", "part of it: the send buffer was full", Technical;
    min_rtt_us, "µs", "the least that was seen: at each walk, and when the row was written (rtt_min, which the kernel forgets after 5 minutes)", Technical;
    srtt_us, "µs", "smoothed RTT (srtt_us)", Technical;
    mdev_us, "µs", "its mean deviation (mdev_us)", Technical;
    median_rtt_us, "µs", "of samples of the smoothed RTT, 5 or more; ± 20 %", Technical;
    p99_rtt_us, "µs", "the same", Technical;
    rtt_samples, "", "how many these rest on; older ones count half each time that there are 255 of one size", Technical;
    cwnd, "segments", "congestion window", Technical;
    largest_cwnd, "segments", "the largest that was sampled", Technical;
    ssthresh, "segments", "null: none yet", Technical;
    largest_peer_window, "B", "the largest that the peer offered (max_window)", Technical;
    mss, "B", "(mss_cache)", Technical;
    ended, "", "how", Technical;
    error, "", "name of the socket's error", Technical;
    verdict, "", "what held it back, as `explain --json` names it", Technical;
    verdict_share, "", "what it rests on: share of the time, or of the segments; 0 to 1", Technical;
    last_decisions, "", "up to 16, oldest first, each with its distance from `time` (± 1 ms), as `-1.250 s open>recovery 34; -0.200 s timeout 1`: what `decisions` has of this connection, with `value`; of a state the congestion window before; level 1", Technical;
} }

impl Connection {
    /// Bytes of the larger direction.
    pub fn bytes(&self) -> u64 {
        self.bytes_acked.max(self.bytes_received)
    }

    /// Retransmitted segments ÷ data segments sent.
    pub fn retransmitted_share(&self) -> f64 {
        share(self.retransmitted.into(), self.data_segments_sent.into())
    }
}

/// 0 when there is nothing to be a share of.
pub(crate) fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { (part as f64 / whole as f64).min(1.0) }
}
