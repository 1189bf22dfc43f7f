//! Our qlog files keep the rules of draft-ietf-quic-qlog-main-schema-04 and -quic-events-03 (qlog
//! 0.3, which qvis reads), and have the numbers of the trace.

#[path = "../../trace/tests/bulk/mod.rs"]
mod bulk;
mod transfer;

use serde_json::{Value, json};
use transfer::{COOKIE, Flow, MSS, OFFSET_NS, START_NS, origin, two_uploads, upload};
use transom_analysis::Recording;
use transom_event::{Event, Kind};
use transom_export::qlog;

/// Type of a field in the drafts' CDDL.
#[derive(Clone, Copy)]
enum Type {
    Text,
    Uint(u32),
    Float,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A map with these fields and no others.
    Map(Rules),
    /// A list of at least so many.
    List(usize, &'static Type),
}

/// A field: its name, whether it must be there, its type.
type Rules = &'static [(&'static str, bool, Type)];

const MUST: bool = true;
const MAY: bool = false;

const FILE: Rules = &[
    ("qlog_version", MUST, Type::Word(&["0.3"])),
    ("qlog_format", MAY, Type::Word(&["JSON"])),
    ("title", MAY, Type::Text),
    ("description", MAY, Type::Text),
    ("traces", MAY, Type::List(1, &Type::Map(TRACE))),
];

const TRACE: Rules = &[
    ("title", MAY, Type::Text),
    ("description", MAY, Type::Text),
    ("vantage_point", MAY, Type::Map(VANTAGE_POINT)),
    ("common_fields", MAY, Type::Map(COMMON)),
    ("events", MUST, Type::List(0, &Type::Map(EVENT))),
];

const VANTAGE_POINT: Rules = &[
    ("name", MAY, Type::Text),
    ("type", MUST, Type::Word(&["client", "server", "network", "unknown"])),
];

const COMMON: Rules = &[
    ("time_format", MAY, Type::Word(&["absolute", "delta", "relative"])),
    ("reference_time", MAY, Type::Float),
    ("protocol_type", MAY, Type::List(1, &Type::Text)),
];

/// `data` has the rules of its event, below.
const EVENT: Rules =
    &[("time", MUST, Type::Float), ("name", MUST, Type::Text), ("data", MUST, Type::Map(&[]))];

const HEADER: Rules = &[
    (
        "packet_type",
        MUST,
        Type::Word(&[
            "initial",
            "handshake",
            "0RTT",
            "1RTT",
            "retry",
            "version_negotiation",
            "stateless_reset",
            "unknown",
        ]),
    ),
    ("packet_number", MAY, Type::Uint(64)),
];

const RAW: Rules = &[("length", MAY, Type::Uint(64)), ("payload_length", MAY, Type::Uint(64))];

const ACK: Rules = &[
    ("frame_type", MUST, Type::Word(&["ack"])),
    ("acked_ranges", MAY, Type::List(1, &Type::List(1, &Type::Uint(64)))),
];

const DATA: &[(&str, Rules)] = &[
    (
        "connectivity:connection_started",
        &[
            ("ip_version", MAY, Type::Word(&["v4", "v6"])),
            ("src_ip", MUST, Type::Text),
            ("dst_ip", MUST, Type::Text),
            ("protocol", MAY, Type::Text),
            ("src_port", MAY, Type::Uint(16)),
            ("dst_port", MAY, Type::Uint(16)),
        ],
    ),
    (
        "transport:packet_sent",
        &[
            ("header", MUST, Type::Map(HEADER)),
            ("raw", MAY, Type::Map(RAW)),
            (
                "trigger",
                MAY,
                Type::Word(&[
                    "retransmit_reordered",
                    "retransmit_timeout",
                    "pto_probe",
                    "retransmit_crypto",
                    "cc_bandwidth_probe",
                ]),
            ),
        ],
    ),
    (
        "transport:packet_received",
        &[
            ("header", MUST, Type::Map(HEADER)),
            ("frames", MAY, Type::List(0, &Type::Map(ACK))),
            ("raw", MAY, Type::Map(RAW)),
        ],
    ),
    (
        "recovery:packet_lost",
        &[
            ("header", MAY, Type::Map(HEADER)),
            (
                "trigger",
                MAY,
                Type::Word(&["reordering_threshold", "time_threshold", "pto_expired"]),
            ),
        ],
    ),
    (
        "recovery:metrics_updated",
        &[
            ("min_rtt", MAY, Type::Float),
            ("smoothed_rtt", MAY, Type::Float),
            ("latest_rtt", MAY, Type::Float),
            ("rtt_variance", MAY, Type::Float),
            ("pto_count", MAY, Type::Uint(16)),
            ("congestion_window", MAY, Type::Uint(64)),
            ("bytes_in_flight", MAY, Type::Uint(64)),
            ("ssthresh", MAY, Type::Uint(64)),
            ("packets_in_flight", MAY, Type::Uint(64)),
            ("pacing_rate", MAY, Type::Uint(64)),
        ],
    ),
    ("recovery:congestion_state_updated", &[("old", MAY, Type::Text), ("new", MUST, Type::Text)]),
    (
        "recovery:loss_timer_updated",
        &[
            ("timer_type", MAY, Type::Word(&["ack", "pto"])),
            ("event_type", MUST, Type::Word(&["set", "expired", "cancelled"])),
        ],
    ),
    ("generic:info", &[("message", MUST, Type::Text)]),
];

fn check(place: &str, value: &Value, kind: Type) {
    match kind {
        Type::Text => assert!(value.is_string(), "{place}: {value} is no text"),
        Type::Float => assert!(value.is_number(), "{place}: {value} is no number"),
        Type::Uint(bits) => {
            let number = value.as_u64();
            assert!(number.is_some_and(|n| bits == 64 || n >> bits == 0), "{place}: {value}");
        }
        Type::Word(words) => {
            assert!(
                words.iter().any(|word| value == word),
                "{place}: {value} is not one of {words:?}"
            );
        }
        Type::List(least, each) => {
            let list = value.as_array().unwrap_or_else(|| panic!("{place} is no list"));
            assert!(list.len() >= least, "{place} is too short");
            for (at, value) in list.iter().enumerate() {
                check(&format!("{place}[{at}]"), value, *each);
            }
        }
        Type::Map(rules) => check_map(place, value, rules),
    }
}

fn check_map(place: &str, value: &Value, rules: Rules) {
    let map = value.as_object().unwrap_or_else(|| panic!("{place} is no map"));
    let of_event = map.get("name").and_then(Value::as_str).filter(|_| map.contains_key("data"));
    for (name, value) in map {
        let place = format!("{place}.{name}");
        match (rules.iter().find(|rule| rule.0 == name), of_event) {
            (Some(_), Some(event)) if name == "data" => {
                let data = DATA.iter().find(|(name, _)| *name == event);
                let (_, rules) = data.unwrap_or_else(|| panic!("the drafts have no event {event}"));
                check_map(&place, value, rules);
            }
            (Some((_, _, kind)), _) => check(&place, value, *kind),
            (None, _) => panic!("the drafts have no field {place}"),
        }
    }
    for (name, must, _) in rules {
        assert!(!must || map.contains_key(*name), "{place} lacks {name}");
    }
}

/// The file, which keeps the rules.
fn converted(events: &[Event]) -> Value {
    let recording: Recording = events.iter().collect();
    let mut bytes = Vec::new();
    qlog::write(&recording, &origin(), &mut bytes).unwrap();
    let file: Value = serde_json::from_slice(&bytes).unwrap();
    check("file", &file, Type::Map(FILE));
    for trace in file["traces"].as_array().into_iter().flatten() {
        let events = trace["events"].as_array().unwrap();
        let times: Vec<f64> = events.iter().map(|event| event["time"].as_f64().unwrap()).collect();
        assert!(times.is_sorted(), "qvis wants them in the order of time");
    }
    file
}

fn named<'a>(trace: &'a Value, name: &str) -> Vec<&'a Value> {
    let events = trace["events"].as_array().unwrap().iter();
    events.filter(|event| event["name"] == name).map(|event| &event["data"]).collect()
}

#[test]
fn each_connection_is_a_trace_with_its_ends_and_times() {
    let file = converted(&two_uploads());
    let traces = file["traces"].as_array().unwrap();
    let titles: Vec<&Value> = traces.iter().map(|trace| &trace["title"]).collect();
    assert_eq!(
        titles,
        [
            "10.0.0.1:40000 > 10.0.0.2:5201 iperf3 cubic",
            "10.0.0.1:40001 > 10.0.0.2:5201 iperf3 cubic"
        ]
    );
    assert_eq!(traces[0]["vantage_point"], json!({ "name": "client", "type": "client" }));
    for trace in traces {
        let wall_ms = (START_NS as i64 + OFFSET_NS) as f64 / 1e6;
        assert_eq!(trace["common_fields"]["reference_time"], wall_ms);
        assert_eq!(trace["common_fields"]["time_format"], "relative");
    }
    assert_eq!(traces[1]["events"][0]["time"], 0.05);
    let started = named(&traces[1], "connectivity:connection_started");
    assert_eq!(
        (&started[0]["src_port"], &started[0]["dst_ip"]),
        (&json!(40_001), &json!("10.0.0.2"))
    );
}

#[test]
fn metrics_are_in_bytes_and_milliseconds_and_only_what_changed() {
    let file = converted(&upload());
    let metrics = named(&file["traces"][0], "recovery:metrics_updated");
    let first = metrics[0];
    assert_eq!(first["congestion_window"], 10 * MSS);
    assert_eq!((&first["smoothed_rtt"], &first["min_rtt"]), (&json!(20.5), &json!(20.0)));
    assert_eq!((&first["rtt_variance"], first.get("ssthresh")), (&json!(0.3), None));
    assert_eq!(metrics[1], &json!({ "bytes_in_flight": 4 * MSS, "packets_in_flight": 4 }));
    let ssthresh = metrics.iter().find_map(|data| data.get("ssthresh"));
    assert_eq!(ssthresh, Some(&json!(8 * MSS)));
    assert!(metrics.iter().all(|data| !data.as_object().unwrap().is_empty()));
}

#[test]
fn segments_have_numbers_that_acks_and_losses_name() {
    let file = converted(&upload());
    let trace = &file["traces"][0];
    let sent = named(trace, "transport:packet_sent");
    let numbers: Vec<u64> =
        sent.iter().map(|d| d["header"]["packet_number"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (0..11).collect::<Vec<_>>());
    // Six, a retransmission, three, a retransmission.
    let triggers: Vec<&Value> = sent.iter().filter_map(|data| data.get("trigger")).collect();
    assert_eq!(triggers, ["retransmit_reordered", "retransmit_timeout"]);
    assert_eq!(sent[0]["raw"]["payload_length"], MSS);
    assert_eq!(sent[6].get("raw"), None, "its length was not recorded");
    let lost = named(trace, "recovery:packet_lost");
    assert_eq!(lost[0]["header"]["packet_number"], 2);
    assert_eq!(
        (&lost[1]["header"]["packet_number"], &lost[1]["trigger"]),
        (&json!(7), &json!("pto_expired"))
    );
    let acked: Vec<&Value> = named(trace, "transport:packet_received")
        .iter()
        .filter_map(|data| data.get("frames"))
        .map(|frames| &frames[0]["acked_ranges"])
        .collect();
    // Two; two by SACK; the one sent again as 6 and the sixth; after the timeout 7 as 10, and two.
    assert_eq!(acked, [&json!([[0, 1]]), &json!([[3, 4]]), &json!([[5, 6]]), &json!([[8, 10]])]);
}

#[test]
fn congestion_states_follow_one_another() {
    let file = converted(&upload());
    let trace = &file["traces"][0];
    let states = named(trace, "recovery:congestion_state_updated");
    let new: Vec<&Value> = states.iter().map(|data| &data["new"]).collect();
    assert_eq!(
        new,
        ["slow_start", "recovery", "congestion_avoidance", "loss", "congestion_avoidance"]
    );
    for pair in states.windows(2) {
        assert_eq!(pair[0]["new"], pair[1]["old"]);
    }
    let timers = named(trace, "recovery:loss_timer_updated");
    assert_eq!(timers, [&json!({ "timer_type": "pto", "event_type": "expired" })]);
    let info = named(trace, "generic:info");
    assert_eq!(info[0]["message"], "local_congestion return_code=1 refused_bytes=4344");
}

#[test]
fn a_change_of_the_algorithm_names_the_new_one() {
    let mut flow = Flow::new(COOKIE, 40_000);
    flow.open();
    flow.after(100).send(4);
    flow.after(100).algorithm("bbr");
    let file = converted(&flow.events);
    let info = named(&file["traces"][0], "generic:info");
    assert_eq!(info.last().unwrap()["message"], "algorithm algorithm=bbr");
}

/// The value of a metric after every event of the trace that carries state, as the file has it.
fn followed(trace: &Value, name: &str) -> Vec<(f64, f64)> {
    let events = trace["events"].as_array().unwrap().iter();
    let updates = events.filter(|event| event["name"] == "recovery:metrics_updated");
    updates.filter_map(|e| Some((e["time"].as_f64()?, e["data"].get(name)?.as_f64()?))).collect()
}

#[test]
fn the_curves_of_a_transfer_over_three_connections_are_those_of_the_trace() {
    let events: Vec<Event> = bulk::Bulk::new(3).take(5_000).collect();
    let file = converted(&events);
    let start_ns = events[0].time_ns;
    for (at, trace) in file["traces"].as_array().unwrap().iter().enumerate() {
        // The openings come last first.
        let cookie = 0x1002 - at as u64;
        let states =
            || events.iter().filter(|e| e.cookie == cookie).filter_map(|e| Some((e, e.state()?)));
        let curve = |of: &dyn Fn(&transom_event::State) -> f64| {
            let mut curve: Vec<(f64, f64)> = Vec::new();
            for (event, state) in states() {
                if curve.last().is_none_or(|last| last.1 != of(state)) {
                    curve.push(((event.time_ns - start_ns) as f64 / 1e6, of(state)));
                }
            }
            curve
        };
        assert_eq!(followed(trace, "congestion_window"), curve(&|s| f64::from(s.cwnd * MSS)));
        assert_eq!(followed(trace, "bytes_in_flight"), curve(&|s| f64::from(s.in_flight() * MSS)));
        assert_eq!(followed(trace, "smoothed_rtt"), curve(&|s| f64::from(s.srtt_us) / 1000.0));
        assert_eq!(followed(trace, "pacing_rate"), curve(&|s| (s.pacing_rate * 8) as f64));
        let sent: u64 = named(trace, "transport:packet_sent")
            .iter()
            .map(|d| d["raw"]["length"].as_u64().unwrap())
            .sum();
        let own = events.iter().filter(|e| e.cookie == cookie && e.kind == Kind::Send);
        assert_eq!(sent, own.map(|e| u64::from(e.aux[0])).sum::<u64>());
    }
}

#[test]
fn a_recording_without_events_has_no_traces() {
    let file = converted(&[]);
    assert_eq!(file.get("traces"), None);
}
