//! The sums of windows that were judged, so that a step reads the rows of new windows only. They are
//! this machine's: whoever takes the next step elsewhere reads all rows again, and finds the same.

use std::path::{Path, PathBuf};

use anyhow::Result;
use serde::{Deserialize, Serialize};
use transom_output::{Output, Replace, note};
use transom_rollout::{Current, Gate, Generation, HostWindows};

const NAME: &str = "sums.json";

/// What sums are of: none of anything else are used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Of {
    tables: String,
    generation: u64,
    /// By which windows are counted, and the rows before that say something.
    origin_s: u64,
    since_s: u64,
    window_s: u64,
    gates: Vec<Gate>,
}

#[derive(Default, Serialize, Deserialize)]
struct Sums {
    of: Of,
    /// Windows before this one are there.
    until: i64,
    /// For each gate.
    sums: Vec<HostWindows>,
}

#[derive(Default)]
pub struct Kept {
    path: Option<PathBuf>,
    there: Sums,
}

/// What is said of them.
pub struct Told {
    pub tables: String,
    pub until_s: u64,
    /// For each gate: hosts, and windows of them all.
    pub gates: Vec<(usize, usize)>,
}

impl Of {
    fn new(tables: &str, current: &Current, generation: &Generation) -> Of {
        Of {
            tables: tables.to_owned(),
            generation: generation.number,
            origin_s: current.progress.origin_s,
            since_s: current.progress.since_s,
            window_s: generation.waves.window_s,
            gates: generation.gates.clone(),
        }
    }
}

impl Kept {
    /// In a folder, or for as long as the program runs. What cannot be read is as good as none.
    pub fn open(folder: Option<&Path>) -> Kept {
        let path = folder.map(|folder| folder.join(NAME));
        let read = |path: &PathBuf| serde_json::from_slice(&std::fs::read(path).ok()?).ok();
        Kept { there: path.as_ref().and_then(read).unwrap_or_default(), path }
    }

    /// Those of this roll-out, and the window up to which they are.
    pub fn of(
        &self,
        tables: &str,
        current: &Current,
        generation: &Generation,
    ) -> Option<(i64, &[HostWindows])> {
        let is_same = self.there.of == Of::new(tables, current, generation);
        is_same.then_some((self.there.until, &self.there.sums))
    }

    /// What is kept of this roll-out, whatever the tables: where they are, and up to when, and for each
    /// gate how many hosts and windows.
    pub fn told(&self, current: &Current, generation: &Generation) -> Option<Told> {
        let Sums { of, until, sums } = &self.there;
        if *of != Of::new(&of.tables, current, generation) || sums.is_empty() {
            return None;
        }
        let windows = |hosts: &HostWindows| hosts.iter().map(|(_, windows)| windows.len()).sum();
        Some(Told {
            tables: of.tables.clone(),
            until_s: current.begins_s(&generation.waves, *until),
            gates: sums.iter().map(|hosts| (hosts.len(), windows(hosts))).collect(),
        })
    }

    /// All before window `until` were judged, by these.
    pub fn keep(
        &mut self,
        tables: &str,
        current: &Current,
        generation: &Generation,
        mut sums: Vec<HostWindows>,
        until: i64,
    ) {
        for (_, windows) in sums.iter_mut().flatten() {
            windows.retain(|(window, _)| *window < until);
        }
        self.there = Sums { of: Of::new(tables, current, generation), until, sums };
        if let Err(error) = self.write() {
            note!("transom-fleet: {error:#}; the next start reads the rows again");
        }
    }

    fn write(&self) -> Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        let text = serde_json::to_vec(&self.there)?;
        Output::write_all_to(path, &[], Replace::Always, &text)
    }
}
