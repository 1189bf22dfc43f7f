//! `transom-drill router`: carries questions and answers between those who ask and hosts.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::Result;
use transom_output::say;
use zenoh::Wait;

use crate::session::{self, failed};

/// Carry questions and answers; any Zenoh router does, such as zenohd
#[derive(clap::Args)]
pub struct Args {
    /// Where hosts and those who ask reach it
    #[arg(long, value_name = "ENDPOINT")]
    listen: Vec<String>,
    /// Zenoh's configuration: TLS, and who may do what (docs/drill.md)
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Without TLS, for everybody who reaches it
    #[arg(long)]
    plain: bool,
}

/// # Errors
/// The address cannot be had, or has no TLS.
pub fn run(args: &Args) -> Result<ExitCode> {
    let ended = session::ended()?;
    let config = session::listener(&args.listen, args.config.as_deref())?;
    let endpoints = session::endpoints(&config, "listen/endpoints");
    session::ensure_protected(&endpoints, args.plain)?;
    let session = zenoh::open(config).wait().map_err(failed)?;
    say!("listening on {}", endpoints.join(", "))?;
    while !ended.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(100));
    }
    session.close().wait().map_err(failed)?;
    Ok(ExitCode::SUCCESS)
}
