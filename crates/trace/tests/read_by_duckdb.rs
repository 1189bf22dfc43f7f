//! A program that knows nothing of Transom reads the finished trace.
//!
//! DuckDB comes from the package index into a virtual environment under
//! `target/`, once. Where that cannot be had, the test is skipped.

mod bulk;

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use transom_event::{Event, Kind};
use transom_testbed::skip;
use transom_trace::{Footer, Meta, Options, Writer};

/// The interpreter of an environment that has DuckDB, or why there is none.
fn python() -> Result<PathBuf, String> {
    let environment = Path::new(env!("CARGO_TARGET_TMPDIR")).join("duckdb");
    let python = environment.join("bin/python");
    let run = |command: &mut Command| match command.output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        Err(error) => Err(error.to_string()),
    };
    let works = || run(Command::new(&python).args(["-c", "import duckdb"]));
    if works().is_ok() {
        return Ok(python);
    }
    run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&environment))?;
    run(Command::new(&python).args(["-m", "pip", "install", "--quiet", "duckdb"]))?;
    works().map(|()| python)
}

#[test]
fn duckdb_reads_the_parquet_file() {
    let python = match python() {
        Ok(python) => python,
        Err(reason) => {
            skip("duckdb", &format!("no Python environment with DuckDB: {reason}"));
            return;
        }
    };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("bulk.parquet");
    let records = bulk::records(100_000, 3);
    let meta = Meta { filters: "port 5201".into(), ..Meta::of_this_machine() };
    let mut writer = Writer::create(&path, &meta, Options::default()).unwrap();
    for raw in &records {
        writer.push(raw).unwrap();
    }
    writer.finish(Footer { end_ns: 7, ..Footer::default() }).unwrap();

    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/read_by_duckdb.py");
    let output = Command::new(python).arg(script).arg(&path).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let seen: Value = serde_json::from_slice(&output.stdout).unwrap();

    let events: Vec<Event> = records.iter().map(|raw| Event::try_from(raw).unwrap()).collect();
    for kind in [Kind::Open, Kind::Send, Kind::Ack, Kind::Sack] {
        let count = events.iter().filter(|event| event.kind == kind).count();
        assert_eq!(seen["kinds"][kind.name()], count, "{kind}");
    }
    assert_eq!(
        seen["places"],
        serde_json::json!(["__dev_queue_xmit", "tcp_ack", "tcp_rcv_established", "tcp_set_state"])
    );
    assert_eq!(
        seen["opens"][0],
        serde_json::json!(["10.0.0.1", 40_000, "10.0.0.2", 5201, "iperf", "cubic"])
    );
    assert_eq!(seen["cwnd"][2], events.len() - 3);
    assert_eq!(seen["clamp_set"], 0);
    assert_eq!(seen["tcp_state"], serde_json::json!(["ESTABLISHED"]));
    let sack = events.iter().find_map(Event::sack).unwrap();
    let [left, right] = sack.blocks[0];
    assert_eq!(seen["first_sack"], serde_json::json!([{ "left": left, "right": right }]));
    assert_eq!(seen["columns"]["time_ns"], "BIGINT");
    assert_eq!(seen["columns"]["kind"], "VARCHAR");
    assert_eq!(seen["columns"]["cwnd_limited"], "BOOLEAN");
    assert_eq!(seen["metadata"]["transom.filters"], "port 5201");
    assert_eq!(seen["metadata"]["transom.complete"], "true");
    assert_eq!(seen["metadata"]["transom.events"], "100000");
}
