//! Runs of points in virtual time.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::draw::{Half, Point};
use super::file::{Algorithm, Grid};
use super::numbers::{self, Numbers};
use super::point;
use super::results::{AtPoint, Results};
use crate::pool;
use crate::run::fingerprint::of_file;
use crate::simulated::engine;
use transom_output::note;

pub struct Order<'a> {
    pub engine: &'a Path,
    pub grid: &'a Grid,
    pub points: Vec<Point>,
    pub half: Option<Half>,
    pub jobs: usize,
    /// Results of before, whose numbers are taken of these algorithms.
    pub known: Option<(Results, Vec<String>)>,
    /// Keeps each run's scenario, outcome and traces here.
    pub keep: Option<PathBuf>,
    pub command: String,
}

/// One run: point, algorithm, repeat.
type Task<'a> = (&'a Point, (&'a String, &'a Algorithm), u32);

/// Runs everything that is not known already; `done` hears how many of how many runs are through.
///
/// # Errors
/// If a point cannot be simulated at all, or no run came to an end.
pub fn run(
    order: &Order<'_>,
    stop: &dyn Fn() -> bool,
    done: &dyn Fn(usize, usize),
) -> Result<Results> {
    let grid = order.grid;
    let engine = of_file(order.engine).context("reading the engine")?;
    if order.known.as_ref().is_some_and(|(results, _)| results.engine != engine) {
        note!("transom: another simulator made the earlier results: all is run again");
    }
    let mut points: Vec<AtPoint> = order
        .points
        .iter()
        .map(|point| AtPoint { point: point.clone(), runs: known(order, &engine, point) })
        .collect();
    let mut tasks: Vec<Task<'_>> = Vec::new();
    for (point, at) in order.points.iter().zip(&points) {
        let left = grid.algorithms.iter().filter(|(name, _)| !at.runs.contains_key(*name));
        for algorithm in left {
            let repeats = 0..grid.runs_of(algorithm.0);
            tasks.extend(repeats.map(|repeat| (point, algorithm, repeat)));
        }
    }
    let mut first = BTreeMap::new();
    for (point, (name, algorithm), _) in &tasks {
        let scenario = point::scenario(point, algorithm, point.seed)?;
        first
            .entry(name.as_str())
            .or_insert((format!("point {} with {name}", point.number), scenario));
    }
    // What an algorithm is, is the same at every point.
    engine::check_all(order.engine, order.jobs, first.into_values(), stop)?;
    let ran = pool::all(&tasks, order.jobs, stop, done, |task, go_on| one(order, *task, go_on));
    let (mut failures, mut kernels) = (Vec::new(), BTreeSet::new());
    let mut interrupted = ran.len() < tasks.len();
    for (task, result) in ran {
        let (point, (name, _), repeat) = tasks[task];
        let at = points.iter_mut().find(|at| at.point.number == point.number);
        let at = at.context("a point that was asked for")?;
        let runs = at.runs.entry(name.clone()).or_default();
        runs.resize(runs.len().max(repeat as usize + 1), None);
        match result {
            Ok(Some((numbers, releases))) => {
                runs[repeat as usize] = Some(numbers);
                kernels.extend(releases);
            }
            Ok(None) => interrupted = true,
            Err(error) => {
                failures.push(format!("point {} with {name}: {error:#}", point.number));
            }
        }
    }
    if kernels.is_empty() && !failures.is_empty() {
        bail!("no run came to an end: {}", failures[0]);
    }
    Ok(Results {
        command: order.command.clone(),
        kernels: kernels.into_iter().collect(),
        engine,
        grid: grid.clone(),
        half: order.half,
        points,
        failures,
        interrupted,
    })
}

fn known(order: &Order<'_>, engine: &str, point: &Point) -> BTreeMap<String, Vec<Option<Numbers>>> {
    let Some((results, names)) = &order.known else { return BTreeMap::new() };
    let of = |name: &String| {
        let runs = results.known((order.grid, engine), point, name)?;
        Some((name.clone(), runs.to_vec()))
    };
    names.iter().filter_map(of).collect()
}

/// The same for every algorithm, so that all meet the same chance.
pub fn seed(point: &Point, repeat: u32) -> u64 {
    point.seed ^ (u64::from(repeat) << 32)
}

fn one(
    order: &Order<'_>,
    (point, (name, algorithm), repeat): Task<'_>,
    go_on: &dyn Fn() -> bool,
) -> Result<Option<(Numbers, BTreeSet<String>)>> {
    let mut scenario = point::scenario(point, algorithm, seed(point, repeat))?;
    let kept = order.keep.as_ref().map(|folder| {
        folder.join(format!("point-{}", point.number)).join(name).join((repeat + 1).to_string())
    });
    let folder = tempfile::tempdir().context("making a folder for a run")?;
    let path = match &kept {
        Some(path) => {
            std::fs::create_dir_all(path).with_context(|| format!("making {}", path.display()))?;
            scenario.record = true;
            path.as_path()
        }
        None => folder.path(),
    };
    let Some(outcome) = engine::simulate(order.engine, &scenario, path, go_on)? else {
        return Ok(None);
    };
    let numbers = numbers::of(point, &scenario, &outcome, path)?;
    Ok(Some((numbers, outcome.kernels.into_values().collect())))
}
