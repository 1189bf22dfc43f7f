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
pub use lying::{RECORDINGS, TRACE};
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
