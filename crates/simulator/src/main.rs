//! `transom-simulate`: Linux's own TCP in virtual time. Hosts are network namespaces of Linux as a
//! library, what lies between them is the emulator in logical time, and nothing waits.
//!
//! ```text
//! scenario ──► world (hosts, addresses, sysctls) ──► engine ──► outcome, traces, the links' log
//!                                                     │  ▲
//!                                           programs ─┘  └─ kernel, links, devices: next event first
//! ```
//!
//! `docs/simulate.md` says how it works and what it does not model.

#![warn(clippy::print_stdout, clippy::print_stderr)]

mod algorithms;
mod carried;
mod device;
mod engine;
mod guards;
mod kernels;
mod peers;
mod programs;
mod recording;
mod run;
mod world;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use transom_output::say;

/// Linux's own TCP in virtual time
#[derive(Parser)]
#[command(name = "transom-simulate", max_term_width = 100)]
struct Line {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Simulate one scenario
    Run {
        /// A scenario (JSON, docs/simulate.md)
        scenario: PathBuf,
        /// Folder for outcome.json, emulator.json and the traces; made if it is not there
        #[arg(short, long, value_name = "DIR")]
        output: PathBuf,
        /// Report on stderr how far the virtual time is, in percent, one line each
        #[arg(long)]
        progress: bool,
    },
    /// Put up the hosts of a scenario and open its sockets, and simulate nothing: whether the kernels
    /// take what it sets
    Check {
        /// A scenario (JSON, docs/simulate.md)
        scenario: PathBuf,
    },
    /// List the kernels that hosts may have
    Kernels,
}

fn main() -> ExitCode {
    transom_output::run("transom-simulate", |line: Line| {
        match line.command {
            Command::Run { scenario, output, progress } => run::file(&scenario, &output, progress)?,
            Command::Check { scenario } => run::check(&scenario)?,
            Command::Kernels => kernels()?,
        }
        Ok(ExitCode::SUCCESS)
    })
}

fn kernels() -> Result<()> {
    for series in world::kernels() {
        say!("{series}")?;
    }
    Ok(())
}
