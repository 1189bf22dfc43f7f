//! A spool as the agent leaves it.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use transom_event::{Body, Event, Kind, Open, Place, Raw, State};
use transom_raw_stream::{Footer, Meta, Options, Writer};

use transom_spool::{
    AgentEvent, AgentRow, BEGUN, Connection, Decision, FileName, Row, TABLE, Table, Time, VERSION,
    write,
};

pub const NOON: i64 = 1_795_435_200_000_000;
pub const BOOT: &str = "00112233445566778899aabbccddeeff";
const PERIOD_US: i64 = 300_000_000;

pub struct Spool {
    pub folder: tempfile::TempDir,
    boot: String,
    /// Distinguishes rows of one spool from those of another.
    seed: u64,
    /// Files of events since the last journal, of which the next file of the agent's own tells.
    recorded: Mutex<Vec<(FileName, u64)>>,
}

/// Kernel's clock to wall clock.
const OFFSET_NS: i64 = (NOON - 1_000_000_000) * 1000;

impl Spool {
    pub fn new(seed: u64) -> Spool {
        Spool {
            folder: tempfile::tempdir().unwrap(),
            boot: BOOT.into(),
            seed,
            recorded: Mutex::default(),
        }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The files of one journal, whose rows begin at `begun`, in the agent's order.
    pub fn finish(&self, number: u32, rows: u64) -> Vec<PathBuf> {
        let begun = NOON + i64::from(number) * PERIOD_US;
        let time = |n: u64| Time(begun + n as i64 * 1000);
        let cookie = |n: u64| self.seed << 40 | u64::from(number) << 20 | n;
        let connection =
            |n| Connection { time: time(n), cookie: cookie(n), ..Connection::default() };
        let decision = |n| Decision { time: time(n), cookie: cookie(n), ..Decision::default() };
        let agent = AgentRow {
            time: time(rows),
            rows,
            decisions: rows / 2,
            boot: Some(self.boot.as_str().into()),
            ..AgentRow::default()
        };
        let recorded = std::mem::take(&mut *self.recorded.lock().unwrap());
        let of_events = recorded.into_iter().map(|(name, events)| AgentRow {
            event: AgentEvent::Trace,
            rows: 0,
            decisions: 0,
            trace: Some(name.to_string().into()),
            events,
            ..agent.clone()
        });
        let of_events: Vec<AgentRow> = of_events.collect();
        vec![
            self.put(Table::Connections, number, (0..rows).map(connection).collect()),
            self.put(Table::Decisions, number, (0..rows / 2).map(decision).collect()),
            self.put(Table::Agent, number, [vec![agent], of_events].concat()),
        ]
    }

    /// A file of events, at the time of a journal of this number, of one connection: its `open`, then
    /// acknowledgements.
    pub fn record(&self, number: u32, events: u64) -> PathBuf {
        let name = FileName::new(Table::Traces, begun_of(number), number);
        let path = self.path().join(name.to_string());
        let meta = Meta {
            boot_id: "00112233-4455-6677-8899-aabbccddeeff".into(),
            realtime_offset_ns: OFFSET_NS,
            ..Meta::default()
        };
        let cookie = self.seed << 40 | u64::from(number) << 20;
        let mut writer =
            Writer::new(File::create(&path).unwrap(), &meta, Options::default()).unwrap();
        for n in 0..events {
            writer.push(&Raw::from(&event(number, n, cookie))).unwrap();
        }
        writer.finish(Footer::default()).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        self.recorded.lock().unwrap().push((name, events));
        path
    }

    fn put<T: Row>(&self, table: Table, number: u32, rows: Vec<T>) -> PathBuf {
        let name = FileName::new(table, begun_of(number), number);
        let path = self.path().join(name.to_string());
        let aside = tempfile::NamedTempFile::new_in(self.path()).unwrap();
        let metadata = [
            (TABLE, table.name().to_owned()),
            (VERSION, "0.0.1".to_owned()),
            ("transom.boot", self.boot.clone()),
        ];
        write(aside.as_file(), rows, &metadata, &mut || ()).unwrap();
        aside.persist(&path).unwrap();
        path
    }
}

fn begun_of(number: u32) -> String {
    let begun = NOON + i64::from(number) * PERIOD_US;
    chrono::DateTime::from_timestamp_micros(begun).unwrap().format(BEGUN).to_string()
}

fn event(number: u32, n: u64, cookie: u64) -> Event {
    let us = NOON + i64::from(number) * PERIOD_US + n as i64 * 1000;
    let open = Open {
        local_addr: [192, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        remote_addr: [198, 18, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        local_port: 443,
        remote_port: 40_000,
        family: 2,
        ..Open::default()
    };
    // As hard to compress as sequence numbers of many connections.
    let noise = |of: u64| {
        let mixed = (n * 3 + of + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 32) as u32
    };
    let state = State {
        cwnd: 10 + n as u32,
        srtt_us: 20_000,
        snd_una: noise(0),
        snd_nxt: noise(1),
        rcv_nxt: noise(2),
        ..State::default()
    };
    let (kind, body) =
        if n == 0 { (Kind::Open, Body::Open(open)) } else { (Kind::Ack, Body::State(state)) };
    Event {
        time_ns: u64::try_from(us * 1000 - OFFSET_NS).unwrap(),
        cookie,
        tgid: 0,
        cpu: 0,
        kind,
        place: Place::Ack,
        aux: [1448, 10],
        body,
    }
}
