//! A program that somebody names, as a shell looks for it and tells its end.

use std::ffi::OsStr;
use std::fs;
use std::io::{Error, ErrorKind, Result};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;

use rustix::fs::{Access, access};
use rustix::io::Errno;

/// Looks for it, before anything is begun for it. Whether the kernel can run it is known only when
/// it does.
///
/// # Errors
/// There is none, or this user may not run it.
pub fn find(word: &OsStr) -> Result<()> {
    if word.as_encoded_bytes().contains(&b'/') {
        return can_run(Path::new(word));
    }
    let folders = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    let mut found = Err(Errno::NOENT.into());
    for folder in std::env::split_paths(&folders) {
        match can_run(&folder.join(word)) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => found = Err(error),
            Ok(()) => return Ok(()),
        }
    }
    found
}

fn can_run(path: &Path) -> Result<()> {
    if fs::metadata(path)?.is_dir() {
        return Err(ErrorKind::IsADirectory.into());
    }
    Ok(access(path, Access::EXEC_OK)?)
}

/// The exit code for a program that could not be started: 127 if it is not there, else 126.
pub fn code_of_refusal(error: &Error) -> u8 {
    if error.kind() == ErrorKind::NotFound { 127 } else { 126 }
}

/// The exit code of a program that has ended: its status, or 128 and the signal.
pub fn code_of(status: ExitStatus) -> u8 {
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    // A status is one byte, and no signal's number is above 64.
    code as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_told_as_a_shell_tells_it() {
        for (wait_status, code) in [(0, 0), (7 << 8, 7), (255 << 8, 255), (9, 137), (15, 143)] {
            assert_eq!(code_of(ExitStatus::from_raw(wait_status)), code);
        }
    }

    #[test]
    fn what_is_not_there_and_what_cannot_be_run_are_told_apart() {
        let refused = |word: &str| code_of_refusal(&find(OsStr::new(word)).unwrap_err());
        for (word, code) in [
            ("no-such-program-here", 127),
            ("/no/such/program", 127),
            ("/etc/passwd", 126),
            ("/etc", 126),
        ] {
            assert_eq!(refused(word), code, "{word}");
        }
        assert!(find(OsStr::new("sh")).is_ok() && find(OsStr::new("/bin/sh")).is_ok());
    }
}
