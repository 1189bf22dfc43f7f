//! What a trace costs: `cargo run --release -p transom-trace --example measure_trace`.
//!
//! CPU time of this one thread, so that other work on the machine matters little.

#[path = "../tests/bulk/mod.rs"]
mod bulk;

use std::path::Path;

use transom_event::Raw;
use transom_raw_stream::{Coding, Options};
use transom_trace::{Compression, Footer, Meta, Reader, Writer, WriterOptions};

const EVENTS: usize = 2_000_000;

/// CPU time of this process, ns.
fn cpu_ns() -> u64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// What `work` gave and its CPU time per event, ns.
fn per_event<T>(work: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<(T, f64)> {
    let start = cpu_ns();
    let done = work()?;
    Ok((done, (cpu_ns() - start) as f64 / EVENTS as f64))
}

fn write(path: &Path, records: &[Raw], options: WriterOptions) -> anyhow::Result<Writer> {
    let mut writer = Writer::create(path, &Meta::of_this_machine(), options)?;
    for raw in records {
        writer.push(raw)?;
    }
    writer.flush()?;
    Ok(writer)
}

fn read(path: &Path) -> anyhow::Result<u64> {
    let mut reader = Reader::open(path)?;
    for event in reader.by_ref() {
        std::hint::black_box(event?);
    }
    Ok(reader.events_read())
}

fn write_raw(path: &Path, records: &[Raw], coding: Coding) -> anyhow::Result<u64> {
    let options = Options { coding, ..Options::default() };
    let file = std::fs::File::create(path)?;
    let mut writer = transom_raw_stream::Writer::new(file, &Meta::of_this_machine(), options)?;
    for raw in records {
        writer.push(raw)?;
    }
    writer.flush()?;
    Ok(writer.bytes_written())
}

/// Writes block after block, so that the events themselves take no memory; the peak RSS, MB.
fn peak_memory(path: &Path) -> anyhow::Result<u64> {
    let mut writer = Writer::create(path, &Meta::of_this_machine(), WriterOptions::default())?;
    for event in bulk::Bulk::new(4).take(EVENTS) {
        writer.push(&Raw::from(&event))?;
    }
    writer.finish(Footer::default())?;
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kb: u64 = peak.unwrap_or_default().trim().trim_end_matches(" kB").parse()?;
    Ok(kb / 1000)
}

fn main() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("bulk.trace");
    println!("peak memory of writing and finishing: {} MB", peak_memory(&path)?);
    for connections in [1, 4] {
        let records = bulk::records(EVENTS, connections);
        for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
            let options = WriterOptions { compression, ..WriterOptions::default() };
            let stream = directory.path().join("bulk.arrow");
            let (writer, ns) = per_event(|| write(&stream, &records, options))?;
            let bytes = writer.bytes_written() as f64 / EVENTS as f64;
            drop(writer);
            let (_, read_ns) = per_event(|| read(&stream))?;
            println!(
                "{connections} connections, stream {compression:?}: \
                 {bytes:.1} B, write {ns:.0} ns, read {read_ns:.0} ns an event"
            );
        }
        for coding in
            [Coding::Plain, Coding::Delta, Coding::Zstd(-5), Coding::Zstd(1), Coding::Zstd(3)]
        {
            let (bytes, ns) = per_event(|| write_raw(&path, &records, coding))?;
            let bytes = bytes as f64 / EVENTS as f64;
            let (_, read_ns) = per_event(|| read(&path))?;
            println!(
                "{connections} connections, raw stream {coding:?}: \
                 {bytes:.1} B, write {ns:.0} ns, read {read_ns:.0} ns an event"
            );
        }
        let writer = write(&path, &records, WriterOptions::default())?;
        let (done, ns) = per_event(|| writer.finish(Footer::default()))?;
        let bytes = done.bytes as f64 / EVENTS as f64;
        let (_, read_ns) = per_event(|| read(&path))?;
        println!(
            "{connections} connections, Parquet: \
             {bytes:.1} B, convert {ns:.0} ns, read {read_ns:.0} ns an event"
        );
    }
    Ok(())
}
