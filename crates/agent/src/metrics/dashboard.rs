//! packaging/grafana/transom.json is made from these:
//! `TRANSOM_WRITE_DOCS=1 cargo test -p transom-agent dashboard`.

use serde_json::Value;
use transom_metrics::Definition;
use transom_metrics::agent::{self as define, ALL};
use transom_metrics::dashboard::{Dashboard, Look, Panel, Section, Variable, lines, number};
use transom_metrics::queries::{CHOSEN, SHOWN, sum};

use super::generated::assert_is_generated;

const WORKLOAD: &str = "{{workload}}";

fn of_attempts(by: &str) -> String {
    let [failed, ended] = [&define::FAILED, &define::CONNECTIONS].map(|of| CHOSEN.rate(of, by));
    format!("{failed} / ({failed} + {ended})")
}

fn quantiles(of: &Definition) -> Vec<(String, &'static str)> {
    [("0.5", "median"), ("0.9", "p90"), ("0.99", "p99")]
        .map(|(quantile, legend)| (CHOSEN.quantile(quantile, of, ""), legend))
        .into()
}

fn at_a_glance() -> Section {
    let lost = format!(
        "{} + {}",
        SHOWN.increase(&define::LOST_ROWS, ""),
        SHOWN.increase(&define::LOST_DECISIONS, "")
    );
    let level = format!("min({})", CHOSEN.now(&define::LEVEL));
    let panels = vec![
        number(
            "Connections",
            "cps",
            None,
            CHOSEN.rate(&define::CONNECTIONS, ""),
            "Established connections that ended, per second",
        ),
        number(
            "Retransmitted",
            "percentunit",
            Some([0.01, 0.03]),
            CHOSEN.retransmitted_share(""),
            "Share of the data segments",
        ),
        number(
            "RTT, p99",
            "s",
            None,
            CHOSEN.quantile("0.99", &define::RTT, ""),
            "Smoothed round-trip time of connections when they ended",
        ),
        number(
            "Never established",
            "percentunit",
            Some([0.02, 0.1]),
            of_attempts(""),
            "Share of all connections, accepted ones among them",
        ),
        number(
            "Lost rows",
            "short",
            Some([1.0, 1000.0]),
            lost,
            "In the time shown, rows of connections and of decisions",
        ),
        number(
            "Level of detail",
            "short",
            None,
            level,
            "The least of the chosen machines; -1: new connections are counted, not recorded",
        ),
    ];
    Section { title: "At a glance", panels }
}

fn throughput() -> Section {
    let by = |of| vec![(CHOSEN.rate(of, "workload"), WORKLOAD)];
    let sizes = |of| quantiles(of);
    let panels = vec![
        lines(
            "Sent",
            "Bps",
            "Payload that peers acknowledged. Long connections count every five minutes.",
            by(&define::ACKNOWLEDGED),
        ),
        lines("Received", "Bps", "Payload received", by(&define::RECEIVED)),
        lines(
            "Connections ended",
            "cps",
            "Established connections that ended, per second",
            by(&define::CONNECTIONS),
        ),
        lines(
            "Sent per connection",
            "bytes",
            "Payload per connection that the peer acknowledged",
            sizes(&define::CONNECTION_ACKNOWLEDGED),
        ),
        lines(
            "Received per connection",
            "bytes",
            "Payload received per connection",
            sizes(&define::CONNECTION_RECEIVED),
        ),
        lines(
            "Duration",
            "s",
            "From SYN to the end of connections that began while the agent ran",
            quantiles(&define::DURATION),
        ),
    ];
    Section { title: "Throughput and connections", panels }
}

fn losses() -> Section {
    let spurious = format!("{} / {}", CHOSEN.rate(&define::SPURIOUS, ""), CHOSEN.retransmitted(""));
    let panels = vec![
        Panel {
            title: "Retransmissions by cause",
            description: "fast: in recovery; timeout: after the retransmission timer; \
                          tail_loss_probe: probes; syn: of connections that were never \
                          established; unknown: at level 0",
            unit: "pps",
            look: Look::Stacked,
            queries: vec![(CHOSEN.rate(&define::RETRANSMITTED, "type"), "{{type}}")],
        },
        lines(
            "Retransmitted share",
            "percentunit",
            "Of the data segments of each workload",
            vec![(CHOSEN.retransmitted_share("workload"), WORKLOAD)],
        ),
        lines(
            "Timeouts",
            "cps",
            "Expiries of the retransmission timer, per second; each stops a connection for \
             200 ms or longer",
            vec![(CHOSEN.rate(&define::TIMEOUTS, "workload"), WORKLOAD)],
        ),
        lines(
            "Spurious retransmissions",
            "percentunit",
            "Share of the retransmitted segments that the peer already had (D-SACK): reordering, \
             or a delay that grows suddenly",
            vec![(spurious, "spurious")],
        ),
        Panel {
            title: "Decisions of the kernel",
            description: "At level 1, per second. local_congestion: this machine's own queue or \
                          device refused a segment; state: the congestion state changed",
            unit: "cps",
            look: Look::Stacked,
            queries: vec![(CHOSEN.rate(&define::DECISIONS, "decision"), "{{decision}}")],
        },
    ];
    Section { title: "Losses", panels }
}

fn delay_and_limits() -> Section {
    let busy = CHOSEN.rate(&define::BUSY, "");
    let panels = vec![
        lines(
            "Round-trip time",
            "s",
            "Smoothed RTT of connections when they ended",
            quantiles(&define::RTT),
        ),
        lines(
            "Handshakes",
            "s",
            "From SYN to established, of connections made here; one second more for each SYN lost",
            quantiles(&define::HANDSHAKE),
        ),
        Panel {
            title: "What limited the senders",
            description: "Shares of the time in which data was outstanding or waiting. none: the \
                          congestion window, or nothing",
            unit: "percentunit",
            look: Look::Stacked,
            queries: vec![(
                format!(
                    "{} / ignoring(limit) group_left {busy}",
                    CHOSEN.rate(&define::BUSY, "limit")
                ),
                "{{limit}}",
            )],
        },
        Panel {
            title: "Verdicts",
            description: "What held connections back that ended or failed, per second",
            unit: "cps",
            look: Look::Stacked,
            queries: vec![(CHOSEN.rate(&define::VERDICTS, "verdict"), "{{verdict}}")],
        },
    ];
    Section { title: "Delay, and what limited connections", panels }
}

fn failures() -> Section {
    let by_end =
        |ends: &str| sum("ended", &CHOSEN.rate_of(&define::ENDS, &format!("ended=~\"{ends}\"")));
    let panels = vec![
        lines(
            "Connects that failed",
            "cps",
            "Connections made here that were never established, per second",
            vec![(CHOSEN.rate(&define::FAILED, "workload"), WORKLOAD)],
        ),
        lines(
            "Share that failed",
            "percentunit",
            "Of all connections of each workload",
            vec![(of_attempts("workload"), WORKLOAD)],
        ),
        lines(
            "Resets",
            "cps",
            "reset_by_peer: a segment with RST came; aborted_here: the program closed with unread \
             data, or with SO_LINGER of 0",
            vec![(by_end("reset_by_peer|aborted_here"), "{{ended}}")],
        ),
        lines(
            "Why connections failed",
            "cps",
            "timed_out: nothing came back; refused: nobody listens; unreachable: ICMP says so; \
             given_up: the program closed it before an answer",
            vec![(by_end("timed_out|refused|unreachable|given_up"), "{{ended}}")],
        ),
    ];
    Section { title: "Failures", panels }
}

fn the_agent() -> Section {
    let now = |of| CHOSEN.now(of);
    let instance = "{{instance}}";
    let rate = |of| CHOSEN.rate(of, "instance");
    let panels = vec![
        lines(
            "CPU",
            "percentunit",
            "Agent and probes together, as a share of one CPU: in the last minute, and by the \
             counter of seconds",
            vec![
                (now(&define::CPU_RATIO), "{{instance}}, last minute"),
                (rate(&define::CPU), "{{instance}}, counter"),
            ],
        ),
        Panel {
            title: "Budget steps",
            description: "A level below the configured one: the agent gave up detail to keep to \
                          its budget. -1: new connections are counted, not recorded",
            unit: "short",
            look: Look::Steps,
            queries: vec![
                (now(&define::LEVEL), instance),
                (now(&define::CONFIGURED_LEVEL), "{{instance}}, configured"),
                (rate(&define::LEVEL_CHANGES), "{{instance}}, steps per second"),
            ],
        },
        lines(
            "Recorded connections",
            "short",
            "Level 2: connections recorded event by event now, and chosen per second; those \
             without room were not",
            vec![
                (now(&define::RECORDED), "{{instance}}, now"),
                (rate(&define::CHOSEN), "{{instance}}, chosen"),
                (rate(&define::NOT_CHOSEN), "{{instance}}, without room"),
            ],
        ),
        lines(
            "Events in traces",
            "cps",
            "Level 2: events written, and lost: a ring was full, or the spool could not be \
             written",
            vec![
                (rate(&define::EVENTS), "{{instance}}, written"),
                (rate(&define::LOST_EVENTS), "{{instance}}, lost"),
            ],
        ),
        lines(
            "Lost and missing",
            "cps",
            "Rows lost: the ring was full, or the spool could not be written. Untracked: \
             connections without a row",
            vec![
                (rate(&define::LOST_ROWS), "{{instance}}, rows"),
                (rate(&define::LOST_DECISIONS), "{{instance}}, decisions"),
                (rate(&define::UNTRACKED), "{{instance}}, untracked"),
            ],
        ),
        lines(
            "Open connections",
            "short",
            "Connections that the agent remembers",
            vec![(now(&define::TRACKED), instance)],
        ),
        lines(
            "Memory and spool",
            "bytes",
            "Resident memory, and the files in the spool",
            vec![
                (now(&define::RESIDENT), "{{instance}}, memory"),
                (now(&define::SPOOL), "{{instance}}, spool"),
            ],
        ),
        Panel {
            title: "Spool cannot be written",
            description: "1: rows are lost until it can",
            unit: "short",
            look: Look::Steps,
            queries: vec![(now(&define::UNWRITABLE), instance)],
        },
        lines(
            "Time without an agent",
            "s",
            "Before the agent that runs now: after a stop, an upgrade, a kill",
            vec![(now(&define::GAP), instance)],
        ),
        lines(
            "Connections without an agent",
            "short",
            "Connections that ended in that time, about: they have no row",
            vec![(now(&define::GAP_CONNECTIONS), instance)],
        ),
    ];
    Section { title: "The agent", panels }
}

fn dashboard() -> Value {
    let dashboard = Dashboard {
        uid: "transom-tcp",
        title: "Transom: TCP",
        description: "What transom-agent counts of the connections of each machine",
        variable: Variable {
            name: "instance",
            label: "Machine",
            of: define::LEVEL.series(),
            regex: "",
        },
        sections: vec![
            at_a_glance(),
            throughput(),
            losses(),
            delay_and_limits(),
            failures(),
            the_agent(),
        ],
    };
    dashboard.json()
}

#[test]
fn the_dashboard_is_made_from_the_definitions() {
    let text = serde_json::to_string_pretty(&dashboard()).unwrap() + "\n";
    assert_is_generated("packaging/grafana/transom.json", &text);
}

#[test]
fn the_dashboard_shows_every_metric() {
    let text = dashboard().to_string();
    for definition in ALL {
        assert!(text.contains(&definition.series()), "no panel has {}", definition.series());
    }
}
