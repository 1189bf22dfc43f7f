//! Where experiments are found: a path, the folder `experiments` here, `$TRANSOM_EXPERIMENTS`, and
//! those that the program carries itself, in this order.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::experiment::{self, Loaded};

mod carried {
    include!(concat!(env!("OUT_DIR"), "/experiments.rs"));
}

/// Folders that are looked through; the first that has a name wins.
fn folders() -> Vec<PathBuf> {
    let own = env::var_os("TRANSOM_EXPERIMENTS").map(PathBuf::from);
    std::iter::once(PathBuf::from("experiments")).chain(own).collect()
}

/// An experiment by name or path.
///
/// # Errors
/// If there is none of that name, or it cannot be run as it is.
pub fn find(name: &str) -> Result<Loaded> {
    if name.contains('/') || name.ends_with(".toml") {
        return experiment::load(name);
    }
    let mut all = all();
    match all.remove(name) {
        Some(found) => found.load(name),
        None if all.is_empty() => bail!(
            "there is no experiment '{name}': no folder 'experiments' here, and TRANSOM_EXPERIMENTS names none"
        ),
        None => {
            let names = all.into_keys().collect::<Vec<_>>().join(", ");
            bail!("there is no experiment '{name}': there are {names}; or give the path of a file")
        }
    }
}

/// Where one is.
pub enum Found {
    File(PathBuf),
    Carried(&'static str),
}

impl Found {
    /// # Errors
    /// If the file cannot be read or run.
    pub fn load(&self, name: &str) -> Result<Loaded> {
        match self {
            Found::File(path) => experiment::load(path),
            Found::Carried(text) => {
                let path = Path::new("experiments").join(format!("{name}.toml"));
                experiment::parse(&path, (*text).to_owned())
                    .with_context(|| format!("the experiment '{name}' of this program"))
            }
        }
    }
}

/// All experiments that have a name.
pub fn all() -> BTreeMap<String, Found> {
    let carried = carried::ALL.iter().map(|&(name, text)| (name.to_owned(), Found::Carried(text)));
    let mut all: BTreeMap<String, Found> = carried.collect();
    for folder in folders().iter().rev() {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|e| e.path());
        for path in entries.filter(|path| path.extension().is_some_and(|e| e == "toml")) {
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            all.insert(name, Found::File(path));
        }
    }
    all
}
