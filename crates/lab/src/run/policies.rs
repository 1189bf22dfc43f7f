//! The policies of a run: `transom tune apply` for each host that has one, limited to its
//! namespace. What they did stays in `tune-HOST.txt`.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::experiment::Experiment;
use crate::flows::process::{Process, interrupt_all};
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
            let in_force = |process: &Process| process.said().contains(IN_FORCE);
            process
                .becomes(Instant::now(), READY, in_force)
                .with_context(|| format!("the policy of '{}'", place.host))?;
            policies.0.push(process);
        }
        Ok(policies)
    }

    /// Ends them; returns what went wrong.
    ///
    /// # Errors
    /// If one cannot be waited for.
    pub fn stop(mut self) -> Result<Vec<String>> {
        interrupt_all(&mut std::mem::take(&mut self.0), UNDONE)
    }
}

/// Of a run that is broken off: what was pinned must not stay.
impl Drop for Policies {
    fn drop(&mut self) {
        let _ = interrupt_all(&mut self.0, UNDONE);
    }
}

fn apply(transom: &Path, place: &Place, file: &Path, directory: &Path) -> Result<Process> {
    let (transom, file) = (transom.display().to_string(), file.display().to_string());
    let words = [&transom, "tune", "apply", &file, "--netns", &place.namespace];
    let output = directory.join(format!("tune-{}.txt", place.host));
    Process::start(None, &words.map(str::to_owned), &output)
}
