//! What a trace costs: `cargo run --release -p transom-trace --example measure`.

#[path = "../tests/bulk/mod.rs"]
mod bulk;

use std::time::Instant;

use transom_trace::{Compression, Footer, Meta, Options, Writer};

const EVENTS: usize = 2_000_000;

/// CPU time of this process, ns.
fn cpu_ns() -> u64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

fn main() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("bulk.trace");
    for connections in [1, 4] {
        let records = bulk::records(EVENTS, connections);
        for compression in [Compression::None, Compression::Lz4, Compression::Zstd]
            .into_iter()
            .filter(|n| std::env::var("C").map_or(true, |r| r == format!("{n:?}")))
        {
            for batch_rows in [8_192, 16_384, 32_768]
                .into_iter()
                .filter(|n| std::env::var("R").map_or(true, |r| r == n.to_string()))
            {
                let start = cpu_ns();
                let options = Options { compression, batch_rows };
                let mut writer = Writer::create(&path, &Meta::of_this_machine(), options)?;
                for raw in &records {
                    writer.push(raw)?;
                }
                writer.flush()?;
                let write_ns = cpu_ns() - start;
                println!(
                    "{connections} connections, {compression:?} x {batch_rows}: {:.0} ns/event, {:.1} B/event",
                    write_ns as f64 / EVENTS as f64,
                    writer.bytes_written() as f64 / EVENTS as f64,
                );
                if batch_rows == 16_384 && compression == Compression::Lz4 {
                    let start = Instant::now();
                    let done = writer.finish(Footer::default())?;
                    println!(
                        "  Parquet: {:.2} B/event, converted in {:.2} s",
                        done.bytes as f64 / EVENTS as f64,
                        start.elapsed().as_secs_f64(),
                    );
                }
            }
        }
    }
    Ok(())
}
