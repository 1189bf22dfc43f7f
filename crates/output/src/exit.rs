//! How a program ends: with what it has to say, or quietly if nobody listens any more.

use std::io::{self, StdoutLock, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use clap::Parser;

/// Whether a reader of ours went away. Encoders wrap errors of what they write to in ways that
/// hide this.
static READER_GONE: AtomicBool = AtomicBool::new(false);

/// Passes an error on, and remembers it if it says that the reader is gone.
pub(crate) fn noted(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::BrokenPipe {
        READER_GONE.store(true, Ordering::Relaxed);
    }
    error
}

/// The standard output, of which we notice if nobody reads it any more.
pub struct StandardOutput(StdoutLock<'static>);

pub fn standard_output() -> StandardOutput {
    StandardOutput(io::stdout().lock())
}

impl Write for StandardOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map_err(noted)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(noted)
    }
}

impl AsFd for StandardOutput {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// All of a program: it works on its command line, or prints the help or the version that was asked
/// for. A mistake in the line is told by clap, with exit code 2.
pub fn run<Line: Parser>(program: &str, work: impl FnOnce(Line) -> Result<ExitCode>) -> ExitCode {
    let result = match Line::try_parse() {
        Ok(line) => work(line),
        Err(mistake) if mistake.use_stderr() => mistake.exit(),
        Err(asked_for) => written(asked_for.print()).map(|()| ExitCode::SUCCESS),
    };
    exit(program, result)
}

/// The exit code of a program: 1 with a message after an error; 0 without one if whatever read
/// our output (`| head -1`) has seen enough. That another pipe or socket is broken is an error.
pub fn exit(program: &str, result: Result<ExitCode>) -> ExitCode {
    let flush = |code| written(io::stdout().flush()).map(|()| code);
    result.and_then(flush).unwrap_or_else(|error| {
        if READER_GONE.load(Ordering::Relaxed) {
            return ExitCode::SUCCESS;
        }
        crate::note!("{program}: {}", told_once(&error));
        ExitCode::FAILURE
    })
}

/// An error and its causes. Some libraries tell a cause in their own words, too.
fn told_once(error: &anyhow::Error) -> String {
    let mut told = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !told.ends_with(&cause) {
            told = format!("{told}: {cause}");
        }
    }
    told
}

fn written(to_output: io::Result<()>) -> Result<()> {
    to_output.map_err(noted).context("cannot write the standard output")
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn a_cause_that_the_error_before_it_has_told_is_not_told_again() {
        let told = |errors: [&'static str; 3]| {
            told_once(&anyhow!(errors[2]).context(errors[1]).context(errors[0]))
        };
        assert_eq!(
            told(["cannot write f", "Io error: full", "full"]),
            "cannot write f: Io error: full"
        );
        assert_eq!(told(["f", "full", "no room"]), "f: full: no room");
    }
}
