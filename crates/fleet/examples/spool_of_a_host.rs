//! Writes files of a spool as the agent of a host with a million connections a day leaves them, one
//! pair in five minutes: `spool_of_a_host DIR HOURS`.

#[allow(dead_code, reason = "what the tests ask of a fleet")]
#[path = "../tests/questions/generated.rs"]
mod generated;

use std::path::Path;

use anyhow::{Context, Result};
use generated::{FILES, Fleet, HOUR_US, NOON, Truth, Wrong, boot_of, by_file};
use transom_spool::{AgentRow, BEGUN, FileName, Row, TABLE, Table, Time, write};

/// A million a day.
const CONNECTIONS: u64 = 41_667;
const PREFIXES: u64 = 50_000;

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let usage = "usage: spool_of_a_host DIR HOURS";
    let folder = args.next().context(usage)?;
    let hours = args.next().context(usage)?.parse()?;
    let wrong = Wrong::default();
    let fleet = Fleet {
        seed: 1,
        hosts: 1,
        hours,
        connections: CONNECTIONS,
        prefixes: PREFIXES,
        pairs: 0,
        wrong,
    };
    let mut number = 0;
    for hour in 0..hours {
        for rows in by_file(fleet.counted(0, hour, &mut Truth::default()), hour) {
            let begun = NOON + i64::from(number) * HOUR_US / FILES;
            let agent = AgentRow {
                time: Time(begun),
                rows: rows.len() as u64,
                boot: Some(boot_of(0).as_str().into()),
                ..AgentRow::default()
            };
            put(Path::new(&folder), Table::Connections, begun, number, rows)?;
            put(Path::new(&folder), Table::Agent, begun, number, vec![agent])?;
            number += 1;
        }
    }
    Ok(())
}

fn put<T: Row>(folder: &Path, table: Table, begun: i64, number: u32, rows: Vec<T>) -> Result<()> {
    let begun = chrono::DateTime::from_timestamp_micros(begun).context("a time")?;
    let name = FileName::new(table, begun.format(BEGUN).to_string(), number);
    let metadata = [(TABLE, table.name().to_owned()), ("transom.boot", boot_of(0))];
    let mut bytes = Vec::new();
    write(&mut bytes, rows, &metadata, &mut || ())?;
    Ok(std::fs::write(folder.join(name.to_string()), bytes)?)
}
