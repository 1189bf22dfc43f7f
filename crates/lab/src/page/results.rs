//! A folder of results, as `lab run` leaves it.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::claims::{Verdict, judge};
use crate::experiment::{Loaded, parse};
use crate::result::Measured;
use crate::sweep::points;

/// `experiment.toml`, `manifest.json` and `runs/POINT/REPEAT/measured.json` of a folder.
#[derive(Clone, Debug)]
pub struct Results {
    pub directory: PathBuf,
    pub loaded: Loaded,
    /// In the order of the sweep, repeat by repeat.
    pub runs: Vec<Run>,
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
        let mut loaded = parse(&path, text)?;
        let manifest = manifest(directory)?;
        if let Some(name) = manifest["experiment"].as_str() {
            loaded.name = name.to_owned();
        }
        // Quick points are some of the others, so that the full sweep names all.
        let mut runs = Vec::new();
        for point in points(&loaded, false) {
            let mut repeats = Vec::new();
            let folder = directory.join("runs").join(&point.slug);
            for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
                let below = Path::new("runs").join(&point.slug).join(entry.file_name());
                if let Some(measured) = measured(&directory.join(&below))? {
                    repeats.push(Run { below, slug: point.slug.clone(), measured });
                }
            }
            repeats.sort_by_key(|run| run.measured.repeat);
            runs.extend(repeats);
        }
        ensure!(!runs.is_empty(), "{} has no finished run", directory.display());
        Ok(Results { directory: directory.to_owned(), loaded, runs, manifest })
    }

    pub fn measured(&self) -> Vec<Measured> {
        self.runs.iter().map(|run| run.measured.clone()).collect()
    }

    /// Every claim of the experiment, decided by these runs.
    pub fn verdicts(&self) -> Vec<Verdict> {
        let runs = self.measured();
        self.loaded.experiment.claims.iter().map(|claim| judge(claim, &runs)).collect()
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
