//! The figures of an experiment, drawn from its results.

mod bars;
pub mod canvas;
mod sweep;
mod time;

use anyhow::Result;
use canvas::Drawing;

use super::results::Results;
use crate::experiment::{Curve, FigureKind, Pick, Published};

/// One figure; `Err` in words for the page if nothing was measured for it.
///
/// # Errors
/// If a trace that it needs cannot be read.
pub fn draw(results: &Results, number: usize) -> Result<Result<Drawing, String>> {
    let figure = &results.loaded.experiment.figures[number];
    let title = figure.title.as_str();
    Ok(match &figure.kind {
        FigureKind::Sweep { along, unit, curves } => {
            sweep::draw(results, title, along, unit, curves)
        }
        FigureKind::Bars { unit, curves } => bars::draw(results, title, unit, curves),
        FigureKind::Time { quantity, at, greatest, least } => {
            let run = time::chosen(results, at, greatest.as_ref(), least.as_ref());
            return time::draw(results, title, quantity, run);
        }
    })
}

/// What the paper published of the same pick, along the same key.
fn published<'a>(
    results: &'a Results,
    pick: &'a Pick,
    along: Option<&'a str>,
) -> impl Iterator<Item = &'a Published> {
    let all = results.loaded.experiment.published.iter();
    all.filter(move |series| series.pick == *pick && series.along.as_deref() == along)
}

/// Names of curves that are used by one figure.
fn name(curve: &Curve) -> &str {
    &curve.name
}
