//! With an engine that is a shell script: `$2` is the scenario, `$4` the folder of the run.

use std::fs;
use std::path::PathBuf;

use transom_testbed::write_script;

use crate::experiment::Loaded;
use crate::hosts::Backend;
use crate::made_up;
use crate::manifest::Manifest;
use crate::page::Results;
use crate::run::campaign::{self, Means, Order};
use crate::run::fingerprint::Makers;
use crate::run::{Summary, once};

/// Leaves what an engine would: a second of 8 Mbit/s, and up to a fiftieth more by the seed.
const GOOD: &str = r#"
seed=$(sed -n 's/^  "seed": \([0-9]*\),$/\1/p' "$2")
bytes=$((1000000 + seed % 20000))
cp SAMPLE/trace-a.parquet SAMPLE/emulator.json "$4"
cat > "$4/outcome.json" <<END
{"virtual_s": 1.5, "wall_s": 0.1, "cpu_s": 0.1, "packets": 7, "kernels": {"a": "6.12.0"},
 "flows": {"up": {"transfers": [{"began_s": 0, "first_read_s": 0.5, "ended_s": 1.5,
 "bytes": $bytes}], "received": $bytes, "per_second": [$bytes], "datagrams": null}},
 "failures": []}
END
"#;

struct Bench {
    folder: tempfile::TempDir,
    loaded: Loaded,
}

impl Bench {
    fn new() -> Bench {
        Bench::of(&without_figures())
    }

    fn of(text: &str) -> Bench {
        let folder = tempfile::tempdir().unwrap();
        made_up::run(&folder.path().join("sample"), 8.0);
        let loaded = crate::experiment::parse("x.toml".as_ref(), text.to_owned()).unwrap();
        Bench { folder, loaded }
    }

    fn engine(&self, script: &str) -> PathBuf {
        let path = self.folder.path().join("engine");
        let sample = self.folder.path().join("sample").display().to_string();
        let script = format!("#!/bin/sh\nset -e\n{script}").replace("SAMPLE", &sample);
        write_script(&path, &script);
        path
    }

    fn results(&self) -> PathBuf {
        self.folder.path().join("results")
    }

    fn order(&self, script: &str) -> Order<'_> {
        Order {
            loaded: &self.loaded,
            quick: false,
            directory: self.results(),
            seed: None,
            repeats: None,
            precision: None,
            means: Means::Virtual { engine: self.engine(script), jobs: 2, quiet: false },
            fresh: false,
            command: "transom lab run --virtual x".into(),
            transom: "transom".into(),
            makers: Makers::default(),
        }
    }

    fn run(&self, script: &str) -> Summary {
        campaign::run(&self.order(script), &|| false).unwrap()
    }
}

/// Drawing takes longer than all the rest.
fn without_figures() -> String {
    let (head, rest) = made_up::EXPERIMENT.split_once("[[figures]]").unwrap();
    let (_, claims) = rest.split_once("[[claims]]").unwrap();
    format!("{head}[[claims]]{claims}")
}

/// Two points of two repeats, and one of them again under the control.
const RUNS: u32 = 6;

#[test]
fn every_run_is_measured_and_the_page_says_that_time_was_virtual() {
    let bench = Bench::new();
    let summary = bench.run(GOOD);
    assert_eq!((summary.runs, summary.finished), (RUNS, RUNS), "{summary:?}");
    let results = Results::read(&bench.results()).unwrap();
    for run in &results.runs {
        let numbers = &run.measured.flows["up"];
        assert!((8.0..8.2).contains(&numbers["goodput_mbit"]), "{numbers:?}");
        assert_eq!(numbers["cwnd_max"], 40.0, "from the trace");
        let of_run = &run.measured.run;
        assert!(of_run.contains_key("receive_drops") && !of_run.contains_key("lateness_p99_ms"));
    }
    let page = fs::read_to_string(bench.results().join("report.html")).unwrap();
    let said = "Virtual time: Linux 6.12.0 simulated for 9 s, which took 1 s, run by run.";
    assert!(page.contains(said), "{page}");
    assert!(!page.contains("emulator late"));
}

#[test]
fn a_campaign_goes_on_where_it_stopped() {
    let bench = Bench::new();
    let finished = || bench.results().join("runs/rtt-ms-0/1/measured.json").exists();
    let summary = campaign::run(&bench.order(&format!("sleep 0.2\n{GOOD}")), &finished).unwrap();
    assert!(summary.interrupted && (1..RUNS).contains(&summary.finished), "{summary:?}");
    let rest = bench.run(GOOD);
    assert_eq!((rest.finished, rest.skipped), (RUNS, summary.finished));
    assert_eq!(bench.run("exit 1").skipped, RUNS, "nothing is left to run");
}

#[test]
fn an_engine_that_is_stopped_is_gone_at_once() {
    let bench = Bench::new();
    let marks = bench.folder.path().join("began");
    let script = format!("echo $$ >> {}\nexec sleep 600", marks.display());
    let both_began = || fs::read_to_string(&marks).is_ok_and(|text| text.lines().count() == 2);
    let summary = campaign::run(&bench.order(&script), &both_began).unwrap();
    assert!(summary.interrupted && summary.finished == 0 && summary.failures.is_empty());
    for pid in fs::read_to_string(&marks).unwrap().lines() {
        assert!(!PathBuf::from(format!("/proc/{pid}")).exists(), "{pid} still runs");
    }
}

#[test]
fn runs_go_on_side_by_side() {
    let bench = Bench::new();
    let meet = bench.folder.path().join("meet");
    fs::create_dir(&meet).unwrap();
    // Each waits until another is there, which one alone would never see.
    let script = format!(
        "mkdir {0}/$$; for i in $(seq 200); do [ $(ls {0} | wc -l) -ge 2 ] && break; \
         sleep 0.05; done; [ $(ls {0} | wc -l) -ge 2 ]\n{GOOD}",
        meet.display()
    );
    assert_eq!(bench.run(&script).finished, RUNS);
}

#[test]
fn a_crash_costs_the_run_alone_and_is_reported_with_what_was_said() {
    let bench = Bench::new();
    let crash =
        "grep -q '\"rtt_ms\": 64' \"$2\" && { echo 'Kernel panic' >&2; kill -SEGV $$; }\n:\n";
    let summary = bench.run(&format!("set +e\n{crash}{GOOD}"));
    assert_eq!(summary.finished, 4, "{summary:?}");
    assert_eq!(summary.failures.len(), 2);
    let first = &summary.failures[0];
    assert!(first.contains("path.rtt_ms = 64") && first.contains("signal 11"), "{first}");
    assert!(first.contains("Kernel panic"), "{first}");
    assert_eq!(Manifest::read(&bench.results()).unwrap().unwrap().failures, summary.failures);
}

#[test]
fn a_flow_that_does_not_end_is_a_failure() {
    let bench = Bench::new();
    let summary = bench.run(&GOOD.replace("\"ended_s\": 1.5", "\"ended_s\": null"));
    assert_eq!(summary.finished, 0);
    let first = &summary.failures[0];
    assert!(first.contains("flow 'up' had not ended when the simulation did"), "{first}");
}

#[test]
fn results_of_real_and_virtual_time_do_not_share_a_folder() {
    let bench = Bench::new();
    bench.run(GOOD);
    let real = Means::Real { backend: Backend::Emulator, pcap: false };
    let order = Order { means: real, ..bench.order(GOOD) };
    let refused = campaign::separate(&order).unwrap_err().to_string();
    assert!(refused.contains("virtual time") && refused.contains("-o DIR"), "{refused}");
    campaign::separate(&bench.order(GOOD)).unwrap();
}

#[test]
fn a_virtual_run_has_a_fingerprint_of_its_own() {
    let bench = Bench::new();
    let of = |means| {
        let order = Order { means, ..bench.order(GOOD) };
        let run = |order: &Order<'_>| {
            let points = order.points();
            order.runs(&points).unwrap()[0].fingerprint.clone()
        };
        run(&order)
    };
    let real = of(Means::Real { backend: Backend::Emulator, pcap: false });
    assert_ne!(of(bench.order(GOOD).means), real);
    bench.run(GOOD);
    let report = once::Report::read(&bench.results().join("runs/rtt-ms-0/1")).unwrap();
    assert_eq!(report.fingerprint, of(bench.order(GOOD).means));
}

#[test]
fn a_precision_takes_as_many_repeats_as_it_needs_and_controls_keep_theirs() {
    let bench = Bench::new();
    let order = Order { precision: Some(0.005), ..bench.order(GOOD) };
    let summary = campaign::run(&order, &|| false).unwrap();
    let results = Results::read(&bench.results()).unwrap();
    assert!(summary.finished > RUNS + 4, "{summary:?}");
    assert!(results.controls.values().all(|runs| runs.len() == 2));
    for verdict in results.verdicts() {
        let (number, (low, high)) =
            (verdict.judged.number.unwrap(), verdict.judged.interval.unwrap());
        assert!(high - low <= 2.0 * 0.005 * number, "{verdict:?}");
    }
}

#[test]
fn a_precision_may_be_asked_for_later_and_runs_no_more_than_it_needs() {
    let bench = Bench::new();
    bench.run(GOOD);
    let precise = Order { precision: Some(0.008), ..bench.order(GOOD) };
    let first = campaign::run(&precise, &|| false).unwrap();
    assert_eq!(first.skipped, RUNS);
    assert!(first.finished > RUNS && first.finished == first.runs, "{first:?}");
    let again = campaign::run(&precise, &|| false).unwrap();
    assert_eq!(again.finished, again.skipped, "what is there is precise enough");
}

#[test]
fn a_run_that_fails_is_not_tried_again_by_the_same_command() {
    let bench = Bench::new();
    let marks = bench.folder.path().join("marks");
    let crash = format!(
        "grep -q '\"rtt_ms\": 64' \"$2\" && {{ echo $2 >> {}; exit 1; }}\n:\n",
        marks.display()
    );
    let order = Order { precision: Some(0.005), ..bench.order(&format!("set +e\n{crash}{GOOD}")) };
    let summary = campaign::run(&order, &|| false).unwrap();
    let mut all: Vec<String> =
        fs::read_to_string(&marks).unwrap().lines().map(str::to_owned).collect();
    let tries = all.len();
    all.sort();
    all.dedup();
    assert_eq!((all.len(), summary.failures.len()), (tries, tries));
}

#[test]
fn a_precision_that_cannot_be_reached_ends_with_the_most_repeats() {
    let text = without_figures().replace("repeats = 2", "repeats = 2\nmost_repeats = 5");
    let bench = Bench::of(&text);
    let order = Order { precision: Some(0.0001), ..bench.order(GOOD) };
    let summary = campaign::run(&order, &|| false).unwrap();
    assert_eq!(
        (summary.runs, summary.finished),
        (12, 12),
        "two points of five, two of the control"
    );
}

#[test]
fn points_that_cannot_be_virtual_are_left_out_by_name_and_the_rest_goes_on() {
    let policy = "{ rule = [{ match = { stability = \"unstable\" }, action = { cap = 20 } }] }";
    let case = format!(
        "[sweep]\nkind = [{{ name = \"plain\", set = {{ path.rtt_ms = 0 }} }}, \
         {{ name = \"unstable\", set = {{ hosts.a.policy = {policy} }} }}]"
    );
    let text = made_up::EXPERIMENT;
    let (head, _) = text.split_once("[sweep]").unwrap();
    let bench = Bench::of(&format!("{head}{case}\n"));
    let summary = bench.run(GOOD);
    assert_eq!((summary.runs, summary.finished), (2, 2));
    let left_out = &summary.left_out[0];
    assert!(left_out.contains("stability") && left_out.contains("1 of 2 points"), "{left_out}");
    let page = fs::read_to_string(bench.results().join("report.html")).unwrap();
    assert!(
        page.contains("Not simulated: host &#39;a&#39;")
            || page.contains("Not simulated: host 'a'")
    );
}
