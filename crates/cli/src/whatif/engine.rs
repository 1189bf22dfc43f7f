//! The simulator behind predictions: a run of `transom-simulate` each.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Error, Result, anyhow, bail, ensure};
use transom_analysis::Recording;
use transom_lab::simulated::engine;
use transom_machine::signals::Signals;
use transom_output::note;
use transom_predict::{Change, Model, SENDER, Scene, Simulator, Watch, scenario};
use transom_scenario::{Outcome, Scenario, trace_file};
use transom_trace::Reader;

/// `transom-simulate`, a folder for each run.
pub struct Engine {
    program: PathBuf,
    folder: tempfile::TempDir,
    signals: Signals,
}

impl Engine {
    pub fn find() -> Result<Engine> {
        let own = std::env::current_exe().context("where this program lies")?;
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folder = tempfile::tempdir().context("making a folder for the simulations")?;
        Ok(Engine { program: engine::find(&own, &path)?, folder, signals: Signals::catch()? })
    }

    /// Whether the simulated kernel takes these settings, before anything is simulated.
    pub fn takes(&self, model: &Model, changes: &[Change]) -> Result<()> {
        let mut tried = Vec::new();
        for change in changes {
            let set = (&change.algorithm, &change.sysctl);
            if tried.contains(&set) {
                continue;
            }
            tried.push(set);
            let scenario = scenario(model, change, Scene::Alone, 1);
            engine::check(&self.program, &scenario).map_err(|error| {
                let said = format!("{error:#}");
                anyhow!("{} cannot be simulated: {said}{}", change.label(), remedy(&said))
            })?;
        }
        Ok(())
    }
}

impl Simulator for Engine {
    fn run(&self, scenario: &Scenario, within: Duration) -> Result<Option<(Outcome, Recording)>> {
        let began = Instant::now();
        let folder = tempfile::tempdir_in(&self.folder).context("making a folder for a run")?;
        let is_late = || began.elapsed() >= within;
        let go_on = || !self.signals.came() && !is_late();
        let outcome = engine::simulate(&self.program, scenario, folder.path(), &go_on);
        let outcome = outcome.map_err(|error| in_short(&error))?;
        ensure!(!self.signals.came(), "interrupted");
        let Some(outcome) = outcome else { return Ok(None) };
        if let Some(failure) = outcome.failures.first() {
            bail!("the simulation failed: {}{}", failure.what, remedy(&failure.what));
        }
        let mut recording = Recording::default();
        for event in Reader::open(folder.path().join(trace_file(SENDER)))? {
            recording.push(&event?);
            if is_late() {
                return Ok(None);
            }
        }
        Ok(Some((outcome, recording)))
    }
}

impl Watch for Engine {
    fn progress(&self, done: usize, of: usize) {
        if done.is_multiple_of(4) || done == of {
            note!("transom: {done} of {of} simulations");
        }
    }

    fn stops(&self) -> bool {
        self.signals.came()
    }
}

/// What the simulator itself said, without the command and the folders of ours that nobody knows.
fn in_short(error: &Error) -> Error {
    let text = format!("{error:#}");
    let said = text.split_once(&format!("it said: {}: ", engine::PROGRAM)).map(|it| it.1);
    let ended = text.split_once("' was ended by ").map(|it| format!("it was ended by {}", it.1));
    let text = said.or(ended.as_deref()).unwrap_or(&text).trim_end();
    anyhow!("the simulation failed: {text}{}", remedy(text))
}

/// What to do about a sysctl that the simulated kernel does not take.
fn remedy(what: &str) -> &'static str {
    match what.contains(": sysctl net.") {
        true => {
            "; give a name that `sysctl -a` lists in a namespace of Linux 6.12, and a value that it takes"
        }
        false => "",
    }
}
