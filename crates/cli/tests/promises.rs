//! What `transom check` promises works on this kernel, and it promises what works; tier by tier it is
//! tests/tiers.rs that says so.

use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use serde_json::Value;
use transom_event::Kind;
use transom_testbed::tuned::{algorithm_of, tune, tuned};
use transom_testbed::{Path, Recording, needs_root, pair, send_and_wait, transom, wait_for};

fn check() -> Value {
    let output = transom().args(["check", "--json"]).output().expect("transom runs");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

fn slow_path() -> Path {
    Path::new(Duration::from_millis(20))
}

#[test]
fn there_are_events_where_it_says_that_the_monitor_can_run_and_else_samples() {
    needs_root!();
    // Polling sees its own network namespace only.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let recording = Recording::start(&["--port", &at.port().to_string()]);
    let mut client = TcpStream::connect(at).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    send_and_wait(&mut client, &mut server, 50_000);
    wait_for("an ACK or a sample", || {
        recording.so_far().iter().any(|it| matches!(it.kind, Kind::Ack | Kind::Sample))
    });
    let trace = recording.finish();
    let (events, samples) = (trace.count(Kind::Ack), trace.count(Kind::Sample));
    match check()["can_monitor"].as_bool() {
        Some(true) => assert!(events > 0 && samples == 0, "{events} ACKs, {samples} samples"),
        _ => assert!(events == 0 && samples > 0, "{events} ACKs, {samples} samples"),
    }
}

#[test]
fn the_lever_that_it_names_moves_the_connections_that_it_promises() {
    needs_root!();
    let path = slow_path();
    let (running, _far) = pair(&path);
    let check = check();
    let promised = check["tune"]["backend"].as_str().unwrap_or("none");
    let place = ["--netns", path.left.name(), "--backend", promised];
    let words = ["--algorithm", "cubic", "--remote", "10.77.0.2/32"];
    let (running_ones, new_ones) = match promised {
        "bpf" => ("cubic", "cubic"),
        "route" => ("reno", "cubic"),
        _ => {
            let refused = tune(&[&["set"], &place[..2], &words].concat());
            return assert!(!refused.status.success(), "{refused:?}");
        }
    };
    tuned(&[&["set"], &place[..], &words].concat());
    let (new, _far_too) = pair(&path);
    assert_eq!(algorithm_of(&running), running_ones, "a running one, by {promised}");
    assert_eq!(algorithm_of(&new), new_ones, "a new one, by {promised}");
    tuned(&[&["clear"], &place[..]].concat());
    let (after, _far_too) = pair(&path);
    assert_eq!(algorithm_of(&after), "reno", "taken off");
}
