//! Rows of connections as they land.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use chrono::DateTime;
use transom_fleet::{Identity, land};
use transom_spool::{Connection, RowKind, TABLE, Time, write as write_spool};

pub fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// One connection of a host that ended then, as an object of its own.
pub fn write(tables: &Path, host: &str, at_s: u64, number: u64, sent: u32, again: u32) {
    let row = Connection {
        time: Time(at_s as i64 * 1_000_000),
        kind: RowKind::End,
        cookie: number,
        data_segments_sent: sent,
        retransmitted: again,
        ..Connection::default()
    };
    let mut spooled = Vec::new();
    write_spool(&mut spooled, vec![row], &[(TABLE, "connections".into())], &mut || ()).unwrap();
    let identity =
        Identity { host: host.to_owned(), boot: "00112233445566778899aabbccddeeff".into() };
    let landed = land(&Bytes::from(spooled), &identity).unwrap();
    let hour = DateTime::from_timestamp(at_s as i64, 0).unwrap();
    let folder = tables.join(hour.format("connections/date=%Y-%m-%d/hour=%H").to_string());
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join(format!("{host}-{number:06}.parquet")), landed.bytes).unwrap();
}
