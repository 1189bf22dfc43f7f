//! What the published schema of Perfetto reads in our files.

mod transfer;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use transfer::{COOKIE, Flow, OFFSET_NS, START_NS, origin, two_uploads, upload};
use transom_analysis::{Recording, Series};
use transom_event::Event;
use transom_export::{Origin, perfetto};
use transom_testbed::{python_with, skip};

/// A file, decoded by the package `perfetto` of the Python package index.
struct Decoded(Value);

impl Decoded {
    /// Nothing where the package cannot be had.
    fn of(events: &[Event], origin: &Origin) -> Option<Decoded> {
        let python = python()?;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("far.pftrace");
        std::fs::write(&path, bytes(events, origin)).unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/read_by_perfetto.py");
        let output = Command::new(python).arg(script).arg(&path).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Some(Decoded(serde_json::from_slice(&output.stdout).unwrap()))
    }

    /// The track that lies at this path of names.
    fn track(&self, names: &[&str]) -> String {
        let tracks = self.0["tracks"].as_object().unwrap();
        let mut parent = Value::Null;
        for name in names {
            let is_it = |track: &Value| track["name"] == *name && track["parent"] == parent;
            let found = tracks.iter().find(|(_, track)| is_it(track));
            parent =
                found.unwrap_or_else(|| panic!("no track {name} in {tracks:#?}")).0.as_str().into();
        }
        parent.as_str().unwrap().to_owned()
    }

    fn of_connection(&self, name: &str) -> String {
        self.track(&["iperf3", "10.0.0.1:40000 > 10.0.0.2:5201", name])
    }

    fn events(&self, track: &str) -> Vec<&Value> {
        let events = self.0["events"].as_array().unwrap();
        events.iter().filter(|event| event["track"] == track).collect()
    }

    /// Begin, end, name and notes of the slices of a track.
    fn slices(&self, track: &str) -> Vec<(u64, u64, &str, &Value)> {
        let time = |event: &Value| event["time"].as_u64().unwrap();
        let events = self.events(track);
        let pairs = events.chunks_exact(2).map(|pair| {
            assert_eq!(
                (&pair[0]["type"], &pair[1]["type"]),
                (&json!("SLICE_BEGIN"), &json!("SLICE_END"))
            );
            let name = pair[0]["name"].as_str().unwrap();
            (time(pair[0]), time(pair[1]), name, &pair[0]["notes"])
        });
        pairs.collect()
    }
}

fn python() -> Option<PathBuf> {
    match python_with("perfetto", Path::new(env!("CARGO_TARGET_TMPDIR"))) {
        Ok(python) => Some(python),
        Err(reason) => {
            skip("perfetto", &format!("no Python environment with perfetto: {reason}"));
            None
        }
    }
}

fn bytes(events: &[Event], origin: &Origin) -> Vec<u8> {
    let recording: Recording = events.iter().collect();
    let mut bytes = Vec::new();
    perfetto::write(&recording, origin, &mut bytes).unwrap();
    bytes
}

#[test]
fn the_schema_knows_every_field_and_every_event_has_a_track() {
    let Some(decoded) = Decoded::of(&upload(), &origin()) else { return };
    assert_eq!(decoded.0["unknown"], json!([]));
    let tracks = decoded.0["tracks"].as_object().unwrap();
    let events = decoded.0["events"].as_array().unwrap();
    assert!(events.len() > 60, "{}", events.len());
    for event in events {
        let track = &tracks[event["track"].as_str().unwrap()];
        assert_eq!(track["is_counter"], event["type"] == "COUNTER", "{event} {track}");
        assert_eq!(event["sequence"], events[0]["sequence"]);
    }
}

#[test]
fn times_are_of_clock_boottime_and_the_wall_clock_is_beside_it() {
    let Some(decoded) = Decoded::of(&upload(), &origin()) else { return };
    let (boottime, realtime) = (6, 1);
    assert_eq!(decoded.0["primary"], boottime);
    let wall = START_NS as i64 + OFFSET_NS;
    assert_eq!(decoded.0["clocks"], json!([[boottime, START_NS], [realtime, wall]]));
    for event in decoded.0["events"].as_array().unwrap() {
        assert_eq!(event["clock"], boottime);
        assert!((START_NS..START_NS + 1_000_000_000).contains(&event["time"].as_u64().unwrap()));
    }
}

#[test]
fn a_connection_lies_under_its_process_with_its_verdict() {
    let Some(decoded) = Decoded::of(&upload(), &origin()) else { return };
    let process = decoded.track(&["iperf3"]);
    assert_eq!(decoded.0["tracks"][&process]["pid"], 4242);
    let connection = decoded.track(&["iperf3", "10.0.0.1:40000 > 10.0.0.2:5201"]);
    let slices = decoded.slices(&connection);
    let events = upload();
    let (begin, end, name, notes) = slices[0];
    assert_eq!((begin, end), (events[0].time_ns, events.last().unwrap().time_ns));
    assert_eq!(name, "10.0.0.1:40000 > 10.0.0.2:5201");
    assert_eq!((&notes["cookie"], &notes["algorithm"]), (&json!(COOKIE), &json!("cubic")));
    assert_eq!(notes["verdict"], decoded.0["tracks"][&connection]["description"]);
    assert!(!notes["verdict"].as_str().unwrap().is_empty());
}

#[test]
fn recovery_and_timeout_are_slices_with_their_numbers() {
    let Some(decoded) = Decoded::of(&upload(), &origin()) else { return };
    let recoveries = decoded.of_connection("fast recovery");
    let recoveries = decoded.slices(&recoveries);
    assert_eq!(recoveries.len(), 1);
    let (begin, end, name, notes) = recoveries[0];
    assert_eq!((name, &notes["retransmitted"]), ("fast recovery", &json!(1)));
    assert_eq!((begin - START_NS, end - START_NS), (20_160_000, 40_165_000));
    let timeouts = decoded.of_connection("timeout");
    let (_, _, _, notes) = decoded.slices(&timeouts)[0];
    assert_eq!((&notes["timeouts"], &notes["cwnd_after"]), (&json!(1), &json!(2)));
}

#[test]
fn limits_cover_the_connection_without_gap_or_overlap() {
    let Some(decoded) = Decoded::of(&upload(), &origin()) else { return };
    let limits = decoded.of_connection("limited by");
    let limits = decoded.slices(&limits);
    assert!(limits.len() > 3);
    for pair in limits.windows(2) {
        assert_eq!(pair[0].1, pair[1].0);
        assert_ne!(pair[0].2, pair[1].2);
    }
    let events = upload();
    assert_eq!(limits[0].0, events[0].time_ns);
    assert_eq!(limits.last().unwrap().1, events.last().unwrap().time_ns);
}

#[test]
fn what_happened_is_an_instant_with_its_fields() {
    let Some(decoded) = Decoded::of(&upload(), &origin()) else { return };
    let named = |track: &str| -> BTreeMap<String, Value> {
        let events = decoded.events(&decoded.of_connection(track)).into_iter().cloned();
        events.map(|event| (event["name"].as_str().unwrap().to_owned(), event)).collect()
    };
    let events = named("events");
    assert_eq!(events["retransmit fast"]["notes"]["segments"], 1);
    assert_eq!(events["retransmit rto"]["type"], "INSTANT");
    assert_eq!(events["rto timer"]["notes"]["in_a_row"], 1);
    assert_eq!(events["local_congestion"]["notes"]["refused_bytes"], 3 * transfer::MSS);
    assert_eq!(events["ca_state recovery"]["notes"]["old_ca_state"], "open");
    let sack = &named("duplicate ACKs and SACK")["sack"];
    let left = u32::MAX - 3 * transfer::MSS;
    let edge = |n: u32| left.wrapping_add(n * transfer::MSS);
    // Two of six segments were acknowledged, the second and third after them arrived.
    assert_eq!(sack["notes"]["sack_blocks"], format!("{}-{}", edge(3), edge(5)));
    let lost = decoded.events(&decoded.track(&["transom 0.0.0"]));
    assert_eq!(lost[0]["name"], "lost ring_full");
    assert_eq!(lost[0]["notes"]["lost_count"], 12);
}

#[test]
fn a_change_of_the_algorithm_names_the_new_one() {
    let mut flow = Flow::new(COOKIE, 40_000);
    flow.open();
    flow.after(100).send(4);
    flow.after(100).algorithm("bbr");
    let Some(decoded) = Decoded::of(&flow.events, &origin()) else { return };
    let events = decoded.of_connection("events");
    let change = decoded.events(&events).pop().unwrap();
    assert_eq!(
        (&change["name"], &change["notes"]["algorithm"]),
        (&json!("algorithm bbr"), &json!("bbr"))
    );
}

#[test]
fn counters_have_the_values_of_the_curves_each_where_it_changed() {
    let Some(decoded) = Decoded::of(&upload(), &origin()) else { return };
    let recording: Recording = upload().iter().collect();
    let series = Series::of(&recording.connections[0]);
    for (name, of) in [
        ("cwnd", (|s| Some(s.cwnd.into())) as fn(&transom_analysis::Sample) -> Option<u64>),
        ("ssthresh", |s| s.ssthresh.map(u64::from)),
        ("in_flight", |s| Some(s.in_flight.into())),
        ("srtt", |s| s.srtt_us.map(u64::from)),
        ("acked", |s| Some(s.acked)),
    ] {
        let mut expected: Vec<(u64, u64)> = Vec::new();
        for sample in &series.samples {
            let Some(value) = of(sample) else { continue };
            if expected.last().is_none_or(|last| last.1 != value) {
                expected.push((sample.time_ns, value));
            }
        }
        let track = decoded.of_connection(name);
        let seen: Vec<(u64, u64)> = decoded
            .events(&track)
            .iter()
            .map(|event| (event["time"].as_u64().unwrap(), event["value"].as_u64().unwrap()))
            .collect();
        assert_eq!(seen, expected, "{name}");
    }
    let unit = |name: &str| {
        let track = &decoded.0["tracks"][decoded.of_connection(name)];
        (track["unit"].clone(), track["multiplier"].clone())
    };
    assert_eq!(unit("cwnd").0, "segments");
    assert_eq!(unit("srtt"), (json!(1), json!(1000)), "UNIT_TIME_NS, from µs");
    assert_eq!(unit("unsent").0, 3, "UNIT_SIZE_BYTES");
}

#[test]
fn two_connections_have_tracks_of_their_own_and_keep_them_in_every_file() {
    let Some(decoded) = Decoded::of(&two_uploads(), &origin()) else { return };
    let alone = Decoded::of(&upload(), &origin()).unwrap();
    assert_eq!(decoded.of_connection("cwnd"), alone.of_connection("cwnd"));
    let other = decoded.track(&["iperf3", "10.0.0.1:40001 > 10.0.0.2:5201", "cwnd"]);
    assert_ne!(other, decoded.of_connection("cwnd"));
    let elsewhere = Origin { boot_id: "other".into(), ..origin() };
    let elsewhere = Decoded::of(&upload(), &elsewhere).unwrap();
    assert_ne!(elsewhere.of_connection("cwnd"), alone.of_connection("cwnd"));
}

#[test]
fn a_recording_that_is_cut_or_empty_is_still_a_trace() {
    let cut = Origin { cut: true, ..origin() };
    let Some(decoded) = Decoded::of(&[], &cut) else { return };
    let track = decoded.track(&["transom 0.0.0"]);
    assert_eq!(decoded.events(&track)[0]["name"], "the recording is cut");
    let about = decoded.0["tracks"][&track]["description"].as_str().unwrap();
    assert!(about.contains("did not come to its end"), "{about}");
}
