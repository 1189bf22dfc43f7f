//! Programs of their own that a command becomes or runs, found beside us as git finds its subcommands.

use std::ffi::OsString;
use std::io::{Error, ErrorKind};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Result, anyhow};

pub struct Companion {
    pub name: &'static str,
    /// How to get it, where it is not: ends a sentence.
    pub remedy: &'static str,
}

impl Companion {
    /// Beside us, else where the shell would find it.
    pub fn path(&self) -> PathBuf {
        let beside = std::env::current_exe().map(|own| own.with_file_name(self.name));
        beside.ok().filter(|path| path.exists()).unwrap_or_else(|| self.name.into())
    }

    /// Becomes that program; returns only if it cannot.
    ///
    /// # Errors
    /// It is nowhere, or the kernel does not run it.
    pub fn become_it(&self, arguments: Vec<OsString>) -> Result<ExitCode> {
        let error = Command::new(self.path()).args(arguments).exec();
        Err(self.cannot_run(error))
    }

    /// Why it does not run, and what helps.
    pub fn cannot_run(&self, error: Error) -> anyhow::Error {
        let Companion { name, remedy } = self;
        if error.kind() == ErrorKind::NotFound {
            return anyhow!("{name} is neither beside this program nor in the PATH: {remedy}");
        }
        anyhow::Error::new(error).context(format!("running {}", self.path().display()))
    }
}
