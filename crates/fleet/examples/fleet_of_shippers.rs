//! The real shippers of many hosts in one process against a real S3 server, on a clock that stands
//! still while they work, through an outage of an hour; bench/fleet_shippers.py runs it.
//! `fleet_of_shippers FIRST HOSTS ROWS FOLDER`, with AWS's variables for the bucket `tables`. Of a fleet
//! in several processes each has so many hosts from the FIRST on. Where the server is to go it says
//! `down`, where it is to come back `up`, and before it reads the bucket `read`, and waits for a line
//! that says that this was done; the last line is what happened.

#[path = "../tests/crowd/counted.rs"]
#[allow(dead_code, reason = "the server is as fast as it is")]
mod counted;
#[path = "../tests/crowd/crowd.rs"]
mod crowd;
#[path = "../tests/crowd/stopped.rs"]
mod stopped;

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};
use crowd::{Moment, Part, Plan, Told, ship_all};
use serde_json::{Value, json};
use transom_fleet::bucket::{Bucket, Retries};

const MINUTE: Duration = Duration::from_secs(60);

/// Asks whoever has the server.
fn ask(moment: Moment) -> Result<()> {
    println!(
        "{}",
        match moment {
            Moment::Down => "down",
            Moment::Up => "up",
            Moment::Read => "read",
        }
    );
    let mut line = String::new();
    ensure!(std::io::stdin().read_line(&mut line)? > 0, "nobody has the server any more");
    Ok(())
}

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [first, hosts, rows, folder] = &words[..] else {
        anyhow::bail!("usage: fleet_of_shippers FIRST HOSTS ROWS FOLDER");
    };
    let plan = Plan {
        first: first.parse()?,
        hosts: hosts.parse()?,
        rows: rows.parse()?,
        before: 15 * MINUTE,
        outage: 60 * MINUTE,
        after: 20 * MINUTE,
        spread: 10 * MINUTE,
        read: 20,
    };
    let bucket = Bucket::open("s3://tables/fleet", Retries::None)?;
    let told = ship_all(plan, &bucket, Path::new(folder), ask)?;
    println!("{}", of(&told));
    Ok(())
}

fn of(told: &Told) -> Value {
    let part = |part: &Part| {
        json!({
            "seconds": part.seconds, "asked": part.asked, "failed": part.failed,
            "bytes": part.bytes, "each_second": part.each_second,
        })
    };
    json!({
        "before": part(&told.before),
        "outage": part(&told.outage),
        "back": part(&told.back),
        "after": part(&told.after),
        "backlog": told.backlog,
        "landed_after_s": told.landed_after.as_secs(),
        "objects": told.objects,
        "described": told.described,
        "rows_read": told.rows_read,
        "real_s": told.real.as_secs(),
    })
}
