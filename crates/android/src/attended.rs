//! A subcommand on the device, attended from here: its output, its exit code, and Ctrl-C.

use std::time::Duration;

use anyhow::Result;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use transom_machine::signals::Signals;
use transom_output::note;

use crate::call::Next;
use crate::ondevice::INTERRUPT;
use crate::program::Installed;

/// Runs `transom WORDS…` there and returns its exit code. If it cannot be attended any more, be it
/// that adb is gone, it is interrupted there, so that it undoes what it did.
///
/// # Errors
/// The device is lost.
pub fn attend(installed: &Installed, words: &[String]) -> Result<i32> {
    let signals = Signals::catch()?;
    let verb = ["attend".to_owned(), "--".to_owned()];
    let script = installed.script(&[&verb, words].concat());
    let mut call = installed.device.call_with_output(&script)?;
    let mut is_told = false;
    loop {
        match call.next(Duration::from_millis(100))? {
            Next::Ended(code) => return Ok(code),
            Next::Err(line) => note!("{line}"),
            Next::Out(_) | Next::Silent => {}
        }
        if (signals.came() || nobody_listens()) && !is_told {
            is_told = true;
            // If that cannot be told, adb ends, and the next turn says so.
            let _ = call.tell(INTERRUPT);
        }
    }
}

/// Whether the reader of our output has closed it (`| head -1`), which adb does not mind.
fn nobody_listens() -> bool {
    let out = std::io::stdout();
    let mut fds = [PollFd::new(&out, PollFlags::empty())];
    poll(&mut fds, Some(&Timespec::default()))
        .is_ok_and(|_| fds[0].revents().contains(PollFlags::ERR))
}

/// `top` and its like: with a terminal there, which is this one.
///
/// # Errors
/// adb cannot be run.
pub fn on_terminal(installed: &Installed, words: &[String]) -> Result<i32> {
    let program = format!("{}/transom {}", crate::FOLDER, crate::shell::joined(words));
    let script = installed.root.script(&program);
    let mut adb = installed.device.adb(&["shell", "-t", &script]);
    let status = adb.stdin(std::process::Stdio::inherit()).status()?;
    Ok(status.code().unwrap_or(1))
}
