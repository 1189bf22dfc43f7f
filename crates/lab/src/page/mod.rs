//! The page of an experiment's results, its figures as files, and its table for a terminal.

pub mod figure;
pub(crate) mod html;
pub mod markdown;
pub mod results;
pub(crate) mod text;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use transom_view::report::png;

pub use results::Results;
pub use text::table;

use crate::claims::Verdict;
use crate::experiment::Loaded;
use figure::canvas::Drawing;

/// Width of the PNG figures, pixels.
const PNG_WIDTH: u32 = 1560;
/// Name of the page in the folder of results.
pub const FILE: &str = "report.html";

/// Writes `report.html`, `runs.csv`, and `figure-N.svg` and `figure-N.png` into the folder.
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
    let path = results.directory.join(FILE);
    put(&path, html::page(results, &figures).as_bytes())?;
    Ok(path)
}

/// A figure's title, and the figure or why there is none.
type Drawn<'a> = (&'a str, Result<Drawing, String>);

fn put(path: &Path, bytes: &[u8]) -> Result<()> {
    std::fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

/// Reproduced, decided, all.
pub fn count(verdicts: &[Verdict]) -> (usize, usize, usize) {
    use crate::claims::Outcome;
    let reproduced = verdicts.iter().filter(|v| v.outcome == Outcome::Reproduced).count();
    let open = verdicts.iter().filter(|v| matches!(v.outcome, Outcome::NotRun { .. })).count();
    (reproduced, verdicts.len() - open, verdicts.len())
}

/// What is said of a results folder as a whole: title, source, question.
fn heading(loaded: &Loaded) -> [&str; 3] {
    let experiment = &loaded.experiment;
    [&experiment.title, &experiment.source, &experiment.question]
}

#[cfg(test)]
mod tests;
