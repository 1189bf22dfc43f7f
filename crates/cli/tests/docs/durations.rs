//! How long the experiments take is said in several places, and is one number: that of `lab list`.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use crate::shown::root;

/// What `lab list` says of an experiment.
struct Cost {
    full: String,
    quick: String,
    is_virtual: bool,
}

fn listed() -> BTreeMap<String, Cost> {
    let mut list = Command::new(env!("CARGO_BIN_EXE_transom-lab"));
    let output = list.arg("list").current_dir(root()).env_remove("TRANSOM_EXPERIMENTS").output();
    let text = String::from_utf8(output.expect("transom-lab runs").stdout).unwrap();
    let (mut all, mut name) = (BTreeMap::<String, Cost>::new(), String::new());
    for line in text.lines() {
        if !line.starts_with(' ') {
            name = line.to_owned();
        } else if let Some((full, quick)) = line.trim().split_once("; --quick: ") {
            let (full, quick) = (full.to_owned(), quick.to_owned());
            all.insert(name.clone(), Cost { full, quick, is_virtual: true });
        } else if line.trim().starts_with("not --virtual") {
            all.get_mut(&name).expect("it is listed").is_virtual = false;
        }
    }
    assert!(all.len() > 10, "{text}");
    all
}

/// Runs and minutes of `29 runs, 8 min`.
fn numbers(cost: &str) -> (u32, f64) {
    let words: Vec<&str> = cost.split(' ').collect();
    let number = |at: usize| words[at].parse::<u32>().expect("a number");
    let minutes = match words[3] {
        "min" => f64::from(number(2)),
        "s" => f64::from(number(2)) / 60.0,
        unit => panic!("{unit}"),
    };
    (number(0), minutes)
}

#[test]
fn every_page_tells_the_runs_and_the_hours_that_the_lab_lists() {
    let read = |file: &str| fs::read_to_string(root().join(file)).unwrap();
    let listed = listed();
    let experiments = read("docs/experiments.md");
    for (name, Cost { full, quick, .. }) in &listed {
        let row = format!("| `{name}` | {full} | {quick} |");
        assert!(experiments.contains(&row), "docs/experiments.md has no line {row}");
    }
    let sum = |of: &dyn Fn(&Cost) -> bool| {
        let chosen = listed.values().filter(|cost| of(cost)).map(|cost| numbers(&cost.full));
        chosen.fold((0, 0.0), |sum, it| (sum.0 + it.0, sum.1 + it.1))
    };
    let hours = |minutes: f64| {
        const WORDS: [&str; 8] = ["no", "one", "two", "three", "four", "five", "six", "seven"];
        format!("{} hours", WORDS[(minutes / 60.0).round() as usize])
    };
    let ((runs, minutes), (in_virtual, _)) = (sum(&|_| true), sum(&|cost| cost.is_virtual));
    for (file, words) in [
        ("docs/experiments.md", format!("are {runs} runs and take about {}", hours(minutes))),
        ("README.md", format!("runs all of them (about {})", hours(minutes))),
        ("Makefile", format!("(docs/results.md), about {}", hours(minutes))),
        ("docs/lab.md", format!("that can be virtual, {in_virtual} runs, took ")),
    ] {
        assert!(read(file).contains(&words), "{file} does not say: {words}");
    }
}
