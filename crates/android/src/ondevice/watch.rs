//! Says how a recording does until it has ended, and ends it when the host says so.

use std::io::BufRead;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use anyhow::{Result, ensure};
use transom_output::say;

use super::lying::Recording;

/// The host's word for the end of the recording.
pub const STOP: &str = "stop";

const EVERY: Duration = Duration::from_millis(500);

pub fn watch(name: &str) -> Result<()> {
    let recording = Recording::named(name)?;
    ensure!(recording.folder.is_dir(), "there is no recording '{name}'");
    let words = host();
    loop {
        let state = recording.state()?;
        say!("{state}")?;
        if state["running"] == false {
            return Ok(());
        }
        match words.recv_timeout(EVERY) {
            Ok(word) if word == STOP => recording.stop()?,
            Ok(_) | Err(RecvTimeoutError::Timeout) => {}
            // The host is gone; the recording is not.
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
    }
}

/// The host's words, until it is gone.
pub fn host() -> Receiver<String> {
    let (to, words) = channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if to.send(line).is_err() {
                return;
            }
        }
    });
    words
}
