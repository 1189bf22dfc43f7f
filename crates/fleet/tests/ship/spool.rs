//! A spool as the agent leaves it.

use std::path::{Path, PathBuf};

use transom_spool::{
    AgentRow, BEGUN, Connection, Decision, FileName, Row, TABLE, Table, Time, VERSION, write,
};

pub const NOON: i64 = 1_795_435_200_000_000;
pub const BOOT: &str = "00112233445566778899aabbccddeeff";
const PERIOD_US: i64 = 300_000_000;

pub struct Spool {
    pub folder: tempfile::TempDir,
    boot: String,
    /// Distinguishes rows of one spool from those of another.
    seed: u64,
}

impl Spool {
    pub fn new(seed: u64) -> Spool {
        Spool { folder: tempfile::tempdir().unwrap(), boot: BOOT.into(), seed }
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
        vec![
            self.put(Table::Connections, number, (0..rows).map(connection).collect()),
            self.put(Table::Decisions, number, (0..rows / 2).map(decision).collect()),
            self.put(Table::Agent, number, vec![agent]),
        ]
    }

    fn put<T: Row>(&self, table: Table, number: u32, rows: Vec<T>) -> PathBuf {
        let begun = NOON + i64::from(number) * PERIOD_US;
        let begun = chrono::DateTime::from_timestamp_micros(begun).unwrap();
        let name = FileName::new(table, begun.format(BEGUN).to_string(), number);
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
