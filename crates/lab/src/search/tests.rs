//! The search with a lab that only computes.

use std::fs;

use transom_testbed::write_script;

use super::*;
use crate::experiment::parse;
use crate::made_up;
use crate::run::Means;

/// A worth for settings and a seed; what was asked for; after how many stages the user stops it;
/// what a run takes.
struct Made<F> {
    worth: F,
    stages: Vec<(Stage, usize)>,
    patience: usize,
    a_run: Duration,
}

impl<F: Fn(&Settings, f64) -> f64> Made<F> {
    fn new(worth: F) -> Made<F> {
        Made { worth, stages: Vec::new(), patience: usize::MAX, a_run: Duration::ZERO }
    }
}

impl<F: Fn(&Settings, f64) -> f64> Lab for Made<F> {
    fn run(&mut self, stage: &Stage, candidates: &[Settings]) -> Result<Option<Vec<Worth>>> {
        if self.stages.len() >= self.patience {
            return Ok(None);
        }
        self.stages.push((stage.clone(), candidates.len()));
        // Seeds of the two kinds have nothing in common.
        let first = if stage.seeds == Seeds::Search { 0.0 } else { 1000.0 };
        let seeds = || (0..stage.repeats).map(|n| first + f64::from(n));
        let all =
            candidates.iter().map(|it| Ok(seeds().map(|seed| (self.worth)(it, seed)).collect()));
        Ok(Some(all.collect()))
    }

    fn elapsed(&self) -> Duration {
        self.a_run * self.stages.iter().map(|(stage, n)| stage.repeats * *n as u32).sum::<u32>()
    }
}

fn budget(runs: u32) -> Budget {
    Budget { runs, seeds: 4, held_out: 20, time: None }
}

fn space(parameters: &[&str]) -> Space {
    let parameters = parameters.iter().map(|text| Parameter::parse(text).unwrap()).collect();
    Space::new(parameters, 1).unwrap()
}

fn run<F: Fn(&Settings, f64) -> f64>(made: &mut Made<F>, runs: u32) -> Found {
    search(&mut space(&["x=0..100"]), &budget(runs), made, &mut |_, _| {}).unwrap().unwrap()
}

fn x(settings: &Settings, default: f64) -> f64 {
    settings.get("x").and_then(toml::Value::as_integer).map_or(default, |x| x as f64)
}

/// Noise that a seed gives to every candidate, and one that is a candidate's own.
fn noise(of: f64, seed: f64) -> f64 {
    ((of * 12.9898 + seed * 78.233).sin() * 43_758.547).rem_euclid(1.0) - 0.5
}

#[test]
fn what_is_better_is_found_and_confirmed_on_other_seeds() {
    let worth = |it: &Settings, seed: f64| {
        let x = x(it, 20.0);
        100.0 - (x - 70.0).abs() + 10.0 * noise(x, seed) + 50.0 * noise(0.0, seed)
    };
    let found = run(&mut Made::new(worth), 400);
    let best = found.best.unwrap();
    assert!((60.0..80.0).contains(&x(&best.settings, 0.0)), "{best:?}");
    let held_out = found.held_out.unwrap();
    assert_eq!(held_out.outcome(), Outcome::Better);
    assert!((35.0..55.0).contains(&held_out.difference.mean), "{held_out:?}");
    let wide = |estimate: Estimate| {
        let (low, high) = estimate.interval.unwrap();
        high - low
    };
    assert!(wide(held_out.difference) < wide(held_out.best), "what seeds share cancels out");
}

#[test]
fn a_parameter_without_effect_is_no_difference_though_the_best_of_many_leads() {
    // Each candidate has luck of its own on each seed, and nothing else.
    let found = run(&mut Made::new(|it, seed| 10.0 + noise(1.0 + x(it, -1.0), seed)), 600);
    let (best, default) = (found.best.unwrap(), found.default);
    let lead = best.mean().unwrap() - default.mean().unwrap();
    let luckiest = found.tried.iter().filter_map(Tried::mean).fold(0.0, f64::max);
    assert!(luckiest - default.mean().unwrap() > 0.2, "the luckiest leads on its seeds");
    let held_out = found.held_out.unwrap();
    assert_eq!(held_out.outcome(), Outcome::NoDifference, "{lead}: {held_out:?}");
}

#[test]
fn what_does_nothing_at_all_has_a_difference_of_zero() {
    let found = run(&mut Made::new(|_, seed| noise(0.0, seed)), 200);
    let held_out = found.held_out.unwrap();
    assert_eq!(held_out.difference, Estimate { mean: 0.0, interval: Some((0.0, 0.0)) });
    assert_eq!(held_out.outcome(), Outcome::NoDifference);
}

#[test]
fn settings_that_only_do_harm_are_called_worse() {
    let found = run(&mut Made::new(|it, seed| x(it, 200.0) + noise(0.0, seed)), 200);
    assert_eq!(found.held_out.unwrap().outcome(), Outcome::Worse);
}

#[test]
fn the_held_out_seeds_are_run_once_for_two_and_all_runs_are_in_the_budget() {
    let mut made = Made::new(|it, seed| x(it, 0.0) + noise(1.0, seed));
    run(&mut made, 300);
    let runs: u32 = made.stages.iter().map(|(stage, n)| stage.repeats * *n as u32).sum();
    assert!(runs <= 300 && runs > 290, "{runs}");
    let held_out: Vec<_> =
        made.stages.iter().filter(|(stage, _)| stage.seeds == Seeds::HeldOut).collect();
    assert_eq!(held_out.len(), 1);
    assert_eq!((held_out[0].0.repeats, held_out[0].1), (20, 2));
    assert!(made.stages.last().unwrap().0.seeds == Seeds::HeldOut, "nothing is chosen after");
}

#[test]
fn a_search_that_is_stopped_keeps_what_it_has_and_says_nothing_of_other_seeds() {
    let mut made = Made { patience: 4, ..Made::new(|it, _| x(it, 0.0)) };
    let found = run(&mut made, 400);
    assert_eq!(found.tried.len(), 3 * AT_ONCE);
    assert!(found.best.is_some() && found.held_out.is_none());
    let mut at_once = Made { patience: 0, ..Made::new(|it, _| x(it, 0.0)) };
    let nothing =
        search(&mut space(&["x=0..9"]), &budget(400), &mut at_once, &mut |_, _| {}).unwrap();
    assert!(nothing.is_none());
}

#[test]
fn the_time_ends_the_search_but_not_the_comparison() {
    let a_run = Duration::from_millis(2);
    let mut made = Made { a_run, ..Made::new(|it, _| x(it, 0.0)) };
    let short = Budget { time: Some(Duration::from_millis(600)), ..budget(2000) };
    let found =
        search(&mut space(&["x=0..100000"]), &short, &mut made, &mut |_, _| {}).unwrap().unwrap();
    assert!(found.tried.len() < 100, "{}", found.tried.len());
    assert_eq!(found.cut_short.as_deref(), Some("the time is used up"));
    assert!(found.held_out.is_some());
    assert!(made.elapsed() <= short.time.unwrap());
}

#[test]
fn a_space_that_is_exhausted_ends_the_search() {
    let found = search(
        &mut space(&["x=1..3"]),
        &budget(400),
        &mut Made::new(|it, _| x(it, 0.0)),
        &mut |_, _| {},
    );
    let found = found.unwrap().unwrap();
    assert_eq!(found.tried.len(), 3);
    assert!(found.cut_short.unwrap().contains("hardly a candidate"));
}

#[test]
fn too_few_runs_are_refused_with_the_least() {
    let error = budget(100).candidates().unwrap_err().to_string();
    assert!(error.contains("the least is 128"), "{error}");
    assert_eq!(budget(128).candidates().unwrap(), 1);
}

/// Candidates as the engine gets them: 8 Mbit/s, and 25 kbit/s more for each ms of round trip.
const ENGINE: &str = r#"#!/bin/sh
set -e
rtt=$(sed -n 's/^ *"rtt_ms": \([0-9]*\).*/\1/p' "$2")
[ "$rtt" != 13 ] || { echo 'Kernel panic' >&2; exit 1; }
bytes=$((1000000 + rtt * 3125))
cp SAMPLE/trace-a.parquet SAMPLE/emulator.json "$4"
cat > "$4/outcome.json" <<END
{"virtual_s": 1.5, "wall_s": 0.1, "cpu_s": 0.1, "packets": 7, "kernels": {"a": "6.12.0"},
 "flows": {"up": {"transfers": [{"began_s": 0, "first_read_s": 0.5, "ended_s": 1.5,
 "bytes": $bytes}], "received": $bytes, "per_second": [$bytes], "datagrams": null}},
 "failures": []}
END
"#;

#[test]
fn candidates_become_points_that_meet_the_same_seeds_and_a_crash_costs_one() {
    let folder = tempfile::tempdir().unwrap();
    made_up::run(&folder.path().join("sample"), 8.0);
    let engine = folder.path().join("engine");
    let sample = folder.path().join("sample").display().to_string();
    write_script(&engine, &ENGINE.replace("SAMPLE", &sample));
    let loaded = parse("x.toml".as_ref(), made_up::EXPERIMENT.to_owned()).unwrap();
    let means = Means::Virtual { engine: engine.clone(), jobs: 2, quiet: true };
    let mut lab = Campaigns::new(&loaded, &[], "8 * up.goodput_mbit", means, &|| false).unwrap();
    lab.directory = folder.path().join("search");
    lab.transom = engine;
    let candidate = |rtt: i64| Settings::from([("path.rtt_ms".to_owned(), rtt.into())]);
    let stage = Stage { name: "s".into(), seeds: Seeds::Search, repeats: 2 };
    let all = [Settings::new(), candidate(40), candidate(13), candidate(-1)];
    let worths = lab.run(&stage, &all).unwrap().unwrap();
    assert_eq!(worths[0], Ok(vec![64.0, 64.0]), "the first value of the file's sweep, 0 ms");
    assert_eq!(worths[1], Ok(vec![72.0, 72.0]));
    assert!(worths[2].as_ref().unwrap_err().contains("Kernel panic"), "{:?}", worths[2]);
    assert!(worths[3].as_ref().unwrap_err().contains("rtt_ms"), "{:?}", worths[3]);
    let seed = |n: u32, repeat: u32| {
        let run = format!("search/s/runs/candidate-{n}/{repeat}/scenario.json");
        let text = fs::read_to_string(folder.path().join(run)).unwrap();
        serde_json::from_str::<serde_json::Value>(&text).unwrap()["seed"].clone()
    };
    assert_eq!(seed(0, 1), seed(1, 1));
    assert_ne!(seed(0, 1), seed(0, 2));
    let held_out = Stage { seeds: Seeds::HeldOut, name: "h".into(), repeats: 1 };
    lab.run(&held_out, &all[..1]).unwrap();
    let text =
        fs::read_to_string(lab.directory.join("h/runs/candidate-0/1/scenario.json")).unwrap();
    let other: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_ne!(other["seed"], seed(0, 1));
}

#[test]
fn parameters_are_checked_at_their_ends_before_anything_runs() {
    let loaded = parse("x.toml".as_ref(), made_up::EXPERIMENT.to_owned()).unwrap();
    let means = Means::Virtual { engine: "engine".into(), jobs: 2, quiet: true };
    let stop = || false;
    let lab = Campaigns::new(&loaded, &[], "up.goodput_mbit", means.clone(), &stop).unwrap();
    let check = |text: &str| match lab.check(&[Parameter::parse(text).unwrap()]) {
        Ok(()) => String::new(),
        Err(error) => format!("{error:#}"),
    };
    assert_eq!(check("path.rtt_ms=1..100"), "");
    assert!(check("path.rtt_ms=-5..100").contains("path.rtt_ms = -5"));
    assert!(check("path.rtt_msec=1..100").contains("rtt_msec"));
    assert!(check("flows.down.start_s=1..2").contains("there is no `flows.down`"));
    assert!(check("hosts.a.mptcp=true,false").contains("cannot be virtual"));
    let wrong = Campaigns::new(&loaded, &[], "up.speed", means, &stop).err().unwrap();
    assert!(format!("{wrong:#}").contains("the expression to maximise"), "{wrong:#}");
}
