//! From an experiment and its hosts to what the emulator takes.

use anyhow::{Context, Result};
use transom_emulator::plan::{Plan, Port, Side};

use crate::experiment::Experiment;
use crate::hosts::{self, Place};

/// # Errors
/// If a host on the air has no `station`.
pub fn plan(experiment: &Experiment, places: &[Place], seed: u64) -> Result<Plan> {
    let port = |place: &Place| -> Result<Port> {
        let side = match place.side {
            hosts::Side::Near => Side::Near,
            hosts::Side::Far => Side::Far,
            hosts::Side::Air => {
                let station = experiment.hosts[&place.host].station.clone();
                Side::Air(station.with_context(|| format!("'{}' is no station", place.host))?)
            }
        };
        Ok(Port { name: place.host.clone(), mac: place.mac, side })
    };
    Ok(Plan {
        seed,
        air: experiment.air.clone(),
        path: experiment.path.clone(),
        ports: places.iter().map(port).collect::<Result<_>>()?,
        ..Plan::default()
    })
}
