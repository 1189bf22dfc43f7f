//! Witnesses of a run: `transom record` for each host whose kernel has its connections, tcpdump on
//! request. Programs on the library are recorded by `transom run` itself.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::experiment::{Experiment, Stack};
use crate::flows::process::{Process, interrupt_all};
use crate::hosts::Place;

/// Loading the probes takes about a second each, longer on a busy machine.
const READY: Duration = Duration::from_secs(30);
/// Packing a long recording as Parquet.
const PACKED: Duration = Duration::from_secs(60);

pub struct Recorders {
    traces: Vec<Process>,
    captures: Vec<Process>,
}

impl Recorders {
    /// Starts one recorder a host, if the experiment is recorded, and waits until all see what
    /// happens.
    ///
    /// # Errors
    /// If one cannot start, with what it said.
    pub fn start(
        transom: &Path,
        experiment: &Experiment,
        places: &[Place],
        directory: &Path,
        pcap: bool,
    ) -> Result<Recorders> {
        let mut recorders = Recorders { traces: Vec::new(), captures: Vec::new() };
        let (mut traces, mut captures) = (Vec::new(), Vec::new());
        let of_kernel = |place: &&Place| experiment.hosts[&place.host].stack == Stack::Host;
        for place in places.iter().filter(of_kernel).filter(|_| experiment.record) {
            let file = directory.join(format!("trace-{}.parquet", place.host));
            recorders.traces.push(record(transom, place, &file, directory)?);
            traces.push(file);
        }
        for place in places.iter().filter(|_| pcap) {
            for (interface, name) in place.interfaces().zip(captured(place)) {
                let file = directory.join(format!("pcap-{name}.pcap"));
                let output = directory.join(format!("tcpdump-{name}.txt"));
                recorders.captures.push(tcpdump(place, interface, &file, &output)?);
                captures.push(file);
            }
        }
        wait_for(&mut recorders.traces, &traces)?;
        wait_for(&mut recorders.captures, &captures)?;
        Ok(recorders)
    }

    /// Ends tcpdump, while the devices are there; returns what went wrong.
    ///
    /// # Errors
    /// If a program cannot be waited for.
    pub fn stop_captures(&mut self) -> Result<Vec<String>> {
        interrupt_all(&mut self.captures, PACKED)
    }

    /// Ends the recordings; returns what went wrong.
    ///
    /// # Errors
    /// If a recorder cannot be waited for.
    pub fn stop(mut self) -> Result<Vec<String>> {
        interrupt_all(&mut self.traces, PACKED)
    }
}

/// What the captures of a host's interfaces are named after: the second has its own name behind
/// the host's.
fn captured(place: &Place) -> impl Iterator<Item = String> {
    let second = place.cellular.iter().map(|it| format!("{}-{}", place.host, it.interface));
    std::iter::once(place.host.clone()).chain(second)
}

/// A recorder makes its file when it sees what happens.
fn wait_for(processes: &mut [Process], files: &[PathBuf]) -> Result<()> {
    let began = Instant::now();
    for (process, file) in processes.iter_mut().zip(files) {
        process.becomes(began, READY, |_| file.exists())?;
    }
    Ok(())
}

fn record(transom: &Path, place: &Place, trace: &Path, directory: &Path) -> Result<Process> {
    let words = [
        &transom.display().to_string(),
        "record",
        "--quiet",
        "--force",
        "--netns",
        &place.namespace,
        "-o",
        &trace.display().to_string(),
    ];
    let output = directory.join(format!("record-{}.txt", place.host));
    Process::start(None, &words.map(str::to_owned), &output)
}

/// Only headers: what a packet carries is iperf's filling.
fn tcpdump(place: &Place, interface: &str, file: &Path, output: &Path) -> Result<Process> {
    let file = file.display().to_string();
    let words = ["tcpdump", "-i", interface, "-n", "-s", "128", "-U", "-Z", "root", "-w", &file];
    Process::start(Some(&place.namespace), &words.map(str::to_owned), output)
}
