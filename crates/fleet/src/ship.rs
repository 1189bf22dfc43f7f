//! `transom-fleet ship`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};

/// Ship the finished files of the agent's spool to object storage
#[derive(clap::Args)]
pub struct Args {
    /// The agent's spool
    #[arg(long, value_name = "DIR")]
    spool: Option<PathBuf>,
    /// Where the tables are
    #[arg(long, value_name = "s3://BUCKET/PREFIX")]
    to: Option<String>,
}

/// # Errors
/// Always, so far.
pub fn run(_: Args) -> Result<ExitCode> {
    bail!("nothing is shipped yet: this version only knows how a file lands")
}
