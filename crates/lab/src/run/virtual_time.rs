//! Runs in virtual time: independent of the machine and of one another, so as many at once as it
//! has processors.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::campaign::{Order, Run};
use super::ledger::Ledger;
use super::once::{Report, fresh, write_json};
use crate::flows;
use crate::hosts;
use crate::manifest::{self, VirtualTime};
use crate::metrics::Measured;
use crate::pool;
use crate::progress::SideBySide;
use crate::simulated::{self, engine};
use crate::sweep::Point;
use transom_scenario::Outcome;

/// What a run costs, s, until some have been measured: for itself, and for each second of a flow.
const EACH_RUN_S: f64 = 0.2;
const EACH_SECOND_S: f64 = 0.02;

/// Seconds that all runs of these points take one after the other, about.
pub(super) fn seconds(points: &[Point]) -> f64 {
    let run = |point: &Point| {
        let experiment = &point.experiment;
        let flows = experiment.flows.values().map(|flow| flows::duration(experiment, flow));
        f64::from(experiment.repeats) * (EACH_RUN_S + EACH_SECOND_S * flows.sum::<f64>())
    };
    points.iter().map(run).sum()
}

/// A finished run.
struct Ran {
    outcome: Outcome,
    measured: Measured,
    took: Duration,
}

/// Runs all of them with this engine, so many at once, until the user stops it.
pub(super) fn all(
    order: &Order<'_>,
    (engine, jobs, quiet): (&Path, usize, bool),
    left: &[&Run],
    ledger: &mut Ledger<'_>,
    stop: &dyn Fn() -> bool,
) -> Result<()> {
    let mut progress = SideBySide::new(left.iter().map(|run| run.seconds()).sum());
    let mut result = Ok(());
    let work = |run: &&Run, go_on: &dyn Fn() -> bool| one(order, engine, run, go_on);
    pool::each(left, jobs, work, |ran| {
        match ran {
            None => progress.show(),
            Some((at, ran)) => {
                progress.ran(left[at].seconds());
                let kept = note(ledger, &progress, left[at], ran, quiet);
                result = std::mem::replace(&mut result, Ok(())).and(kept);
            }
        }
        ledger.summary.interrupted |= stop();
        result.is_ok() && !ledger.summary.interrupted
    });
    result
}

/// What became of a run; none: it was stopped.
fn note(
    ledger: &mut Ledger<'_>,
    progress: &SideBySide,
    run: &Run,
    ran: Result<Option<Ran>>,
    quiet: bool,
) -> Result<()> {
    let name = run.name();
    match ran {
        Ok(None) => Ok(()),
        Ok(Some(Ran { outcome, measured, took })) => {
            let sum = measured.run.get("sum_mbit").copied().unwrap_or_default();
            let (virtual_s, took) = (outcome.virtual_s, took.as_secs_f64());
            if !quiet {
                progress
                    .say(&format!("  {name}: {sum:.2} Mbit/s, {virtual_s:.1} s in {took:.2} s"));
            }
            ledger.finished(false)
        }
        Err(error) => {
            progress.say(&format!("  {name}: failed: {error:#}"));
            ledger.failed(format!("{name}: {error:#}"))
        }
    }
}

fn one(
    order: &Order<'_>,
    engine: &Path,
    run: &Run,
    go_on: &dyn Fn() -> bool,
) -> Result<Option<Ran>> {
    let (began, started) = (Instant::now(), manifest::now());
    fresh(&run.directory)?;
    let (lab, experiment) = (&order.loaded.name, &run.point.experiment);
    let scenario = simulated::scenario(lab, experiment, run.seed)?;
    let assigned = flows::assign(experiment, &hosts::places(lab, experiment)?)?;
    write_json(&run.directory.join("flows.json"), &assigned)?;
    let Some(outcome) = engine::simulate(engine, &scenario, &run.directory, go_on)? else {
        return Ok(None);
    };
    let report = Report {
        seed: run.seed,
        started,
        seconds: began.elapsed().as_secs_f64(),
        attempt: 1,
        failures: failures(&outcome),
        fingerprint: run.fingerprint.clone(),
        ..Report::default()
    };
    report.write(&run.directory)?;
    if !report.failures.is_empty() {
        bail!("{}", report.failures.join("; "));
    }
    let measured = run.measure()?;
    Ok(Some(Ran { outcome, measured, took: began.elapsed() }))
}

/// What went wrong within the simulation, one sentence each.
fn failures(outcome: &Outcome) -> Vec<String> {
    let told = outcome.failures.iter().map(|failure| match &failure.flow {
        Some(flow) => format!("flow '{flow}': {}", failure.what),
        None => failure.what.clone(),
    });
    let is_open = |name: &&String| {
        let transfers = &outcome.flows[*name].transfers;
        transfers.is_empty() || transfers.iter().any(|transfer| transfer.ended_s.is_none())
    };
    let is_told = |name: &&String| outcome.failures.iter().any(|it| it.flow.as_ref() == Some(name));
    let open = outcome.flows.keys().filter(is_open).filter(|name| !is_told(name));
    let open = open.map(|name| format!("flow '{name}' had not ended when the simulation did"));
    told.chain(open).collect()
}

/// What all these runs were together.
pub(super) fn sum(runs: &[Run]) -> VirtualTime {
    let mut kernels = BTreeSet::new();
    let mut sum = VirtualTime::default();
    for outcome in runs.iter().filter_map(|run| engine::read(&run.directory).ok()) {
        kernels.extend(outcome.kernels.into_values());
        sum.virtual_s += outcome.virtual_s;
        sum.wall_s += outcome.wall_s;
        sum.packets += outcome.packets;
    }
    sum.simulated_kernels = kernels.into_iter().collect();
    sum
}

#[cfg(test)]
mod tests;
