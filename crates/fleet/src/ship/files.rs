//! Which files of a spool are finished.
//!
//! The agent makes the files of a journal one after another, that of the table `agent` last, and then
//! removes the journal. Until then it may make them again after a kill.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use transom_spool::{FileName, Table, list};

pub struct Waiting {
    pub name: FileName,
    pub path: PathBuf,
}

impl Waiting {
    /// Since it was written; `None` if it is gone, or from the future.
    pub fn age(&self) -> Option<Duration> {
        fs::metadata(&self.path).ok()?.modified().ok()?.elapsed().ok()
    }
}

/// In the order in which they go: connections first, since they are what is asked for, and the oldest
/// first, since the agent removes it first. The agent's own go last: they say what there was. Traces
/// are no table.
///
/// # Errors
/// The spool cannot be read.
pub fn finished(spool: &Path) -> Result<Vec<Waiting>> {
    let named = || format!("reading the spool {}", spool.display());
    // Before the files: a journal that goes meanwhile has left all of its files.
    let journals = journals(spool).with_context(named)?;
    let found = list(spool).with_context(named)?;
    let whole: HashSet<u32> = found
        .iter()
        .filter(|(name, ..)| name.table() == Table::Agent && !journals.contains(&name.number))
        .map(|(name, ..)| name.number)
        .collect();
    let mut files: Vec<Waiting> = found
        .into_iter()
        .filter(|(name, ..)| whole.contains(&name.number) && rank(name.table()).is_some())
        .map(|(name, path, _)| Waiting { name, path })
        .collect();
    files.sort_by_key(|file| (rank(file.name.table()), file.name.number));
    Ok(files)
}

fn rank(table: Table) -> Option<u8> {
    match table {
        Table::Connections => Some(0),
        Table::Decisions => Some(1),
        Table::Agent => Some(2),
        Table::Traces => None,
    }
}

/// The numbers of complete journals, whose files are being made: `journal-NUMBER.raw`.
fn journals(spool: &Path) -> std::io::Result<HashSet<u32>> {
    let mut numbers = HashSet::new();
    for entry in fs::read_dir(spool)? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix("journal-"));
        numbers.extend(number.and_then(|name| name.strip_suffix(".raw")?.parse::<u32>().ok()));
    }
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_waits_until_the_last_of_its_journal_is_there_and_the_journal_is_gone() {
        let spool = tempfile::tempdir().unwrap();
        let write = |name: &str| fs::write(spool.path().join(name), "x").unwrap();
        let names = || -> Vec<String> {
            finished(spool.path()).unwrap().iter().map(|file| file.name.to_string()).collect()
        };
        write("journal-000002.raw");
        write("connections-20261123T070500Z-000002.parquet");
        write("decisions-20261123T070000Z-000001.parquet");
        write("connections-20261123T070000Z-000001.parquet");
        write("traces-20261123T070000Z-000001.raw");
        assert_eq!(names(), Vec::<String>::new());
        write("agent-20261123T070000Z-000001.parquet");
        write("agent-20261123T070500Z-000002.parquet");
        let first = [
            "connections-20261123T070000Z-000001.parquet",
            "decisions-20261123T070000Z-000001.parquet",
            "agent-20261123T070000Z-000001.parquet",
        ];
        assert_eq!(names(), first);
        fs::remove_file(spool.path().join("journal-000002.raw")).unwrap();
        assert_eq!(names()[1], "connections-20261123T070500Z-000002.parquet");
        assert_eq!(names().len(), 5);
    }
}
