//! `transom tune suggest` with the engine: what it names is what helps, and it can be set.

mod simulated;

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use simulated::{SECONDS, bulk, flow, recorded, scenario};
use transom_control::{Policy, available_algorithms};
use transom_scenario::{Flow, Scenario};
use transom_testbed::needs;

const TRANSOM: &str = env!("CARGO_BIN_EXE_transom");

fn transom(words: &[&str], files: &[&Path]) -> Output {
    Command::new(TRANSOM).args(words).args(files).output().expect("transom runs")
}

fn suggested(words: &[&str], trace: &Path) -> Output {
    transom(&[&["tune", "suggest", "--budget", "3min"], words].concat(), &[trace])
}

fn answer(output: &Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Losses that no queue causes.
fn lossy(algorithm: &str, seed: u64) -> Scenario {
    let mut scenario = scenario(algorithm, seed);
    scenario.links.path.up.loss = 0.01;
    scenario.links.path.up.queue_packets = Some(40);
    scenario
}

/// What `whatif --verify` predicted of the goodput, divided by what was recorded.
fn verified(words: &[&str], before: &Path, after: &Path) -> f64 {
    let words = [&["whatif", "--budget", "3min", "--json", "--verify"], words].concat();
    let goodput = answer(&transom(&words, &[before, after]))["verified"][0].clone();
    assert_eq!(goodput["what"], "goodput");
    goodput["predicted"].as_f64().expect("a number") / goodput["recorded"].as_f64().expect("one")
}

#[test]
fn of_random_losses_the_remedy_is_an_algorithm_that_they_do_not_slow_down() {
    needs!("transom-simulate");
    let folder = tempfile::tempdir().expect("a folder");
    let trace = recorded(&lossy("reno", 5), &folder.path().join("before"));
    let file = folder.path().join("faster.toml");
    let name = file.display().to_string();
    let all = answer(&suggested(&["--json", "-o", &name], &trace));
    let best = &all["suggestion"]["levers"][0];
    let label = best["label"].as_str().expect("a label");
    assert!(label.starts_with("bbr") || label.starts_with("steady"), "{best}");
    assert!(best["gain"]["low"].as_f64() > Some(1.3), "{best}");
    let commands = best["commands"].as_array().expect("commands");
    let set = commands.last().and_then(Value::as_str).expect("a command");
    assert!(set.starts_with("sudo transom tune set --algorithm "), "{set}");
    let text = std::fs::read_to_string(&file).expect("a policy");
    let mut algorithms = available_algorithms();
    algorithms.push("bbr".to_owned());
    let policy = Policy::parse(&text, &algorithms).expect("one that tune accepts");
    assert!(policy.rules[0].treatment.algorithm.is_some() && text.contains(label), "{text}");

    if label.starts_with("bbr") {
        let after = recorded(&lossy("bbr", 7), &folder.path().join("after"));
        let ratio = verified(&[], &trace, &after);
        assert!((0.9..1.1).contains(&ratio), "predicted ÷ recorded: {ratio}");
    }
    // The trace does not tell the parameters of `steady`, the policy does.
    let wanted =
        "[[rule]]\naction = { algorithm = \"steady\", target = 26, cap = 30, backoff = 0 }\n";
    let file = folder.path().join("steady.toml");
    std::fs::write(&file, wanted).expect("a policy");
    let mut steady = lossy("steady", 7);
    let sysctl = &mut steady.hosts.get_mut("sender").expect("the sender").sysctl;
    for (key, value) in [("target", "26"), ("cap", "30"), ("backoff", "0")] {
        sysctl.insert(format!("ipv4.tcp_steady_{key}"), value.to_owned());
    }
    let after = recorded(&steady, &folder.path().join("steady"));
    let ratio = verified(&["--policy", &file.display().to_string()], &trace, &after);
    assert!((0.95..1.05).contains(&ratio), "predicted ÷ recorded: {ratio}");
}

#[test]
fn of_a_receivers_small_window_the_remedy_is_its_buffer() {
    needs!("transom-simulate");
    let folder = tempfile::tempdir().expect("a folder");
    let with_buffer = |bytes| {
        let mut scenario = scenario("cubic", 5);
        let mut flow = Flow { traffic: bulk(SECONDS), ..flow("sender", 5201, "cubic") };
        flow.receiver.receive_buffer = bytes;
        scenario.flows.insert("flow".into(), flow);
        scenario
    };
    let trace = recorded(&with_buffer(Some(20_000)), &folder.path().join("before"));
    let all = answer(&suggested(&["--json"], &trace));
    let best = &all["suggestion"]["levers"][0];
    assert_eq!(best["place"], "receiver", "{best}");
    let command = best["commands"][0].as_str().expect("a command");
    assert!(command.starts_with("sudo sysctl -w net.ipv4.tcp_rmem="), "{command}");
    let file = folder.path().join("none.toml");
    let output = suggested(&["-o", &file.display().to_string()], &trace);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && said.contains("cannot set"), "{said}");
    assert!(!file.exists());
    let after = recorded(&with_buffer(None), &folder.path().join("after"));
    let ratio = verified(&[], &trace, &after);
    assert!((0.9..1.1).contains(&ratio), "predicted ÷ recorded: {ratio}");
}

#[test]
fn at_the_full_rate_all_is_left_as_it_is() {
    needs!("transom-simulate");
    let folder = tempfile::tempdir().expect("a folder");
    let trace = recorded(&scenario("cubic", 3), &folder.path().join("run"));
    let file = folder.path().join("none.toml");
    let output = suggested(&["-o", &file.display().to_string()], &trace);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("No lever helps by more than 5 %: leave it as it is."), "{said}");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && errors.contains("no lever helps"), "{errors}");
    assert!(!file.exists());
    assert!(suggested(&[], &trace).status.success(), "that nothing helps is an answer");
}

#[test]
fn it_refuses_what_whatif_refuses_for_the_same_reason() {
    needs!("transom-simulate");
    let folder = tempfile::tempdir().expect("a folder");
    let mut shared = scenario("cubic", 3);
    let other = Flow { start_s: SECONDS / 2.0, ..flow("other", 5202, "cubic") };
    shared.flows.insert("other".into(), other);
    let trace = recorded(&shared, &folder.path().join("run"));
    let file = folder.path().join("none.toml");
    let name = file.display().to_string();
    let output = suggested(&["-o", &name], &trace);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("no prediction") && said.contains("other flows"), "{said}");
    assert!(!said.contains("tune set") && !file.exists(), "{said}");
    let refused = |words: &[&str], trace: &Path, why: &str| {
        let output = suggested(words, trace);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() != Some(0) && said.contains(why), "{said}");
    };
    refused(&[], &folder.path().join("run/trace-receiver.parquet"), "record there");
    refused(&["--connection", ":9"], &trace, "no connection is");
    refused(&["--min-gain", "-3"], &trace, "percentage");
    refused(&["-o", &trace.display().to_string()], &trace, "exists");
    refused(&[], &folder.path().join("absent.parquet"), "absent.parquet");
}
