//! What runs on the device: `transom android on-device VERB …`, called by the host's side alone,
//! which sends this program itself, so both are of one version.

mod attend;
mod lying;
mod start;
mod watch;

use std::io::BufRead;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, bail};
use transom_output::say;

use crate::checksum;
use crate::clock::Reading;

pub use attend::INTERRUPT;
pub use lying::{RECORDINGS, TRACE, is_name};
pub use watch::STOP;

/// What `hello` answers; the number changes with what the verbs mean.
pub fn hello() -> String {
    format!("transom {} on-device 1", env!("CARGO_PKG_VERSION"))
}

/// Runs one verb.
///
/// # Errors
/// What it was asked for cannot be done.
pub fn run(words: &[String]) -> Result<ExitCode> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["hello"] => say!("{}", hello())?,
        ["sum", file] => {
            let (length, sum) = checksum::of_file(Path::new(file))?;
            say!("{length} {sum}")?;
        }
        ["clock"] => tell_time()?,
        ["start", name, note, "--", options @ ..] => return start::start(name, note, options),
        ["watch", name] => watch::watch(name)?,
        ["list"] => lying::list()?,
        ["attend", "--", words @ ..] => return attend::attend(words),
        _ => bail!("no such verb; this command is for `transom android` on the host"),
    }
    Ok(ExitCode::SUCCESS)
}

/// The time, for each line that is asked.
fn tell_time() -> Result<()> {
    for line in std::io::stdin().lock().lines() {
        line?;
        say!("{}", Reading::now().line())?;
    }
    Ok(())
}

/// Android's init kills all that is in the control group of adb's daemon when it stops or restarts
/// it: out of it, a recording goes on, and what was changed can still be undone. Only root may leave
/// it; without, both end with adb's daemon (docs/android.md).
fn leave_cgroup() {
    // Version 2 since Android 11; before, init used the accounting group.
    let second = transom_machine::cgroup::mount();
    for mount in second.as_deref().into_iter().chain([Path::new("/acct")]) {
        let _ = std::fs::write(mount.join("cgroup.procs"), "0");
    }
}
