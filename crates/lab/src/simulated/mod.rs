//! Experiments in virtual time: what `transom-simulate` is asked to run, and what of an experiment
//! it cannot.
//!
//! Pure but for [`engine`]. A field of the experiment becomes what the lab makes of it on a real
//! host (`hosts/settings.rs`), so that both kinds of run measure the same.

pub mod derived;
pub mod engine;
mod host;
mod obstacles;
mod policy;
mod round_trip;
mod traffic;

use anyhow::{Context, Result, bail};
use transom_scenario::Scenario;

pub use obstacles::obstacles;

use crate::experiment::Experiment;
use crate::flows;
use crate::{hosts, run};

/// After its time a flow may still empty its send buffer for so long, s, as a real one may.
const MARGIN_S: f64 = flows::MARGIN_S;

/// The scenario of one run.
///
/// # Errors
/// What of the experiment cannot be simulated.
pub fn scenario(lab: &str, experiment: &Experiment, seed: u64) -> Result<Scenario> {
    let obstacles = obstacles(experiment);
    if !obstacles.is_empty() {
        bail!("{}", obstacles.join("; "));
    }
    let places = hosts::places(lab, experiment)?;
    let assigned = flows::assign(experiment, &places)?;
    let mut scenario = Scenario {
        seed,
        most_seconds: flows::last_end(experiment) + MARGIN_S,
        // The clock of the traces begins with the run, so that they are the same in every run.
        wall_ns: 0,
        record: experiment.record,
        links: run::plan(experiment, &places, seed)?,
        ..Scenario::default()
    };
    for place in &places {
        let host = host::host(experiment, place).map_err(anyhow::Error::msg)?;
        scenario.hosts.insert(place.host.clone(), host);
    }
    for (name, flow) in &experiment.flows {
        let flow = traffic::flow(experiment, flow, assigned[name].port);
        scenario.flows.insert(name.clone(), flow.map_err(anyhow::Error::msg)?);
    }
    scenario.check().context("the scenario made of it")?;
    Ok(scenario)
}

#[cfg(test)]
mod tests;
