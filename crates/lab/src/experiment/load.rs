//! From a file to what is run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use toml::Table;
use transom_output::{in_plain_words, text_up_to};

use super::check::check;
use super::places::Places;
use super::problem::{Problem, instead};
use super::raw::leaves;
use super::{Experiment, algorithms, profile, traces};
use crate::sweep::{self, Point};

/// Of a file that says what to run.
const MOST_MIB: u64 = 16;

/// An experiment that can be run: read, its profiles merged in, every point of its sweep checked.
#[derive(Clone, Debug)]
pub struct Loaded {
    pub path: PathBuf,
    /// The file's name without `.toml`: what `lab run` calls it.
    pub name: String,
    /// The file as it is.
    pub text: String,
    /// Where names of recorded links begin.
    pub(crate) folder: PathBuf,
    /// Without the sweep: what the file itself says, and its profiles.
    pub experiment: Experiment,
    pub(crate) full: Vec<Point>,
    pub(crate) quick: Vec<Point>,
}

/// Reads an experiment file.
///
/// # Errors
/// If it cannot be read or says something that cannot be run: every problem on a line of its own,
/// with file, line, key, what is wrong and the remedy.
pub fn load(path: impl AsRef<Path>) -> Result<Loaded> {
    let path = path.as_ref();
    let text = text_up_to(path, MOST_MIB)
        .with_context(|| format!("cannot read the experiment {}", path.display()))?;
    parse(path, text)
}

/// [`load`] of a text already read; recorded links are beside `path`.
///
/// # Errors
/// As [`load`].
pub fn parse(path: &Path, text: String) -> Result<Loaded> {
    parse_with(path, Links::In(path.parent().unwrap_or(Path::new(""))), text)
}

/// Where the recorded links of an experiment are.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Links<'a> {
    In(&'a Path),
    /// What was run with them needs them no more: their names are enough.
    Unread,
}

/// [`parse`], where `path` only names the text.
///
/// # Errors
/// As [`load`].
pub(crate) fn parse_with(path: &Path, links: Links<'_>, text: String) -> Result<Loaded> {
    let places = match Places::of(&text) {
        Ok(places) => places,
        Err(error) => {
            let line = line_of(&text, error.span().map_or(0, |span| span.start));
            bail!("{}:{line}: no TOML: {}", path.display(), error.message());
        }
    };
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let folder = match links {
        Links::In(folder) => folder.to_owned(),
        Links::Unread => PathBuf::new(),
    };
    match read(&text, &places, links) {
        Ok((experiment, full, quick)) => {
            Ok(Loaded { path: path.to_owned(), name, text, folder, experiment, full, quick })
        }
        Err(problems) => bail!(in_words(path, &places, &problems)),
    }
}

/// Each on a line of its own, with file and line.
fn in_words(path: &Path, places: &Places, problems: &[Problem]) -> String {
    let line = |p: &Problem| format!("{}:{}: {p}", path.display(), places.line(&p.key));
    problems.iter().map(line).collect::<Vec<_>>().join("\n")
}

impl Loaded {
    /// What a table of the file says, by its dotted keys.
    pub fn says(&self, table: &str) -> BTreeMap<String, toml::Value> {
        let file: Table = self.text.parse().unwrap_or_default();
        file.get(table).and_then(toml::Value::as_table).map(leaves).unwrap_or_default()
    }

    /// Problems of this file that show only later.
    pub(crate) fn in_words(&self, problems: &[Problem]) -> String {
        let places = Places::of(&self.text).unwrap_or_default();
        in_words(&self.path, &places, problems)
    }
}

fn line_of(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|&byte| byte == b'\n').count() + 1
}

type Parts = (Experiment, Vec<Point>, Vec<Point>);

fn read(text: &str, places: &Places, links: Links<'_>) -> Result<Parts, Vec<Problem>> {
    toml::from_str::<Experiment>(text).map_err(|error| vec![of_serde(&error, places)])?;
    let mut tree: Table = text.parse().map_err(|error| vec![of_serde(&error, places)])?;
    let unmerged = tree.clone();
    let unknown = unknown_profiles(&tree);
    if !unknown.is_empty() {
        return Err(unknown);
    }
    profile::merge(&mut tree);
    let mut experiment = Experiment::deserialize(tree)
        .map_err(|error| vec![Problem::new("hosts", in_plain_words(error.message()), "")])?;
    // What was run once has its results, whatever kernel they are looked at on.
    let check = |experiment: &Experiment| match links {
        Links::In(_) => [check(experiment), algorithms::unknown(experiment)].concat(),
        Links::Unread => check(experiment),
    };
    let mut problems = check(&experiment);
    problems.extend(sweep::check(&experiment));
    if !problems.is_empty() {
        return Err(problems);
    }
    let mut full = sweep::build(&unmerged, &experiment, false)?;
    let mut quick = sweep::build(&unmerged, &experiment, true)?;
    if let Links::In(folder) = links {
        let unread = traces::read(&mut experiment, folder);
        if !unread.is_empty() {
            return Err(unread);
        }
        for point in full.iter_mut().chain(&mut quick) {
            for problem in traces::read(&mut point.experiment, folder) {
                let problem = point.blame(problem);
                if !problems.contains(&problem) {
                    problems.push(problem);
                }
            }
        }
    }
    for point in full.iter().chain(&quick) {
        for problem in check(&point.experiment) {
            let problem = point.blame(problem);
            if !problems.contains(&problem) {
                problems.push(problem);
            }
        }
    }
    if problems.is_empty() { Ok((experiment, full, quick)) } else { Err(problems) }
}

fn unknown_profiles(tree: &Table) -> Vec<Problem> {
    let hosts = tree.get("hosts").and_then(toml::Value::as_table).into_iter().flatten();
    hosts
        .filter_map(|(name, host)| {
            let profile = host.get("profile")?.as_str()?;
            let known = profile::names().any(|known| known == profile);
            (!known).then(|| {
                Problem::new(
                    format!("hosts.{name}.profile"),
                    format!("there is no profile \"{profile}\""),
                    instead(profile, profile::names()),
                )
            })
        })
        .collect()
}

/// What serde says of the file, with the key it means and the nearest known one.
fn of_serde(error: &toml::de::Error, places: &Places) -> Problem {
    let (what, remedy) = reworded(error.message());
    Problem::new(places.blamed(error), what, remedy)
}

/// serde's sentence about an unknown name, with the nearest known one; others in plain words.
pub(crate) fn reworded(message: &str) -> (String, String) {
    if let Some(key) = message.strip_prefix("missing field ") {
        return (format!("the key {} is missing", key.trim_end()), String::new());
    }
    let mut quoted = message.split('`').skip(1).step_by(2);
    let unknown = |what: &str| message.starts_with(&format!("unknown {what} `"));
    let what = match (unknown("field"), unknown("variant")) {
        (true, _) => "there is no such key",
        (_, true) => "there is no such value",
        _ => return (in_plain_words(message.trim_end()), String::new()),
    };
    let word = quoted.next().unwrap_or_default();
    (format!("{what} as `{word}`"), instead(word, quoted))
}
