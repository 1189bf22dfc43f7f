//! `transom lab`: a program of its own, `transom-lab`: machines that are only watched need no testbed.

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Result;

use transom_output::Companion;

const LAB: Companion = Companion { name: "transom-lab", remedy: "build it with `make build`" };

#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub struct Args {
    /// What `transom lab --help` lists
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    arguments: Vec<OsString>,
}

pub fn run(args: Args) -> Result<ExitCode> {
    LAB.become_it(args.arguments)
}
