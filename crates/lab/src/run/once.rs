//! One run: hosts up, witnesses on, traffic, everything down again, and what it left in its folder.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use transom_emulator::log::Log;

use super::Carrier;
use super::peers::Peers;
use super::policies::Policies;
use super::recorders::Recorders;
use crate::experiment::Experiment;
use crate::flows::waiting::{MOST_WAITED_BY_ALL, Waited};
use crate::flows::{self, Traffic, cpu};
use crate::hosts::{Topology, Wish};
use crate::manifest;

/// A run whose emulator handed one packet in a hundred out later than this is rejected, ms.
pub const LATEST_P99_MS: f64 = 1.0;
/// The lab looks at its programs every few milliseconds. Without a CPU for so long, s, it neither
/// starts flows in time nor sees what its programs wait for.
pub const LONGEST_GAP_S: f64 = 0.5;
/// Connections still say goodbye for a moment.
const FAREWELL: Duration = Duration::from_millis(300);

/// What to run.
pub struct Task<'a> {
    pub wish: Wish<'a>,
    pub seed: u64,
    /// The program `transom`.
    pub transom: &'a Path,
    pub directory: &'a Path,
}

/// `run.json`: how a run went.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    pub seed: u64,
    /// UTC.
    pub started: String,
    /// All of it, with putting up and taking down, s.
    pub seconds: f64,
    /// 1-based; an attempt whose emulator was late is followed by another.
    pub attempt: u32,
    /// Of the emulator, ms.
    pub lateness_p99_ms: f64,
    pub lateness_max_ms: f64,
    /// Of each host, the program that waited longest for a processor.
    #[serde(default)]
    pub waited: BTreeMap<String, Waited>,
    /// The kernel's receiving: `ksoftirqd` of the CPU on which it waited longest.
    #[serde(default)]
    pub receiving: Option<Waited>,
    /// The longest time in which the lab itself got no CPU, s.
    #[serde(default)]
    pub longest_gap_s: f64,
    /// That hosts are short of CPU is no fault of this experiment.
    #[serde(default)]
    pub cpu_bound: bool,
    /// What went wrong, one sentence each; empty: nothing.
    pub failures: Vec<String>,
    /// What was run and by what, as a SHA-256: a finished run of anything else is no run of this.
    pub fingerprint: String,
}

impl Report {
    pub const FILE: &str = "run.json";

    pub fn read(directory: &Path) -> Option<Report> {
        serde_json::from_slice(&fs::read(directory.join(Report::FILE)).ok()?).ok()
    }

    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self, directory: &Path) -> Result<()> {
        write_json(&directory.join(Report::FILE), self)
    }

    /// Why the machine was too busy for this run, if it was.
    pub fn disturbed(&self) -> Option<String> {
        let ms = self.lateness_p99_ms;
        let late = (ms > LATEST_P99_MS)
            .then(|| format!("the emulator was late (p99 {ms:.2} ms, at most {LATEST_P99_MS} ms)"));
        let short = (!self.cpu_bound).then(|| self.short_of_cpu()).flatten();
        let all: Vec<String> = late.into_iter().chain(short).collect();
        (!all.is_empty()).then(|| all.join(" and "))
    }

    /// What had work to do and no processor to do it on.
    fn short_of_cpu(&self) -> Option<String> {
        let percent = |share: f64| format!("{:.0} %", 100.0 * share);
        let starved = self.waited.iter().find(|(_, waited)| waited.is_short_of_cpu());
        if let Some((host, Waited { waited, slept })) = starved {
            let (waited, slept) = (percent(*waited), percent(*slept));
            return Some(format!(
                "the host '{host}' was short of CPU (a program waited for it {waited} of the time \
                 and slept {slept})"
            ));
        }
        let hosts = self.waited.len();
        let mean = self.waited.values().map(|it| it.waited).sum::<f64>() / hosts.max(1) as f64;
        if hosts > 1 && mean > MOST_WAITED_BY_ALL {
            let mean = percent(mean);
            return Some(format!(
                "the hosts were short of CPU (each waited for it {mean} of the time at the mean)"
            ));
        }
        if let Some(receiving) = self.receiving.filter(|it| it.waited > MOST_WAITED_BY_ALL) {
            let waited = percent(receiving.waited);
            return Some(format!(
                "the kernel's receiving was short of CPU (ksoftirqd waited for it {waited} of the \
                 time)"
            ));
        }
        let gap = self.longest_gap_s;
        (gap > LONGEST_GAP_S)
            .then(|| format!("the lab itself was short of CPU (it got none for {gap:.1} s)"))
    }
}

/// Runs it; none if `tick`, which hears the seconds of traffic so far, said no.
///
/// # Errors
/// If the run could not take place. What went wrong with single flows is in the report.
pub fn run(task: &Task<'_>, tick: &mut dyn FnMut(f64) -> bool) -> Result<Option<Report>> {
    let began = Instant::now();
    let started = manifest::now();
    fresh(task.directory)?;
    let experiment = task.wish.experiment;
    let mut topology = Topology::put_up(&task.wish)?;
    let assigned = flows::assign(experiment, topology.places())?;
    write_json(&task.directory.join("flows.json"), &assigned)?;
    let carrier = Carrier::start(&task.wish, &mut topology, task.seed)?;
    let pcap = task.wish.pcap;
    let mut recorders =
        Recorders::start(task.transom, experiment, topology.places(), task.directory, pcap)?;
    let policies = Policies::start(task.transom, experiment, topology.places(), task.directory)?;
    let peers = Peers::start(task.transom, experiment, topology.places(), task.directory)?;
    let mut traffic =
        Traffic::prepare(experiment, &topology, &assigned, task.transom, task.directory)?;
    // Links change at times of the run, and the same seed meets the same fades: putting up took as
    // long as the machine was busy.
    carrier.begin_anew()?;
    let through = traffic.run(&mut |seconds| carrier.is_alive() && tick(seconds))?;
    let carrier = carrier.check()?;
    if !through {
        return Ok(None);
    }
    std::thread::sleep(FAREWELL);
    let spent = traffic.spent();
    write_json(&task.directory.join(cpu::FILE), &spent)?;
    let mut failures = std::mem::take(&mut traffic.failures);
    drop(traffic);
    failures.extend(peers.stop()?);
    failures.extend(policies.stop()?);
    failures.extend(recorders.stop_captures()?);
    // Its log ends with the traffic, before the recordings are packed.
    let log = carrier.stop()?;
    failures.extend(recorders.stop()?);
    drop(topology);
    if let Some(log) = &log {
        write_json(&task.directory.join("emulator.json"), log)?;
        failures.extend(vanished(log));
    }
    let lateness = log.map(|log| log.lateness).unwrap_or_default();
    Ok(Some(Report {
        seed: task.seed,
        started,
        seconds: began.elapsed().as_secs_f64(),
        attempt: 1,
        lateness_p99_ms: lateness.p99_ms,
        lateness_max_ms: lateness.max_ms,
        waited: waited(experiment, &spent),
        receiving: spent.receiving,
        longest_gap_s: spent.longest_gap_s,
        cpu_bound: experiment.cpu_bound,
        failures,
        fingerprint: String::new(),
    }))
}

/// Of each host, the program that waited longest.
fn waited(experiment: &Experiment, spent: &cpu::Spent) -> BTreeMap<String, Waited> {
    let mut all = BTreeMap::<String, Waited>::new();
    for (name, programs) in &spent.flows {
        let flow = &experiment.flows[name];
        for (host, here) in [(&flow.from, programs.from_waited), (&flow.to, programs.to_waited)] {
            let longest =
                here.filter(|here| all.get(host).is_none_or(|it| it.waited < here.waited));
            all.extend(longest.map(|longest| (host.clone(), longest)));
        }
    }
    all
}

fn vanished(log: &Log) -> Option<String> {
    let gone: Vec<_> = log.ports.iter().filter(|port| port.vanished).collect();
    let names = gone.iter().map(|port| port.name.as_str()).collect::<Vec<_>>().join(", ");
    (!gone.is_empty()).then(|| format!("the device of {names} vanished during the run"))
}

/// An empty folder: what an earlier attempt left is no part of this one.
pub(super) fn fresh(directory: &Path) -> Result<()> {
    if directory.exists() {
        fs::remove_dir_all(directory)
            .with_context(|| format!("removing {}", directory.display()))?;
    }
    fs::create_dir_all(directory).with_context(|| format!("creating {}", directory.display()))
}

pub(super) fn write_json(path: &Path, value: &impl Serialize) -> Result<()> {
    fs::write(path, serde_json::to_vec_pretty(value)?)
        .with_context(|| format!("writing {}", path.display()))
}
