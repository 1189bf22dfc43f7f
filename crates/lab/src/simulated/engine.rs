//! The program `transom-simulate`: where it is, and one run of it.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use transom_scenario::{Outcome, Scenario};

use crate::flows::process::Process;
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
