//! The files of a spool and their names.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::named;

named! {
    /// What a file has a row of.
    Table {
        Connections = "connections",
        Decisions = "decisions",
        /// What the agent says of itself: starts, gaps, levels.
        Agent = "agent",
        /// No table: the events of chosen connections, as a raw stream.
        Traces = "traces",
    }
}

/// How [`FileName::begun`] is written, for chrono.
pub const BEGUN: &str = "%Y%m%dT%H%M%SZ";

impl Table {
    fn ending(self) -> &'static str {
        if self == Table::Traces { "raw" } else { "parquet" }
    }
}

/// `TABLE-YYYYMMDDTHHMMSSZ-NUMBER.parquet` (traces: `.raw`): when its first row was written, and the number that
/// makes it unique.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileName {
    /// As in the name; names sort by it.
    pub begun: String,
    pub number: u32,
    table: &'static str,
}

impl FileName {
    pub fn new(table: Table, begun: String, number: u32) -> FileName {
        FileName { begun, number, table: table.name() }
    }

    pub fn parse(name: &str) -> Option<FileName> {
        let (name, ending) = name.rsplit_once('.')?;
        let (rest, number) = name.rsplit_once('-')?;
        let (table, begun) = rest.split_once('-')?;
        let table = Table::ALL.iter().find(|known| known.name() == table)?;
        if table.ending() != ending {
            return None;
        }
        Some(FileName {
            begun: begun.to_owned(),
            number: number.parse().ok()?,
            table: table.name(),
        })
    }

    pub fn table(&self) -> Table {
        Table::ALL.iter().copied().find(|known| known.name() == self.table).unwrap_or_default()
    }
}

impl std::fmt::Display for FileName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ending = self.table().ending();
        write!(f, "{}-{}-{:06}.{ending}", self.table, self.begun, self.number)
    }
}

/// The whole files of a spool, oldest first. Others that lie there are left alone.
///
/// # Errors
/// The directory cannot be read.
pub fn list(spool: &Path) -> io::Result<Vec<(FileName, PathBuf, u64)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(spool)? {
        let entry = entry?;
        let Some(name) = entry.file_name().to_str().and_then(FileName::parse) else { continue };
        // It may go while we look.
        let Ok(metadata) = entry.metadata() else { continue };
        found.push((name, entry.path(), metadata.len()));
    }
    found.sort();
    Ok(found)
}

/// The number of the next file of a spool: numbers are not used again.
///
/// # Errors
/// The directory cannot be read.
pub fn next_number(spool: &Path) -> io::Result<u32> {
    Ok(list(spool)?.iter().map(|(name, ..)| name.number + 1).max().unwrap_or(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_what_is_inside() {
        let name = FileName::new(Table::Decisions, "20261123T070000Z".into(), 12);
        assert_eq!(name.to_string(), "decisions-20261123T070000Z-000012.parquet");
        assert_eq!(FileName::parse(&name.to_string()), Some(name));
        let trace = FileName::new(Table::Traces, "20261123T070000Z".into(), 3);
        assert_eq!(trace.to_string(), "traces-20261123T070000Z-000003.raw");
        assert_eq!(FileName::parse(&trace.to_string()), Some(trace));
    }

    #[test]
    fn other_files_are_none_of_ours() {
        for other in [
            "traces-20261123T070000Z-1.parquet",
            "connections-20261123T070000Z-1.raw",
            "connections.parquet",
            "x-20261123T070000Z-1.parquet",
            "connections-1",
            ".tmp",
        ] {
            assert_eq!(FileName::parse(other), None, "{other}");
        }
    }

    #[test]
    fn the_oldest_comes_first_whatever_its_table() {
        let spool = tempfile::tempdir().unwrap();
        let name = |table, begun: &str| FileName::new(table, begun.into(), 1).to_string();
        for file in [
            name(Table::Connections, "20261123T070500Z"),
            name(Table::Decisions, "20261123T070000Z"),
            "journal.raw".into(),
        ] {
            fs::write(spool.path().join(file), "x").unwrap();
        }
        let found = list(spool.path()).unwrap();
        let tables: Vec<Table> = found.iter().map(|(name, ..)| name.table()).collect();
        assert_eq!(tables, [Table::Decisions, Table::Connections]);
    }
}
