//! `transom lab` with hosts that have two interfaces, Multipath TCP, or Linux as a library.

use std::fs;

use transom_testbed::lab::{Bench, errors, json};
use transom_testbed::{Trace, needs, needs_root};

/// Slow enough that the paths decide: 20 and 8 Mbit/s.
const PHONE_AND_SERVER: &str = r#"
title = "A phone with two interfaces and a server"
source = "this test"
question = "Are both used?"
duration_s = 2
repeats = 1

[path]
rtt_ms = 10
up.rate_mbit = 20
up.queue_packets = 50

[hosts.phone]
#phone
[hosts.phone.cellular]
rtt_ms = 30
up.rate_mbit = 8
up.queue_packets = 50
[hosts.server]
#server
"#;

const WIFI: &str = "[flows.wifi]\nfrom = \"phone\"\nto = \"server\"\n";
const LTE: &str = "[flows.lte]\nfrom = \"phone\"\nto = \"server\"\nover = \"cellular\"\n";

fn bench(role: &str, phone: &str, server: &str, flows: &[&str]) -> Bench {
    let text = PHONE_AND_SERVER.replace("#phone", phone).replace("#server", server);
    Bench::new(role, &(text + &flows.concat()))
}

fn run(bench: &Bench, words: &[&str]) {
    let output = bench.run(words);
    assert!(output.status.success(), "{}", errors(&output));
}

fn goodput(bench: &Bench, flow: &str) -> f64 {
    let measured = json(&bench.of_run("measured.json"));
    measured["flows"][flow]["goodput_mbit"].as_f64().expect("a number")
}

/// Bytes that the emulator passed over the first path and over the cellular one, from the phone.
fn sent(bench: &Bench) -> (u64, u64) {
    let log = json(&bench.of_run("emulator.json"));
    let bytes = |direction: &serde_json::Value| direction["passed_bytes"].as_u64().expect("bytes");
    (bytes(&log["up"]), bytes(&log["cellular"][0]["up"]))
}

#[test]
fn each_interface_has_its_own_path_with_both_protocols() {
    needs_root!();
    let bench = bench("two", "", "", &[WIFI]);
    let mut shell = bench.shell();
    let pings = [
        ("10.77.0.1", "10.77.0.2", 10.0),
        ("10.78.0.1", "10.77.0.2", 30.0),
        ("fd77::1", "fd77::2", 10.0),
        ("fd78::1", "fd77::2", 30.0),
    ];
    for (from, to, path_ms) in pings {
        let ping = bench.exec("phone", &["ping", "-c", "3", "-i", "0.1", "-I", from, to]);
        let said = String::from_utf8_lossy(&ping.stdout).into_owned();
        assert!(said.contains(" 0% packet loss"), "{from}: {said}");
        let minimum = said.split("rtt min/avg/max/mdev = ").nth(1).expect("a summary");
        let minimum: f64 = minimum.split('/').next().and_then(|n| n.parse().ok()).expect("ms");
        assert!((path_ms..path_ms + 20.0).contains(&minimum), "{from}: {said}");
    }
    shell.signal(libc::SIGTERM);
    bench.assert_clean();
}

#[test]
fn flows_over_each_interface_share_nothing() {
    needs_root!();
    let bench = bench("each", "", "", &[WIFI, LTE]);
    run(&bench, &["--pcap"]);
    let (wifi, lte) = (goodput(&bench, "wifi"), goodput(&bench, "lte"));
    assert!((10.0..20.0).contains(&wifi) && (4.0..8.0).contains(&lte), "{wifi} and {lte}");
    assert_eq!(json(&bench.of_run("flows.json"))["lte"]["from_addr"], "10.78.0.1");
    for file in ["pcap-phone.pcap", "pcap-phone-rmnet0.pcap"] {
        let length = fs::metadata(bench.of_run(file)).expect("asked for").len();
        assert!(length > 10_000, "{file}: {length}");
    }
    bench.assert_clean();
}

#[test]
fn the_kernels_multipath_tcp_uses_both_interfaces_of_a_host() {
    needs_root!();
    needs!("mptcpize", "mptcp");
    let flow = "[flows.both]\nfrom = \"phone\"\nto = \"server\"\ntool = \"iperf3\"\n";
    let bench = bench("kernel", "mptcp = true", "mptcp = true", &[flow]);
    run(&bench, &[]);
    let (first, cellular) = sent(&bench);
    assert!(first > 1_000_000 && cellular > 500_000, "{first} and {cellular} bytes");
    let both = goodput(&bench, "both");
    assert!(both < 28.0, "{both} Mbit/s over paths of 28");
}

#[test]
fn programs_on_the_library_send_and_receive_over_both_interfaces_and_are_recorded() {
    needs_root!();
    needs!("transom-netstack", "mptcpize", "mptcp");
    let library = "stack = \"library\"\nmptcp = true\nsend_buffer = 2000000";
    let ends = "tool = \"iperf3\"\nwrite = 4096\n";
    let up = format!("[flows.up]\nfrom = \"phone\"\nto = \"server\"\n{ends}");
    let down = format!("[flows.down]\nfrom = \"server\"\nto = \"phone\"\nreverse = true\n{ends}");
    let bench = bench("library", library, "mptcp = true", &[&up, &down]);
    run(&bench, &[]);
    let (first, cellular) = sent(&bench);
    assert!(first > 1_000_000 && cellular > 500_000, "{first} and {cellular} bytes");
    let measured = json(&bench.of_run("measured.json"));
    for flow in ["up", "down"] {
        let numbers = &measured["flows"][flow];
        assert!(numbers["goodput_mbit"].as_f64() > Some(1.0), "{numbers}");
        assert!(numbers["cwnd_max"].as_f64() > Some(1.0), "the sender was recorded: {numbers}");
    }
    assert!(measured["run"]["cpu_busy"].as_f64() > Some(0.0), "{measured}");
    let trace = Trace::read(&bench.of_run("trace-phone-up.parquet"));
    assert!(trace.count(transom_event::Kind::Ack) > 10, "the library's own events");
    bench.assert_clean();
}
