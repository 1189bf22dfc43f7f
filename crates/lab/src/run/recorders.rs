//! Witnesses of a run: `transom record` for each host, tcpdump on request.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::flows::process::{LOOK, Process};
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
        stop(&mut self.captures)
    }

    /// Ends the recordings; returns what went wrong.
    ///
    /// # Errors
    /// If a recorder cannot be waited for.
    pub fn stop(mut self) -> Result<Vec<String>> {
        stop(&mut self.traces)
    }
}

fn files(directory: &Path, places: &[Place], kind: &str, ending: &str) -> Vec<PathBuf> {
    places.iter().map(|place| directory.join(format!("{kind}-{}.{ending}", place.host))).collect()
}

/// A recorder makes its file when it sees what happens.
fn wait_for(processes: &mut [Process], files: &[PathBuf]) -> Result<()> {
    let deadline = Instant::now() + READY;
    for (process, file) in processes.iter_mut().zip(files) {
        while !file.exists() {
            if process.ended()?.is_some() {
                bail!("'{}' ended at its start; {}", process.words, process.said());
            }
            if Instant::now() > deadline {
                let seconds = READY.as_secs();
                bail!("'{}' is not ready after {seconds} s; {}", process.words, process.said());
            }
            std::thread::sleep(LOOK);
        }
    }
    Ok(())
}

fn stop(processes: &mut [Process]) -> Result<Vec<String>> {
    let mut faults = Vec::new();
    let mut running = Vec::new();
    for process in processes {
        match process.ended()? {
            Some(_) => {
                let (words, said) = (&process.words, process.said());
                faults.push(format!("'{words}' ended during the run; {said}"));
            }
            None => {
                process.signal(libc::SIGINT);
                running.push(process);
            }
        }
    }
    for process in running {
        if !process.ends_within(PACKED)? {
            let seconds = PACKED.as_secs();
            faults.push(format!("'{}' did not end within {seconds} s", process.words));
        } else if let Some(status) = process.ended()? {
            faults.extend(process.fault(status));
        }
    }
    Ok(faults)
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
