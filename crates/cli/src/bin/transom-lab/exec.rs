//! `lab exec`: a program in a host of a lab that is up.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};
use transom_lab::clean::{self, Lab};
use transom_lab::hosts::Place;
use transom_output::{note, program};

#[derive(clap::Args)]
pub struct Args {
    /// A host of the lab
    host: String,
    /// Which lab, if several are up
    #[arg(long, value_name = "NAME")]
    lab: Option<String>,
    /// What to run
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub fn run(args: &Args) -> Result<ExitCode> {
    let labs = clean::labs();
    let place = find(args, &labs)?;
    // `ip` does not say with its own exit status that there is no such program.
    let word = &args.command[0];
    if let Err(error) = program::find(word) {
        note!("transom: cannot run '{}': {error}", word.display());
        return Ok(program::code_of_refusal(&error).into());
    }
    // With `ip netns exec`, also /sys/class/net is the host's.
    let error =
        Command::new("ip").args(["netns", "exec", &place.namespace]).args(&args.command).exec();
    Err(error).context("cannot run 'ip netns exec'")
}

fn find<'a>(args: &Args, labs: &'a [Lab]) -> Result<&'a Place> {
    let wanted = |lab: &&Lab| args.lab.as_ref().is_none_or(|id| *id == lab.id);
    let live: Vec<&Lab> = labs.iter().filter(wanted).filter(|lab| lab.owner.lives()).collect();
    if live.is_empty() {
        match &args.lab {
            Some(id) => bail!("no lab '{id}' is up: start one with `transom lab shell {id}`"),
            None => bail!("no lab is up: start one with `transom lab shell NAME`"),
        }
    }
    let host = |lab: &&'a Lab| lab.hosts.iter().find(|place| place.host == args.host);
    let found: Vec<&Place> = live.iter().filter_map(host).collect();
    match found.as_slice() {
        [place] => Ok(place),
        [] => {
            let hosts = live.iter().flat_map(|lab| &lab.hosts).map(|place| place.host.as_str());
            let hosts = hosts.collect::<Vec<_>>().join(", ");
            bail!("no lab that is up has a host '{}': there are {hosts}", args.host)
        }
        _ => {
            let ids = live.iter().map(|lab| lab.id.as_str()).collect::<Vec<_>>().join(", ");
            bail!("several labs have a host '{}': say which with --lab ({ids})", args.host)
        }
    }
}
