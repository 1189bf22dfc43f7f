//! A program that we started, and when it is over.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::time::{Duration, Instant};
use std::{fs, io};

use anyhow::{Context, Result};
use rustix::fs::{Access, access};
use transom_monitor::Source;

/// After the program ends, its connections still say goodbye for a moment.
const FAREWELL: Duration = Duration::from_millis(300);

/// A program that we watch: exactly its connections and its children's.
pub struct Watched {
    child: Child,
    ended: Option<(ExitStatus, Instant)>,
}

/// Looks for a program as the one who runs it does, before anything is begun for it. Whether the
/// kernel can run it is known only when it does.
///
/// # Errors
/// There is none, or this user may not run it.
pub fn find(word: &OsStr) -> Result<()> {
    if word.as_encoded_bytes().contains(&b'/') {
        return can_run(Path::new(word)).with_context(|| cannot_run(word));
    }
    let folders = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    let mut found = Err(io::Error::from_raw_os_error(libc::ENOENT));
    for folder in std::env::split_paths(&folders) {
        match can_run(&folder.join(word)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => found = Err(error),
            Ok(()) => return Ok(()),
        }
    }
    found.with_context(|| cannot_run(word))
}

fn can_run(path: &Path) -> io::Result<()> {
    if fs::metadata(path)?.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    Ok(access(path, Access::EXEC_OK)?)
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
            return Ok(exit_code(status));
        }
        // SAFETY: the child is ours and not yet waited for, so the number is still its own.
        unsafe { libc::kill(self.child.id() as i32, libc::SIGTERM) };
        Ok(exit_code(self.child.wait()?))
    }
}

/// As a shell says it: the status, or 128 and the signal.
pub fn exit_code(status: ExitStatus) -> ExitCode {
    use std::os::unix::process::ExitStatusExt;
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    ExitCode::from(code as u8)
}
