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

/// A connection that ended: when, and its data segments, and those that were sent again.
pub type Ended = (u64, u32, u32);

/// Connections of a host in one hour, as its object of that hour.
pub fn write(tables: &Path, host: &str, ended: &[Ended]) {
    let row = |(at_s, sent, again): &Ended| Connection {
        time: Time(*at_s as i64 * 1_000_000),
        kind: RowKind::End,
        cookie: *at_s,
        data_segments_sent: *sent,
        retransmitted: *again,
        ..Connection::default()
    };
    let rows: Vec<Connection> = ended.iter().map(row).collect();
    let mut spooled = Vec::new();
    write_spool(&mut spooled, rows, &[(TABLE, "connections".into())], &mut || ()).unwrap();
    let identity =
        Identity { host: host.to_owned(), boot: "00112233445566778899aabbccddeeff".into() };
    let landed = land(&Bytes::from(spooled), &identity).unwrap();
    let hour = DateTime::from_timestamp(ended[0].0 as i64, 0).unwrap();
    let folder = tables.join(hour.format("connections/date=%Y-%m-%d/hour=%H").to_string());
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join(format!("{host}-000001.parquet")), landed.bytes).unwrap();
}
