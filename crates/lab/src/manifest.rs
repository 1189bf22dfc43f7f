//! `manifest.json`: what ran, where, with what.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use transom_event::text::Utc;

/// Name of the file in a folder of results.
pub const FILE: &str = "manifest.json";

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// The experiment file's name without `.toml`.
    pub experiment: String,
    pub command: String,
    pub quick: bool,
    /// First seed; each run's is in its `run.json`.
    pub seed: u64,
    /// What carried the packets: `emulator` or `netem`; `virtual`: all was simulated.
    pub backend: String,
    /// UTC, RFC 3339.
    pub started: String,
    pub ended: Option<String>,
    pub machine: Machine,
    pub programs: Vec<ProgramVersion>,
    /// Runs of this experiment that are finished, of how many.
    pub finished: u32,
    pub runs: u32,
    /// Finished, though the machine was too busy each time: the emulator late, or programs without a CPU.
    pub late: u32,
    pub failures: Vec<String>,
    /// What of the experiment cannot be run in virtual time, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
    /// None: the runs took place in real time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub virtual_time: Option<VirtualTime>,
}

/// All runs in virtual time together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct VirtualTime {
    /// Releases of the simulated hosts' kernels.
    pub simulated_kernels: Vec<String>,
    /// Time that passed for the hosts, s.
    pub virtual_s: f64,
    /// Time that it took, run by run, s.
    pub wall_s: f64,
    /// Packets that reached a host.
    pub packets: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// `uname -s -r -v -m`.
    pub kernel: String,
    pub processor: String,
    pub processors: usize,
    pub memory_mib: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProgramVersion {
    pub name: String,
    pub version: String,
}

impl Manifest {
    /// # Errors
    /// If the file is there but no manifest.
    pub fn read(directory: &Path) -> Result<Option<Manifest>> {
        let path = directory.join(FILE);
        match fs::read(&path) {
            Ok(text) => {
                let manifest = serde_json::from_slice(&text);
                Ok(Some(manifest.with_context(|| format!("{} is no manifest", path.display()))?))
            }
            Err(_) => Ok(None),
        }
    }

    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self, directory: &Path) -> Result<()> {
        let path = directory.join(FILE);
        fs::write(&path, serde_json::to_vec_pretty(self)?)
            .with_context(|| format!("writing {}", path.display()))
    }
}

impl Machine {
    pub fn this() -> Machine {
        let uname = rustix::system::uname();
        let names = [uname.sysname(), uname.release(), uname.version(), uname.machine()];
        let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let kib = value_of(&memory, "MemTotal").and_then(|v| v.split(' ').next()?.parse().ok());
        Machine {
            kernel: names.map(|name| name.to_string_lossy().into_owned()).join(" "),
            processor: value_of(&cpus, "model name").unwrap_or("unknown").to_owned(),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            memory_mib: kib.unwrap_or(0u64) / 1024,
        }
    }
}

fn value_of<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let line = text.lines().find(|line| line.starts_with(key))?;
    Some(line.split_once(':')?.1.trim())
}

/// Versions of the programs that made the traffic, as they print them, and ours.
pub fn programs(names: &[&str]) -> Vec<ProgramVersion> {
    let own = ProgramVersion { name: "transom".into(), version: env!("CARGO_PKG_VERSION").into() };
    let others = names.iter().map(|&name| {
        let output = Command::new(name).arg("--version").output();
        // iperf 2 says its version on its error output.
        let said = output.map(|output| [output.stdout, output.stderr].concat()).unwrap_or_default();
        let version = String::from_utf8_lossy(&said).lines().next().unwrap_or("unknown").to_owned();
        ProgramVersion { name: name.into(), version }
    });
    std::iter::once(own).chain(others).collect()
}

/// `2026-11-21T23:48:15Z`.
pub fn now() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    utc(since.as_secs() as i64)
}

fn utc(seconds: i64) -> String {
    Utc::from_us(seconds * 1_000_000).format("%Y-%m-%dT%H:%M:%SZ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_rfc_3339() {
        assert_eq!(utc(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(utc(1_795_304_895), "2026-11-21T23:48:15Z");
    }

    #[test]
    fn a_manifest_reads_back_as_it_was_written() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(Manifest::read(directory.path()).unwrap(), None);
        let manifest =
            Manifest { experiment: "x".into(), machine: Machine::this(), ..Manifest::default() };
        manifest.write(directory.path()).unwrap();
        assert_eq!(Manifest::read(directory.path()).unwrap(), Some(manifest));
    }
}
