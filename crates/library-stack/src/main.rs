//! `transom-netstack`: runs an unmodified program on Linux as a library, or, for comparison, on the
//! host's own sockets. `transom run` starts it (docs/run.md).

#![warn(clippy::print_stdout, clippy::print_stderr)]

mod card;
mod connections;
mod events;
mod leg;
mod library;
mod memory;
mod moderation;
mod neighbours;
mod numbers;
mod paths;
mod ports;
mod privilege;
mod resolvers;
mod subflows;
mod unreachable;

use std::os::fd::RawFd;
use std::process::ExitCode;

use anyhow::{Result, ensure};
use clap::Parser;
use transom_supervisor::{
    Arguments, EXAMPLES, HostStack, NotStarted, StackName, Waiting, prepare, run,
};

use crate::events::Pipe;
use crate::library::Library;
use transom_output::note;

/// Run an unmodified program on a network stack of its own
#[derive(Parser)]
#[command(name = "transom run", bin_name = "transom run", max_term_width = 100, after_help = EXAMPLES)]
struct Line {
    /// Where `transom run --record` reads the library's events
    #[arg(long, hide = true, value_name = "DESCRIPTOR")]
    events: Option<RawFd>,
    #[command(flatten)]
    arguments: Arguments,
}

fn main() -> ExitCode {
    transom_output::run("transom run", |line: Line| {
        serve(&line).or_else(|error| {
            let Some(program) = error.downcast_ref::<NotStarted>() else { return Err(error) };
            note!("transom run: {error:#}");
            Ok(program.exit_code().into())
        })
    })
}

fn serve(Line { events, arguments }: &Line) -> Result<ExitCode> {
    if arguments.stack == StackName::Host {
        arguments.refuse_library_options()?;
    }
    let is_read = arguments.record.is_none() || events.is_some();
    ensure!(is_read, "--record: `transom run` writes the file, and starts this program");
    let events = events.map(Pipe::inherited).transpose()?;
    // The fork comes before the library has its memory.
    let program: Waiting = prepare(&arguments.program, &arguments.options())?;
    let exit = match arguments.stack {
        StackName::Host => run(&mut HostStack::new()?, &arguments.options(), program)?,
        StackName::Linux => {
            let mut library = Library::boot(arguments, events)?;
            run(&mut library, &arguments.options(), program)?
        }
    };
    Ok(exit.imitate())
}
