//! What the dashboard shows. Of many hosts the worst are shown, not all.

use transom_metrics::dashboard::{Dashboard, Look, Panel, Section, Variable, lines, number};
use transom_metrics::queries::{ANY, HOSTS, HOSTS_SHOWN, sum};
use transom_metrics::{agent, rollout, ship};

const HOST: &str = "{{instance}}";

pub fn dashboard() -> Dashboard {
    Dashboard {
        uid: "transom-fleet",
        title: "Transom: a fleet",
        description: "What shippers and agents of many machines tell Prometheus",
        variable: Variable {
            name: "host",
            label: "Machine",
            of: agent::LEVEL.series(),
            // The agent and the node exporter of one machine have other ports.
            regex: "/^(.*?)(?::[0-9]+)?$/",
        },
        sections: vec![at_a_glance(), shipping(), worst(), connections(), agents(), policies()],
    }
}

/// The ten hosts that have most of it.
fn most(of: &str) -> String {
    format!("topk(10, {of})")
}

/// How many, where none is no answer.
fn how_many(of: &str) -> String {
    format!("count({of}) or vector(0)")
}

fn below_configured() -> String {
    format!("{} < {}", HOSTS.now(&agent::LEVEL), HOSTS.now(&agent::CONFIGURED_LEVEL))
}

fn at_a_glance() -> Section {
    let behind = format!("{} > 3600", HOSTS.now(&ship::OLDEST));
    let panels = vec![
        number("Agents", "short", None, how_many(&HOSTS.now(&agent::LEVEL)), "That answer"),
        number(
            "Connections",
            "cps",
            None,
            HOSTS.rate(&agent::CONNECTIONS, ""),
            "Established connections that ended, per second",
        ),
        number(
            "Retransmitted",
            "percentunit",
            Some([0.01, 0.03]),
            HOSTS.retransmitted_share(""),
            "Share of the data segments",
        ),
        number(
            "Shippers an hour behind",
            "short",
            Some([1.0, 10.0]),
            how_many(&behind),
            "Machines with a finished file that has waited for an hour",
        ),
        number(
            "Refused files",
            "short",
            Some([1.0, 100.0]),
            format!("sum({})", HOSTS.now(&ship::REFUSED)),
            "Damaged, of a newer format, or of a name that is taken",
        ),
        number(
            "Agents over their budget",
            "short",
            Some([1.0, 10.0]),
            how_many(&below_configured()),
            "Machines whose agent keeps less detail than its configuration says",
        ),
    ];
    Section { title: "At a glance", panels }
}

fn shipping() -> Section {
    let by_table = |of| vec![(HOSTS.rate(of, "table"), "{{table}}")];
    let age = format!("time() - {}", HOSTS.now(&ship::LAST_LOOK));
    let panels = vec![
        lines("Rows landed", "short", "Per second", by_table(&ship::ROWS)),
        lines("Objects landed", "short", "Per second", by_table(&ship::FILES)),
        lines("Landed", "Bps", "Bytes per second", vec![(HOSTS.rate(&ship::BYTES, ""), "bytes")]),
        lines(
            "Rows given up",
            "short",
            "Per second: the spool was full before they could go, or events were above their bound",
            by_table(&ship::GIVEN_UP),
        ),
        lines(
            "Files that wait",
            "short",
            "The ten machines with most of them",
            vec![(most(&HOSTS.now(&ship::WAITING)), HOST)],
        ),
        lines(
            "Age of the oldest file that waits",
            "s",
            "The ten machines with the oldest",
            vec![(most(&HOSTS.now(&ship::OLDEST)), HOST)],
        ),
        lines(
            "Time since nothing waited",
            "s",
            "The ten machines with the longest: a shipper that does not run has it, too",
            vec![(most(&age), HOST)],
        ),
        Panel {
            title: "Attempts that failed",
            description: "Per second, by what was refused. slower and unreachable pass; the others \
                          end the shipper, and somebody has to change something",
            unit: "cps",
            look: Look::Stacked,
            queries: vec![(HOSTS.rate(&ship::TROUBLES, "refusal"), "{{refusal}}")],
        },
        lines(
            "Machines with refused files",
            "short",
            "The ten machines with most of them",
            vec![(most(&HOSTS.now(&ship::REFUSED)), HOST)],
        ),
    ];
    Section { title: "Shipping", panels }
}

/// Of the machines that have it worst.
fn worst() -> Section {
    let of = |query: String| vec![(most(&query), HOST)];
    let ended = [&agent::FAILED, &agent::CONNECTIONS].map(|of| HOSTS.rate(of, "instance"));
    let failed = format!("{} / ({} + {})", ended[0], ended[0], ended[1]);
    let quantile = |of| HOSTS.quantile("0.99", of, "instance");
    let panels = vec![
        lines(
            "Retransmitted share",
            "percentunit",
            "Of the data segments, the ten machines with most",
            of(HOSTS.retransmitted_share("instance")),
        ),
        lines(
            "Timeouts",
            "cps",
            "Of the retransmission timer per second, the ten machines with most",
            of(HOSTS.rate(&agent::TIMEOUTS, "instance")),
        ),
        lines(
            "Never established",
            "percentunit",
            "Share of all connections, the ten machines with most",
            of(failed),
        ),
        lines(
            "Round-trip time, p99",
            "s",
            "The ten machines with the longest",
            of(quantile(&agent::RTT)),
        ),
        lines(
            "Handshakes, p99",
            "s",
            "The ten machines with the longest; one second more for each SYN lost",
            of(quantile(&agent::HANDSHAKE)),
        ),
        lines(
            "Sent",
            "Bps",
            "Payload that peers acknowledged, the ten machines with most",
            of(HOSTS.rate(&agent::ACKNOWLEDGED, "instance")),
        ),
    ];
    Section { title: "The worst machines", panels }
}

fn connections() -> Section {
    let busy = HOSTS.rate(&agent::BUSY, "");
    let limits =
        format!("{} / ignoring(limit) group_left {busy}", HOSTS.rate(&agent::BUSY, "limit"));
    let stacked = |title, unit, description, query, legend| Panel {
        title,
        description,
        unit,
        look: Look::Stacked,
        queries: vec![(query, legend)],
    };
    let panels = vec![
        stacked(
            "Verdicts",
            "cps",
            "What held connections of all chosen machines back, per second",
            HOSTS.rate(&agent::VERDICTS, "verdict"),
            "{{verdict}}",
        ),
        stacked(
            "What limited the senders",
            "percentunit",
            "Shares of the time in which data was outstanding or waiting",
            limits,
            "{{limit}}",
        ),
        stacked(
            "Retransmissions by cause",
            "pps",
            "Of all chosen machines",
            HOSTS.rate(&agent::RETRANSMITTED, "type"),
            "{{type}}",
        ),
    ];
    Section { title: "All connections", panels }
}

fn agents() -> Section {
    let lost = format!(
        "{} + {}",
        HOSTS_SHOWN.increase(&agent::LOST_ROWS, "instance"),
        HOSTS_SHOWN.increase(&agent::LOST_DECISIONS, "instance")
    );
    let panels = vec![
        lines(
            "CPU",
            "percentunit",
            "Agent and probes together as a share of one CPU, the ten machines with most",
            vec![(most(&HOSTS.now(&agent::CPU_RATIO)), HOST)],
        ),
        Panel {
            title: "Agents by level of detail",
            description: "-1: new connections are counted, not recorded",
            unit: "short",
            look: Look::Stacked,
            queries: vec![(
                format!("count_values(\"level\", {})", HOSTS.now(&agent::LEVEL)),
                "level {{level}}",
            )],
        },
        lines(
            "Lost rows",
            "short",
            "In the time shown, the ten machines with most",
            vec![(most(&lost), HOST)],
        ),
        lines(
            "Connections without a row",
            "cps",
            "Per second, the ten machines with most",
            vec![(most(&HOSTS.rate(&agent::UNTRACKED, "instance")), HOST)],
        ),
        lines(
            "Spool",
            "bytes",
            "The ten machines with most in it",
            vec![(most(&HOSTS.now(&agent::SPOOL)), HOST)],
        ),
        Panel {
            title: "Spools that cannot be written",
            description: "Machines that lose rows until it can",
            unit: "short",
            look: Look::Steps,
            queries: vec![(sum("", &HOSTS.now(&agent::UNWRITABLE)), "machines")],
        },
    ];
    Section { title: "The agents", panels }
}

/// Of the whole fleet, whatever machines are chosen.
fn policies() -> Section {
    let left = |of| format!("{} - time()", ANY.now(of));
    let since = |of| format!("time() - {}", ANY.now(of));
    let panels = vec![
        lines(
            "Generation and wave",
            "short",
            "What is rolled out, how far, and the one that a gate took back last (0: none)",
            vec![
                (ANY.now(&rollout::GENERATION), "generation"),
                (ANY.now(&rollout::WAVE), "wave"),
                (ANY.now(&rollout::TAKEN_BACK), "taken back"),
            ],
        ),
        lines(
            "Hosts in the wave",
            "percentunit",
            "Half of them have it at a time below 100 %; 0: one host",
            vec![(ANY.now(&rollout::HOSTS), "share")],
        ),
        lines(
            "Change found by gates",
            "percentunit",
            "In the last window that was judged, with the ends of its interval of 95 %",
            vec![(ANY.now(&rollout::CHANGE), "{{gate}} {{of}}")],
        ),
        lines(
            "Chance of it without harm",
            "short",
            "To the mean, and to single hosts; far below 0.005 the generation is taken back",
            vec![(ANY.now(&rollout::CHANCE), "{{gate}} {{of}}")],
        ),
        lines(
            "Left of the lease",
            "s",
            "As it was signed, and the ten machines whose copy ends first: without a renewal they go \
             back to nothing",
            vec![
                (left(&rollout::LEASE_END), "signed"),
                (format!("bottomk(10, {})", left(&rollout::COPIED_LEASE_END)), HOST),
            ],
        ),
        Panel {
            title: "Machines by copied generation",
            description: "What `transom-fleet follow` copied last",
            unit: "short",
            look: Look::Stacked,
            queries: vec![(
                format!("count_values(\"generation\", {})", ANY.now(&rollout::COPIED)),
                "generation {{generation}}",
            )],
        },
        Panel {
            title: "Machines by copied wave",
            description: "What `transom-fleet follow` copied last",
            unit: "short",
            look: Look::Stacked,
            queries: vec![(
                format!("count_values(\"wave\", {})", ANY.now(&rollout::COPIED_WAVE)),
                "wave {{wave}}",
            )],
        },
        lines(
            "Time since the last step and copy",
            "s",
            "Of the controller, and the ten machines that looked longest ago",
            vec![(since(&rollout::LAST_STEP), "step"), (most(&since(&rollout::LAST_COPY)), HOST)],
        ),
    ];
    Section { title: "Policies", panels }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dashboard_shows_every_metric_of_shippers_and_roll_outs() {
        let text = dashboard().json().to_string();
        for definition in ship::ALL.iter().chain(rollout::ALL) {
            assert!(text.contains(&definition.series()), "no panel has {}", definition.series());
        }
    }
}
