//! The policies of a run: `transom tune apply` for each host that has one, limited to its
//! namespace. What they did stays in `tune-HOST.txt`.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::experiment::Experiment;
use crate::flows::process::{LOOK, Process};
use crate::hosts::Place;

/// Loading the programs, on a busy machine.
const READY: Duration = Duration::from_secs(30);
/// Giving every connection back what it had.
const UNDONE: Duration = Duration::from_secs(10);
/// What `tune` says when new connections are reached.
const IN_FORCE: &str = "is in force";

pub struct Policies(Vec<Process>);

impl Policies {
    /// Starts them, and waits until all are in force.
    ///
    /// # Errors
    /// If a policy is not accepted, with what `tune` said about it.
    pub fn start(
        transom: &Path,
        experiment: &Experiment,
        places: &[Place],
        directory: &Path,
    ) -> Result<Policies> {
        let mut policies = Policies(Vec::new());
        for place in places {
            let Some(policy) = &experiment.hosts[&place.host].policy else { continue };
            let file = directory.join(format!("policy-{}.toml", place.host));
            std::fs::write(&file, toml::to_string(policy)?)
                .with_context(|| format!("writing {}", file.display()))?;
            let mut process = apply(transom, place, &file, directory)?;
            wait_for(&mut process).with_context(|| format!("the policy of '{}'", place.host))?;
            policies.0.push(process);
        }
        Ok(policies)
    }

    /// Ends them; returns what went wrong.
    ///
    /// # Errors
    /// If one cannot be waited for.
    pub fn stop(mut self) -> Result<Vec<String>> {
        let mut faults = Vec::new();
        for process in &mut self.0 {
            if process.ended()?.is_some() {
                faults.push(format!(
                    "'{}' ended during the run; {}",
                    process.words,
                    process.said()
                ));
                continue;
            }
            process.signal(libc::SIGINT);
            if !process.ends_within(UNDONE)? {
                let seconds = UNDONE.as_secs();
                faults.push(format!("'{}' did not end within {seconds} s", process.words));
            } else if let Some(status) = process.ended()? {
                faults.extend(process.fault(status));
            }
        }
        Ok(faults)
    }
}

fn apply(transom: &Path, place: &Place, file: &Path, directory: &Path) -> Result<Process> {
    let (transom, file) = (transom.display().to_string(), file.display().to_string());
    let words = [&transom, "tune", "apply", &file, "--netns", &place.namespace];
    let output = directory.join(format!("tune-{}.txt", place.host));
    Process::start(None, &words.map(str::to_owned), &output)
}

fn wait_for(process: &mut Process) -> Result<()> {
    let deadline = Instant::now() + READY;
    while !process.said().contains(IN_FORCE) {
        if process.ended()?.is_some() {
            bail!("'{}' ended at its start; {}", process.words, process.said());
        }
        if Instant::now() > deadline {
            let seconds = READY.as_secs();
            bail!("'{}' is not ready after {seconds} s; {}", process.words, process.said());
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}
