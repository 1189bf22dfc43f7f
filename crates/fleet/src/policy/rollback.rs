//! `transom-fleet policy rollback`: all hosts go back at once, by hand.

use std::process::ExitCode;

use anyhow::Result;
use transom_output::say;
use transom_rollout::Current;

use super::place::{Place, Signed};
use super::words;

/// Give all hosts an older policy or none, at once: a new generation without waves
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    signed: Signed,
    /// The generation whose policy all hosts are to have
    #[arg(long, value_name = "N", required_unless_present = "none", conflicts_with = "none")]
    generation: Option<u64>,
    /// No host is to have any policy
    #[arg(long)]
    none: bool,
}

const EXAMPLES: &str = "\
Examples:
  transom-fleet policy rollback --to s3://tables/fleet --key /etc/transom/fleet.key --generation 3
  transom-fleet policy rollback --to s3://tables/fleet --key /etc/transom/fleet.key --none";

pub fn run(args: &Args) -> Result<ExitCode> {
    let place = args.signed.open()?;
    let current = rollback(&place, args.generation, args.signed.now_s())?;
    let has = match args.generation {
        Some(number) => format!("the policy of generation {number}"),
        None => "none".to_owned(),
    };
    say!(
        "generation {}: all hosts have {has}, when they look next; its lease ends at {}, unless \
         `transom-fleet policy step` renews it",
        current.generation,
        words::utc(current.ends_s())
    )?;
    Ok(ExitCode::SUCCESS)
}

/// # Errors
/// There is no such generation, somebody else was faster, or the store refuses.
pub fn rollback(place: &Place, to: Option<u64>, now_s: u64) -> Result<Current> {
    let last = place.published()?;
    let number = place.add_older(&last.current, to.unwrap_or(0))?;
    let because = match to {
        Some(number) => format!("taken back by hand, to generation {number}"),
        None => "taken back by hand, to none".to_owned(),
    };
    let current = Current::for_all(number, &last.current, None, &because, now_s);
    place.swap(Some(&last), &current)?;
    Ok(current)
}
