//! A generated fleet as objects: written by the spool's own writer, landed as the shipper lands
//! them, under the names that it gives them.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use bytes::Bytes;
use chrono::DateTime;
use transom_fleet::{Identity, land};
use transom_spool::{CaState, Connection, Decided, Decision, Row, TABLE, Time, write};

use crate::generated::{Fleet, HOUR_US, NOON, Truth, boot_of, by_file, described, host_name};

/// Writes all objects of the fleet into a folder, and returns what they must answer.
pub fn write_all(fleet: &Fleet, folder: &Path) -> Result<Truth> {
    let mut truth = Truth::default();
    for host in 0..fleet.hosts {
        for hour in 0..fleet.hours {
            let rows = fleet.counted(host, hour, &mut truth);
            put(folder, "decisions", host, (hour, hour + 1), decisions(&rows))?;
            put(folder, "connections", host, (hour, hour + 1), rows)?;
            put(folder, "agent", host, (hour, hour + 1), fleet.agent(host, hour))?;
            if let Some(row) = described(host, hour) {
                put(folder, "hosts", host, (hour, hour + 1), vec![row])?;
            }
        }
    }
    Ok(truth)
}

/// Of each connection that lost something, that it did.
fn decisions(rows: &[Connection]) -> Vec<Decision> {
    let lost = rows.iter().filter(|row| row.last_decisions.is_some());
    let of = |row: &Connection| Decision {
        time: Time(row.time.0 - row.busy_us as i64 / 2),
        cookie: row.cookie,
        decided: Decided::State,
        now: CaState::Recovery,
        cwnd: row.cwnd,
        srtt_us: row.srtt_us,
        rto_us: 200_000,
        ..Decision::default()
    };
    lost.map(of).collect()
}

/// The connections of a host's first hour, one object for each file; returns their bytes.
#[allow(dead_code, reason = "tests write an hour as one file")]
pub fn put_by_file(folder: &Path, host: u64, rows: Vec<Connection>) -> Result<u64> {
    let put = |(number, rows)| put(folder, "connections", host, (0, number), rows);
    (1..).zip(by_file(rows, 0)).map(put).sum()
}

/// The bytes that landed.
fn put<T: Row>(
    folder: &Path,
    table: &str,
    host: u64,
    (hour, number): (u64, u64),
    rows: Vec<T>,
) -> Result<u64> {
    let mut spooled = Vec::new();
    write(&mut spooled, rows, &[(TABLE, table.into())], &mut || ())?;
    let identity = Identity { host: host_name(host), boot: boot_of(host) };
    let landed = land(&Bytes::from(spooled), &identity)?;
    let path = path_of(folder, table, &identity, hour, number);
    std::fs::create_dir_all(path.parent().context("a folder")?)?;
    std::fs::write(path, &landed.bytes)?;
    Ok(landed.bytes.len() as u64)
}

fn path_of(folder: &Path, table: &str, identity: &Identity, hour: u64, number: u64) -> PathBuf {
    let begun = Time(NOON + hour as i64 * HOUR_US);
    let begun = DateTime::from_timestamp_micros(begun.0).unwrap_or_default();
    let folder = folder.join(table).join(begun.format("date=%Y-%m-%d/hour=%H").to_string());
    folder.join(format!("{}-{}-{number:06}.parquet", identity.host, identity.boot))
}
