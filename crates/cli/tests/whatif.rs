//! `transom whatif` with the engine: what it predicts of a path is what that path then does.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use transom_control::Policy;
use transom_lab::simulated::engine;
use transom_scenario::{Flow, Host, Scenario, Socket, Traffic};
use transom_testbed::{copy_transom, needs};

const TRANSOM: &str = env!("CARGO_BIN_EXE_transom");
const SECONDS: f64 = 8.0;

/// A sender with this algorithm and cap, 8 Mbit/s and 40 ms away from its receiver.
fn scenario(algorithm: &str, seed: u64) -> Scenario {
    let mut scenario: Scenario = serde_json::from_value(serde_json::json!({
        "seed": seed, "most_seconds": SECONDS, "record": true,
        "links": { "path": { "rtt_ms": 40.0, "up": { "rate_mbit": 8.0, "queue_packets": 20 } } },
    }))
    .expect("a scenario");
    for (number, name) in [(1, "sender"), (2, "receiver"), (3, "other")] {
        let address: IpAddr = [10, 77, 0, number].into();
        let host = Host { addresses: vec![address], gso_max_segs: 1, ..Host::default() };
        scenario.hosts.insert(name.to_owned(), host);
        let side = if number == 2 { "far" } else { "near" };
        let port =
            serde_json::json!({ "name": name, "mac": [2, 0, 0, 0, 0, number], "side": side });
        scenario.links.ports.push(serde_json::from_value(port).expect("a port"));
    }
    scenario.flows.insert("flow".into(), flow("sender", 5201, algorithm));
    scenario
}

fn flow(from: &str, port: u16, algorithm: &str) -> Flow {
    Flow {
        from: from.into(),
        to: "receiver".into(),
        port,
        traffic: Traffic::Bulk { seconds: Some(SECONDS), bytes: None },
        sender: Socket { congestion: Some(algorithm.into()), ..Socket::default() },
        ..Flow::default()
    }
}

/// The sender's trace of it.
fn recorded(scenario: &Scenario, folder: &Path) -> PathBuf {
    std::fs::create_dir_all(folder).expect("a folder");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let program = engine::find(Path::new(TRANSOM), &path).expect("the engine");
    engine::simulate(&program, scenario, folder, &|| true).expect("it runs").expect("an outcome");
    folder.join("trace-sender.parquet")
}

fn whatif(arguments: &[&str], files: &[&Path]) -> Output {
    let mut command = Command::new(TRANSOM);
    command.args(["whatif", "--budget", "2m"]).args(arguments).args(files);
    command.output().expect("transom runs")
}

fn answer(output: &Output) -> Value {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn another_algorithm_does_what_was_predicted_of_it() {
    needs!("transom-simulate");
    let folder = tempfile::tempdir().expect("a folder");
    let before = recorded(&scenario("reno", 1), &folder.path().join("before"));
    let policy = folder.path().join("faster.toml");
    let written = policy.display().to_string();
    let arguments = ["--json", "--cc", "bbr", "--cc", "cubic", "--write-policy", &written];
    let predictions = answer(&whatif(&arguments, &[&before]))["result"]["predictions"].clone();
    assert_eq!(predictions.as_array().map(Vec::len), Some(2));
    for algorithm in ["bbr", "cubic"] {
        let after = recorded(&scenario(algorithm, 7), &folder.path().join(algorithm));
        let verified = answer(&whatif(&["--json", "--verify"], &[&before, &after]));
        assert_eq!(verified["result"]["predictions"][0]["label"], algorithm);
        for number in verified["verified"].as_array().expect("numbers") {
            if number["what"] == "retransmitted" {
                continue;
            }
            let of = |key: &str| number[key].as_f64().expect("a number");
            let ratio = of("predicted") / of("recorded");
            assert!((ratio - 1.0).abs() < 0.05, "{algorithm}: {number}");
        }
    }
    let text = std::fs::read_to_string(&policy).expect("a policy");
    let algorithms = ["bbr", "cubic"].map(str::to_owned);
    let rules = Policy::parse(&text, &algorithms).expect("one that tune reads").rules;
    assert!(rules[0].treatment.algorithm.is_some() && text.contains("times the goodput"), "{text}");
}

#[test]
fn where_others_take_a_part_of_the_path_nothing_is_predicted() {
    needs!("transom-simulate");
    let folder = tempfile::tempdir().expect("a folder");
    let mut scenario = scenario("cubic", 3);
    let other = Flow { start_s: SECONDS / 2.0, ..flow("other", 5202, "cubic") };
    scenario.flows.insert("other".into(), other);
    let trace = recorded(&scenario, folder.path());
    let output = whatif(&["--cc", "bbr"], &[&trace]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("no prediction") && said.contains("other flows"), "{said}");
}

#[test]
fn what_cannot_be_done_is_said_with_its_remedy() {
    needs!("transom-simulate");
    let folder = tempfile::tempdir().expect("a folder");
    let trace = recorded(&scenario("cubic", 3), &folder.path().join("run"));
    let refused = |arguments: &[&str], files: &[&Path], words: &str| {
        let output = whatif(arguments, files);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(words), "{said}");
    };
    refused(&[], &[&trace, &trace], "--verify");
    refused(&["--verify"], &[&trace], "--verify");
    refused(&["--verify"], &[&trace, &trace], "no setting");
    refused(&["--sysctl", "tcp_sack"], &[&trace], "NAME=VALUE");
    refused(&["--cc", "nonesuch"], &[&trace], "nonesuch");
    refused(&[], &[&folder.path().join("run/trace-receiver.parquet")], "record there");
    let alone = folder.path().join("transom");
    copy_transom(&alone);
    let mut command = Command::new(&alone);
    let output = command.arg("whatif").arg(&trace).env("PATH", folder.path()).output();
    let said = output.expect("transom runs").stderr;
    assert!(String::from_utf8_lossy(&said).contains("make simulator"));
}
