//! A program that we started, and when it is over.

use std::ffi::{OsStr, OsString};
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use transom_monitor::Source;
use transom_output::program;

/// After the program ends, its connections still say goodbye for a moment.
const FAREWELL: Duration = Duration::from_millis(300);

/// A program that we watch: exactly its connections and its children's.
pub struct Watched {
    child: Child,
    ended: Option<(ExitStatus, Instant)>,
}

/// Looks for a program as the one who runs it does.
///
/// # Errors
/// There is none, or this user may not run it.
pub fn find(word: &OsStr) -> Result<()> {
    program::find(word).with_context(|| cannot_run(word))
}

fn cannot_run(word: &OsStr) -> String {
    format!("cannot run '{}'", word.display())
}

impl Watched {
    pub fn start(words: &[OsString], source: &mut Source) -> Result<Watched> {
        let spawn = || {
            Command::new(&words[0]).args(&words[1..]).spawn().with_context(|| cannot_run(&words[0]))
        };
        let child = source.follow(spawn, Child::id)?;
        Ok(Watched { child, ended: None })
    }

    /// Whether it has ended and its connections had time to close.
    pub fn is_over(&mut self) -> Result<bool> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait()?.map(|status| (status, Instant::now()));
        }
        Ok(self.ended.is_some_and(|(_, at)| at.elapsed() > FAREWELL))
    }

    /// Passes a stop on to a program that still runs, and waits for it.
    pub fn finish(mut self) -> Result<ExitCode> {
        if let Some((status, _)) = self.ended {
            return Ok(program::code_of(status).into());
        }
        // SAFETY: the child is ours and not yet waited for, so the number is still its own.
        unsafe { libc::kill(self.child.id() as i32, libc::SIGTERM) };
        Ok(program::code_of(self.child.wait()?).into())
    }
}
