//! `transom lab` in virtual time, with an engine that is a script: what it is asked for, what is
//! made of its answer, and what is said where it cannot be. `crates/simulator` tests the engine.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use transom_testbed::lab::{errors, json};
use transom_testbed::{copy_transom, needs};

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
[ "$1" = check ] && exit 0
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
fn what_an_experiment_says_moves_no_cursor() {
    let bench = Bench::new();
    let odd = "\\u001b]52;c;eA==\\u0007";
    let cases = format!(
        "case = [{{ name = \"far{odd}\", set = {{ path.rtt_ms = 20 }} }}, \
         {{ name = \"near\", set = {{ path.rtt_ms = 1 }} }}]"
    );
    let text = EXPERIMENT
        .replace("A phone and", &format!("A{odd} phone and"))
        .replace("It is about", &format!("It{odd} is about"))
        .replace("path.rtt_ms = [0, 20]", &cases);
    fs::create_dir(bench.path("experiments")).unwrap();
    fs::write(bench.path("experiments/odd.toml"), text).unwrap();
    let commands: [&[&str]; 6] = [
        &["list"],
        &["show", "odd"],
        &["run", "--virtual", "odd"],
        &["show", "odd"],
        &["report", "results-virtual/odd"],
        &["sweep", "odd", "path.rtt_ms=1,2"],
    ];
    for words in commands {
        let output = bench.lab(words);
        assert!(output.status.success(), "{words:?}: {}", errors(&output));
        let text = said(&output) + &errors(&output);
        let obeyed = |c: char| c.is_control() && c != '\n';
        assert!(!text.contains(obeyed), "{words:?}: {text:?}");
        assert!(words[0] == "sweep" || text.contains("?]52;c;"), "{words:?}: {text}");
    }
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
fn results_in_full_are_not_mixed_with_those_of_the_short_form() {
    let bench = Bench::new();
    let text = EXPERIMENT.to_owned() + "[quick]\nduration_s = 0.5\nsweep.path.rtt_ms = [20]\n";
    fs::write(bench.path("mine.toml"), text).unwrap();
    let first = bench.lab(&["run", "--virtual", "-o", "out", "./mine.toml"]);
    assert!(first.status.success(), "{}", errors(&first));
    let second = bench.lab(&["run", "--virtual", "--quick", "-o", "out", "./mine.toml"]);
    assert!(!second.status.success());
    let text = errors(&second);
    assert!(text.contains("out/mine holds results of the whole experiment"), "{text}");
    for run in ["rtt-ms-0/1", "rtt-ms-0/2", "rtt-ms-20/1", "rtt-ms-20/2"] {
        assert!(bench.path("out/mine/runs").join(run).join("measured.json").exists(), "{run}");
    }
}

#[test]
fn recorded_links_are_beside_the_experiment_whatever_is_made_of_it() {
    let bench = Bench::new();
    fs::create_dir(bench.path("links")).unwrap();
    let linked =
        EXPERIMENT.replace("[hosts.phone]", "path.up.trace.file = 'lte.up'\n[hosts.phone]");
    fs::write(bench.path("links/linked.toml"), linked).unwrap();
    fs::write(bench.path("links/lte.up"), "1\n5\n5\n").unwrap();
    let commands: [&[&str]; 3] = [
        &["run", "--virtual", "links/linked.toml"],
        &["sweep", "links/linked.toml", "path.rtt_ms=1,2"],
        &[&["search", "links/linked.toml", "up.goodput_mbit", "path.rtt_ms=1..9"], &SMALL[..]]
            .concat(),
    ];
    for words in commands {
        let output = bench.lab(words);
        assert!(output.status.success(), "{words:?}: {}", errors(&output));
    }
    for run in ["results-virtual/linked/runs/rtt-ms-0/1", "sweep-virtual/linked/runs/rtt-ms-1/1"] {
        let scenario = json(&bench.path(run).join("scenario.json"));
        assert_eq!(scenario["links"]["path"]["up"]["trace"]["ms"], serde_json::json!([1, 5, 5]));
    }
    // The results outlive the links.
    fs::remove_dir_all(bench.path("links")).unwrap();
    fs::remove_file(bench.path("results-virtual/linked/claims.json")).unwrap();
    let output = bench.lab(&["report", "results-virtual/linked"]);
    assert!(output.status.success(), "{}", errors(&output));
    assert!(said(&output).contains("yes  It is about eight"), "{}", said(&output));
    assert!(bench.path("results-virtual/linked/claims.json").exists());
}

/// As [`ENGINE`], with a goodput that falls with the round trip, and slowly.
const SLOPE: &str = r#"#!/bin/sh
[ "$1" = check ] && exit 0
rtt=$(sed -n 's/^ *"rtt_ms": \([0-9]*\).*/\1/p' "$2")
sleep 0.05
bytes=$((1000000 - rtt * 1000))
cat > "$4/outcome.json" <<END
{"virtual_s": 1.5, "wall_s": 0.1, "cpu_s": 0.1, "packets": 7, "kernels": {"phone": "6.12.0"},
 "flows": {"up": {"transfers": [{"began_s": 0, "first_read_s": 0.5, "ended_s": 1.5,
 "bytes": $bytes}], "received": $bytes, "per_second": [$bytes], "datagrams": null}},
 "failures": []}
END
"#;

const SMALL: [&str; 6] = ["--runs", "60", "--seeds", "1", "--held-out", "5"];

#[test]
fn a_search_reports_the_best_with_the_default_beside_it_on_held_out_seeds() {
    let bench = Bench::new();
    fs::write(bench.path("transom-simulate"), SLOPE).unwrap();
    let words = ["search", "./mine.toml", "up.goodput_mbit", "path.rtt_ms=1..50"];
    let output =
        bench.lab(&[&words[..], &["--point", "path.rtt_ms=20"], SMALL.as_slice()].concat());
    assert!(output.status.success(), "{}", errors(&output));
    let text = said(&output);
    assert!(
        text.contains("held-out seeds:      as it is   7.84 (7.84 to 7.84), 5 seeds"),
        "{text}"
    );
    assert!(text.contains("Better than as it is, +"), "{text}");
    let found = &json(&bench.path("search-virtual/mine/search.json"))["found"];
    let best = found["best"]["settings"]["path.rtt_ms"].as_u64().unwrap();
    assert!(best < 5, "{found}");
    assert_eq!(found["held_out"]["seeds"], 5);
}

#[test]
fn a_search_over_what_has_no_effect_reports_no_difference() {
    let bench = Bench::new();
    let words = ["search", "./mine.toml", "up.goodput_mbit", "path.rtt_ms=1..50"];
    let output = bench.lab(&[&words[..], SMALL.as_slice()].concat());
    assert!(said(&output).contains("No difference on held-out seeds"), "{}", said(&output));
}

#[test]
fn a_search_names_what_is_wrong_before_it_runs_anything() {
    let bench = Bench::new();
    for (words, why) in [
        (["up.goodput", "path.rtt_ms=1..9"], "did you mean `goodput_mbit`?"),
        (["up.srtt_ms", "path.rtt_ms=1..9"], "needs a trace"),
        (["up.goodput_mbit", "path.rtt_ms=9..1"], "the lower one"),
        (["up.goodput_mbit", "path.rtt_ms=-3..1"], "path.rtt_ms = -3"),
        (["up.goodput_mbit", "path.speed=1..2"], "speed"),
    ] {
        let output = bench.lab(&[&["search", "./mine.toml"][..], &words[..]].concat());
        assert!(!output.status.success());
        assert!(errors(&output).contains(why), "{words:?}: {}", errors(&output));
        assert!(!bench.path("search-virtual").exists());
    }
    let few = bench.lab(&["search", "./mine.toml", "sum_mbit", "path.rtt_ms=1..9", "--runs", "9"]);
    assert!(errors(&few).contains("9 runs are too few"), "{}", errors(&few));
}

/// Starts it, sends SIGINT as soon as this file is there, and waits.
fn interrupted(bench: &Bench, words: &[&str], file: &str) -> Output {
    let mut command = Command::new(bench.path("transom"));
    command.arg("lab").args(words).current_dir(bench.0.path());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let is_there = wait_until(|| bench.path(file).exists());
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it runs");
    assert!(is_there, "there is no {file}");
    child.wait_with_output().expect("it ends")
}

fn wait_until(holds: impl Fn() -> bool) -> bool {
    (0..600).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(50));
        holds()
    })
}

#[test]
fn ctrl_c_keeps_what_is_finished_and_the_same_command_goes_on() {
    let bench = Bench::new();
    fs::write(bench.path("transom-simulate"), SLOPE).unwrap();
    let words = ["run", "--virtual", "./mine.toml", "--repeats", "200"];
    let first = "results-virtual/mine/runs/rtt-ms-0/3/measured.json";
    let output = interrupted(&bench, &words, first);
    assert!(!output.status.success());
    let text = errors(&output);
    assert!(
        text.contains("mine: A phone and a server (about ") && text.contains("goes on"),
        "{text}"
    );
    let finished = json(&bench.path("results-virtual/mine/manifest.json"))["finished"].clone();
    let finished = finished.as_u64().unwrap();
    assert!((3..400).contains(&finished), "{finished}");
    assert!(said(&output).contains("It is about eight"), "what there is is judged");
    let few = ["run", "--virtual", "./mine.toml", "--repeats", "10"];
    let again = bench.lab(&few);
    assert!(errors(&again).contains("of them before"), "{}", errors(&again));
}

#[test]
fn a_search_that_is_stopped_reports_what_it_found_so_far() {
    let bench = Bench::new();
    fs::write(bench.path("transom-simulate"), SLOPE).unwrap();
    let words = ["search", "./mine.toml", "up.goodput_mbit", "path.rtt_ms=1..50"];
    let output = interrupted(&bench, &words, "search-virtual/mine/search-3/manifest.json");
    assert!(!output.status.success());
    let text = said(&output);
    assert!(text.contains("8 candidates tried") || text.contains("12 candidates tried"), "{text}");
    assert!(text.contains("best settings\n  path.rtt_ms = "), "{text}");
    assert!(text.contains("the lead may be chance"), "{text}");
    assert!(json(&bench.path("search-virtual/mine/search.json"))["found"]["held_out"].is_null());
}

#[test]
fn a_search_of_real_kernels_finds_the_window_that_fills_the_path() {
    needs!("transom-simulate");
    let folder = tempfile::tempdir().expect("a folder");
    // 20 Mbit/s and 50 ms are 84 segments; the host begins with a window of 10 and keeps it.
    let text = EXPERIMENT
        .replace("[hosts.phone]", "[path]\nup.rate_mbit = 20\n[hosts.phone]\nlargest_window = 10")
        .replace("rtt_ms = [0, 20]", "rtt_ms = [50, 90]");
    fs::write(folder.path().join("mine.toml"), text).expect("a file can be written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_transom"));
    command.args(["lab", "search", "./mine.toml", "up.goodput_mbit"]);
    command.args(["hosts.phone.largest_window=5..200", "--seeds", "1", "--held-out", "2"]);
    let output =
        command.args(["--runs", "50"]).current_dir(folder.path()).output().expect("it runs");
    assert!(output.status.success(), "{}", errors(&output));
    let found = &json(&folder.path().join("search-virtual/mine/search.json"))["found"];
    let window = found["best"]["settings"]["hosts.phone.largest_window"].as_u64().unwrap();
    assert!(window > 60, "{found}");
    let of = |which: &str| found["held_out"][which]["mean"].as_f64().unwrap();
    assert!(of("best") > 4.0 * of("default"), "{found}");
}

#[test]
fn what_the_simulated_kernel_lacks_is_refused_before_the_first_run_with_what_it_has() {
    needs!("transom-simulate");
    let folder = tempfile::tempdir().expect("a folder");
    let lab = |text: &str, words: &[&str]| {
        fs::write(folder.path().join("mine.toml"), text).expect("a file can be written");
        let mut command = Command::new(env!("CARGO_BIN_EXE_transom"));
        command.arg("lab").args(words).current_dir(folder.path()).output().expect("it runs")
    };
    let of_host =
        |line: &str| EXPERIMENT.replace("[hosts.phone]", &format!("[hosts.phone]\n{line}"));
    let swept =
        EXPERIMENT.replace("path.rtt_ms = [0, 20]", "flows.up.algorithm = ['cubic', 'vegas9']");
    let lacks =
        "neither this kernel nor the simulated one has congestion control \"vegas9\"; known: ";
    let run: &[&str] = &["run", "--virtual", "./mine.toml"];
    let of_policy = "policy.rule = [{ match = {}, action = { algorithm = 'vegas9' } }]";
    let cases: [(String, &[&str], &str); 6] = [
        (of_host("algorithm = \"vegas9\""), run, lacks),
        (of_host(of_policy), run, lacks),
        (
            of_host("sysctl = { \"ipv4.tcp_fine\" = 1 }"),
            run,
            "host 'phone': sysctl net.ipv4.tcp_fine = 1",
        ),
        (swept, run, lacks),
        (EXPERIMENT.to_owned(), &["sweep", "./mine.toml", "flows.up.algorithm=bbr,vegas9"], lacks),
        (
            EXPERIMENT.to_owned(),
            &["search", "./mine.toml", "up.goodput_mbit", "flows.up.algorithm=bbr,vegas9"],
            lacks,
        ),
    ];
    for (text, words, says) in cases {
        let output = lab(&text, words);
        assert!(!output.status.success(), "{words:?}");
        assert!(errors(&output).contains(says), "{words:?}: {}", errors(&output));
        for results in ["results-virtual", "sweep-virtual", "search-virtual"] {
            assert!(!folder.path().join(results).exists(), "{words:?} ran");
        }
    }
    let slow = of_host("gso_max_segs = 1\n[path]\nup.rate_mbit = 8");
    let output = lab(&slow, run);
    assert!(output.status.success(), "the control: {}", errors(&output));
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
