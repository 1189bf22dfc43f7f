//! What the formats cost: `cargo run --release -p transom-export --example measure_export`.
//!
//! CPU time of this one thread beside that of the conversion to Parquet in the same run.

#[path = "../../trace/tests/bulk/mod.rs"]
mod bulk;

use std::io::{self, Write};
use std::path::Path;

use transom_analysis::Recording;
use transom_export::{BlackBox, Origin, perfetto, qlog};
use transom_trace::{Footer, Meta, Reader, Target, Writer, WriterOptions, convert};

const EVENTS: usize = 500_000;
const CONNECTIONS: usize = 4;

/// Counts what is written.
struct Count(u64);

impl Write for Count {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn cpu_ns() -> u64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

fn measured(
    name: &str,
    write: impl FnOnce(&mut Count) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let (mut bytes, start) = (Count(0), cpu_ns());
    write(&mut bytes)?;
    let ns = cpu_ns() - start;
    let each = |number: u64| number as f64 / EVENTS as f64;
    let rate = bytes.0 as f64 * 1000.0 / ns as f64;
    println!("{name}: {:.1} B, {:.0} ns an event, {rate:.0} MB/s", each(bytes.0), each(ns));
    Ok(())
}

fn recording(path: &Path) -> anyhow::Result<Recording> {
    let mut recording = Recording::default();
    for event in Reader::open(path)? {
        recording.push(&event?);
    }
    Ok(recording)
}

fn main() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("bulk.parquet");
    let mut writer = Writer::create(&path, &Meta::default(), WriterOptions::default())?;
    for raw in bulk::records(EVENTS, CONNECTIONS) {
        writer.push(&raw)?;
    }
    writer.finish(Footer::default())?;
    let origin = Origin::default();
    measured("parquet", |to| {
        convert::write_to(&mut Reader::open(&path)?, Target::Parquet, to)?;
        Ok(())
    })?;
    measured("pcapng", |to| {
        let mut file = BlackBox::new(to, &origin)?;
        for event in Reader::open(&path)? {
            file.push(&event?)?;
        }
        file.finish()?;
        Ok(())
    })?;
    measured("perfetto", |to| Ok(perfetto::write(&recording(&path)?, &origin, to)?))?;
    measured("qlog", |to| {
        qlog::write(&recording(&path)?, &origin, to)?;
        Ok(())
    })
}
