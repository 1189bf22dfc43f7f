//! `transom-netstack`: runs an unmodified program on Linux as a library, or, for comparison, on the
//! host's own sockets. `transom run` starts it (docs/run.md).

mod card;
mod library;
mod neighbours;
mod paths;
mod ports;
mod privilege;
mod subflows;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use transom_supervisor::{Arguments, HostStack, NotStarted, StackName, Waiting, prepare, run};

use crate::library::Library;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match serve(&arguments) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("transom run: {error:#}");
            error.downcast_ref::<NotStarted>().map_or(ExitCode::FAILURE, |_| ExitCode::from(127))
        }
    }
}

fn serve(arguments: &Arguments) -> Result<ExitCode> {
    if arguments.stack == StackName::Host {
        arguments.refuse_library_options()?;
    }
    // The fork comes before the library has its memory.
    let program: Waiting = prepare(&arguments.program, &arguments.options())?;
    let exit = match arguments.stack {
        StackName::Host => run(&mut HostStack::new()?, &arguments.options(), program)?,
        StackName::Linux => run(&mut Library::boot(arguments)?, &arguments.options(), program)?,
    };
    Ok(exit.imitate())
}
