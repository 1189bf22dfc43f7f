//! A generated fleet as objects: written by the spool's own writer, landed as the shipper lands
//! them, under the names that it gives them.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use bytes::Bytes;
use chrono::DateTime;
use transom_event::{Body, Event, Kind, Place, Raw, State};
use transom_fleet::landed::Landed;
use transom_fleet::{Identity, events, land};
use transom_raw_stream::{Footer, Meta, Options, Writer};
use transom_spool::{CaState, Connection, Decided, Decision, Row, RowKind, TABLE, Time, write};

use crate::generated::{Fleet, HOUR_US, NOON, Truth, boot_of, by_file, described, host_name};

/// Writes all objects of the fleet into a folder, and returns what they must answer.
pub fn write_all(fleet: &Fleet, folder: &Path) -> Result<Truth> {
    let mut truth = Truth::default();
    for host in 0..fleet.hosts {
        for hour in 0..fleet.hours {
            let rows = fleet.counted(host, hour, &mut truth);
            if host == RECORDED.0 {
                let cookie = cookie_of_recorded(hour);
                let is_last =
                    |row: &&Connection| row.cookie == cookie && row.kind != RowKind::Interim;
                let row = rows.iter().find(is_last).context("it has a row")?;
                let begun = row.time.0 - EVENTS as i64 * 1000;
                // Beside another connection's.
                put_events(folder, host, (hour, 1), begun, &[cookie, cookie + 1])?;
            }
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

/// The host and the number of the connection that was recorded event by event, in each hour.
pub const RECORDED: (u64, u64) = (1, 3);

/// How many events it has, each a millisecond after the one before.
pub const EVENTS: u64 = 12;

pub fn cookie_of_recorded(hour: u64) -> u64 {
    RECORDED.0 << 40 | hour << 32 | RECORDED.1
}

/// In two files, the first with this number, as an agent that goes on to the next one leaves them;
/// `begun` is in µs since 1970.
pub fn put_events(
    folder: &Path,
    host: u64,
    (hour, number): (u64, u64),
    begun: i64,
    cookies: &[u64],
) -> Result<()> {
    let events: Vec<Event> = (0..EVENTS)
        .flat_map(|n| cookies.iter().map(move |&cookie| event(n, begun + n as i64 * 1000, cookie)))
        .collect();
    for (number, part) in (number..).zip(events.chunks(events.len() / 2)) {
        let meta = Meta { boot_id: boot_of(host), ..Meta::default() };
        let mut raw = tempfile::NamedTempFile::new()?;
        let mut writer = Writer::new(raw.as_file_mut(), &meta, Options::default())?;
        part.iter().try_for_each(|event| writer.push(&Raw::from(event)))?;
        writer.finish(Footer::default())?;
        let (table, boot) = events::table_of(raw.reopen()?)?;
        let identity = Identity { host: host_name(host), boot };
        write_object(folder, events::NAME, &identity, (hour, number), &land(&table, &identity)?)?;
    }
    Ok(())
}

fn event(n: u64, us: i64, cookie: u64) -> Event {
    let (cwnd, reason) = (10 + n as u32, 1);
    let state = State { cwnd, srtt_us: 20_000, snd_wnd: 1 << 16, ..State::default() };
    let (kind, aux) = match n % 4 {
        0 => (Kind::Send, [1448, 1]),
        3 => (Kind::Retransmit, [reason | 1 << 8, 77]),
        _ => (Kind::Ack, [1448, cwnd]),
    };
    let time_ns = us as u64 * 1000;
    let (place, body) = (Place::Ack, Body::State(state));
    Event { time_ns, cookie, tgid: 0, cpu: 0, kind, place, aux, body }
}

/// What a host shipped of a table, as if it had not.
#[allow(dead_code, reason = "for the page only")]
pub fn remove(folder: &Path, table: &str, host: &str) -> Result<()> {
    for hour in 0..24 {
        let hour = folder.join(table).join(format!("date=2026-11-23/hour={hour:02}"));
        for file in hour.read_dir().into_iter().flatten() {
            let file = file?;
            if file.file_name().to_string_lossy().starts_with(&format!("{host}-")) {
                std::fs::remove_file(file.path())?;
            }
        }
    }
    Ok(())
}

/// Of each connection that lost something, that it did.
pub fn decisions(rows: &[Connection]) -> Vec<Decision> {
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
pub fn put<T: Row>(
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
    write_object(folder, table, &identity, (hour, number), &landed)?;
    Ok(landed.bytes.len() as u64)
}

fn write_object(
    folder: &Path,
    table: &str,
    identity: &Identity,
    (hour, number): (u64, u64),
    landed: &Landed,
) -> Result<()> {
    let path = path_of(folder, table, identity, hour, number);
    std::fs::create_dir_all(path.parent().context("a folder")?)?;
    Ok(std::fs::write(path, &landed.bytes)?)
}

fn path_of(folder: &Path, table: &str, identity: &Identity, hour: u64, number: u64) -> PathBuf {
    let begun = Time(NOON + hour as i64 * HOUR_US);
    let begun = DateTime::from_timestamp_micros(begun.0).unwrap_or_default();
    let folder = folder.join(table).join(begun.format("date=%Y-%m-%d/hour=%H").to_string());
    folder.join(format!("{}-{}-{number:06}.parquet", identity.host, identity.boot))
}
