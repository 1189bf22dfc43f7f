//! The experiments of the repository, and the reference of their schema.

use std::path::{Path, PathBuf};

use transom_lab::experiment::{Experiment, Host, Loaded, Stack, load, profile};
use transom_lab::metrics::{FLOW_METRICS, RUN_METRICS};
use transom_lab::sweep::points;

const DOCS: &str = include_str!("../../../docs/experiments.md");
/// Putting a run up and down, s; measured.
const OVERHEAD_S: f64 = 4.0;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments")
}

fn all() -> Vec<Loaded> {
    let files = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    files
        .filter(|path| path.extension().is_some_and(|e| e == "toml"))
        .map(|path| load(path).unwrap())
        .collect()
}

/// Without recording, s; measured.
const SILENT_S: f64 = 1.5;

/// Who asked: the papers about windows, we about the middleware, the paper about stacks.
const ASKED: [&str; 3] = ["", "peer-", "lkl-"];

/// All runs of those whose names begin so, and of no other.
fn seconds(asked: &str, quick: bool) -> f64 {
    let experiments = all();
    let of = |name: &str| {
        let mut others = ASKED.iter().filter(|one| !one.is_empty() && name.starts_with(**one));
        others.next().copied().unwrap_or_default()
    };
    let chosen = experiments.iter().filter(|loaded| of(&loaded.name) == asked);
    let points = chosen.flat_map(|loaded| points(loaded, quick));
    points
        .map(|point| {
            let overhead = if point.experiment.record { OVERHEAD_S } else { SILENT_S };
            f64::from(point.experiment.repeats) * (point.experiment.duration_s + overhead)
        })
        .sum()
}

#[test]
fn every_experiment_can_be_run() {
    let names: Vec<String> = all().into_iter().map(|loaded| loaded.name).collect();
    for name in [
        "icn2011-fig5",
        "icn2011-fig7",
        "icn2011-fig8",
        "icn2011-fig9",
        "icn2011-fig10-13",
        "dicomo2011-fig6-7",
        "dicomo2011-fig8-9",
        "thesis-fig5",
        "lkl-fig2",
        "lkl-fig3",
        "two-phones",
    ] {
        assert!(names.iter().any(|there| there == name), "{name}");
    }
}

#[test]
fn those_of_the_papers_take_ten_minutes_quickly_and_three_hours_in_full() {
    assert!(seconds("", true) <= 600.0, "{} s", seconds("", true));
    assert!(seconds("", false) <= 10_800.0, "{} s", seconds("", false));
}

#[test]
fn those_beyond_the_papers_take_six_minutes_quickly_and_fifty_minutes_in_full() {
    assert!(seconds("peer-", true) <= 360.0, "{} s", seconds("peer-", true));
    assert!(seconds("peer-", false) <= 3000.0, "{} s", seconds("peer-", false));
}

#[test]
fn those_about_stacks_take_a_minute_and_a_half_quickly_and_less_than_half_an_hour_in_full() {
    assert!(seconds("lkl-", true) <= 90.0, "{} s", seconds("lkl-", true));
    assert!(seconds("lkl-", false) <= 1500.0, "{} s", seconds("lkl-", false));
}

#[test]
fn every_experiment_of_a_paper_has_claims_figures_and_says_what_differs() {
    for loaded in all() {
        let experiment = &loaded.experiment;
        assert!(!experiment.claims.is_empty(), "{}", loaded.name);
        assert!(!experiment.figures.is_empty(), "{}", loaded.name);
        assert!(!experiment.differs.is_empty(), "{}", loaded.name);
        assert!(experiment.quick.is_some(), "{}", loaded.name);
    }
}

/// What someone may choose: an algorithm, a policy, the middleware, a stack.
fn chooses(experiment: &Experiment) -> bool {
    let host = |host: &Host| {
        let library = host.stack == Stack::Library;
        host.algorithm.is_some() || host.policy.is_some() || host.peer.is_some() || library
    };
    experiment.hosts.values().any(host)
        || experiment.flows.values().any(|flow| flow.algorithm.is_some())
}

#[test]
fn every_experiment_about_an_algorithm_a_policy_the_middleware_or_a_stack_has_a_control() {
    for loaded in all() {
        if points(&loaded, false).iter().any(|point| chooses(&point.experiment)) {
            let claims = &loaded.experiment.claims;
            assert!(claims.iter().any(|claim| !claim.fails_under.is_empty()), "{}", loaded.name);
        }
    }
}

#[test]
fn the_reference_names_every_metric_and_profile() {
    for (metric, _) in FLOW_METRICS.iter().chain(RUN_METRICS) {
        assert!(DOCS.contains(&format!("| `{metric}` |")), "{metric}");
    }
    for profile in profile::names() {
        assert!(DOCS.contains(&format!("`{profile}`")), "{profile}");
    }
}

#[test]
fn the_whole_file_of_the_reference_can_be_run() {
    let file = DOCS.split("```toml").nth(1).unwrap().split("```").next().unwrap();
    transom_lab::experiment::parse("docs.toml".as_ref(), file.to_owned()).unwrap();
}
