//! The program `transom-simulate`: where it is, what it can run, and one run of it.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use transom_scenario::{Flow, Outcome, Scenario};

use crate::flows::process::Process;
use crate::pool;
use crate::run::companions;

pub const PROGRAM: &str = "transom-simulate";
/// What it is asked to run, in the folder of the run.
pub const SCENARIO: &str = "scenario.json";
/// How often it is asked whether it has ended: a short run takes some hundredths of a second.
const LOOK: Duration = Duration::from_millis(3);

/// Beside `transom`, or in the PATH.
///
/// # Errors
/// If it is in neither, with the remedy.
pub fn find(transom: &Path, path: &OsStr) -> Result<PathBuf> {
    companions::find(PROGRAM, transom, path).ok_or_else(|| {
        anyhow!(
            "{PROGRAM}, which runs experiments in virtual time, is neither beside {} nor in the \
             PATH: build it with `make simulator`",
            transom.display()
        )
    })
}

/// Whether its kernels take what a scenario sets.
///
/// # Errors
/// What they refuse, with the name of the host or flow.
pub fn check(engine: &Path, scenario: &Scenario) -> Result<()> {
    let folder = tempfile::tempdir().context("making a folder for a scenario")?;
    let path = folder.path().join(SCENARIO);
    fs::write(&path, serde_json::to_vec(scenario)?)
        .with_context(|| format!("writing {}", path.display()))?;
    let mut command = Command::new(engine);
    // Ctrl-C is for us: who asked is told that it was interrupted, and not how a child of ours ended.
    command.arg("check").arg(&path).stdin(Stdio::null()).process_group(0);
    let output = command.output();
    let output = output.with_context(|| format!("starting {}", engine.display()))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).replace(&format!("{PROGRAM}: "), "");
    match said.trim() {
        "" => bail!("{PROGRAM} ended with {}", output.status),
        said => bail!("{said}"),
    }
}

/// [`check`] of many, so many at once: each with its name. Those that differ in links, traffic and
/// chance alone are tried once.
///
/// # Errors
/// Of the first that is refused, with its name.
pub fn check_all(
    engine: &Path,
    jobs: usize,
    scenarios: impl IntoIterator<Item = (String, Scenario)>,
    stop: &dyn Fn() -> bool,
) -> Result<()> {
    let mut tried = BTreeSet::new();
    let mut tasks: Vec<(String, Scenario)> = Vec::new();
    for (name, scenario) in scenarios {
        let sockets = |flow: &Flow| {
            let Flow { from, to, protocol, ipv6, sender, receiver, .. } = flow.clone();
            (from, to, protocol, ipv6, sender, receiver)
        };
        let flows: Vec<_> = scenario.flows.values().map(sockets).collect();
        if tried.insert(serde_json::to_string(&(&scenario.hosts, flows))?) {
            tasks.push((name, scenario));
        }
    }
    let work = |(_, scenario): &(String, Scenario), _: &dyn Fn() -> bool| check(engine, scenario);
    for (at, checked) in pool::all(&tasks, jobs, stop, &|_, _| (), work) {
        match tasks[at].0.as_str() {
            "" => checked?,
            name => checked.with_context(|| format!("at {name}"))?,
        }
    }
    Ok(())
}

/// Simulates a scenario; what comes of it is in the folder. None: `go_on` said no, and it was
/// killed.
///
/// # Errors
/// If the program cannot be run, fails, or leaves no outcome; with what it said.
pub fn simulate(
    engine: &Path,
    scenario: &Scenario,
    directory: &Path,
    go_on: &dyn Fn() -> bool,
) -> Result<Option<Outcome>> {
    let path = directory.join(SCENARIO);
    fs::write(&path, serde_json::to_vec_pretty(scenario)?)
        .with_context(|| format!("writing {}", path.display()))?;
    let words = [engine, "run".as_ref(), &path, "-o".as_ref(), directory];
    let words = words.map(|word| word.display().to_string());
    let mut process = Process::start_patient(&words, &directory.join("simulate.txt"))?;
    let status = loop {
        if let Some(status) = process.ended()? {
            break status;
        }
        if !go_on() {
            return Ok(None);
        }
        std::thread::sleep(LOOK);
    };
    if let Some(fault) = process.fault(status) {
        bail!("{fault}");
    }
    read(directory).map(Some)
}

/// The outcome in a run's folder.
///
/// # Errors
/// If it is missing or damaged.
pub fn read(directory: &Path) -> Result<Outcome> {
    let path = directory.join(Outcome::FILE);
    let text = fs::read(&path).with_context(|| format!("{PROGRAM} left no {}", path.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("{} is damaged", path.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn what_a_terminal_sends_us_does_not_end_a_check() {
        let folder = tempfile::tempdir().unwrap();
        let engine = folder.path().join("engine");
        let script = "#!/bin/sh\nread -r _ _ _ _ group _ < /proc/$$/stat\n\
            [ \"$group\" = $$ ] || { echo \"in the group $group\" >&2; exit 1; }\n";
        fs::write(&engine, script).unwrap();
        fs::set_permissions(&engine, fs::Permissions::from_mode(0o755)).unwrap();
        check(&engine, &Scenario::default()).unwrap();
    }
}
