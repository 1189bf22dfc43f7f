//! `transom-fleet policy`: policies that reach the hosts of a fleet wave by wave, from object storage.
//! What hosts believe, and when a gate fails, is in `transom-rollout`; this is the program around it.

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

mod document;
mod folder;
mod gates;
mod kept;
pub(crate) mod key;
pub(crate) mod metrics;
pub mod place;
pub mod publish;
pub mod rollback;
pub mod shown;
pub mod status;
pub mod step;
pub(crate) mod store;
mod sums;
pub(crate) mod words;

/// Roll a policy out to a fleet, wave by wave, and back when it does harm
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Key(key::Args),
    Publish(publish::Args),
    Status(status::Args),
    Step(step::Args),
    Rollback(rollback::Args),
}

const EXAMPLES: &str = "\
Examples:
  transom-fleet policy key /etc/transom/fleet.key >> trusted-keys
  transom-fleet policy publish far.toml --to s3://tables/fleet --key /etc/transom/fleet.key
  transom-fleet policy step --to s3://tables/fleet --key /etc/transom/fleet.key --every 2m
  transom-fleet policy status --from s3://tables/fleet --trust trusted-keys";

/// # Errors
/// What is asked for cannot be done: the message says why, and what helps.
pub fn run(args: &Args) -> Result<ExitCode> {
    match &args.command {
        Command::Key(args) => key::run(args),
        Command::Publish(args) => publish::run(args),
        Command::Status(args) => status::run(args),
        Command::Step(args) => step::run(args),
        Command::Rollback(args) => rollback::run(args),
    }
}
