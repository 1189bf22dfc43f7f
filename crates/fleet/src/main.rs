//! `transom-fleet`: ships what the agent's spool has to object storage, asks there, and rolls policies
//! out from there. A program of its own, since the privileged agent has no network client.

#![warn(clippy::print_stdout, clippy::print_stderr)]

#[cfg(test)]
mod manual;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use transom_fleet::{ask, dashboard, explain, follow, policy, serve, ship};

/// The connections of many machines, as tables in object storage
#[derive(Parser)]
#[command(name = "transom-fleet", version, max_term_width = 100)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Ship(ship::Args),
    Ask(ask::Args),
    Explain(explain::Args),
    Serve(serve::Args),
    Dashboard(dashboard::Args),
    Follow(follow::Args),
    Policy(policy::Args),
}

fn main() -> ExitCode {
    transom_output::run("transom-fleet", run)
}

fn run(args: Args) -> Result<ExitCode> {
    match args.command {
        Command::Ship(args) => ship::run(args),
        Command::Ask(args) => ask::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Serve(args) => serve::run(args),
        Command::Dashboard(args) => dashboard::run(&args),
        Command::Follow(args) => follow::run(&args),
        Command::Policy(args) => policy::run(&args),
    }
}
