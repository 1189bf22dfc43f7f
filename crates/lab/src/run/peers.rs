//! The middleware of a run: `transom peer run` in the namespace of each host that has a `peer`.
//! What they agreed stays in `peer-HOST.jsonl`, a state a second.

mod status_log;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use self::status_log::StatusLog;
use crate::experiment::Experiment;
use crate::flows::process::{Process, interrupt_all};
use crate::hosts::Place;

pub const PROGRAM: &str = "transom-peer";
/// Loading the programs, on a busy machine, and two rounds of questions and answers.
const READY: Duration = Duration::from_secs(30);
/// Saying good-bye, and giving every connection back what it had.
const UNDONE: Duration = Duration::from_secs(10);

#[derive(Default)]
pub struct Peers {
    processes: Vec<Process>,
    status_log: Option<StatusLog>,
}

impl Peers {
    /// Starts them with a key of this run alone, and waits until each has found all others.
    ///
    /// # Errors
    /// If one does not start, with what it said, or they do not find each other.
    pub fn start(
        transom: &Path,
        experiment: &Experiment,
        places: &[Place],
        directory: &Path,
    ) -> Result<Peers> {
        let has = |place: &&Place| experiment.hosts[&place.host].peer.is_some();
        let places: Vec<&Place> = places.iter().filter(has).collect();
        if places.is_empty() {
            return Ok(Peers::default());
        }
        let key = Key::new(transom, directory)?;
        let mut peers = Peers::default();
        for place in &places {
            let process = run(transom, experiment, place, &key.0, directory)?;
            peers.processes.push(process);
        }
        let hosts = places
            .iter()
            .map(|place| status_log::Host::of(place, directory))
            .collect::<Result<Vec<_>>>()?;
        let began = Instant::now();
        for (process, host) in peers.processes.iter_mut().zip(&hosts) {
            let found =
                |_: &Process| host.ask().is_ok_and(|state| terminals(&state) == hosts.len());
            process.becomes(began, READY, found).with_context(|| {
                format!(
                    "the middleware of '{}', which should find {} others",
                    host.name,
                    hosts.len() - 1
                )
            })?;
        }
        peers.status_log = Some(StatusLog::start(hosts));
        Ok(peers)
    }

    /// Ends them, which gives every connection back what it had; returns what went wrong.
    ///
    /// # Errors
    /// If one cannot be waited for.
    pub fn stop(mut self) -> Result<Vec<String>> {
        let mut faults = self.status_log.take().map(StatusLog::stop).unwrap_or_default();
        faults.extend(interrupt_all(&mut std::mem::take(&mut self.processes), UNDONE)?);
        Ok(faults)
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        let _ = interrupt_all(&mut self.processes, UNDONE);
    }
}

/// Where the daemon of this network namespace answers.
pub fn socket(inode: u64) -> PathBuf {
    format!("/run/transom/peer-{inode}.sock").into()
}

fn terminals(state: &Value) -> usize {
    state["terminals"].as_array().map_or(0, Vec::len)
}

/// The group's key of one run; needed while they start.
struct Key(PathBuf);

impl Key {
    fn new(transom: &Path, directory: &Path) -> Result<Key> {
        let key = Key(directory.join("peer.key"));
        let words =
            [&transom.display().to_string(), "peer", "key", "new", &key.0.display().to_string()];
        let mut process =
            Process::start(None, &words.map(str::to_owned), &directory.join("peer-key.txt"))?;
        if !process.ends_within(READY)? || !key.0.exists() {
            bail!("the middleware made no key; {}", process.said());
        }
        Ok(key)
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        for path in [
            self.0.clone(),
            self.0.with_file_name("peer-key.txt"),
            self.0.with_file_name("peer-key.err"),
        ] {
            let _ = std::fs::remove_file(path);
        }
    }
}

fn run(
    transom: &Path,
    experiment: &Experiment,
    place: &Place,
    key: &Path,
    directory: &Path,
) -> Result<Process> {
    let host = &experiment.hosts[&place.host];
    let rules = directory.join(format!("peer-{}.toml", place.host));
    std::fs::write(&rules, toml::to_string(&host.peer)?)
        .with_context(|| format!("writing {}", rules.display()))?;
    let words = [
        &transom.display().to_string(),
        "peer",
        "run",
        "--key",
        &key.display().to_string(),
        "--rules",
        &rules.display().to_string(),
        "--class",
        &host.class.unwrap_or(1.0).to_string(),
        "--name",
        &place.host,
        "--interface",
        &place.interface,
        "--access-point",
        "lab",
    ];
    let output = directory.join(format!("peer-{}.txt", place.host));
    Process::start(Some(&place.namespace), &words.map(str::to_owned), &output)
}
