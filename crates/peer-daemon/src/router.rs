//! `transom peer router`: carries the groups' messages from one network to another.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use serde_json::json;
use transom_machine::signals::Signals;
use zenoh::{Config, Wait};

use crate::over_zenoh::{failed, set};
use crate::run::endpoint;
use transom_output::say;

#[derive(clap::Args)]
pub struct Args {
    /// Where terminals reach it
    #[arg(long, value_name = "ENDPOINT", value_parser = endpoint,
          default_values = ["udp/0.0.0.0:7447", "tcp/0.0.0.0:7447"])]
    listen: Vec<String>,
    /// Other routers to join
    #[arg(long, value_name = "ENDPOINT", value_parser = endpoint)]
    connect: Vec<String>,
}

pub fn run(args: Args) -> Result<ExitCode> {
    let signals = Signals::catch()?;
    let mut config = Config::default();
    for (key, value) in [
        ("mode", json!("router")),
        ("listen/endpoints", json!(args.listen)),
        ("connect/endpoints", json!(args.connect)),
        ("scouting/multicast/enabled", json!(false)),
        ("scouting/gossip/enabled", json!(false)),
    ] {
        set(&mut config, key, &value)?;
    }
    let session = zenoh::open(config).wait().map_err(failed)?;
    say!("listening on {}", args.listen.join(", "))?;
    while !signals.came() {
        std::thread::sleep(Duration::from_millis(100));
    }
    session.close().wait().map_err(failed)?;
    Ok(ExitCode::SUCCESS)
}
