//! What did not land and never will, as a table of its own: the agent removed it before, or it was
//! more events than may land in an hour. The agent's own file says how many rows there were, and is
//! the last to be removed.

use anyhow::{Context, Result};
use bytes::Bytes;
use transom_spool::{AgentRow, BOOT, FileName, TABLE, Table, Text, Time, boot_of, read, write};

use super::files::landed_as;
use super::object::Object;

const NAME: &str = "given_up";

#[derive(Default)]
struct GivenUp {
    /// The end of the time in which the rows came.
    time: Time,
    table: Option<Text>,
    number: u64,
    rows: u64,
}

transom_spool::columns!(GivenUp {
    time, "µs", "end of the time in which the rows came", Technical;
    table, "", "which table they were of", Technical;
    number, "", "of the file in the spool", Technical;
    rows, "", "how many", Technical;
});

/// What is told of, and how many rows of each table that are.
pub struct Told {
    pub object: Object,
    pub rows: Vec<(&'static str, u64)>,
}

/// `None` if nothing `lacks` of what an agent's file says that there was.
///
/// # Errors
/// It is no file of the agent's own table.
pub fn told(
    name: &FileName,
    file: &Bytes,
    host: &str,
    lacks: impl Fn(&FileName) -> bool,
) -> Result<Option<Told>> {
    let said: Vec<AgentRow> = read(file.clone())?;
    let time = said.iter().map(|row| row.time).max().unwrap_or_default();
    let connections = said.iter().map(|row| row.rows).sum();
    let decisions = said.iter().map(|row| row.decisions).sum();
    let of_journal = [(Table::Connections, connections), (Table::Decisions, decisions)]
        .map(|(table, count)| (FileName::new(table, name.begun.clone(), name.number), time, count));
    let of_events = said.iter().filter_map(|row| {
        let name = FileName::parse(row.trace.as_deref()?)?;
        Some((name, row.time, row.events))
    });
    let mut given_up = Vec::new();
    let mut rows: Vec<(&'static str, u64)> = Vec::new();
    for (name, time, count) in of_journal.into_iter().chain(of_events) {
        if count > 0 && lacks(&name) {
            let table = landed_as(name.table());
            rows.push((table, count));
            let number = name.number.into();
            given_up.push(GivenUp { time, table: Some(table.into()), number, rows: count });
        }
    }
    if given_up.is_empty() {
        return Ok(None);
    }
    let boot = boot_of(file.clone()).context("it does not say of which boot it is")?;
    let metadata = [(TABLE, NAME.to_owned()), (BOOT, boot)];
    let mut bytes = Vec::new();
    write(&mut bytes, given_up, &metadata, &mut || ())?;
    Ok(Some(Told { object: Object::in_table(NAME, name, &bytes.into(), host)?, rows }))
}
