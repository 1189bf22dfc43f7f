//! `transom agent`: a program of its own, `transom-agent`, made to run for months.

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Result;

use transom_output::Companion;

const AGENT: Companion = Companion { name: "transom-agent", remedy: "build it with `make agent`" };

#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub struct Args {
    /// What `transom agent --help` lists
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    arguments: Vec<OsString>,
}

pub fn run(args: Args) -> Result<ExitCode> {
    AGENT.become_it(args.arguments)
}
