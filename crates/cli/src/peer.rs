//! `transom peer`: a program of its own, `transom-peer`, which carries Zenoh.

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Result;

use transom_output::Companion;

const PEER: Companion = Companion { name: "transom-peer", remedy: "build it with `make peer`" };

#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub struct Args {
    /// What `transom peer --help` lists
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    arguments: Vec<OsString>,
}

pub fn run(args: Args) -> Result<ExitCode> {
    PEER.become_it(args.arguments)
}
