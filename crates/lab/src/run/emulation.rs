//! What carries the packets of hosts that are up.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use transom_emulator::Running;
use transom_emulator::log::Log;
use transom_emulator::plan::{Plan, Port, Side};

use crate::experiment::Experiment;
use crate::hosts::{self, Backend, Place, Topology, Wish};

/// Packets move while this lives.
pub enum Carrier {
    Emulator(Running),
    /// In the kernel, for as long as the hosts are up.
    Netem,
}

impl Carrier {
    /// # Errors
    /// If the emulator refuses the experiment.
    pub fn start(wish: &Wish<'_>, topology: &mut Topology, seed: u64) -> Result<Carrier> {
        match wish.backend {
            Backend::Netem => Ok(Carrier::Netem),
            Backend::Emulator => {
                let plan = plan(wish.experiment, topology.places(), seed)?;
                let running = transom_emulator::start(&plan, topology.take_devices())?;
                Ok(Carrier::Emulator(running))
            }
        }
    }

    /// From now on it is time 0 for links that change, for chance, and for what is counted.
    ///
    /// # Errors
    /// If the emulator has ended by itself.
    pub fn begin_anew(&self) -> Result<()> {
        match self {
            Carrier::Emulator(running) => running.begin_anew(),
            Carrier::Netem => Ok(()),
        }
    }

    /// # Errors
    /// If the emulator has ended by itself, with its reason.
    pub fn check(self) -> Result<Carrier> {
        match self {
            Carrier::Emulator(running) if !running.is_alive() => {
                running.stop().context("the emulator stopped")?;
                bail!("the emulator stopped");
            }
            alive => Ok(alive),
        }
    }

    pub fn is_alive(&self) -> bool {
        match self {
            Carrier::Emulator(running) => running.is_alive(),
            Carrier::Netem => true,
        }
    }

    /// Ends it; netem has no log.
    ///
    /// # Errors
    /// What went wrong in the emulator.
    pub fn stop(self) -> Result<Option<Log>> {
        match self {
            Carrier::Emulator(running) => running.stop().map(Some),
            Carrier::Netem => Ok(None),
        }
    }
}

/// What lies between the hosts of an experiment.
///
/// # Errors
/// If a host on the air is no station.
pub fn plan(experiment: &Experiment, places: &[Place], seed: u64) -> Result<Plan> {
    let mut ports = Vec::new();
    let mut access_links = BTreeMap::new();
    for place in places {
        let host = &experiment.hosts[&place.host];
        let side = match place.side {
            hosts::Side::Near => Side::Near,
            hosts::Side::Far => Side::Far,
            hosts::Side::Air => {
                let station = host.station.clone();
                Side::Air(station.with_context(|| format!("'{}' is no station", place.host))?)
            }
        };
        ports.push(Port { name: place.host.clone(), mac: place.mac, side });
        access_links.extend(host.link.clone().map(|link| (place.host.clone(), link)));
        if let (Some(cellular), Some(path)) = (&place.cellular, &host.cellular) {
            let name = format!("{}.{}", place.host, cellular.interface);
            ports.push(Port { name, mac: cellular.mac, side: Side::Cellular(path.clone()) });
        }
    }
    Ok(Plan {
        seed,
        air: experiment.air.clone(),
        path: experiment.path.clone(),
        ports,
        access_links,
        owners: places.iter().flat_map(Place::addresses).collect(),
        ..Plan::default()
    })
}
