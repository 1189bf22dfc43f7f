//! A program that knows nothing of Transom reads the finished trace.
//!
//! DuckDB comes from the package index into a virtual environment under
//! `target/`, once. Where that cannot be had, the test is skipped.

mod bulk;

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use transom_event::{Event, Kind};
use transom_testbed::{python_with, skip};
use transom_trace::{Footer, Meta, Reader, Writer, WriterOptions};

#[test]
fn duckdb_reads_the_parquet_file() {
    let python = match python_with("duckdb", Path::new(env!("CARGO_TARGET_TMPDIR"))) {
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
    let mut writer = Writer::create(&path, &meta, WriterOptions::default()).unwrap();
    for raw in &records {
        writer.push(raw).unwrap();
    }
    writer.finish(Footer { end_ns: 7, ..Footer::default() }).unwrap();

    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/read_by_duckdb.py");
    let copy = directory.path().join("copy.parquet");
    let output = Command::new(python).arg(script).arg(&path).arg(&copy).output().unwrap();
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
    assert_eq!(seen["first_sack"], serde_json::json!([{ "left_edge": left, "right_edge": right }]));
    let sum = |port: u16, of: fn(&Event) -> u32| -> u64 {
        let own = events.iter().filter(|event| event.cookie == u64::from(port) - 40_000 + 0x1000);
        own.map(|event| u64::from(of(event))).sum()
    };
    for (at, port) in (40_000..40_003).enumerate() {
        let acked = sum(port, |e| if e.kind == Kind::Ack { e.aux[0] } else { 0 });
        let sent = sum(port, |e| if e.kind == Kind::Send { e.aux[0] } else { 0 });
        assert_eq!(seen["by_connection"][at], serde_json::json!([port, "iperf", acked, sent]));
    }
    let offset_us = meta.realtime_offset_ns.div_euclid(1000);
    let first = seen["first_utc"].as_i64().unwrap();
    assert!((offset_us..=offset_us + 1).contains(&first), "{first} {offset_us}");
    for word in seen["reserved"].as_array().unwrap() {
        let word = word.as_str().unwrap();
        assert!(seen["columns"].get(word).is_none(), "{word} is a word of SQL");
    }
    assert!(seen["reserved"].as_array().unwrap().len() > 50);
    let units: Value =
        serde_json::from_str(seen["metadata"]["transom.units"].as_str().unwrap()).unwrap();
    assert_eq!((&units["rto_us"], &units["cwnd"]), (&"us".into(), &"segments".into()));
    assert_eq!(seen["columns"]["time_utc"], "TIMESTAMP WITH TIME ZONE");
    assert_eq!(seen["columns"]["origin"], "VARCHAR");
    assert_eq!(seen["columns"]["with_sack"], "BOOLEAN");
    assert_eq!(seen["columns"]["acked_bytes"], "UINTEGER");
    assert_eq!(seen["columns"]["time_ns"], "BIGINT");
    assert_eq!(seen["columns"]["kind"], "VARCHAR");
    assert_eq!(seen["columns"]["cwnd_limited"], "BOOLEAN");
    assert_eq!(seen["metadata"]["transom.filters"], "port 5201");
    assert_eq!(seen["metadata"]["transom.complete"], "true");
    assert_eq!(seen["metadata"]["transom.events"], "100000");

    let mut copied = Reader::open(&copy).unwrap();
    assert!(copied.by_ref().map(Result::unwrap).eq(events), "and its copy is a trace again");
    assert!(!copied.is_cut() && copied.footer().is_none());
}
