//! Points again on real kernels, and whether the verdicts are those of virtual time.
//!
//! A real flow is iperf's, so each point has bulk flows here, in both kinds of time: what is checked
//! is what virtual time says of the path and the algorithms.

use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::draw::{Point, Sends};
use super::file::Grid;
use super::judge::{self, AtOne};
use super::results::{AtPoint, Results};
use super::{numbers, point};
use crate::claims::interval;
use crate::hosts::Backend;
use crate::page;
use crate::run::{Means, Order, campaign};

/// What is asked for.
pub struct Real<'a> {
    pub grid: &'a Grid,
    pub points: Vec<Point>,
    pub transom: &'a Path,
    pub engine: &'a Path,
    pub jobs: usize,
    /// Bottlenecks above this are left out, Mbit/s.
    pub most_mbit: f64,
    /// Of the results.
    pub folder: &'a Path,
    pub command: &'a str,
}

/// One point in both kinds of time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Both {
    pub point: Point,
    pub real: AtOne,
    pub simulated: AtOne,
    /// Runs that were kept though the machine was too busy.
    pub late: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Agreement {
    pub both: Vec<Both>,
    /// Points that were not to be run, with the reason.
    pub left_out: Vec<(u32, String)>,
    /// Points of which a run failed, with the reason.
    #[serde(default)]
    pub failed: Vec<(u32, String)>,
    pub interrupted: bool,
}

/// Whether a point's verdict is the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agrees {
    Yes,
    /// Not by the means, but a bound lies in an interval of the repeats.
    WithinNoise,
    No,
}

/// Runs them one after the other; `say` hears what came of each.
///
/// # Errors
/// If the machine lacks what every run needs.
pub fn run(real: &Real<'_>, stop: &dyn Fn() -> bool, say: &dyn Fn(&str)) -> Result<Agreement> {
    let mut agreement = Agreement::default();
    for point in &real.points {
        if point.rate_mbit > real.most_mbit {
            let reason = format!(
                "{} Mbit/s: this machine's limit was set to {} Mbit/s",
                point.rate_mbit, real.most_mbit
            );
            agreement.left_out.push((point.number, reason));
            continue;
        }
        let result = one(real, point, stop);
        if stop() {
            agreement.interrupted = true;
            break;
        }
        match result? {
            Ok(both) => {
                say(&line(real.grid, &both));
                agreement.both.push(both);
            }
            Err(reason) => {
                say(&format!("point {}: {reason}", point.number));
                agreement.failed.push((point.number, reason));
            }
        }
    }
    Ok(agreement)
}

/// The inner error: of this point alone.
fn one(real: &Real<'_>, point: &Point, stop: &dyn Fn() -> bool) -> Result<Result<Both, String>> {
    let bulk = Point { traffic: Sends::Bulk, flows: "bulk".to_owned(), ..point.clone() };
    let mut late = 0;
    let mut judged = Vec::new();
    let engine = real.engine.to_owned();
    let all = [
        ("real", Means::Real { backend: Backend::Emulator, pcap: false }),
        ("virtual", Means::Virtual { engine, jobs: real.jobs, quiet: true }),
    ];
    for (name, means) in all {
        let loaded = point::compared(real.grid, &bulk)?;
        let directory = real.folder.join(format!("point-{}", point.number)).join(name);
        let order = Order {
            makers: campaign::makers(&loaded, real.transom, &means)?,
            loaded: &loaded,
            quick: false,
            directory: directory.clone(),
            seed: None,
            repeats: None,
            precision: None,
            means,
            fresh: false,
            command: real.command.to_owned(),
            transom: real.transom.to_owned(),
        };
        let summary = campaign::run(&order, stop)?;
        late += summary.late;
        if let Some(failure) = summary.failures.first() {
            return Ok(Err(failure.clone()));
        }
        if summary.interrupted {
            return Ok(Err("it was interrupted".to_owned()));
        }
        let Some(at) = judge::judge(&results(real, &bulk, &directory)?).at.pop() else {
            return Ok(Err(format!("no run of {name} time has a number")));
        };
        judged.push(at);
    }
    let simulated = judged.pop().context("the verdict of virtual time")?;
    let real = judged.pop().context("the verdict of real time")?;
    Ok(Ok(Both { point: bulk, real, simulated, late }))
}

/// What the lab measured, as results of a grid of one point.
fn results(real: &Real<'_>, point: &Point, directory: &Path) -> Result<Results> {
    let page = page::Results::read(directory)?;
    let mut at = AtPoint { point: point.clone(), runs: Default::default() };
    for run in &page.runs {
        let name = run.measured.point.get(point::COMPARED).and_then(toml::Value::as_str);
        let name = name.context("a run of no algorithm")?;
        let numbers = numbers::of_measured(&run.measured, &directory.join(&run.below))?;
        at.runs.entry(name.to_owned()).or_default().push(Some(numbers));
    }
    Ok(Results {
        command: String::new(),
        kernels: Vec::new(),
        engine: String::new(),
        grid: real.grid.clone(),
        half: None,
        points: vec![at],
        failures: Vec::new(),
        interrupted: false,
    })
}

impl Both {
    /// Of the goodput, and of what is left to a competitor.
    pub fn agrees(&self, grid: &Grid) -> Agrees {
        let judge = &grid.judge;
        let meets = |at: &AtOne| {
            let kept = at.competitor.is_none_or(|it| it >= judge.competitor);
            (at.goodput >= judge.goodput, kept)
        };
        let near = |at: &AtOne| {
            at.interval.is_some_and(|(low, high)| (low..high).contains(&judge.goodput))
        };
        let (real, simulated) = (meets(&self.real), meets(&self.simulated));
        match real == simulated {
            true => Agrees::Yes,
            false if real.1 == simulated.1 && (near(&self.real) || near(&self.simulated)) => {
                Agrees::WithinNoise
            }
            false => Agrees::No,
        }
    }
}

fn line(grid: &Grid, both: &Both) -> String {
    let kept = |at: &AtOne| at.competitor.map(|it| format!("{it:.2}")).unwrap_or_default();
    let agrees = match both.agrees(grid) {
        Agrees::Yes => "yes",
        Agrees::WithinNoise => "within the interval",
        Agrees::No => "no",
    };
    let late = if both.late > 0 { format!(", {} runs late", both.late) } else { String::new() };
    format!(
        "| {} | {:.2} ({}) | {:.2} ({}) | {} | {} | {:.1} | {:.1} | {agrees}{late} | {} |",
        both.point.number,
        both.real.goodput,
        both.real.best,
        both.simulated.goodput,
        both.simulated.best,
        kept(&both.real),
        kept(&both.simulated),
        both.real.queue_ms,
        both.simulated.queue_ms,
        both.point.describe()
    )
}

/// As Markdown.
pub fn markdown(grid: &Grid, agreement: &Agreement) -> String {
    let of = |which| agreement.both.iter().filter(|it| it.agrees(grid) == which).count();
    let (yes, near, all) = (of(Agrees::Yes), of(Agrees::WithinNoise), agreement.both.len());
    let share = interval::of_share(yes + near, all);
    let share = share.map(|(low, high)| format!(", 95 % interval {low:.2} to {high:.2}"));
    let failed = match agreement.failed.len() {
        0 => String::new(),
        n => format!(", and {n} failed"),
    };
    let mut text = format!(
        "Real kernels and virtual time agree on the verdict at {} of {all} points{}; at {near} of \
         them the bound lies in the interval of the repeats. {} points were not run{failed}.\n\n",
        yes + near,
        share.unwrap_or_default(),
        agreement.left_out.len()
    );
    text.push_str(
        "| point | goodput ÷ best, real | virtual | competitor, real | virtual | queue, ms, real \
         | virtual | agree | |\n|---|---|---|---|---|---|---|---|---|\n",
    );
    for both in &agreement.both {
        let _ = writeln!(text, "{}", line(grid, both));
    }
    for (what, points) in [("Not run", &agreement.left_out), ("Failed", &agreement.failed)] {
        if !points.is_empty() {
            let _ = write!(text, "\n{what}:\n\n");
        }
        for (number, reason) in points {
            let _ = writeln!(text, "- point {number}: {reason}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grid::draw;

    fn agrees(real: (f64, Option<(f64, f64)>), simulated: f64) -> Agrees {
        let text = include_str!("../../../../experiments/grid/senders.toml");
        let grid = Grid::parse("senders.toml".as_ref(), text).unwrap();
        let at = |goodput, interval| AtOne {
            number: 1,
            best: "bbr".to_owned(),
            goodput,
            interval,
            again: None,
            fair_goodput: goodput,
            competitor: None,
            competitor_beside: None,
            competitor_again: None,
            queue_ms: 0.0,
            queue_beside_ms: 0.0,
            retransmitted: 0.0,
            retransmitted_beside: 0.0,
            jain: 1.0,
        };
        let point = draw::points(&grid, 1).remove(0);
        let (real, simulated) = (at(real.0, real.1), at(simulated, None));
        Both { point, real, simulated, late: 0 }.agrees(&grid)
    }

    #[test]
    fn a_difference_is_noise_only_where_repeats_say_so() {
        assert_eq!(agrees((0.5, None), 0.9), Agrees::Yes, "both miss it");
        assert_eq!(agrees((0.9, Some((0.8, 1.0))), 1.0), Agrees::WithinNoise);
        assert_eq!(agrees((0.9, Some((0.89, 0.91))), 1.0), Agrees::No);
        assert_eq!(agrees((0.9, None), 1.0), Agrees::No, "one repeat has no interval");
    }
}
