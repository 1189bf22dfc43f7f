//! `transom run`: a program of its own (`transom-netstack`, which carries the Linux kernel as a
//! library and so is under GPL-2.0), found beside us as git finds its subcommands.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};

const PROGRAM: &str = "transom-netstack";

#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub struct Args {
    /// What `transom run --help` lists
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    arguments: Vec<OsString>,
}

/// Beside us, else where the shell would find it.
fn program() -> Result<PathBuf> {
    let own = std::env::current_exe().context("where this program lies")?;
    let beside = own.with_file_name(PROGRAM);
    Ok(if beside.exists() { beside } else { PROGRAM.into() })
}

/// Becomes that program; returns only if it cannot.
pub fn run(args: Args) -> Result<ExitCode> {
    let program = program()?;
    let error = Command::new(&program).args(args.arguments).exec();
    if error.kind() == ErrorKind::NotFound {
        bail!(
            "{PROGRAM} is neither beside this program nor in the PATH: build it with \
             `cargo build --release -p {PROGRAM}` and put it beside"
        );
    }
    Err(error).with_context(|| format!("running {}", program.display()))
}
