//! packaging/prometheus/transom.rules.yml is made from these:
//! `TRANSOM_WRITE_DOCS=1 cargo test -p transom-agent alert`.

use super::generated::assert_is_generated;
use transom_metrics::agent as define;
use transom_metrics::alerts::{Alert, rules};
use transom_metrics::queries::{TEN_MINUTES as TEN, sum};

const BY: &str = "instance, workload";

/// Seconds: a SYN was sent again.
pub const SLOW_HANDSHAKE: f64 = 1.0;

/// Of traffic.
fn of_connections() -> Vec<Alert> {
    let retransmitted = TEN.retransmitted_share(BY);
    let segments = TEN.rate(&define::DATA_SEGMENTS, BY);
    let failed = TEN.rate(&define::FAILED, BY);
    let ended = TEN.rate(&define::CONNECTIONS, BY);
    let resets =
        sum("instance", &TEN.rate_of(&define::ENDS, "ended=~\"reset_by_peer|aborted_here\""));
    let ends = TEN.rate(&define::ENDS, "instance");
    let handshake = TEN.quantile("0.99", &define::HANDSHAKE, "instance");
    vec![
        Alert {
            name: "TransomRetransmissions",
            expr: format!("{retransmitted} > 0.03 and {segments} > 10"),
            lasting: "10m",
            severity: "warning",
            summary: "{{ $labels.workload }} retransmits {{ $value | humanizePercentage }} of its segments",
            description: "More than 3 % for ten minutes. `transom ask last 20m` shows the connections and their paths.",
        },
        Alert {
            name: "TransomTimeouts",
            expr: format!("{} > 1", TEN.rate(&define::TIMEOUTS, BY)),
            lasting: "10m",
            severity: "warning",
            summary: "{{ $labels.workload }}: {{ $value | humanize }} retransmission timeouts per second",
            description: "Each timeout stops a connection for 200 ms or longer. Look for a path that drops whole windows, or a peer that is gone.",
        },
        Alert {
            name: "TransomConnectsFail",
            expr: format!("{failed} / ({failed} + {ended}) > 0.1 and {failed} > 0.1"),
            lasting: "10m",
            severity: "warning",
            summary: "{{ $value | humanizePercentage }} of the connections of {{ $labels.workload }} are never established",
            description: "Refused, unreachable or unanswered: `transom ask last 20m failed` shows which peers.",
        },
        Alert {
            name: "TransomResets",
            expr: format!("{resets} / {ends} > 0.2 and {resets} > 0.5"),
            lasting: "10m",
            severity: "warning",
            summary: "{{ $value | humanizePercentage }} of the connections end with a reset",
            description: "A program that closes with unread data, a proxy whose idle time is shorter than that of its clients, or a peer that restarts.",
        },
        Alert {
            name: "TransomSlowHandshakes",
            expr: format!("({handshake}) > {SLOW_HANDSHAKE}"),
            lasting: "10m",
            severity: "warning",
            summary: "One in a hundred handshakes takes longer than {{ $value | humanizeDuration }}",
            description: "One second is the time after which an unanswered SYN is retransmitted: SYNs are lost, or a listener's queue is full.",
        },
    ]
}

/// Of what the sender waits for.
fn of_limits() -> Vec<Alert> {
    let busy = TEN.rate(&define::BUSY, "instance");
    let limit = |limit: &str| {
        let limited = sum("instance", &TEN.rate_of(&define::BUSY, &format!("limit=\"{limit}\"")));
        format!("{limited} / {busy} > 0.5 and {busy} > 0.1")
    };
    let local = sum("instance", &TEN.rate_of(&define::DECISIONS, "decision=\"local_congestion\""));
    vec![
        Alert {
            name: "TransomLocalCongestion",
            expr: format!("{local} > 1"),
            lasting: "10m",
            severity: "warning",
            summary: "This machine's own queue or device refuses {{ $value | humanize }} segments per second",
            description: "The window is reduced each time, without a loss on the path: look at the drops of `tc -s qdisc` and at `txqueuelen`.",
        },
        Alert {
            name: "TransomReceiversLimit",
            expr: limit("receive_window"),
            lasting: "15m",
            severity: "info",
            summary: "Receivers limit the senders of this machine {{ $value | humanizePercentage }} of the time",
            description: "The peers read slowly, or their receive buffers are small for the path. Nothing here will speed it up.",
        },
        Alert {
            name: "TransomSendBuffersLimit",
            expr: limit("send_buffer"),
            lasting: "15m",
            severity: "info",
            summary: "Send buffers limit the senders of this machine {{ $value | humanizePercentage }} of the time",
            description: "A program sets SO_SNDBUF, or net.ipv4.tcp_wmem is small for the path.",
        },
    ]
}

/// Of the agent itself.
fn of_agent() -> Vec<Alert> {
    let (level, configured) = (TEN.now(&define::LEVEL), TEN.now(&define::CONFIGURED_LEVEL));
    let rows = TEN.increase(&define::LOST_ROWS, "instance");
    let decisions = TEN.increase(&define::LOST_DECISIONS, "instance");
    let untracked = TEN.increase(&define::UNTRACKED, "instance");
    vec![
        Alert {
            name: "TransomAgentDown",
            expr: "up{job=\"transom\"} == 0".into(),
            lasting: "5m",
            severity: "warning",
            summary: "{{ $labels.instance }} does not answer",
            description: "The agent does not run, or the address given with --metrics cannot be reached.",
        },
        Alert {
            name: "TransomBudget",
            expr: format!("{level} < {configured}"),
            lasting: "15m",
            severity: "info",
            summary: "The agent gives up detail to keep to its budget: level {{ $value }}",
            description: "At -1 new connections have no rows. A larger `cpu` in the configuration keeps the detail.",
        },
        Alert {
            name: "TransomLosesRows",
            expr: format!("{rows} + {decisions} > 0"),
            lasting: "0m",
            severity: "warning",
            summary: "The agent lost {{ $value | humanize }} rows in ten minutes",
            description: "The ring was full, or the spool could not be written.",
        },
        Alert {
            name: "TransomUntracked",
            expr: format!("{untracked} > 0"),
            lasting: "0m",
            severity: "info",
            summary: "{{ $value | humanize }} connections of ten minutes have no row",
            description: "More connections than `connections` in the configuration, or beyond the budget.",
        },
        Alert {
            name: "TransomSpoolUnwritable",
            expr: format!("{} == 1", TEN.now(&define::UNWRITABLE)),
            lasting: "1m",
            severity: "critical",
            summary: "The spool of {{ $labels.instance }} cannot be written",
            description: "Full, read-only or removed: rows are lost until it can be written again.",
        },
    ]
}

const HEAD: &str = "\
# Made from the definitions of the metrics (crates/metrics). The job of the scrape configuration is
# called transom.
";

#[test]
fn the_alert_rules_are_made_from_the_definitions() {
    let groups =
        vec![("connections", of_connections()), ("limits", of_limits()), ("agent", of_agent())];
    assert_is_generated("packaging/prometheus/transom.rules.yml", &rules(HEAD, groups));
}
