//! What came of a grid, as its file of results has it.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::draw::{Half, Point};
use super::file::Grid;
use super::numbers::Numbers;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Results {
    pub command: String,
    /// Releases of the simulated kernels.
    pub kernels: Vec<String>,
    /// SHA-256 of the program that simulated.
    pub engine: String,
    pub grid: Grid,
    /// None: both.
    pub half: Option<Half>,
    pub points: Vec<AtPoint>,
    /// Runs that failed, one sentence each.
    pub failures: Vec<String>,
    /// Some runs are missing because the user stopped them.
    pub interrupted: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AtPoint {
    pub point: Point,
    /// By the algorithm's name, in the order of repeats; none: the run failed.
    pub runs: BTreeMap<String, Vec<Option<Numbers>>>,
}

impl AtPoint {
    /// Means over repeats of a number; none: no run has it.
    pub fn mean(&self, algorithm: &str, of: impl Fn(&Numbers) -> Option<f64>) -> Option<f64> {
        crate::measure::mean(&self.values(algorithm, of))
    }

    pub fn values(&self, algorithm: &str, of: impl Fn(&Numbers) -> Option<f64>) -> Vec<f64> {
        let runs = self.runs.get(algorithm).into_iter().flatten();
        runs.flatten().filter_map(of).collect()
    }

    /// One number ÷ another's of the same repeat.
    pub fn ratios(&self, of: &str, over: &str, number: impl Fn(&Numbers) -> f64) -> Vec<f64> {
        let (Some(of), Some(over)) = (self.runs.get(of), self.runs.get(over)) else {
            return Vec::new();
        };
        let pairs = of.iter().zip(over).filter_map(|(a, b)| Some((a.as_ref()?, b.as_ref()?)));
        pairs.map(|(a, b)| number(a) / number(b)).filter(|it| it.is_finite()).collect()
    }
}

impl Results {
    /// # Errors
    /// If it cannot be read or is no such file.
    pub fn read(path: &Path) -> Result<Results> {
        let text = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
        serde_json::from_slice(&text)
            .with_context(|| format!("{} holds no results of a grid", path.display()))
    }

    /// What an algorithm did at a point before, if it was the same in everything.
    pub fn known(&self, grid: &Grid, point: &Point, name: &str) -> Option<&[Option<Numbers>]> {
        let same = self.grid.algorithms.get(name) == grid.algorithms.get(name);
        let at = self.points.iter().find(|at| same && at.point == *point)?;
        let runs = at.runs.get(name)?;
        let enough = runs.len() >= grid.repeats as usize && runs.iter().all(Option::is_some);
        enough.then(|| &runs[..grid.repeats as usize])
    }
}
