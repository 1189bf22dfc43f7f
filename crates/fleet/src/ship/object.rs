//! A file on its way: its bytes as they land, the name that they land under, and how they land once.

use std::fs::File;

use anyhow::{Context, Result};
use bytes::Bytes;
use chrono::DateTime;
use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt, PutMode};
use parquet::file::metadata::ParquetMetaDataReader;
use parquet::file::statistics::Statistics;
use sha2::{Digest, Sha256};
use transom_spool::{FileName, Time, boot_of};

use crate::events;
use crate::landed::{Identity, land};
use crate::whole;

pub struct Object {
    /// `TABLE/date=YYYY-MM-DD/hour=HH/HOST-BOOT-NUMBER.parquet`: the hour of the earliest row, in UTC.
    pub path: Path,
    pub bytes: Bytes,
    pub rows: u64,
    /// SHA-256 in hexadecimal digits.
    pub digest: String,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    Landed,
    /// It had landed before, and nobody was told.
    WasThere,
    /// An object of other contents has the name.
    Taken,
    /// Somebody is writing it just now.
    Busy,
}

impl Object {
    /// # Errors
    /// It is none of the agent's files, is damaged, or from the future.
    pub fn of(name: &FileName, file: &Bytes, host: &str) -> Result<Object> {
        whole::check(file)?;
        Object::in_table(name.table().name(), name, file, host)
    }

    /// # Errors
    /// As of [`Object::of`].
    pub fn in_table(table: &str, name: &FileName, file: &Bytes, host: &str) -> Result<Object> {
        let boot = boot_of(file.clone()).context("it does not say of which boot it is")?;
        let identity = Identity { host: host.to_owned(), boot };
        let begun = begun(name, file)?;
        Object::numbered(table, name.number.into(), begun, file, &identity)
    }

    /// Of a file of recorded events, which become a table first.
    ///
    /// # Errors
    /// It is no raw stream, is damaged, or from the future.
    pub fn of_events(name: &FileName, file: File, host: &str) -> Result<Object> {
        let (table, boot) = events::table_of(file)?;
        let identity = Identity { host: host.to_owned(), boot };
        let begun = begun(name, &table)?;
        Object::numbered(events::NAME, name.number.into(), begun, &table, &identity)
    }

    /// In the hour of `begun`.
    ///
    /// # Errors
    /// As of [`Object::of`].
    pub fn numbered(
        table: &str,
        number: u64,
        begun: Time,
        file: &Bytes,
        identity: &Identity,
    ) -> Result<Object> {
        let hour = DateTime::from_timestamp_micros(begun.0).context("its rows have no time")?;
        let hour = hour.format("date=%Y-%m-%d/hour=%H");
        let landed = land(file, identity)?;
        let Identity { host, boot } = identity;
        let path = Path::parse(format!("{table}/{hour}/{host}-{boot}-{number:06}.parquet"))?;
        let digest = digest(&landed.bytes);
        Ok(Object { path, bytes: landed.bytes, rows: landed.rows, digest })
    }

    /// Never writes over an object. `earlier` is the digest of an attempt that an earlier program
    /// may have made with other bytes of the same rows.
    ///
    /// # Errors
    /// Of the store.
    pub async fn send(
        &self,
        store: &dyn ObjectStore,
        earlier: Option<&str>,
    ) -> Result<Sent, Error> {
        let put = store.put_opts(&self.path, self.bytes.clone().into(), PutMode::Create.into());
        match put.await {
            Ok(_) => return Ok(Sent::Landed),
            Err(Error::AlreadyExists { .. }) => {}
            Err(error) => return Err(error),
        }
        let there = match store.get(&self.path).await {
            Ok(found) => found.bytes().await?,
            Err(Error::NotFound { .. }) => return Ok(Sent::Busy),
            Err(error) => return Err(error),
        };
        let is_ours = there == self.bytes || earlier.is_some_and(|known| known == digest(&there));
        Ok(if is_ours { Sent::WasThere } else { Sent::Taken })
    }
}

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// When its rows begin; without rows, when it was begun itself.
fn begun(name: &FileName, file: &Bytes) -> Result<Time> {
    if let Some(us) = earliest(file)? {
        return Ok(Time(us));
    }
    let begun = chrono::NaiveDateTime::parse_from_str(&name.begun, transom_spool::BEGUN);
    Ok(Time(begun.context("its name has no time")?.and_utc().timestamp_micros()))
}

/// The least time of all rows, in µs, as the file's own statistics have it.
fn earliest(file: &Bytes) -> Result<Option<i64>> {
    let metadata = ParquetMetaDataReader::new().parse_and_finish(file)?;
    let columns = metadata.row_groups().iter().flat_map(|group| group.columns());
    let is_time = |name: String| name == "time" || name == events::TIME;
    let times = columns.filter(|column| is_time(column.column_path().string()));
    let least = |statistics: &Statistics| match statistics {
        Statistics::Int64(of) => of.min_opt().copied(),
        _ => None,
    };
    Ok(times.filter_map(|column| least(column.statistics()?)).min())
}

#[cfg(test)]
mod tests {
    use super::*;
    use transom_spool::{Connection, TABLE, Table, write};

    fn file(times: &[i64]) -> (FileName, Bytes) {
        let rows = times.iter().map(|us| Connection { time: Time(*us), ..Connection::default() });
        let metadata = [(TABLE, "connections".into()), ("transom.boot", "b".repeat(32))];
        let mut file = Vec::new();
        write(&mut file, rows, &metadata, &mut || ()).unwrap();
        (FileName::new(Table::Connections, "20261123T115959Z".into(), 7), file.into())
    }

    fn path(times: &[i64]) -> String {
        let (name, file) = file(times);
        Object::of(&name, &file, "web-1").unwrap().path.to_string()
    }

    #[test]
    fn a_file_lies_in_the_hour_of_its_earliest_row_in_utc() {
        let noon = 1_795_435_200_000_000;
        let named = |hour| {
            format!(
                "connections/date=2026-11-23/hour={hour}/web-1-{}-000007.parquet",
                "b".repeat(32)
            )
        };
        assert_eq!(path(&[noon + 5, noon + 2]), named(12));
        assert_eq!(path(&[noon + 5, noon - 1]), named(11));
        assert_eq!(path(&[]), named(11), "without rows: the hour of its name");
    }

    #[test]
    fn a_file_that_does_not_say_its_boot_is_refused() {
        let mut file = Vec::new();
        write(&mut file, [Connection::default()], &[], &mut || ()).unwrap();
        let name = FileName::new(Table::Connections, "20261123T115959Z".into(), 7);
        let refusal = Object::of(&name, &file.into(), "web-1").err().unwrap().to_string();
        assert!(refusal.contains("boot"), "{refusal}");
    }
}
