//! Witnesses of a run: `transom record` for each host, tcpdump on request.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Result;

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
    /// Starts one recorder a host, and waits until all see what happens.
    ///
    /// # Errors
    /// If one cannot start, with what it said.
    pub fn start(
        transom: &Path,
        places: &[Place],
        directory: &Path,
        pcap: bool,
    ) -> Result<Recorders> {
        let mut recorders = Recorders { traces: Vec::new(), captures: Vec::new() };
        let traces = files(directory, places, "trace", "parquet");
        for (place, file) in places.iter().zip(&traces) {
            recorders.traces.push(record(transom, place, file, directory)?);
        }
        let captures = files(directory, places, "pcap", "pcap");
        for (place, file) in places.iter().zip(&captures).filter(|_| pcap) {
            recorders.captures.push(tcpdump(place, file, directory)?);
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

fn files(directory: &Path, places: &[Place], kind: &str, ending: &str) -> Vec<PathBuf> {
    places.iter().map(|place| directory.join(format!("{kind}-{}.{ending}", place.host))).collect()
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
fn tcpdump(place: &Place, file: &Path, directory: &Path) -> Result<Process> {
    let file = file.display().to_string();
    let words =
        ["tcpdump", "-i", &place.interface, "-n", "-s", "128", "-U", "-Z", "root", "-w", &file];
    let output = directory.join(format!("tcpdump-{}.txt", place.host));
    Process::start(Some(&place.namespace), &words.map(str::to_owned), &output)
}
