//! What came of a grid, as its file of results has it.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::draw::{Half, Point};
use super::file::Grid;
use super::numbers::Numbers;
use crate::measure::mean;

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

/// Which of an algorithm's runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// Those that are compared.
    First,
    /// A yardstick's others.
    Again,
}

impl Results {
    fn runs<'a>(&self, at: &'a AtPoint, algorithm: &str, which: Which) -> &'a [Option<Numbers>] {
        let runs = at.runs.get(algorithm).map(Vec::as_slice).unwrap_or_default();
        let (first, again) = runs.split_at(runs.len().min(self.grid.repeats as usize));
        if which == Which::First { first } else { again }
    }

    /// Mean over repeats of a number; none: no run has it.
    pub fn mean(
        &self,
        at: &AtPoint,
        (algorithm, which): (&str, Which),
        of: impl Fn(&Numbers) -> Option<f64>,
    ) -> Option<f64> {
        let runs = self.runs(at, algorithm, which).iter().flatten();
        mean(&runs.filter_map(of).collect::<Vec<_>>())
    }

    /// One number ÷ another's of the same repeat.
    pub fn ratios(
        &self,
        at: &AtPoint,
        (of, over): (&str, &str),
        number: impl Fn(&Numbers) -> f64,
    ) -> Vec<f64> {
        let of = self.runs(at, of, Which::First);
        let pairs = of.iter().zip(self.runs(at, over, Which::First));
        let pairs = pairs.filter_map(|(a, b)| Some((a.as_ref()?, b.as_ref()?)));
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

    /// What an algorithm did at a point before, if it was the same in everything; `engine`: of now.
    pub fn known(
        &self,
        (grid, engine): (&Grid, &str),
        point: &Point,
        name: &str,
    ) -> Option<&[Option<Numbers>]> {
        let same =
            self.engine == engine && self.grid.algorithms.get(name) == grid.algorithms.get(name);
        let at = self.points.iter().find(|at| same && at.point == *point)?;
        let runs = at.runs.get(name)?;
        let wanted = runs.get(..grid.runs_of(name) as usize)?;
        wanted.iter().all(Option::is_some).then_some(wanted)
    }
}
