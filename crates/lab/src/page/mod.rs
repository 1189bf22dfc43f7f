//! The page of an experiment's results, its figures as files, and its table for a terminal.

pub mod figure;
pub(crate) mod html;
pub mod markdown;
mod points;
pub mod results;
pub(crate) mod text;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use transom_view::report::png;

pub use points::points;
pub use results::Results;
pub use text::{short, table};

use crate::claims::{Outcome, Verdict};
use crate::experiment::Loaded;
use figure::canvas::Drawing;

/// Width of the PNG figures, pixels.
const PNG_WIDTH: u32 = 1560;
/// Name of the page in the folder of results.
pub const FILE: &str = "report.html";

/// Writes `report.html`, `runs.csv`, `claims.json`, and `figure-N.svg` and `figure-N.png` into the folder.
///
/// # Errors
/// If a trace cannot be read, or a file cannot be written.
pub fn write(results: &Results) -> Result<PathBuf> {
    let mut figures = Vec::new();
    for (n, figure) in results.loaded.experiment.figures.iter().enumerate() {
        let drawn = figure::draw(results, n)?;
        if let Ok(drawing) = &drawn {
            let document = drawing.document();
            let stem = results.directory.join(format!("figure-{}", n + 1));
            put(&stem.with_extension("svg"), document.as_bytes())?;
            put(&stem.with_extension("png"), &png(&document, PNG_WIDTH)?)?;
        }
        figures.push((figure.title.as_str(), drawn));
    }
    put(&results.directory.join("runs.csv"), text::csv(results).as_bytes())?;
    let verdicts = serde_json::to_vec_pretty(&results.verdicts())?;
    put(&results.directory.join("claims.json"), &verdicts)?;
    let path = results.directory.join(FILE);
    put(&path, html::page(results, &figures).as_bytes())?;
    Ok(path)
}

/// A figure's title, and the figure or why there is none.
type Drawn<'a> = (&'a str, Result<Drawing, String>);

fn put(path: &Path, bytes: &[u8]) -> Result<()> {
    std::fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

/// How many claims came out how. Calibrated ones are counted as nothing else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    pub reproduced: usize,
    pub not_reproduced: usize,
    /// Reproduced, but by a control as well, so that it proves nothing.
    pub also_by_control: usize,
    /// Reproduced, but a control was not run or is undecided, so that nothing is proved yet.
    pub control_open: usize,
    pub undecided: usize,
    pub not_run: usize,
    pub calibrated: usize,
}

impl Count {
    pub fn of(verdicts: &[Verdict]) -> Count {
        let mut count = Count::default();
        for verdict in verdicts {
            *match verdict.judged.outcome {
                _ if verdict.calibrated.is_some() => &mut count.calibrated,
                Outcome::Reproduced if verdict.is_evidence() => &mut count.reproduced,
                Outcome::Reproduced if verdict.is_passed_by_control() => &mut count.also_by_control,
                Outcome::Reproduced => &mut count.control_open,
                Outcome::NotReproduced { .. } => &mut count.not_reproduced,
                Outcome::Undecided { .. } => &mut count.undecided,
                Outcome::NotRun { .. } => &mut count.not_run,
            } += 1;
        }
        count
    }

    /// Claims that are counted.
    pub fn all(&self) -> usize {
        let by_control = self.also_by_control + self.control_open;
        self.reproduced + self.not_reproduced + by_control + self.undecided
    }

    /// `3 of 5 claims reproduced, 1 undecided, 1 calibrated`.
    pub fn in_words(&self) -> String {
        let others = [
            (self.also_by_control, "passed by a control, too"),
            (self.control_open, "whose control is undecided or not run"),
            (self.undecided, "undecided"),
            (self.not_run, "not run"),
            (self.calibrated, "calibrated and not counted"),
        ];
        let others = others.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!(", {n} {what}"));
        let first = format!("{} of {} claims reproduced", self.reproduced, self.all());
        std::iter::once(first).chain(others).collect()
    }
}

impl std::ops::Add for Count {
    type Output = Count;

    fn add(self, other: Count) -> Count {
        Count {
            reproduced: self.reproduced + other.reproduced,
            not_reproduced: self.not_reproduced + other.not_reproduced,
            also_by_control: self.also_by_control + other.also_by_control,
            control_open: self.control_open + other.control_open,
            undecided: self.undecided + other.undecided,
            not_run: self.not_run + other.not_run,
            calibrated: self.calibrated + other.calibrated,
        }
    }
}

/// What is said of a results folder as a whole: title, source, question.
fn heading(loaded: &Loaded) -> [&str; 3] {
    let experiment = &loaded.experiment;
    [&experiment.title, &experiment.source, &experiment.question]
}

#[cfg(test)]
mod tests;
