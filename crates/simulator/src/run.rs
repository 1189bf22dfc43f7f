//! One simulation, from a scenario's file to a folder.

use std::fs;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};
use serde::Serialize;
use transom_emulator::Nanos;
use transom_emulator::log::{Log, PortLog};
use transom_output::{note, text_up_to};
use transom_scenario::{Outcome, Scenario};

use crate::engine::Engine;
use crate::programs::{nanos, open_sockets};
use crate::recording::Recording;
use crate::world::{START, World};

/// Of a scenario: it has the times of its links' traces.
const MOST_MIB: u64 = 1024;
/// The links' log, as of real runs.
const LINKS: &str = "emulator.json";

/// # Errors
/// If the scenario cannot be read, cannot be or cannot be written; what happens to single flows is
/// in the outcome.
pub fn file(path: &Path, folder: &Path, progress: bool) -> Result<()> {
    let scenario = read(path)?;
    fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    let mut shown = 0;
    let mut tick = |now: Nanos| {
        let percent = (now as f64 / 1e7 / scenario.most_seconds) as u64;
        if progress && percent > shown {
            shown = percent;
            note!("{percent}");
        }
    };
    let (outcome, log) = simulate(&scenario, folder, &mut tick)?;
    write(&folder.join(LINKS), &log)?;
    write(&folder.join(Outcome::FILE), &outcome)
}

/// Whether it could be simulated: up to the first packet.
///
/// # Errors
/// If the scenario cannot be read, or a kernel refuses what it sets, with the name of that.
pub fn check(path: &Path) -> Result<()> {
    let scenario = read(path)?;
    let mut world = World::put_up(&scenario)?;
    open_sockets(&mut world, &scenario)
}

fn read(path: &Path) -> Result<Scenario> {
    let text = text_up_to(path, MOST_MIB).with_context(|| format!("reading {}", path.display()))?;
    let scenario: Scenario = serde_json::from_str(&text)
        .with_context(|| format!("{} is no scenario", path.display()))?;
    scenario.check().with_context(|| path.display().to_string())?;
    Ok(scenario)
}

fn simulate(
    scenario: &Scenario,
    folder: &Path,
    tick: &mut dyn FnMut(Nanos),
) -> Result<(Outcome, Log)> {
    let (began, cpu) = (Instant::now(), cpu_s());
    let mut world = World::put_up(scenario)?;
    let recording = match scenario.record {
        true => Some(Recording::start(&mut world, scenario, folder)?),
        false => None,
    };
    let mut engine = Engine::new(scenario, world, recording)?;
    let ended = engine.run(nanos(scenario.most_seconds), tick)?;
    let Engine { mut world, network, programs, peers, guards, recording, packets, .. } = engine;
    if let Some(recording) = recording {
        recording.finish(&mut world.kernels, START + ended)?;
    }
    let (flows, failures) = programs.outcome(&mut world.kernels);
    let kernels = scenario.hosts.keys().map(|name| (name.clone(), world.release(name).to_owned()));
    let outcome = Outcome {
        virtual_s: ended as f64 / 1e9,
        wall_s: began.elapsed().as_secs_f64(),
        cpu_s: cpu_s() - cpu,
        packets,
        kernels: kernels.collect(),
        flows,
        peers: peers.outcome(ended).collect(),
        guards: guards.outcome(),
        failures,
    };
    let port = |port: &transom_emulator::plan::Port| PortLog {
        name: port.name.clone(),
        ..PortLog::default()
    };
    let log = Log {
        seed: scenario.seed,
        started_boottime_ns: START,
        wall_s: outcome.virtual_s,
        up: network.up(),
        down: network.down(),
        stages: network.stages(),
        totals: network.totals(),
        ports: scenario.links.ports.iter().map(port).collect(),
        air: network.air(),
        cellular: network.cellular(),
        queues: network.queues(),
        ..Log::default()
    };
    Ok((outcome, log))
}

fn write(path: &Path, value: &impl Serialize) -> Result<()> {
    fs::write(path, serde_json::to_vec_pretty(value)?)
        .with_context(|| format!("writing {}", path.display()))
}

/// CPU time of this process, s.
fn cpu_s() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is good for the call.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
