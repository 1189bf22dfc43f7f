//! Programs that know nothing of Transom read what the agent writes, value by value. DuckDB and
//! PyArrow come from the package index into a virtual environment under `target/`, once; where
//! that cannot be had, the test is skipped.

use std::fs::File;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use transom_spool::{Cause, Cell, Chosen, Connection, Direction, Ended, Row, RowKind, Time, write};
use transom_testbed::{python_for, skip};

/// More than one row group has.
const ROWS: u64 = 8192 + 1000;

/// Every kind of column there is: constant, always null, null now and then, in runs, growing,
/// without any order, up to the largest numbers, and texts that are few, many and long.
fn row(n: u64) -> Connection {
    let noise = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    Connection {
        time: Time(1_800_000_000_000_000 + n as i64 * 731),
        kind: RowKind::ALL[n as usize / 300 % 3],
        duration_us: (!n.is_multiple_of(5)).then_some(n * 1001),
        handshake_us: (n / 700).is_multiple_of(2).then_some(noise >> 40),
        cookie: n + 77,
        chosen: Chosen::ALL[noise as usize % Chosen::ALL.len()],
        program: (!n.is_multiple_of(4)).then(|| format!("program-{}", noise % 40).into()),
        pid: (n == 8000).then_some(1),
        cgroup: Some("/system.slice/nginx.service".into()),
        netns: 4_026_531_840,
        direction: Direction::ALL[n as usize % 2],
        remote_port: (noise >> 48) as u16,
        remote_prefix: Some(format!("192.0.{}.0/24", n % 250).into()),
        remote_tag: Some(noise),
        bytes_sent: if n.is_multiple_of(9) { u64::MAX } else { noise >> (noise & 63) },
        bytes_received: noise & 1,
        segments_sent: (n / 100) as u32,
        srtt_us: (noise & 64 != 0).then_some(noise as u32),
        ended: Ended::ALL[n as usize % Ended::ALL.len()],
        verdict: Cause::ALL[noise as usize % 3],
        verdict_share: if n < 8192 { (noise >> 40) as f64 / 4.0 } else { 0.25 },
        last_decisions: n.is_multiple_of(50).then(|| format!("-0.{n} s probe; ").repeat(16).into()),
        ..Connection::default()
    }
}

fn json(cell: Cell) -> Value {
    match cell {
        Cell::Null => Value::Null,
        Cell::Integer(value) => value.into(),
        Cell::Real(value) => value.into(),
        Cell::Text(text) => (*text).into(),
        Cell::Name(name) => name.into(),
    }
}

#[test]
fn duckdb_and_pyarrow_read_every_value_as_it_was_written() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let python = match python_for("readers", &["duckdb", "pyarrow"], "duckdb, pyarrow", folder) {
        Ok(python) => python,
        Err(reason) => return skip("duckdb and pyarrow", &reason),
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("connections.parquet");
    write(File::create(&path).unwrap(), (0..ROWS).map(row), &[], &mut || ()).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/read_by_others.py");
    let output = Command::new(python).arg(script).arg(&path).arg("8300").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let seen: Value = serde_json::from_slice(&output.stdout).unwrap();
    for column in Connection::columns() {
        let written: Vec<Value> = (0..ROWS).map(|n| json((column.get)(&row(n)))).collect();
        for reader in ["duckdb", "pyarrow"] {
            let read = seen[reader][column.name].as_array().unwrap();
            let differs = written.iter().zip(read).position(|(a, b)| a != b);
            assert_eq!((differs, read.len()), (None, written.len()), "{reader}: {}", column.name);
        }
    }
    assert_eq!(seen["found"], 1, "statistics lead to the row group that has it");
}
