//! A folder of results, as `lab run` leaves it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::claims::{Values, Verdict, judge};
use crate::experiment::{Links, Loaded, parse_with};
use crate::metrics::Measured;
use crate::run::campaign::VIRTUAL;
use crate::sweep::{Point, has, points};

/// `experiment.toml`, `manifest.json` and `runs/POINT/REPEAT/measured.json` of a folder.
#[derive(Clone, Debug)]
pub struct Results {
    pub directory: PathBuf,
    pub loaded: Loaded,
    /// In the order of the sweep, repeat by repeat.
    pub runs: Vec<Run>,
    /// Of the points that each control changes.
    pub controls: BTreeMap<String, Vec<Measured>>,
    /// What ran, where, with what; null if the folder does not say.
    pub manifest: Value,
}

/// One run that is finished.
#[derive(Clone, Debug)]
pub struct Run {
    /// `runs/POINT/REPEAT`: below the folder of the results.
    pub below: PathBuf,
    /// Name of the point.
    pub slug: String,
    pub measured: Measured,
}

impl Results {
    /// # Errors
    /// If the folder has no experiment, or something in it is damaged.
    pub fn read(directory: &Path) -> Result<Results> {
        let path = directory.join("experiment.toml");
        let text = std::fs::read_to_string(&path).with_context(|| {
            format!("{} is no folder of results: it has no experiment.toml", directory.display())
        })?;
        let mut loaded = parse_with(&path, Links::Unread, text)?;
        let manifest = manifest(directory)?;
        if let Some(name) = manifest["experiment"].as_str() {
            loaded.name = name.to_owned();
        }
        // Quick points are some of the others, so that the full sweep names all.
        let (mut runs, mut controls) = (Vec::new(), BTreeMap::<String, Vec<Measured>>::new());
        for point in points(&loaded, false) {
            let mut repeats = Vec::new();
            let folder = point.folder();
            for entry in std::fs::read_dir(directory.join(&folder)).into_iter().flatten().flatten()
            {
                let below = folder.join(entry.file_name());
                if let Some(measured) = measured(&directory.join(&below))? {
                    repeats.push(Run { below, slug: point.slug.clone(), measured });
                }
            }
            repeats.sort_by_key(|run| run.measured.repeat);
            match &point.control {
                None => runs.extend(repeats),
                Some(name) => {
                    let measured = repeats.into_iter().map(|run| run.measured);
                    controls.entry(name.clone()).or_default().extend(measured);
                }
            }
        }
        ensure!(!runs.is_empty(), "{} has no finished run", directory.display());
        Ok(Results { directory: directory.to_owned(), loaded, runs, controls, manifest })
    }

    /// Whether the runs were simulated.
    pub fn is_virtual(&self) -> bool {
        self.manifest["backend"] == VIRTUAL
    }

    pub fn measured(&self) -> Vec<Measured> {
        self.runs.iter().map(|run| run.measured.clone()).collect()
    }

    /// Every claim of the experiment, decided by these runs.
    pub fn verdicts(&self) -> Vec<Verdict> {
        let runs = self.measured();
        let sweep: Vec<Values> = self.sweep().map(|point| point.values.clone()).collect();
        let claims = self.loaded.experiment.claims.iter();
        claims
            .map(|claim| {
                let names = claim.fails_under.iter().map(String::as_str);
                let controls: Vec<_> = names.map(|name| (name, self.under(name, &runs))).collect();
                judge(claim, &sweep, &runs, &controls)
            })
            .collect()
    }

    /// Every point of the experiment itself, whether it was run or not.
    fn sweep(&self) -> impl Iterator<Item = &Point> {
        points(&self.loaded, false).iter().filter(|point| point.control.is_none())
    }

    /// Repeats that have every point.
    pub(super) fn whole_repeats(&self) -> usize {
        let mut finished = BTreeMap::<u32, usize>::new();
        for run in &self.runs {
            *finished.entry(run.measured.repeat).or_default() += 1;
        }
        let points = self.sweep().count();
        finished.values().filter(|runs| **runs == points).count()
    }

    /// What the claims look at under a control: what it changes, in the place of what it was. None
    /// if it was not run.
    fn under(&self, control: &str, runs: &[Measured]) -> Vec<Measured> {
        let Some(changed) = self.controls.get(control).filter(|runs| !runs.is_empty()) else {
            return Vec::new();
        };
        let is_changed = |run: &Measured| {
            let of_control = |point: &&Point| point.control.as_deref() == Some(control);
            let mut changes = points(&self.loaded, false).iter().filter(of_control);
            changes.any(|point| has(&run.point, &point.values))
        };
        // Of as many repeats as the control has.
        let is_kept = |run: &&Measured| {
            changed.iter().any(|other| other.repeat == run.repeat) && !is_changed(run)
        };
        let others = runs.iter().filter(is_kept);
        changed.iter().chain(others).cloned().collect()
    }
}

fn manifest(directory: &Path) -> Result<Value> {
    let path = directory.join("manifest.json");
    match std::fs::read(&path) {
        Ok(bytes) => {
            serde_json::from_slice(&bytes).with_context(|| format!("{} is damaged", path.display()))
        }
        Err(_) => Ok(Value::Null),
    }
}

/// None: the run is not finished.
fn measured(run: &Path) -> Result<Option<Measured>> {
    let path = run.join("measured.json");
    match std::fs::read(&path) {
        Ok(bytes) => serde_json::from_slice(&bytes)
            .with_context(|| format!("{} is damaged", path.display()))
            .map(Some),
        Err(_) => Ok(None),
    }
}
