//! `transom lab` in virtual time, with an engine that is a script: what it is asked for, what is
//! made of its answer, and what is said where it cannot be. `crates/simulator` tests the engine.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output};

use transom_testbed::copy_transom;
use transom_testbed::lab::{errors, json};

const EXPERIMENT: &str = r#"
title = "A phone and a server"
source = "this test"
question = "Does it hold?"
duration_s = 1
repeats = 2
record = false

[hosts.phone]
[hosts.server]
[flows.up]
from = "phone"
to = "server"

[sweep]
path.rtt_ms = [0, 20]

[[claims]]
text = "It is about eight"
test = "value"
of = { metric = "goodput_mbit", flow = "up" }
over_all = true
at_least = 7
"#;

/// A second of 8 Mbit/s, as `transom-simulate run SCENARIO -o DIR` would leave it.
const ENGINE: &str = r#"#!/bin/sh
[ "$1" = run ] && [ "$3" = -o ] && grep -q '"kind": "bulk"' "$2" || exit 3
cat > "$4/outcome.json" <<END
{"virtual_s": 1.5, "wall_s": 0.1, "cpu_s": 0.1, "packets": 7, "kernels": {"phone": "6.12.0"},
 "flows": {"up": {"transfers": [{"began_s": 0, "first_read_s": 0.5, "ended_s": 1.5,
 "bytes": 1000000}], "received": 1000000, "per_second": [1000000], "datagrams": null}},
 "failures": []}
END
"#;

struct Bench(tempfile::TempDir);

impl Bench {
    /// Without the engine.
    fn bare() -> Bench {
        let folder = tempfile::tempdir().expect("a temporary folder");
        fs::write(folder.path().join("mine.toml"), EXPERIMENT).expect("a file can be written");
        copy_transom(folder.path());
        Bench(folder)
    }

    fn new() -> Bench {
        let bench = Bench::bare();
        let engine = bench.path("transom-simulate");
        fs::write(&engine, ENGINE).expect("a file can be written");
        fs::set_permissions(&engine, fs::Permissions::from_mode(0o755)).expect("it is ours");
        bench
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn lab(&self, words: &[&str]) -> Output {
        let mut command = Command::new(self.path("transom"));
        command.arg("lab").args(words).current_dir(self.0.path());
        command.output().expect("transom runs")
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn an_experiment_is_run_and_judged_and_the_page_says_that_time_was_virtual() {
    let bench = Bench::new();
    let output = bench.lab(&["run", "--virtual", "./mine.toml"]);
    assert!(output.status.success(), "{}", errors(&output));
    let text = said(&output);
    assert!(text.contains("Virtual time: Linux 6.12.0 simulated for 6 s"), "{text}");
    assert!(text.contains("yes  It is about eight"), "{text}");
    let folder = bench.path("results-virtual/mine");
    let scenario = json(&folder.join("runs/rtt-ms-20/2/scenario.json"));
    assert_eq!(scenario["links"]["path"]["rtt_ms"], 20.0);
    let manifest = json(&folder.join("manifest.json"));
    assert_eq!((&manifest["backend"], &manifest["finished"]), (&"virtual".into(), &4.into()));
    assert!(fs::read_to_string(folder.join("report.html")).unwrap().contains("Virtual time"));
    let again = bench.lab(&["run", "--virtual", "./mine.toml"]);
    assert!(
        errors(&again).contains("4 of 4 runs finished, 4 of them before"),
        "{}",
        errors(&again)
    );
}

#[test]
fn without_the_engine_it_says_how_to_get_it() {
    let output = Bench::bare().lab(&["run", "--virtual", "./mine.toml"]);
    assert!(!output.status.success());
    assert!(errors(&output).contains("build it with `make simulator`"), "{}", errors(&output));
}

#[test]
fn what_cannot_be_virtual_is_named_and_the_rest_goes_on() {
    let bench = Bench::new();
    let bound = EXPERIMENT.replace("record = false", "record = false\ncpu_bound = true");
    fs::write(bench.path("bound.toml"), bound).unwrap();
    let output = bench.lab(&["run", "--virtual", "./bound.toml", "./mine.toml"]);
    let text = errors(&output);
    assert!(text.contains("bound: not virtual: it measures processors (`cpu_bound`)"), "{text}");
    assert!(text.contains("mine: 4 of 4 runs finished"), "{text}");
    assert!(!output.status.success(), "one that was named did not run");
    let alone = bench.lab(&["run", "--virtual", "./bound.toml"]);
    assert!(errors(&alone).contains("none of these experiments can be virtual"));
}

#[test]
fn results_of_real_time_are_not_mixed_with_virtual_ones() {
    let bench = Bench::new();
    let first = bench.lab(&["run", "--virtual", "-o", "out", "./mine.toml"]);
    assert!(first.status.success(), "{}", errors(&first));
    let path = bench.path("out/mine/manifest.json");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("\"backend\": \"virtual\"", "\"backend\": \"emulator\""))
        .unwrap();
    let second = bench.lab(&["run", "--virtual", "-o", "out", "./mine.toml"]);
    assert!(!second.status.success());
    let text = errors(&second);
    assert!(text.contains("out/mine holds results of real time"), "{text}");
}

#[test]
fn a_sweep_is_of_any_key_and_ends_with_a_table() {
    let bench = Bench::new();
    let output =
        bench.lab(&["sweep", "./mine.toml", "flows.up.algorithm=cubic,bbr", "path.rtt_ms=1,2,4"]);
    assert!(output.status.success(), "{}", errors(&output));
    let text = said(&output);
    assert_eq!(text.lines().count(), 7, "{text}");
    assert!(text.lines().next().unwrap().contains("flows.up.algorithm"), "{text}");
    let wrong = bench.lab(&["sweep", "./mine.toml", "flows.down.algorithm=bbr"]);
    assert!(!wrong.status.success());
    assert!(errors(&wrong).contains("there is no `flows.down`"), "{}", errors(&wrong));
}

#[test]
fn options_of_virtual_time_are_checked() {
    let bench = Bench::new();
    for (words, why) in [
        (vec!["--virtual", "--pcap"], "cannot be used with"),
        (vec!["--jobs", "2"], "--virtual"),
        (vec!["--virtual", "--jobs", "0"], "give 1 or more"),
        (vec!["--virtual", "--precision", "2"], "0.0001 to 1"),
    ] {
        let output = bench.lab(&[&["run", "./mine.toml"], words.as_slice()].concat());
        assert!(!output.status.success());
        assert!(errors(&output).contains(why), "{words:?}: {}", errors(&output));
    }
}
