//! What an event that an agent recorded takes where it lands: connections over a path that loses
//! segments, both ends of which a real agent records event by event (level 2), and the real shipper.
//! `cargo build -p transom-agent -p transom-fleet`, then as root
//! `cargo run -p transom-fleet --example recorded_events [SECONDS]`. docs/fleet-running.md has the result.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use parquet::file::metadata::ParquetMetaDataReader;
use rustix::process::Signal;
use transom_testbed::{Talking, find_program, pair, send_and_wait};

/// Each way.
const DELAY: Duration = Duration::from_millis(10);
/// One segment in so many is lost.
const LOSES: u32 = 100;
/// What connections move, one after another.
const LOADS: [(&str, usize); 2] =
    [("pages of 100 kB", 100_000), ("transfers of 10 MB", 10_000_000)];
/// Both ends, from their handshakes on.
const CONFIG: &str = "level = 2\ncpu = 1.0\n[[recording.watch]]\nprefix = \"10.77.0.0/24\"\n\
                      until = 2100-01-01T00:00:00Z\n";

fn main() -> Result<()> {
    let seconds = std::env::args().nth(1).map_or(Ok(60), |number| number.parse())?;
    println!("| load | connections | events | objects | bytes an event | beside them, an object |");
    println!("|---|---|---|---|---|---|");
    for (name, bytes) in LOADS {
        let folder = tempfile::tempdir()?;
        let connections = record(folder.path(), bytes, Duration::from_secs(seconds))?;
        let Landed { objects, events, columns, rest } = ship(folder.path())?;
        println!(
            "| {name} | {connections} | {events} | {objects} | {:.1} | {:.0} |",
            columns as f64 / events as f64,
            rest as f64 / objects as f64
        );
    }
    Ok(())
}

/// How many connections an agent recorded into the folder's `spool` meanwhile.
fn record(folder: &Path, bytes: usize, time: Duration) -> Result<u64> {
    let config = folder.join("agent.toml");
    fs::write(&config, CONFIG)?;
    let path = transom_testbed::Path::new(DELAY);
    let mut agent = Command::new(find_program("transom-agent").context("no transom-agent")?);
    agent.arg("--config").arg(config).arg("--spool").arg(folder.join("spool"));
    let mut agent = Talking::start(agent.stdin(Stdio::null()), "rows of connections go to");
    path.lose(|n| n % LOSES == LOSES - 1);
    let (begun, mut connections) = (Instant::now(), 0);
    while begun.elapsed() < time {
        let (mut client, mut server) = pair(&path);
        send_and_wait(&mut client, &mut server, bytes);
        connections += 1;
    }
    ensure!(agent.end(Signal::INT.as_raw()).success(), "the agent failed");
    Ok(connections)
}

/// What landed of events.
#[derive(Default)]
struct Landed {
    objects: u64,
    events: u64,
    /// Bytes of their columns.
    columns: u64,
    /// Bytes of schemas and metadata.
    rest: u64,
}

fn ship(folder: &Path) -> Result<Landed> {
    let tables = folder.join("tables");
    fs::create_dir(&tables)?;
    let mut ship = Command::new(find_program("transom-fleet").context("no transom-fleet")?);
    ship.args(["ship", "--once", "--host", "web-1", "--events-mib", "65536", "--to"]);
    ship.arg(format!("file://{}", tables.display())).arg("--spool").arg(folder.join("spool"));
    ensure!(ship.stderr(Stdio::null()).status()?.success(), "the shipper failed");
    let mut landed = Landed::default();
    for object in objects(&tables.join("events"))? {
        let bytes = Bytes::from(fs::read(object)?);
        let metadata = ParquetMetaDataReader::new().parse_and_finish(&bytes)?;
        let columns = metadata.row_groups().iter().map(|group| group.compressed_size() as u64);
        let columns: u64 = columns.sum();
        landed.objects += 1;
        landed.events += metadata.file_metadata().num_rows() as u64;
        landed.columns += columns;
        landed.rest += bytes.len() as u64 - columns;
    }
    ensure!(landed.events > 0, "nothing was recorded");
    Ok(landed)
}

/// All files below.
fn objects(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(objects(&path)?);
        } else {
            found.push(path);
        }
    }
    Ok(found)
}
