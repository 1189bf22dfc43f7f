use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;
use transom_lab::clean;
use transom_output::note;

mod catalog;
mod exec;
mod run;
mod shell;

#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List the experiments
    List,
    /// Say what an experiment puts up, runs, and checks
    Show(catalog::ShowArgs),
    /// Run experiments: real kernels, real iperf, emulated air and path
    Run(run::Args),
    /// Make the page of results anew, or compare several
    Report(run::ReportArgs),
    /// Keep an experiment's hosts up, to try one's own programs in them
    Shell(shell::Args),
    /// Run a program in a host of a lab that is up
    Exec(exec::Args),
    /// Clear away what labs have left that were killed
    Clean,
}

pub fn run(args: Args) -> Result<ExitCode> {
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
    let words = std::env::args().skip(1);
    std::iter::once("transom".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}
