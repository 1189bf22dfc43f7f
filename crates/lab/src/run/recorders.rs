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

pub struct Recorders(Vec<Process>);

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
        let mut recorders = Recorders(Vec::new());
        let mut files = Vec::new();
        for place in places {
            let host = &place.host;
            let trace = directory.join(format!("trace-{host}.parquet"));
            recorders.0.push(record(transom, place, &trace, directory)?);
            files.push(trace);
            if pcap {
                let file = directory.join(format!("pcap-{host}.pcap"));
                recorders.0.push(tcpdump(place, &file, directory)?);
                files.push(file);
            }
        }
        recorders.wait_for(&files)?;
        Ok(recorders)
    }

    /// A recorder makes its file when its probes are attached.
    fn wait_for(&mut self, files: &[PathBuf]) -> Result<()> {
        let deadline = Instant::now() + READY;
        for (process, file) in self.0.iter_mut().zip(files) {
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

    /// Ends the recordings; returns what went wrong.
    ///
    /// # Errors
    /// If a recorder cannot be waited for.
    pub fn stop(mut self) -> Result<Vec<String>> {
        let mut faults = Vec::new();
        for process in &mut self.0 {
            match process.ended()? {
                Some(_) => faults.push(format!(
                    "'{}' ended during the run; {}",
                    process.words,
                    process.said()
                )),
                None => process.signal(libc::SIGINT),
            }
        }
        for process in &mut self.0 {
            if !process.ends_within(PACKED)? {
                let seconds = PACKED.as_secs();
                faults.push(format!("'{}' did not end within {seconds} s", process.words));
            } else if let Some(status) = process.ended()? {
                faults.extend(process.fault(status));
            }
        }
        Ok(faults)
    }
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
