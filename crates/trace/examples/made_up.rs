//! Writes a made-up bulk transfer: `cargo run -p transom-trace --example made_up FILE [EVENTS]`.

#[path = "../tests/bulk/mod.rs"]
mod bulk;

use anyhow::Context;
use transom_event::Raw;
use transom_trace::{Footer, Meta, Writer, WriterOptions};

fn main() -> anyhow::Result<()> {
    let mut args = std::env::args().skip(1);
    let path = args.next().context("usage: made_up FILE [EVENTS]")?;
    let events = args.next().map_or(Ok(100_000), |n| n.parse())?;
    let mut writer = Writer::create(&path, &Meta::of_this_machine(), WriterOptions::default())?;
    let mut end_ns = 0;
    for event in bulk::Bulk::new(3).take(events) {
        end_ns = event.time_ns;
        writer.push(&Raw::from(&event))?;
    }
    let done = writer.finish(Footer { end_ns, ..Footer::default() })?;
    println!("{} events, {} bytes", done.events, done.bytes);
    Ok(())
}
