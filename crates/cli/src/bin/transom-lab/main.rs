//! `transom-lab`: found and run by `transom lab`; a program of its own because machines that are
//! only watched need no testbed.

#![warn(clippy::print_stdout, clippy::print_stderr)]

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use transom_lab::clean;
use transom_output::note;

mod catalog;
mod compare;
mod exec;
mod grid;
#[cfg(test)]
mod manual;
mod run;
mod search;
mod shell;
mod sweep;

const EXAMPLES: &str = "Examples:
  transom lab list
  transom lab show icn2011-fig7
  transom lab run --quick two-phones     see that everything works here, 20 s
  transom lab run icn2011-fig7           all runs and controls; Ctrl-C, and the same command goes on
  transom lab run --virtual icn2011-fig7 the same in virtual time: seconds instead of minutes
  transom lab run ./mine.toml -o out --repeats 5
  transom lab report out/mine
  transom lab compare --kernel 6.1 --kernel 6.12
  transom lab sweep two-phones flows.fast.algorithm=cubic,bbr path.rtt_ms=16,64,256
  transom lab search two-phones slow.goodput_mbit hosts.slow.largest_window=10..200
  transom lab grid experiments/grid/senders.toml --half train --points 60
  transom lab shell two-phones slow      a shell in the host 'slow'

How to write an experiment file: docs/experiments.md";

/// Experiments on emulated air and path, beside what papers published
#[derive(Parser)]
#[command(name = "transom lab", bin_name = "transom lab", version, max_term_width = 100, after_help = EXAMPLES)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List the experiments
    List,
    /// Show an experiment's hosts, flows, sweep, claims and controls, and check its file
    Show(catalog::ShowArgs),
    /// Run experiments and judge their claims: real kernels, real iperf, emulated air and path
    Run(run::Args),
    /// Draw the page of a folder of results again, or compare several folders
    Report(run::ReportArgs),
    /// Run a suite of cases on two kernels, or with two settings, and show what differs
    Compare(compare::Args),
    /// Run an experiment in virtual time with other values of any of its keys
    Sweep(sweep::Args),
    /// Look for the settings with which an experiment does best, in virtual time
    Search(search::Args),
    /// Judge congestion controls at points drawn from a space of paths and traffic
    Grid(grid::Args),
    /// Keep an experiment's hosts up, for programs of your own
    Shell(shell::Args),
    /// Run a program in a host of a lab that is up
    Exec(exec::Args),
    /// Remove what killed labs left behind
    Clean,
}

fn main() -> ExitCode {
    transom_output::unfinished::discard_on_panic();
    transom_machine::objects::quiet_libbpf();
    transom_output::run("transom", run)
}

fn run(args: Args) -> Result<ExitCode> {
    // What a dead lab left is in the way of the next one, so every command looks.
    let cleared = match rustix::process::geteuid().is_root() {
        true => clean::dead_labs()?,
        false => Vec::new(),
    };
    for lab in &cleared {
        note!("transom: cleared away the lab '{lab}', whose process is gone");
    }
    match args.command {
        Command::List => catalog::list(),
        Command::Show(args) => catalog::show(&args),
        Command::Run(args) => run::run(&args),
        Command::Report(args) => run::report(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Sweep(args) => sweep::run(&args),
        Command::Search(args) => search::run(&args),
        Command::Grid(args) => grid::run(&args),
        Command::Shell(args) => shell::run(&args),
        Command::Exec(args) => exec::run(&args),
        Command::Clean => clean(&cleared),
    }
}

fn clean(cleared: &[String]) -> Result<ExitCode> {
    if !rustix::process::geteuid().is_root() {
        anyhow::bail!("clearing away network namespaces needs root: run it with sudo");
    }
    for lab in clean::labs() {
        let (id, pid) = (&lab.id, lab.owner.pid);
        note!("transom: the lab '{id}' lives and stays: process {pid} ({})", lab.command);
    }
    if cleared.is_empty() {
        note!("transom: no dead lab has left anything");
    }
    Ok(ExitCode::SUCCESS)
}

/// The command line, as people would type it.
fn command_line() -> String {
    let words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    std::iter::once("transom lab".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}
