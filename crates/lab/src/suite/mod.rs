//! `lab compare`: a suite of cases in virtual time on two sides, kernels or settings, and in what
//! they differ.
//!
//! Each case is simulated with the same seeds on both sides, so that what chance does to one it does
//! to the other as far as the sides let it. What is compared is the difference of each pair.

mod cases;
mod measures;
mod side;

use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::Serialize;
use transom_scenario::{Outcome, Scenario};

use crate::claims::interval;
use crate::measure::mean;
use crate::pool;
use crate::simulated::engine;

pub use cases::{CASES, Case};
pub use measures::Measure;
pub use side::Side;

/// A difference below this is none that matters, whatever its interval: 2 % of the first side's mean.
const LEAST: f64 = 0.02;

/// What to compare.
pub struct Order<'a> {
    pub engine: &'a Path,
    pub sides: [Side; 2],
    pub cases: Vec<&'static Case>,
    /// The first of so many seeds.
    pub seed: u64,
    pub repeats: u32,
    pub jobs: usize,
}

/// One number of one case on both sides, means over the seeds.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub case: &'static str,
    pub measure: String,
    pub means: [f64; 2],
    /// 95 % interval of the mean difference of pairs, second less first.
    pub difference: (f64, f64),
    /// The interval excludes 0, and the difference is 2 % of the first or more.
    pub differs: bool,
    /// Seeds for which both sides have the number.
    pub pairs: usize,
}

/// What came of a comparison.
#[derive(Debug, Default, Serialize)]
pub struct Comparison {
    pub rows: Vec<Row>,
    /// Runs that failed, one sentence each.
    pub failures: Vec<String>,
    /// Whether the user stopped it: some seeds are missing.
    pub interrupted: bool,
}

/// The numbers of one run, in the order of the case's measures.
type Numbers = Vec<Option<f64>>;

/// Runs everything; `done` hears how many of how many runs are through.
///
/// # Errors
/// If the engine cannot be run at all, or a side cannot be: it has no such kernel, sysctl or
/// algorithm.
pub fn compare(
    order: &Order<'_>,
    stop: &dyn Fn() -> bool,
    done: &dyn Fn(usize, usize),
) -> Result<Comparison> {
    for side in &order.sides {
        let mut scenario = (CASES[0].scenario)(1);
        side.apply(&mut scenario);
        engine::check(order.engine, &scenario)
            .with_context(|| format!("the side '{}' cannot be simulated", side.label))?;
    }
    let mut tasks = Vec::new();
    for repeat in 0..order.repeats {
        for case in 0..order.cases.len() {
            tasks.extend([0, 1].map(|side| (case, side, repeat)));
        }
    }
    let ran = pool::all(&tasks, order.jobs, stop, done, |task, go_on| one(order, *task, go_on));
    let mut ran: Vec<_> = ran.into_iter().map(|(at, result)| (tasks[at], result)).collect();
    ran.sort_by_key(|(task, _)| *task);
    let mut comparison = Comparison { interrupted: stop(), ..Comparison::default() };
    let mut numbers = std::collections::BTreeMap::new();
    for ((case, side, repeat), result) in ran {
        match result {
            Ok(Some(row)) => {
                numbers.insert((case, side, repeat), row);
            }
            Ok(None) => {}
            Err(error) => {
                let (case, side) = (order.cases[case].name, &order.sides[side].label);
                comparison.failures.push(format!("{case} on {side}: {error:#}"));
            }
        }
    }
    if numbers.is_empty() && !comparison.failures.is_empty() {
        bail!("no run came to an end: {}", comparison.failures[0]);
    }
    for (index, case) in order.cases.iter().enumerate() {
        for (at, measure) in case.measures.iter().enumerate() {
            let of = |side, repeat| -> Option<f64> {
                let row: &Numbers = numbers.get(&(index, side, repeat))?;
                row[at]
            };
            let pairs: Vec<(f64, f64)> =
                (0..order.repeats).filter_map(|it| Some((of(0, it)?, of(1, it)?))).collect();
            comparison.rows.extend(row(case.name, measure.name(), &pairs));
        }
    }
    Ok(comparison)
}

/// None: the user stopped it.
fn simulated(
    engine: &Path,
    scenario: &Scenario,
    folder: &Path,
    go_on: &dyn Fn() -> bool,
) -> Result<Option<Outcome>> {
    let outcome = engine::simulate(engine, scenario, folder, go_on)?;
    if let Some(failure) = outcome.as_ref().and_then(|outcome| outcome.failures.first()) {
        bail!("{}", failure.what);
    }
    Ok(outcome)
}

fn one(
    order: &Order<'_>,
    (case, side, repeat): (usize, usize, u32),
    go_on: &dyn Fn() -> bool,
) -> Result<Option<Numbers>> {
    let case = order.cases[case];
    let mut scenario = (case.scenario)(order.seed + u64::from(repeat));
    order.sides[side].apply(&mut scenario);
    let folder = tempfile::tempdir().context("making a folder for a run")?;
    let Some(outcome) = simulated(order.engine, &scenario, folder.path(), go_on)? else {
        return Ok(None);
    };
    let finished =
        measures::Finished { scenario: &scenario, outcome: &outcome, folder: folder.path() };
    case.measures.iter().map(|it| finished.of(*it)).collect::<Result<Numbers>>().map(Some)
}

fn row(case: &'static str, measure: String, pairs: &[(f64, f64)]) -> Option<Row> {
    let (first, second): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
    let means = [mean(&first)?, mean(&second)?];
    let differences: Vec<f64> = pairs.iter().map(|(a, b)| b - a).collect();
    let difference = interval::of_mean(&differences).unwrap_or((f64::NEG_INFINITY, f64::INFINITY));
    let excludes = difference.0 > 0.0 || difference.1 < 0.0;
    let matters = (means[1] - means[0]).abs() >= LEAST * means[0].abs() && means[0] != means[1];
    let differs = excludes && matters;
    Some(Row { case, measure, means, difference, differs, pairs: pairs.len() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_counts_if_it_is_sure_and_large_enough() {
        let differs = |pairs: &[(f64, f64)]| row("c", "m".into(), pairs).unwrap().differs;
        assert!(differs(&[(10.0, 12.0), (11.0, 13.1), (10.5, 12.4)]));
        assert!(!differs(&[(10.0, 10.1), (11.0, 11.1), (10.5, 10.6)]), "1 %");
        assert!(!differs(&[(10.0, 14.0), (11.0, 8.0), (10.5, 12.4)]), "once so, once so");
        assert!(!differs(&[(10.0, 20.0)]), "one pair tells nothing of chance");
        assert!(!differs(&[(0.0, 0.0), (0.0, 0.0)]));
    }

    #[test]
    fn every_case_can_be_simulated_and_has_the_flows_that_it_measures() {
        for case in CASES {
            let scenario = (case.scenario)(1);
            scenario.check().unwrap_or_else(|error| panic!("{}: {error:#}", case.name));
            for measure in case.measures {
                let name = measure.name();
                let of = name.split(" of ").nth(1).or(name.split(" by ").nth(1));
                let flow = of.and_then(|rest| rest.split(',').next()).unwrap_or("all");
                assert!(
                    flow == "all" || scenario.flows.contains_key(flow),
                    "{}: {flow}",
                    case.name
                );
            }
        }
    }
}
