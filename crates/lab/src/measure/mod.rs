//! From a run's folder to its numbers.
//!
//! The folder holds `flows.json` (which port each flow has), iperf's outputs
//! `iperf-FLOW.server.txt` (in virtual time `outcome.json` instead), the traces `trace-HOST.parquet` (of the library
//! `trace-HOST-FLOW.parquet`), `cpu.json` and `emulator.json`.

mod cpu;
mod emulator;
mod iperf;
mod outcome;
mod statistics;
mod window;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use transom_analysis::{Connection, Recording, analyse_connection};
use transom_trace::Reader;

pub use statistics::{deviation, jain, mean, median, pearson, spearman};

use crate::experiment::{Experiment, Flow, Protocol, Stack, Tool};
use crate::flows::{Assigned, launch};
use crate::metrics::Measured;

/// A flow's connection in the sender's trace: the one with most bytes to the flow's port.
#[derive(Clone, Debug)]
pub struct Seen {
    /// All that the sender's host recorded.
    recording: std::rc::Rc<Recording>,
    cookie: u64,
}

impl Seen {
    pub fn recording(&self) -> &Recording {
        &self.recording
    }

    pub fn connection(&self) -> &Connection {
        self.recording.connection(self.cookie).expect("found in this recording")
    }
}

/// Every number of one run; `point`, `repeat` and `seed` are the caller's to fill.
///
/// # Errors
/// If a file of the folder is missing or not what it should be: named, with the reason.
pub fn measure(run_dir: &Path, experiment: &Experiment) -> Result<Measured> {
    let mut measured = Measured::default();
    let placed = placed(run_dir)?;
    let mut traces = Traces::new(run_dir);
    let simulated = outcome::read(run_dir)?;
    for (name, flow) in &experiment.flows {
        let numbers = measured.flows.entry(name.clone()).or_default();
        let mut put = |metric: &str, value: Option<f64>| {
            if let Some(value) = value.filter(|value| value.is_finite()) {
                numbers.insert(metric.to_owned(), value);
            }
        };
        let received = match &simulated {
            Some(outcome) => outcome::received(outcome, name)?,
            None => received(run_dir, name, flow)?,
        };
        put("goodput_mbit", Some(received.mbit));
        put("goodput_std", statistics::deviation(settled(&received.per_second)));
        if flow.protocol == Protocol::Udp {
            put("lost_share", received.lost_share);
        }
        if flow.protocol == Protocol::Udp || !experiment.record {
            continue;
        }
        let place = placed.get(name).with_context(|| {
            format!("{} has no flow \"{name}\"", run_dir.join("flows.json").display())
        })?;
        let seen =
            traces.of(experiment, name, place).with_context(|| format!("flow \"{name}\""))?;
        let connection = seen.connection();
        window::numbers(connection, &analyse_connection(connection, seen.recording()), &mut put);
    }
    let goodput: Vec<f64> = measured.flows.values().map(|flow| flow["goodput_mbit"]).collect();
    let sum = goodput.iter().sum::<f64>();
    let mean = sum / goodput.len().max(1) as f64;
    let least = goodput.iter().copied().fold(f64::INFINITY, f64::min);
    // netem leaves no log.
    let log = run_dir.join("emulator.json");
    measured.run = if log.exists() { emulator::numbers(&log)? } else { BTreeMap::new() };
    if simulated.is_some() {
        measured.run.retain(|metric, _| !outcome::OF_REAL_TIME.contains(&metric.as_str()));
    }
    let seconds =
        experiment.flows.values().map(|it| it.duration_s.unwrap_or(experiment.duration_s));
    let gbit = goodput.iter().zip(seconds).map(|(mbit, seconds)| mbit * seconds / 1e3).sum();
    cpu::put(run_dir, sum, gbit, &mut measured)?;
    measured.run.insert("sum_mbit".to_owned(), sum);
    measured.run.insert("jain".to_owned(), jain(&goodput));
    measured.run.insert("jain_weighted".to_owned(), jain(&by_class(experiment, &goodput)));
    measured.run.insert("worst_share".to_owned(), if mean > 0.0 { least / mean } else { 1.0 });
    Ok(measured)
}

/// Goodput, flow by flow in their order, by the class of its terminal: the sender, or who receives from a server.
fn by_class(experiment: &Experiment, goodput: &[f64]) -> Vec<f64> {
    let class = |host: &str| experiment.hosts.get(host)?.class;
    let flows = experiment.flows.values().zip(goodput);
    flows
        .map(|(flow, goodput)| {
            goodput / class(&flow.from).or_else(|| class(&flow.to)).unwrap_or(1.0)
        })
        .collect()
}

/// The connections of every TCP flow, for pictures.
///
/// # Errors
/// As [`measure`].
pub fn connections(run_dir: &Path, experiment: &Experiment) -> Result<BTreeMap<String, Seen>> {
    let placed = placed(run_dir)?;
    let mut traces = Traces::new(run_dir);
    let tcp = experiment.flows.iter().filter(|(_, flow)| flow.protocol == Protocol::Tcp);
    let tcp = tcp.filter(|_| experiment.record);
    tcp.filter_map(|(name, _)| Some((name, placed.get(name)?)))
        .map(|(name, place)| Ok((name.clone(), traces.of(experiment, name, place)?)))
        .collect()
}

/// Without the seconds in which a window first grows; of a run too short for that, all.
fn settled(per_second: &[f64]) -> &[f64] {
    const GROWING: usize = 2;
    if per_second.len() > 2 * GROWING { &per_second[GROWING..] } else { per_second }
}

fn placed(run_dir: &Path) -> Result<BTreeMap<String, Assigned>> {
    let path = run_dir.join("flows.json");
    let text = std::fs::read_to_string(&path)
        .with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is damaged", path.display()))
}

fn received(run_dir: &Path, name: &str, flow: &Flow) -> Result<iperf::Received> {
    let ending = if flow.tool == Tool::Iperf3 { "json" } else { "txt" };
    let end = if flow.reverse { "client" } else { "server" };
    let path = run_dir.join(format!("iperf-{name}.{end}.{ending}"));
    let bytes = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let text = String::from_utf8_lossy(&bytes);
    let received = match flow.tool {
        Tool::Iperf => iperf::iperf2(&text),
        Tool::Iperf3 => iperf::iperf3(&text),
    };
    received.with_context(|| format!("{} reports nothing received", path.display()))
}

/// Traces of the folder, each read once.
struct Traces<'a> {
    run_dir: &'a Path,
    read: BTreeMap<PathBuf, std::rc::Rc<Recording>>,
}

impl<'a> Traces<'a> {
    fn new(run_dir: &'a Path) -> Traces<'a> {
        Traces { run_dir, read: BTreeMap::new() }
    }

    fn of(&mut self, experiment: &Experiment, flow: &str, place: &Assigned) -> Result<Seen> {
        let path = match experiment.hosts[&place.from].stack {
            Stack::Host => self.run_dir.join(format!("trace-{}.parquet", place.from)),
            Stack::Library => launch::trace(self.run_dir, &place.from, flow),
        };
        let recording = match self.read.get(&path) {
            Some(recording) => recording.clone(),
            None => {
                let recording = std::rc::Rc::new(read(&path)?);
                self.read.insert(path.clone(), recording.clone());
                recording
            }
        };
        let reverse = experiment.flows[flow].reverse;
        let cookie = sender(&recording, place.port, reverse).with_context(|| {
            let to = if reverse { "from" } else { "to" };
            format!("{} has no connection {to} port {}", path.display(), place.port)
        })?;
        Ok(Seen { recording, cookie })
    }
}

fn read(path: &Path) -> Result<Recording> {
    let mut reader = Reader::open(path)?;
    let mut recording = Recording::default();
    for event in &mut reader {
        recording.push(&event?);
    }
    recording.cut = reader.is_cut();
    Ok(recording)
}

/// The connection to this port that sent most; of a reversed flow, from it.
fn sender(recording: &Recording, port: u16, reverse: bool) -> Option<u64> {
    let is_ours = |connection: &&Connection| {
        let ends = connection.endpoints();
        let end = ends.map(|ends| if reverse { ends.local } else { ends.remote });
        end.is_some_and(|end| end.port() == port)
    };
    let ours = recording.connections.iter().filter(is_ours);
    ours.max_by_key(|connection| window::acked(connection)).map(|connection| connection.cookie)
}

#[cfg(test)]
mod tests;
