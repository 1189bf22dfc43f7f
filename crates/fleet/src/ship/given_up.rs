//! What the agent removed before it could be shipped, as a table of its own. The agent's own file of
//! that number says how many rows there were, and is the last to be removed.

use anyhow::{Context, Result};
use bytes::Bytes;
use transom_spool::{AgentRow, BOOT, FileName, TABLE, Table, Text, Time, boot_of, read, write};

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

/// The object that tells of it, and the number of rows; `None` if nothing `lacks` of what an agent's
/// file says that there was.
///
/// # Errors
/// It is no file of the agent's own table.
pub fn told(
    name: &FileName,
    file: &Bytes,
    host: &str,
    lacks: impl Fn(Table) -> bool,
) -> Result<Option<(Object, u64)>> {
    let said: Vec<AgentRow> = read(file.clone())?;
    let time = said.iter().map(|row| row.time).max().unwrap_or_default();
    let connections = said.iter().map(|row| row.rows).sum();
    let decisions = said.iter().map(|row| row.decisions).sum();
    let mut rows = Vec::new();
    for (table, count) in [(Table::Connections, connections), (Table::Decisions, decisions)] {
        if count > 0 && lacks(table) {
            let table = Some(table.name().into());
            rows.push(GivenUp { time, table, number: name.number.into(), rows: count });
        }
    }
    if rows.is_empty() {
        return Ok(None);
    }
    let count = rows.iter().map(|row| row.rows).sum();
    let boot = boot_of(file.clone()).context("it does not say of which boot it is")?;
    let metadata = [(TABLE, NAME.to_owned()), (BOOT, boot)];
    let mut bytes = Vec::new();
    write(&mut bytes, rows, &metadata, &mut || ())?;
    Ok(Some((Object::in_table(NAME, name, &bytes.into(), host)?, count)))
}
