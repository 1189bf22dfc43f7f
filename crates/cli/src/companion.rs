//! Programs of their own that a subcommand becomes, found beside us as git finds its subcommands.

use std::ffi::OsString;
use std::io::{Error, ErrorKind};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, anyhow};

pub struct Companion {
    pub name: &'static str,
    /// How to get it, where it is not: ends a sentence.
    pub remedy: &'static str,
}

impl Companion {
    /// Beside us, else where the shell would find it.
    pub fn path(&self) -> Result<PathBuf> {
        let own = std::env::current_exe().context("where this program lies")?;
        let beside = own.with_file_name(self.name);
        Ok(if beside.exists() { beside } else { self.name.into() })
    }

    /// Becomes that program; returns only if it cannot.
    pub fn become_it(&self, arguments: Vec<OsString>) -> Result<ExitCode> {
        let error = Command::new(self.path()?).args(arguments).exec();
        Err(self.cannot_run(error))
    }

    pub fn cannot_run(&self, error: Error) -> anyhow::Error {
        let Companion { name, remedy } = self;
        if error.kind() == ErrorKind::NotFound {
            return anyhow!("{name} is neither beside this program nor in the PATH: {remedy}");
        }
        let path = self.path().unwrap_or_else(|_| name.into());
        anyhow::Error::new(error).context(format!("running {}", path.display()))
    }
}
