//! The real shippers of many hosts in one process against one real S3 server, on a clock that stands
//! still while they work, through an outage of an hour; bench/fleet_shippers.py runs it.
//! `fleet_of_shippers HOSTS ROWS FOLDER SERVER [ARGUMENT…]`, with AWS's variables for the bucket
//! `tables` of that server, which it starts, takes away and starts again.

#[path = "../tests/crowd/counted.rs"]
#[allow(dead_code, reason = "the server is as fast as it is")]
mod counted;
#[path = "../tests/crowd/crowd.rs"]
mod crowd;
#[path = "../tests/crowd/stopped.rs"]
mod stopped;

use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use crowd::{Part, Plan, Told, ship_all};
use serde_json::{Value, json};
use transom_fleet::bucket::{Bucket, Retries};

const MINUTE: Duration = Duration::from_secs(60);

/// The server, which ends with it.
struct Server {
    words: Vec<String>,
    child: Option<Child>,
}

impl Server {
    fn is_up(&mut self, up: bool) -> Result<()> {
        if let Some(mut child) = self.child.take() {
            child.kill()?;
            child.wait()?;
        }
        if up {
            let mut command = Command::new(&self.words[0]);
            command.args(&self.words[1..]).stdout(Stdio::null()).stderr(Stdio::null());
            self.child = Some(command.spawn().with_context(|| self.words[0].clone())?);
            let endpoint = std::env::var("AWS_ENDPOINT_URL").context("AWS_ENDPOINT_URL")?;
            let address = endpoint.trim_start_matches("http://");
            while TcpStream::connect(address).is_err() {
                let ended = self.child.as_mut().map(Child::try_wait).transpose()?.flatten();
                ensure!(ended.is_none(), "the server ended: {ended:?}");
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.is_up(false);
    }
}

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    ensure!(words.len() > 3, "usage: fleet_of_shippers HOSTS ROWS FOLDER SERVER [ARGUMENT…]");
    let plan = Plan {
        hosts: words[0].parse()?,
        rows: words[1].parse()?,
        before: 15 * MINUTE,
        outage: 60 * MINUTE,
        after: 20 * MINUTE,
        spread: 10 * MINUTE,
        read: 20,
    };
    let folder = PathBuf::from(&words[2]);
    let mut server = Server { words: words[3..].to_vec(), child: None };
    server.is_up(true)?;
    let bucket = Bucket::open("s3://tables/fleet", Retries::None)?;
    let told = ship_all(plan, &bucket, &folder, |up| server.is_up(up))?;
    println!("{}", of(&plan, &told));
    Ok(())
}

fn of(plan: &Plan, told: &Told) -> Value {
    let part = |part: &Part| {
        json!({
            "seconds": part.seconds, "asked": part.asked, "failed": part.failed,
            "bytes": part.bytes, "most_in_a_second": part.most, "most_at": part.most_at,
        })
    };
    json!({
        "hosts": plan.hosts,
        "rows_a_file": plan.rows,
        "before": part(&told.before),
        "outage": part(&told.outage),
        "back": part(&told.back),
        "after": part(&told.after),
        "backlog": told.backlog,
        "landed_after_s": told.landed_after.as_secs(),
        "objects": told.objects,
        "rows_read": told.rows_read,
        "real_s": told.real.as_secs(),
    })
}
