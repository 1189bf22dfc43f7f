//! `transom run --stack host` alone: what interposition costs and the tests run on, without the
//! library.

#![warn(clippy::print_stdout, clippy::print_stderr)]

use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Parser;
use transom_output::note;
use transom_supervisor::{Arguments, Exit, HostStack, NotStarted, StackName, prepare, run};

fn supervise(arguments: &Arguments) -> Result<Exit> {
    if arguments.stack != StackName::Host {
        bail!("this program has only --stack host");
    }
    arguments.refuse_library_options()?;
    let options = arguments.options();
    let waiting = prepare(&arguments.program, &options)?;
    let mut stack = HostStack::new().context("making an epoll set")?;
    run(&mut stack, &options, waiting)
}

fn main() -> ExitCode {
    match supervise(&Arguments::parse()) {
        Ok(exit) => exit.imitate(),
        Err(error) => {
            note!("transom run: {error:#}");
            error.downcast_ref().map_or(ExitCode::FAILURE, |e: &NotStarted| e.exit_code().into())
        }
    }
}
