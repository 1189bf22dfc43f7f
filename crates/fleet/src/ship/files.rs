//! Which files of a spool are finished.
//!
//! The agent makes the files of a journal one after another, that of the table `agent` last, and then
//! removes the journal. Until then it may make them again after a kill. A file of recorded events is
//! finished when the agent lets its group read it.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::fs::OFlags;
use transom_spool::{FileName, Table, list};

use crate::events;

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

/// Opens what has the name of a file of a spool. A pipe is not waited for.
///
/// # Errors
/// It is gone, or cannot be opened.
pub fn open(path: &Path) -> std::io::Result<File> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

/// The table in object storage that a file of the spool is a part of.
pub fn landed_as(table: Table) -> &'static str {
    if table == Table::Traces { events::NAME } else { table.name() }
}

/// What a look at a spool found.
pub struct Found {
    /// In the order in which they go: connections first, since they are what is asked for, recorded
    /// events last but for the agent's own files, which say what there was. Of each the oldest first,
    /// since the agent removes it first.
    pub finished: Vec<Waiting>,
    /// A file of events is being written: the folder does not change when it is finished.
    pub is_recording: bool,
}

/// # Errors
/// The spool cannot be read.
pub fn found(spool: &Path, with_events: bool) -> Result<Found> {
    let named = || format!("reading the spool {}", spool.display());
    // Before the files: a journal that goes meanwhile has left all of its files.
    let journals = journals(spool).with_context(named)?;
    let all = list(spool).with_context(named)?;
    let whole: HashSet<u32> = all
        .iter()
        .filter(|(name, ..)| name.table() == Table::Agent && !journals.contains(&name.number))
        .map(|(name, ..)| name.number)
        .collect();
    let mut found = Found { finished: Vec::new(), is_recording: false };
    for (name, path, _) in all {
        let is_finished = match name.table() {
            Table::Traces if !with_events => continue,
            Table::Traces => is_readable_by_group(&path),
            _ => whole.contains(&name.number),
        };
        if is_finished {
            found.finished.push(Waiting { name, path });
        } else {
            found.is_recording |= name.table() == Table::Traces;
        }
    }
    found.finished.sort_by_key(|file| (rank(file.name.table()), file.name.number));
    Ok(found)
}

/// What the agent writes is its own until it is finished.
fn is_readable_by_group(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|data| data.permissions().mode() & 0o040 != 0)
}

fn rank(table: Table) -> u8 {
    match table {
        Table::Connections => 0,
        Table::Decisions => 1,
        Table::Traces => 2,
        Table::Agent => 3,
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
            let found = found(spool.path(), false).unwrap().finished;
            found.iter().map(|file| file.name.to_string()).collect()
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

    #[test]
    fn events_go_when_their_file_is_finished_and_only_where_they_are_asked_for() {
        let spool = tempfile::tempdir().unwrap();
        let of = |table: &str, number: u32, ending: &str| {
            let path = spool.path().join(format!("{table}-20261123T070000Z-{number:06}.{ending}"));
            fs::write(&path, "x").unwrap();
            path
        };
        of("connections", 1, "parquet");
        of("agent", 1, "parquet");
        let trace = of("traces", 7, "raw");
        let look = |with_events| {
            let found = found(spool.path(), with_events).unwrap();
            let tables: Vec<Table> = found.finished.iter().map(|file| file.name.table()).collect();
            (tables, found.is_recording)
        };
        let (first, last) = (Table::Connections, Table::Agent);
        fs::set_permissions(&trace, fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(look(true), (vec![first, last], true), "it is being written");
        fs::set_permissions(&trace, fs::Permissions::from_mode(0o640)).unwrap();
        assert_eq!(look(true), (vec![first, Table::Traces, last], false));
        assert_eq!(look(false), (vec![first, last], false));
    }
}
