//! Runs one of our commands for the host, and interrupts it when the host says so or is gone.

use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::mpsc::TryRecvError;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};
use transom_output::program;

use super::leave_cgroup;
use super::watch::host;
use crate::FOLDER;

/// The host's word for Ctrl-C.
pub const INTERRUPT: &str = "interrupt";

const EVERY: Duration = Duration::from_millis(20);
/// What a command may take to undo what it did.
const PATIENCE: Duration = Duration::from_secs(30);

pub fn attend(words: &[&str]) -> Result<ExitCode> {
    leave_cgroup();
    let own = std::env::current_exe().context("where this program lies")?;
    let mut command = Command::new(own);
    command.args(words).stdin(Stdio::null()).current_dir(FOLDER);
    let mut child = command.spawn().context("cannot start the command")?;
    Ok(program::code_of(attended(&mut child)?).into())
}

fn attended(child: &mut Child) -> Result<ExitStatus> {
    let words = host();
    let pid = Pid::from_child(child);
    let mut interrupted: Option<Instant> = None;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        let is_to_end = match words.try_recv() {
            Ok(word) => word == INTERRUPT,
            Err(TryRecvError::Empty) => false,
            Err(TryRecvError::Disconnected) => true,
        };
        if is_to_end && interrupted.is_none() {
            interrupted = Some(Instant::now());
            kill_process(pid, Signal::INT).context("interrupting the command")?;
        }
        if interrupted.is_some_and(|since| since.elapsed() > PATIENCE) {
            child.kill().context("ending the command")?;
        }
        std::thread::sleep(EVERY);
    }
}
