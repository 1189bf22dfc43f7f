//! Every metric of the agent: its name, unit and labels, what the kernel counts it by, and what
//! OpenTelemetry proposes to call it. Registry and docs/metrics.md are made from these.

use crate::definition::{Base, COUNTED, Definition, Kind, PLAIN};

const BY_WORKLOAD: Definition = Definition { kind: Kind::Counter, labels: &["workload"], ..PLAIN };

/// What connections moved since their last row.
const MOVED: Definition = Definition { by_interim_rows: true, ..COUNTED };

const MOVED_BY_WORKLOAD: Definition = Definition { by_interim_rows: true, ..BY_WORKLOAD };

/// The `type` of what connections retransmitted that were never established.
pub const SYN: &str = "syn";

const OF_CONNECTIONS: Definition = Definition { kind: Kind::Histogram, ..PLAIN };

pub const CONNECTIONS: Definition = Definition {
    name: "transom_tcp_connections",
    help: "Established connections that ended",
    source: "`inet_sock_set_state`",
    otel: "`system.network.tcp.connection.successes`, counted when they begin",
    ..BY_WORKLOAD
};

pub const FAILED: Definition = Definition {
    name: "transom_tcp_connections_failed",
    help: "Connections made here that were never established",
    source: "`inet_sock_set_state`, from SYN_SENT to CLOSE",
    otel: "`system.network.tcp.connection.failures`",
    ..BY_WORKLOAD
};

pub const ACKNOWLEDGED: Definition = Definition {
    name: "transom_tcp_acknowledged",
    base: Base::Bytes,
    help: "Payload that peers acknowledged",
    source: "`bytes_acked`",
    otel: "`system.network.io`, `network.io.direction=transmit`; there with headers",
    ..MOVED_BY_WORKLOAD
};

pub const RECEIVED: Definition = Definition {
    name: "transom_tcp_received",
    base: Base::Bytes,
    help: "Payload received",
    source: "`bytes_received`",
    otel: "`system.network.io`, `network.io.direction=receive`; there with headers",
    ..MOVED_BY_WORKLOAD
};

pub const DATA_SEGMENTS: Definition = Definition {
    name: "transom_tcp_data_segments",
    help: "Data segments sent, retransmissions among them",
    source: "`data_segs_out`",
    ..MOVED_BY_WORKLOAD
};

pub const RETRANSMITTED: Definition = Definition {
    name: "transom_tcp_retransmitted_segments",
    labels: &["workload", "type"],
    help: "Segments retransmitted, SYN among them, by what made the kernel do so; syn: of connections that were never established",
    source: "`total_retrans`; `type` from `tcp_retransmit_skb` and `icsk_ca_state`, at level 1, and from SYN_SENT to CLOSE",
    otel: "`system.network.tcp.retransmits`, `network.tcp.retransmit.type`",
    ..MOVED_BY_WORKLOAD
};

pub const TIMEOUTS: Definition = Definition {
    name: "transom_tcp_timeouts",
    help: "Expiries of the retransmission timer",
    source: "`tcp_cong_state_set` at level 1; `total_rto` from Linux 6.7",
    ..MOVED_BY_WORKLOAD
};

pub const SPURIOUS: Definition = Definition {
    name: "transom_tcp_spurious_retransmissions",
    help: "Segments retransmitted that the peer already had (D-SACK)",
    source: "`dsack_dups`",
    otel: "`system.network.tcp.retransmits`, `network.tcp.retransmit.type=spurious`",
    ..MOVED
};

pub const DECISIONS: Definition = Definition {
    name: "transom_tcp_decisions",
    labels: &["decision"],
    help: "Rare decisions of the kernel, by kind; local_congestion: this machine's own queue or device refused a segment",
    source: "the probes of level 1",
    ..COUNTED
};

pub const BUSY: Definition = Definition {
    name: "transom_tcp_busy",
    base: Base::Seconds,
    labels: &["limit"],
    help: "Time in which data was outstanding or waiting, by what limited the sender",
    source: "`chrono_stat`",
    ..MOVED
};

pub const VERDICTS: Definition = Definition {
    name: "transom_tcp_verdicts",
    labels: &["verdict"],
    help: "Connections that ended or failed, by what held them back",
    source: "[verdict of a row](agent-levels.md#the-verdict-of-a-row)",
    ..COUNTED
};

pub const ENDS: Definition = Definition {
    name: "transom_tcp_ends",
    labels: &["ended"],
    help: "Connections that ended or failed, by how",
    source: "`inet_sock_set_state`, `sk_err`, `tcp_receive_reset`",
    otel: "`error.type` of `system.network.tcp.connection.failures`; `reset_by_peer`: \
           `system.network.tcp.resets`, `network.io.direction=receive`",
    ..COUNTED
};

pub const RTT: Definition = Definition {
    name: "transom_tcp_rtt",
    base: Base::Seconds,
    help: "Smoothed round-trip time of connections when they ended",
    source: "`srtt_us`",
    otel: "`system.network.tcp.rtt.duration`",
    ..OF_CONNECTIONS
};

pub const HANDSHAKE: Definition = Definition {
    name: "transom_tcp_handshake_duration",
    base: Base::Seconds,
    help: "From SYN to established, of connections made here",
    source: "`inet_sock_set_state`",
    otel: "`system.network.tcp.handshake.duration`, `network.tcp.handshake.role=client`",
    ..OF_CONNECTIONS
};

pub const DURATION: Definition = Definition {
    name: "transom_tcp_connection_duration",
    base: Base::Seconds,
    help: "From SYN to the end of connections that began while the agent ran",
    source: "`inet_sock_set_state`",
    otel: "`system.network.tcp.connection.duration`; there without the handshake",
    ..OF_CONNECTIONS
};

pub const CONNECTION_ACKNOWLEDGED: Definition = Definition {
    name: "transom_tcp_connection_acknowledged",
    base: Base::Bytes,
    help: "Payload per connection that the peer acknowledged",
    source: "`bytes_acked`",
    ..OF_CONNECTIONS
};

pub const CONNECTION_RECEIVED: Definition = Definition {
    name: "transom_tcp_connection_received",
    base: Base::Bytes,
    help: "Payload received per connection",
    source: "`bytes_received`",
    ..OF_CONNECTIONS
};

pub const LEVEL: Definition = Definition {
    name: "transom_agent_level",
    help: "Level of detail now; -1: new connections are counted, not recorded",
    source: "[levels](agent.md#levels)",
    ..PLAIN
};

pub const CONFIGURED_LEVEL: Definition = Definition {
    name: "transom_agent_configured_level",
    help: "Level of detail without the limit of the budget",
    source: "configuration, and what the kernel has",
    ..PLAIN
};

pub const TRACKED: Definition = Definition {
    name: "transom_agent_tracked_connections",
    help: "Open connections that the agent remembers",
    source: "sockets with storage",
    otel: "`system.network.connection.count`",
    ..PLAIN
};

pub const UNTRACKED: Definition = Definition {
    name: "transom_agent_untracked_connections",
    help: "Connections without a row: more than the limit, or beyond the budget",
    source: "the agent's programs",
    ..COUNTED
};

pub const LOST_ROWS: Definition = Definition {
    name: "transom_agent_lost_rows",
    help: "Rows of connections lost: the ring was full, or the spool could not be written",
    source: "the agent",
    ..COUNTED
};

pub const LOST_DECISIONS: Definition = Definition {
    name: "transom_agent_lost_decisions",
    help: "Rows of decisions lost, for the same reasons",
    source: "the agent",
    ..COUNTED
};

pub const RECORDED: Definition = Definition {
    name: "transom_agent_recorded_connections",
    help: "Open connections that are recorded event by event (level 2)",
    source: "the agent's probes",
    ..PLAIN
};

pub const CHOSEN: Definition = Definition {
    name: "transom_agent_chosen_connections",
    help: "Connections chosen for level 2",
    source: "the agent's probes",
    ..COUNTED
};

pub const NOT_CHOSEN: Definition = Definition {
    name: "transom_agent_not_chosen_connections",
    help: "Connections that would have been, had there been room",
    source: "the agent's probes",
    ..COUNTED
};

pub const EVENTS: Definition = Definition {
    name: "transom_agent_trace_events",
    help: "Events written to traces",
    source: "the agent",
    ..COUNTED
};

pub const LOST_EVENTS: Definition = Definition {
    name: "transom_agent_lost_trace_events",
    help: "Events lost on the way there: ring full, or traces that could not be written",
    source: "the agent and its probes",
    ..COUNTED
};

pub const LEVEL_CHANGES: Definition = Definition {
    name: "transom_agent_level_changes",
    help: "Steps of the level, down or up, by the budget",
    source: "the budget",
    ..COUNTED
};

pub const CPU: Definition = Definition {
    name: "transom_agent_cpu",
    base: Base::Seconds,
    help: "CPU time of the agent and its probes",
    source: "`getrusage`, samples of `run_time_ns` of the programs",
    otel: "`process.cpu.time`, with that of the probes",
    ..COUNTED
};

pub const CPU_RATIO: Definition = Definition {
    name: "transom_agent_cpu_ratio",
    help: "The same in the last minute, as a share of one CPU",
    source: "the same",
    otel: "`process.cpu.utilization`, with that of the probes; there as a share of all CPUs",
    ..PLAIN
};

pub const RESIDENT: Definition = Definition {
    name: "transom_agent_resident",
    base: Base::Bytes,
    help: "Resident memory",
    source: "`/proc/self/statm`",
    otel: "`process.memory.usage`",
    ..PLAIN
};

pub const SPOOL: Definition = Definition {
    name: "transom_agent_spool",
    base: Base::Bytes,
    help: "Files in the spool",
    source: "the spool",
    ..PLAIN
};

pub const UNWRITABLE: Definition = Definition {
    name: "transom_agent_unwritable",
    help: "1: the spool cannot be written",
    source: "the spool",
    ..PLAIN
};

pub const GAP: Definition = Definition {
    name: "transom_agent_gap",
    base: Base::Seconds,
    help: "Time without an agent before this one began; 0: it is the first",
    source: "the spool",
    ..PLAIN
};

pub const GAP_CONNECTIONS: Definition = Definition {
    name: "transom_agent_gap_connections",
    help: "Connections of the agent's network namespace that ended in that time, about: they have no row",
    source: "`/proc/net/snmp`",
    ..PLAIN
};

/// In the order of the page.
pub const ALL: &[Definition] = &[
    CONNECTIONS,
    FAILED,
    ACKNOWLEDGED,
    RECEIVED,
    DATA_SEGMENTS,
    RETRANSMITTED,
    TIMEOUTS,
    SPURIOUS,
    DECISIONS,
    BUSY,
    VERDICTS,
    ENDS,
    RTT,
    HANDSHAKE,
    DURATION,
    CONNECTION_ACKNOWLEDGED,
    CONNECTION_RECEIVED,
    LEVEL,
    CONFIGURED_LEVEL,
    TRACKED,
    UNTRACKED,
    LOST_ROWS,
    LOST_DECISIONS,
    RECORDED,
    CHOSEN,
    NOT_CHOSEN,
    EVENTS,
    LOST_EVENTS,
    LEVEL_CHANGES,
    CPU,
    CPU_RATIO,
    RESIDENT,
    SPOOL,
    UNWRITABLE,
    GAP,
    GAP_CONNECTIONS,
];
