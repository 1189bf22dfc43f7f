//! A generated fleet as objects: written by the spool's own writer, landed as the shipper lands
//! them, under the names that it gives them.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use bytes::Bytes;
use chrono::DateTime;
use transom_fleet::{Identity, land};
use transom_spool::{Row, TABLE, Time, write};

use crate::generated::{Fleet, HOUR_US, NOON, Truth, boot_of, host_name};

/// Writes all objects of the fleet into a folder, and returns what they must answer.
pub fn write_all(fleet: &Fleet, folder: &Path) -> Result<Truth> {
    let mut truth = Truth::default();
    for host in 0..fleet.hosts {
        for hour in 0..fleet.hours {
            let rows = fleet.counted(host, hour, &mut truth);
            put(folder, "connections", host, hour, rows)?;
            put(folder, "agent", host, hour, fleet.agent(host, hour))?;
        }
    }
    Ok(truth)
}

fn put<T: Row>(folder: &Path, table: &str, host: u64, hour: u64, rows: Vec<T>) -> Result<()> {
    let mut spooled = Vec::new();
    write(&mut spooled, rows, &[(TABLE, table.into())], &mut || ())?;
    let identity = Identity { host: host_name(host), boot: boot_of(host) };
    let landed = land(&Bytes::from(spooled), &identity)?;
    let path = path_of(folder, table, &identity, hour);
    std::fs::create_dir_all(path.parent().context("a folder")?)?;
    Ok(std::fs::write(path, landed.bytes)?)
}

fn path_of(folder: &Path, table: &str, identity: &Identity, hour: u64) -> PathBuf {
    let begun = Time(NOON + hour as i64 * HOUR_US);
    let begun = DateTime::from_timestamp_micros(begun.0).unwrap_or_default();
    let folder = folder.join(table).join(begun.format("date=%Y-%m-%d/hour=%H").to_string());
    folder.join(format!("{}-{}-{:06}.parquet", identity.host, identity.boot, hour + 1))
}
