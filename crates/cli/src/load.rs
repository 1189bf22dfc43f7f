//! A whole trace file in memory, for `report` and `explain`.

use std::fs::File;
use std::path::Path;

use anyhow::{Error, Result, anyhow};
use transom_analysis::Recording;
use transom_output::note;
use transom_spool::{Table, table_of};
use transom_trace::{Footer, Meta, Reader};

/// What a file holds.
pub struct Loaded {
    pub recording: Recording,
    pub meta: Meta,
    pub footer: Option<Footer>,
}

/// A better message where the file is one that `transom agent` wrote.
fn agents_table(path: &Path) -> Option<Error> {
    let table = table_of(File::open(path).ok()?)?;
    let (file, name) = (path.display(), table.name());
    let reader = match table {
        Table::Connections => "`transom explain` and `transom ask` read it",
        Table::Decisions | Table::Agent | Table::Traces => {
            "`transom ask` reads it, with the others of its spool"
        }
    };
    Some(anyhow!("{file} is no trace but the agent's table of {name}: {reader}"))
}

/// # Errors
/// If the file is not there or no trace. One that is cut is no error.
pub fn load(path: &Path) -> Result<Loaded> {
    let mut reader = Reader::open(path).map_err(|error| agents_table(path).unwrap_or(error))?;
    let mut recording = Recording::default();
    for event in &mut reader {
        recording.push(&event?);
    }
    recording.cut = reader.is_cut();
    recording.told_apart_ns = reader.meta().told_apart_ns();
    let (meta, footer) = (reader.meta().clone(), reader.footer().cloned());
    if recording.cut {
        note!(
            "transom: {} is cut, as after a crash: {} events are whole and are used",
            path.display(),
            recording.events
        );
    }
    Ok(Loaded { recording, meta, footer })
}
