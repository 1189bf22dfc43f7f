//! `transom lab grid` with the engine: what is drawn is run, judged, and can be run again.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;
use transom_testbed::needs;

/// Paths that lose segments without congestion: CUBIC takes the losses for congestion, BBR does not.
const LOSSY: &str = r#"
title = "Paths that lose segments"
question = "Is it as good as the better of CUBIC and BBR?"
seed = 1
points = 3
repeats = 1

[space]
terminals = [1, 2]
rtt_ms = [50, 100]
rate_mbit = [5, 20]
queue.bdp = { bdp = [0.8, 1.25] }
losses.random = { kind = "random", share = [0.01, 0.02] }
competitor.none = {}
flows.bulk = { kind = "bulk" }

[cost]
seconds = 10
round_trips = 10
packets_per_flow = 10

[algorithms]
cubic = { algorithm = "cubic" }
bbr = { algorithm = "bbr" }
mine = { algorithm = "steady" }

[judge]
subject = "mine"
yardsticks = ["cubic", "bbr"]
beside = "bbr"
fair = "cubic"
goodput = 0.97
goodput_weak = 1.1
competitor = 0.8
points = 0.95
"#;

struct Bench(tempfile::TempDir);

impl Bench {
    fn new() -> Bench {
        let folder = tempfile::tempdir().expect("a temporary folder");
        fs::write(folder.path().join("lossy.toml"), LOSSY).expect("a file can be written");
        Bench(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn grid(&self, words: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_transom"));
        command.args(["lab", "grid", "lossy.toml"]).args(words).current_dir(self.0.path());
        command.output().expect("transom runs")
    }

    fn verdicts(&self, words: &[&str]) -> String {
        let output = self.grid(words);
        assert!(output.status.success(), "{}", said(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn numbers(&self) -> Value {
        let text = fs::read(self.path("grid-virtual/lossy/grid.json")).expect("results");
        serde_json::from_slice(&text).expect("JSON")
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn cubic_in_the_place_of_the_subject_fails_and_bbr_there_is_as_good_as_itself() {
    needs!("transom-simulate");
    let bench = Bench::new();
    let text = bench.verdicts(&["--algorithm", "mine=cubic"]);
    let fails = "| points where goodput of mine ÷ best of cubic, bbr ≥ 0.97 | 0.000 |";
    let line = text.lines().find(|line| line.starts_with(fails));
    assert!(line.is_some_and(|line| line.ends_with("| not met |")), "{text}");
    let grid = "grid-virtual/lossy/grid.json";
    let reused = bench.grid(&["--algorithm", "mine=bbr", "--reuse", grid]);
    let text = String::from_utf8_lossy(&reused.stdout).into_owned();
    assert!(said(&reused).contains("3 of 3 runs"), "only its own: {}", said(&reused));
    assert!(text.contains("best of cubic, bbr | 1.000 | "), "the same seeds: {text}");
    assert!(text.contains("best of cubic, bbr ≥ 0.97 | 1.000 |"), "{text}");
    assert_eq!(text, fs::read_to_string(bench.path("grid-virtual/lossy/grid.md")).unwrap());
}

#[test]
fn a_point_can_be_run_again_with_its_traces() {
    needs!("transom-simulate");
    let bench = Bench::new();
    bench.verdicts(&["--repeats", "1"]);
    let numbers = bench.numbers();
    let before = &numbers["points"][1]["runs"]["mine"][0]["goodput_mbit"];
    let before = format!("{:.3}", before.as_f64().expect("a number"));
    let again = bench.verdicts(&["--point", "2"]);
    let line = again.lines().find(|line| line.trim_start().starts_with("mine")).expect("a line");
    assert_eq!(line.split_whitespace().nth(1), Some(before.as_str()), "{again}");
    let kept = bench.path("grid-virtual/lossy/points/point-2/mine/1");
    for file in ["scenario.json", "outcome.json", "trace-t1.parquet"] {
        assert!(kept.join(file).exists(), "{file}");
    }
    assert_eq!(bench.numbers(), numbers, "the results of the grid stay");
}

#[test]
fn a_point_whose_runs_fail_on_the_real_kernel_is_a_failure() {
    needs!("root");
    let bench = Bench::new();
    let bin = bench.path("bin");
    fs::create_dir(&bin).unwrap();
    for program in ["iperf", "transom-simulate"] {
        let path = bin.join(program);
        fs::write(&path, "#!/bin/sh\necho out of order >&2\nexit 1\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    transom_testbed::copy_transom(&bin);
    let mut command = Command::new(bin.join("transom"));
    command.args(["lab", "grid", "lossy.toml", "--real", "--points", "14"]);
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let output = command.env("PATH", path).current_dir(bench.0.path()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("0 points were not run, and 1 failed"), "{text}{}", said(&output));
    assert!(text.contains("\nFailed:\n\n- point "), "{text}");
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
}

#[test]
fn what_cannot_be_is_told_with_the_remedy_before_anything_runs() {
    let bench = Bench::new();
    let refused = |words: &[&str]| {
        let output = bench.grid(words);
        assert!(!output.status.success() && !bench.path("grid-virtual").exists());
        said(&output)
    };
    assert!(refused(&["--half", "both"]).contains("use train or report"));
    assert!(refused(&["--subject", "min"]).contains("did you mean `mine`?"));
    assert!(refused(&["--algorithm", "mine"]).contains("write mine=steady,backoff=0"));
    let broken = LOSSY.replace("seed = 1", "sede = 1");
    fs::write(bench.path("lossy.toml"), broken).unwrap();
    assert!(refused(&[]).contains("lossy.toml:4"), "the line");
}
