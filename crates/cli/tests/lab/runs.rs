//! Runs of an experiment: what they give, and what goes wrong in them.

use std::fs;
use std::process::{Command, Stdio};

use transom_event::Kind;
use transom_testbed::lab::{Bench, errors, json};
use transom_testbed::{Trace, needs_root, wait_for};

use crate::{PHONE_AND_SERVER, real};

#[test]
fn a_run_gives_numbers_and_is_not_run_again() {
    needs_root!();
    let text = PHONE_AND_SERVER.to_owned() + "[sweep]\n\"path.rtt_ms\" = [0, 20]\n";
    let bench = Bench::new("whole", &text);
    let output = bench.run(&["--pcap"]);
    assert!(output.status.success(), "{}", errors(&output));
    let run = bench.results().join("runs/rtt-ms-20/1");
    let measured = json(&run.join("measured.json"));
    let goodput = measured["flows"]["up"]["goodput_mbit"].as_f64().expect("a number");
    assert!((1.0..9.0).contains(&goodput), "the device sends 8.6 Mbit/s at most: {goodput}");
    assert!(json(&run.join("emulator.json"))["totals"]["delivered"].as_u64() > Some(100));
    let capture = fs::metadata(run.join("pcap-server.pcap")).expect("asked for");
    assert!(capture.len() > 10_000, "{}", capture.len());
    let manifest = json(&bench.results().join("manifest.json"));
    assert_eq!((&manifest["finished"], &manifest["runs"]), (&2.into(), &2.into()));
    bench.assert_clean();

    // One of two runs is gone: the next command runs that one alone.
    let before = fs::metadata(run.join("measured.json")).and_then(|m| m.modified()).unwrap();
    fs::remove_file(bench.results().join("runs/rtt-ms-0/1/measured.json")).unwrap();
    let output = bench.run(&[]);
    assert!(errors(&output).contains("2 of 2 runs finished, 1 of them before"));
    let later = json(&bench.results().join("manifest.json"));
    assert_eq!(later["started"], manifest["started"], "the campaign began then");
    assert_ne!(later["command"], manifest["command"]);
    let after = fs::metadata(run.join("measured.json")).and_then(|m| m.modified()).unwrap();
    assert_eq!(before, after);
}

#[test]
fn an_interrupted_run_leaves_no_host_and_no_numbers() {
    needs_root!();
    let text = PHONE_AND_SERVER.replace("duration_s = 1", "duration_s = 60");
    let bench = Bench::new("stopped", &text);
    let mut command = bench.lab(&["run", &bench.name]);
    let child = command.stderr(Stdio::piped()).spawn().expect("transom runs");
    wait_for("traffic", || {
        fs::metadata(bench.of_run("iperf-up.server.txt")).is_ok_and(|file| file.len() > 300)
    });
    // SAFETY: the child is ours and not yet waited for.
    unsafe { libc::kill(child.id() as i32, libc::SIGTERM) };
    let output = child.wait_with_output().expect("it ends");
    assert!(!output.status.success());
    assert!(errors(&output).contains("goes on where it stopped"), "{}", errors(&output));
    assert!(!bench.of_run("measured.json").exists());
    bench.assert_clean();
}

#[test]
fn a_program_that_hangs_is_killed_and_told_and_the_others_go_on() {
    needs_root!();
    let two = "[flows.good]\nfrom = \"phone\"\nto = \"server\"\ntool = \"iperf3\"\n";
    let bench = Bench::new("hung", &(PHONE_AND_SERVER.to_owned() + two));
    // The client of iperf 2 says something and then sleeps for ever; its server is the real one.
    let path = bench.path_with(
        "iperf",
        &format!(
            "case $1 in -c) echo still waiting; exec sleep 600;; *) exec {} \"$@\";; esac",
            real("iperf").display()
        ),
    );
    let output = bench.lab(&["run", &bench.name]).env("PATH", path).output().unwrap();
    let said = errors(&output);
    assert!(!output.status.success());
    assert!(said.contains("flow 'up'") && said.contains("was killed"), "{said}");
    assert!(said.contains("it said: still waiting") && !said.contains("flow 'good'"), "{said}");
    let other = json(&bench.of_run("iperf-good.server.json"));
    assert!(other["end"]["sum_received"]["bytes"].as_f64() > Some(1e5), "{}", other["end"]);
    assert!(!bench.of_run("measured.json").exists(), "a failed run is no result");
    bench.assert_clean();
}

#[test]
fn a_server_that_dies_at_its_start_is_told_with_its_words() {
    needs_root!();
    let bench = Bench::new("dead", PHONE_AND_SERVER);
    let path = bench.path_with("iperf", "echo bind failed: no luck >&2; exit 1");
    let output = bench.lab(&["run", &bench.name]).env("PATH", path).output().unwrap();
    assert!(!output.status.success());
    let said = errors(&output);
    assert!(said.contains("ended with status 1; it said: bind failed: no luck"), "{said}");
    bench.assert_clean();
}

#[test]
fn a_slow_devices_short_queue_refuses_segments_of_its_own_kernel() {
    needs_root!();
    let text = PHONE_AND_SERVER.replace("duration_s = 1", "duration_s = 3").replace(
        "profile = \"ht-03a\"",
        "profile = \"ht-03a\"\ndriver = { rate_mbit = 8.6, queue_packets = 3 }\n\
         sysctl = { \"ipv4.tcp_pacing_ss_ratio\" = \"1000\", \"ipv4.tcp_pacing_ca_ratio\" = \"1000\" }",
    );
    let bench = Bench::new("refused", &text);
    let output = bench.run(&[]);
    assert!(output.status.success(), "{}", errors(&output));
    let trace = Trace::read(&bench.of_run("trace-phone.parquet"));
    assert!(trace.count(Kind::LocalCongestion) > 0, "no local congestion");
    let lost = json(&bench.of_run("emulator.json"));
    assert_eq!(lost["totals"]["lost"], 0, "the path lost nothing");
}

#[test]
fn a_link_changes_at_its_time_of_the_run_however_long_putting_up_took() {
    needs_root!();
    let falls = "rtt_ms = 10\nup = { rates = [[0, 6], [2.4, 0.5]], queue_packets = 50 }";
    let text = PHONE_AND_SERVER.replace("duration_s = 1", "duration_s = 4");
    let bench = Bench::new("falls", &text.replace("rtt_ms = 10", falls));
    let output = bench.run(&[]);
    assert!(output.status.success(), "{}", errors(&output));
    let text = fs::read_to_string(bench.of_run("iperf-up.server.txt")).expect("the server's words");
    let kbits_of = |second: &str| -> f64 {
        let line = text.lines().find(|line| line.contains(second)).expect("its line");
        line.split_whitespace().rev().nth(1).and_then(|it| it.parse().ok()).expect("a number")
    };
    let (before, after) = (kbits_of(" 1.0000-2.0000 sec"), kbits_of(" 3.0000-4.0000 sec"));
    assert!(before > 5000.0 && after < 1000.0, "of 6000 and 500: {text}");
}

/// A flow over 20 ms whose sender's largest window is 12 segments.
fn clamped(role: &str, text: &str) {
    let text = text.replace("ht-03a\"", "laptop\"\nlargest_window = 12");
    let bench = Bench::new(role, &text);
    let output = bench.run(&[]);
    assert!(output.status.success(), "{}", errors(&output));
    let flow = &json(&bench.of_run("measured.json"))["flows"]["up"];
    assert_eq!(flow["cwnd_max"].as_f64(), Some(12.0));
    // 12 segments of 1448 bytes each 20 ms and a little are at most 7 Mbit/s.
    assert!(flow["goodput_mbit"].as_f64() < Some(7.1), "{}", flow["goodput_mbit"]);
}

#[test]
fn the_largest_window_holds_from_the_first_connection_on() {
    needs_root!();
    clamped("clamped", &PHONE_AND_SERVER.replace("rtt_ms = 10", "rtt_ms = 20"));
}

#[test]
fn the_largest_window_holds_on_the_cellular_interface_too() {
    needs_root!();
    let second = "ht-03a\"\ncellular = { rtt_ms = 20 }";
    clamped("cellular", &(PHONE_AND_SERVER.replace("ht-03a\"", second) + "over = \"cellular\"\n"));
}

#[test]
fn a_swept_sysctl_is_another_one_in_each_point() {
    needs_root!();
    let text = PHONE_AND_SERVER.to_owned()
        + "[sweep]\n\"hosts.phone.sysctl.ipv4/tcp_window_scaling\" = [0, 1]\n";
    let bench = Bench::new("sysctl", &text);
    let output = bench.run(&["--pcap"]);
    assert!(output.status.success(), "{}", errors(&output));
    let scaled = |value: u32| {
        let run = bench.results().join(format!("runs/ipv4-tcp-window-scaling-{value}/1"));
        let words = ["-r", "pcap-phone.pcap", "-n", "tcp[tcpflags] == tcp-syn"];
        let dump = Command::new("tcpdump").args(words).current_dir(run).output().expect("tcpdump");
        String::from_utf8_lossy(&dump.stdout).contains("wscale")
    };
    assert_eq!([scaled(0), scaled(1)], [false, true]);
}

#[test]
fn a_control_is_run_and_fails_where_the_claim_holds() {
    needs_root!();
    let text = PHONE_AND_SERVER
        .replace("repeats = 1", "repeats = 3")
        .replace("profile = \"ht-03a\"", "profile = \"laptop\"\nlargest_window = 6")
        + r#"
[[claims]]
text = "A window of 6 segments holds it below 12 Mbit/s"
test = "value"
of = { metric = "goodput_mbit", flow = "up" }
at_most = 12
fails_under = ["a larger window", "the same window"]
[[controls]]
name = "a larger window"
unset = ["hosts.phone.largest_window"]
[[controls]]
name = "the same window"
set = { hosts.phone.largest_window = 6 }
repeats = 4
"#;
    let bench = Bench::new("control", &text);
    let output = bench.run(&[]);
    assert!(output.status.success(), "{}", errors(&output));
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("Control \"a larger window\" fails as it must"), "{said}");
    let warning = "WARNING: the claim passes without what it names: control \"the same window\"";
    assert!(said.replace("\n       ", " ").contains(warning), "{said}");
    assert!(said.contains("0 of 1 claims reproduced, 1 passed by a control, too"), "{said}");
    let control = bench.results().join("controls/the-same-window/only");
    assert!(control.join("4/measured.json").exists() && !control.join("5").exists());
    bench.assert_clean();
}
