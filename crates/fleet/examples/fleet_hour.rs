//! Writes the landed objects of one hour of a generated fleet, as its hosts' shippers would have left
//! them, and prints what they must answer:
//! `cargo run --release -p transom-fleet --example fleet_hour DIR HOSTS [CONNECTIONS]`.

#[allow(dead_code, reason = "what the tests ask of a fleet")]
#[path = "../tests/questions/generated.rs"]
mod generated;
#[allow(dead_code, reason = "the tests write whole fleets")]
#[path = "../tests/questions/objects.rs"]
mod objects;

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result};
use generated::{FILES, Fleet, Truth, Wrong, prefix_name};
use serde_json::json;

/// A million a day.
const CONNECTIONS: u64 = 41_667;
const PREFIXES: u64 = 50_000;
const LOSING: u64 = 17;
/// Of the customer who is asked for: about 7 of 100,000 connections are theirs.
const CUSTOMER: u64 = 1000;

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let usage = "usage: fleet_hour DIR HOSTS [CONNECTIONS]";
    let folder = args.next().context(usage)?;
    let hosts = args.next().context(usage)?.parse()?;
    let connections = args.next().map_or(Ok(CONNECTIONS), |number| number.parse())?;
    let wrong = Wrong { losing_prefix: Some(LOSING), ..Wrong::default() };
    let fleet =
        Fleet { seed: 1, hosts, hours: 1, connections, prefixes: PREFIXES, pairs: 9, wrong };
    let (truth, bytes) = write(&fleet, Path::new(&folder))?;
    let customer = prefix_name(CUSTOMER);
    let told = json!({
        "hosts": hosts,
        "rows": truth.rows,
        "bytes": bytes,
        "objects": hosts * FILES as u64,
        "customer": customer,
        "customers_connections": truth.prefixes.get(&customer).map_or(0, |(ended, ..)| *ended),
        "losing": prefix_name(LOSING),
        "verdicts": truth.verdicts,
    });
    println!("{told}");
    Ok(())
}

/// With all cores of this machine; each host is made without the others.
fn write(fleet: &Fleet, folder: &Path) -> Result<(Truth, u64)> {
    let next = AtomicU64::new(0);
    let work = || -> Result<(Truth, u64)> {
        let (mut truth, mut bytes) = (Truth::default(), 0);
        loop {
            let host = next.fetch_add(1, Ordering::Relaxed);
            if host >= fleet.hosts {
                return Ok((truth, bytes));
            }
            let rows = fleet.counted(host, 0, &mut truth);
            bytes += objects::put_by_file(folder, host, rows)?;
        }
    };
    let mut whole = (Truth::default(), 0);
    std::thread::scope(|scope| {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        for thread in threads {
            let (truth, bytes) = thread.join().map_err(|_| anyhow::anyhow!("a thread ended"))??;
            whole.0.add(truth);
            whole.1 += bytes;
        }
        Ok(whole)
    })
}
