//! Recordings on the device, from the host's side: begun, watched, listed, fetched, removed.

use std::io::{Read, Write};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::FOLDER;
use crate::call::{Call, Next};
use crate::checksum::Summed;
use crate::clock::{Relation, note_of, of_note};
use crate::ondevice::{RECORDINGS, STOP, TRACE, is_name};
use crate::program::Installed;

/// A line comes twice a second.
const PATIENCE: Duration = Duration::from_secs(15);

/// A recording as the device tells it.
#[derive(Clone, Debug)]
pub struct Lying(Value);

impl Lying {
    /// The device may be anyone's: its name for a recording becomes that of a file here.
    fn of_line(line: &str) -> Result<Lying> {
        let value = serde_json::from_str(line);
        let lying = Lying(value.with_context(|| format!("the device said '{line}'"))?);
        let name = lying.name();
        ensure!(is_name(name), "the device has a recording '{name}', which is no name of ours");
        Ok(lying)
    }

    pub fn name(&self) -> &str {
        self.0["name"].as_str().unwrap_or_default()
    }

    pub fn is_running(&self) -> bool {
        self.0["running"] == true
    }

    /// Size of its trace as it is now; `None` if it has none.
    pub fn bytes(&self) -> Option<u64> {
        self.0["bytes"].as_u64()
    }

    /// Free bytes on the device.
    pub fn free(&self) -> Option<u64> {
        self.0["free"].as_u64()
    }

    /// When it began by the device's clock, ns since 1970.
    pub fn began_ns(&self) -> Option<i64> {
        self.0["realtime_ns"].as_i64()
    }

    pub fn boot_id(&self) -> &str {
        self.0["boot_id"].as_str().unwrap_or_default()
    }

    /// What the recorder said at its end; `None` if it did not come to that.
    pub fn done(&self) -> Option<&Value> {
        Some(&self.0["done"]).filter(|done| !done.is_null())
    }

    /// Whether the device was started anew since.
    pub fn was_restarted(&self) -> bool {
        self.0["restarted"] == true
    }

    /// What the recorder complained of.
    pub fn errors(&self) -> &str {
        self.0["errors"].as_str().unwrap_or_default()
    }

    /// The clocks when it began, if it was this host that began it.
    pub fn clocks(&self) -> Option<Relation> {
        of_note(&self.0["note"])
    }

    fn path(&self) -> String {
        format!("{FOLDER}/{RECORDINGS}/{}/{TRACE}", self.name())
    }
}

/// What is to be recorded.
pub struct Order<'a> {
    pub name: &'a str,
    /// Options of `transom record`.
    pub options: Vec<String>,
}

/// A recording that is followed.
pub struct Watching(Call);

impl Order<'_> {
    /// Begins it; it goes on whatever becomes of adb. Returns the recorder's own first line.
    ///
    /// # Errors
    /// The recorder cannot run there: what it said of it.
    pub fn begin(&self, installed: &Installed, clocks: &Relation) -> Result<Value> {
        let note = note_of(clocks).to_string();
        let verb = ["start", self.name, &note, "--"].map(str::to_owned);
        let script = installed.script(&[&verb, self.options.as_slice()].concat());
        let answer = installed.device.shell(&script)?;
        ensure!(
            answer.is_good(),
            "the recorder does not run on {}: {}",
            installed.device.serial(),
            plain(&answer.err)
        );
        serde_json::from_str(answer.out.trim()).with_context(|| format!("it said {}", answer.out))
    }
}

/// Words of the program there, without its name, which ours puts before them anyway.
fn plain(words: &str) -> String {
    let lines = words.lines().map(|line| line.strip_prefix("transom: ").unwrap_or(line));
    lines.collect::<Vec<_>>().join("\n")
}

impl Watching {
    /// # Errors
    /// adb cannot be run.
    pub fn start(installed: &Installed, name: &str) -> Result<Watching> {
        let script = installed.script(&["watch".to_owned(), name.to_owned()]);
        Ok(Watching(installed.device.call(&script)?))
    }

    /// How it does now; comes twice a second, and `is_running` is false at the end.
    ///
    /// # Errors
    /// The device is lost; the recording is not.
    pub fn state(&mut self) -> Result<Lying> {
        match self.0.next(PATIENCE)? {
            Next::Out(line) => Lying::of_line(&line),
            Next::Err(line) => bail!("{}", plain(&line)),
            Next::Ended(code) => bail!("watching the recording ended with {code}"),
            Next::Silent => bail!("adb has been silent for {} s", PATIENCE.as_secs()),
        }
    }

    /// Asks for its end.
    pub fn stop(&mut self) {
        // If that cannot be told, the device is lost, which the next line says.
        let _ = self.0.tell(STOP);
    }
}

impl Installed<'_> {
    /// The recordings that lie there, oldest first.
    ///
    /// # Errors
    /// The device is lost, or what it says cannot be read.
    pub fn recordings(&self) -> Result<Vec<Lying>> {
        let answer = self.device.shell(&self.script(&["list".to_owned()]))?;
        ensure!(answer.is_good(), "{}: {}", self.device.serial(), plain(&answer.err));
        answer.out.lines().map(Lying::of_line).collect()
    }

    /// Copies a recording's trace, and compares length and SHA-256 with the device's own.
    ///
    /// # Errors
    /// It did not come whole; it is still on the device.
    pub fn fetch(
        &self,
        lying: &Lying,
        to: impl Write,
        progress: &mut dyn FnMut(u64),
    ) -> Result<u64> {
        let path = lying.path();
        let cat = self.root.script(&format!("cat {path}"));
        let mut adb = self.device.adb(&["exec-out", &cat]);
        let mut child = adb.stdout(Stdio::piped()).spawn().context("cannot run adb")?;
        let mut out = child.stdout.take().context("adb's output")?;
        let mut summed = Summed::new(to);
        let copied = copy(&mut out, &mut summed, progress);
        drop(out);
        let _ = child.wait();
        copied.context("cannot write the trace")?;
        let (length, sum) = summed.finish();
        let answer = self.device.shell(&self.script(&["sum".to_owned(), path]))?;
        ensure!(answer.is_good(), "{}: {}", self.device.serial(), plain(&answer.err));
        let told = format!("{length} {sum}");
        ensure!(
            answer.out.trim() == told,
            "the trace did not come whole ({length} of {} bytes): it is still on the device, \
             `transom android pull {}` fetches it",
            lying.bytes().unwrap_or(0),
            lying.name()
        );
        Ok(length)
    }

    /// Removes a recording from the device.
    ///
    /// # Errors
    /// The device is lost, or does not let go of it.
    pub fn remove(&self, lying: &Lying) -> Result<()> {
        let path = format!("{FOLDER}/{RECORDINGS}/{}", lying.name());
        let answer = self.device.shell(&self.root.script(&format!("rm -rf {path}")))?;
        ensure!(answer.is_good(), "{}: {}", self.device.serial(), answer.complaint());
        Ok(())
    }
}

fn copy(
    from: &mut impl Read,
    to: &mut Summed<impl Write>,
    progress: &mut dyn FnMut(u64),
) -> std::io::Result<()> {
    let mut buffer = vec![0; 1 << 18];
    loop {
        match from.read(&mut buffer)? {
            0 => return to.flush(),
            length => to.write_all(&buffer[..length])?,
        }
        progress(to.length());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_would_be_more_than_a_name_here_is_refused() {
        let told = |name: &str| Lying::of_line(&serde_json::json!({ "name": name }).to_string());
        assert_eq!(told("transom-20261123-182255").unwrap().name(), "transom-20261123-182255");
        for name in ["../x", "/etc/x", "", "a\u{1b}[2J", "a b", "a\u{9b}2J"] {
            let said = told(name).expect_err(name).to_string();
            assert!(said.contains("no name of ours"), "{said}");
        }
        assert!(Lying::of_line("{}").is_err());
    }
}
