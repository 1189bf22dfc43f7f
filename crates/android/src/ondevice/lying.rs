//! Recordings that lie on the device: one folder each, with the trace, what the recorder said, and
//! which process it is.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use transom_output::say;

use crate::FOLDER;
use crate::clock::boot_id;

/// Below [`FOLDER`].
pub const RECORDINGS: &str = "transom-recordings";
pub const TRACE: &str = "trace.parquet";
const ABOUT: &str = "about.json";
const SAID: &str = "said";
const ERRORS: &str = "errors";
/// There once it was told to stop: a second signal would end it without a table.
const STOPPING: &str = "stopping";

pub struct Recording {
    pub name: String,
    pub folder: PathBuf,
}

/// As `/proc` knows it: a number may be another process's by now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    pub pid: i32,
    pub started: u64,
    pub boot_id: String,
}

impl Process {
    pub fn of(pid: i32) -> Result<Process> {
        let (_, started) = stat(pid).with_context(|| format!("process {pid} is gone"))?;
        Ok(Process { pid, started, boot_id: boot_id()? })
    }

    fn is_running(&self) -> bool {
        let is_same = |(state, started)| state != 'Z' && started == self.started;
        boot_id().is_ok_and(|id| id == self.boot_id) && stat(self.pid).is_some_and(is_same)
    }
}

/// State and start time of a process.
fn stat(pid: i32) -> Option<(char, u64)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // A name may have spaces and parentheses.
    let (_, rest) = text.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    Some((fields.first()?.chars().next()?, fields.get(19)?.parse().ok()?))
}

/// Whether a recording may be called so: a name of a file, on the device and on the host, and plain
/// words for both.
pub fn is_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
}

pub fn folder() -> PathBuf {
    Path::new(FOLDER).join(RECORDINGS)
}

impl Recording {
    /// # Errors
    /// The name is none of ours.
    pub fn named(name: &str) -> Result<Recording> {
        ensure!(is_name(name), "'{name}' is no name of a recording");
        Ok(Recording { name: name.to_owned(), folder: folder().join(name) })
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    pub fn said(&self) -> PathBuf {
        self.file(SAID)
    }

    pub fn errors(&self) -> PathBuf {
        self.file(ERRORS)
    }

    /// # Errors
    /// The file cannot be written.
    pub fn note(&self, process: &Process, started_ns: i64, note: &Value) -> Result<()> {
        let about = json!({
            "pid": process.pid, "started": process.started, "boot_id": process.boot_id,
            "realtime_ns": started_ns, "note": note,
        });
        fs::write(self.file(ABOUT), about.to_string()).context("noting the recording")
    }

    /// # Errors
    /// Only root may read it.
    fn about(&self) -> Result<Value> {
        match fs::read_to_string(self.file(ABOUT)) {
            Ok(text) => Ok(serde_json::from_str(&text).unwrap_or_default()),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => bail!(
                "the recording {} is root's, and there is no root now: allow su, or `adb root`",
                self.name
            ),
            Err(_) => Ok(Value::Null),
        }
    }

    fn process(about: &Value) -> Option<Process> {
        Some(Process {
            pid: i32::try_from(about["pid"].as_i64()?).ok()?,
            started: about["started"].as_u64()?,
            boot_id: about["boot_id"].as_str()?.to_owned(),
        })
    }

    /// Tells the recorder to end, once.
    ///
    /// # Errors
    /// It cannot be told.
    pub fn stop(&self) -> Result<()> {
        let Some(process) = Recording::process(&self.about()?) else { return Ok(()) };
        if !process.is_running() || self.file(STOPPING).exists() {
            return Ok(());
        }
        let _ = fs::write(self.file(STOPPING), "");
        let pid = Pid::from_raw(process.pid).context("a process id")?;
        kill_process(pid, Signal::INT).with_context(|| format!("stopping process {}", process.pid))
    }

    /// All that is to be known of it now.
    ///
    /// # Errors
    /// Only root may know.
    pub fn state(&self) -> Result<Value> {
        let about = self.about()?;
        let is_running = Recording::process(&about).is_some_and(|process| process.is_running());
        let said = fs::read_to_string(self.said()).unwrap_or_default();
        let done = said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let done = done.into_iter().find(|line| line["done"] == true);
        let bytes = fs::metadata(self.file(TRACE)).map(|file| file.len()).ok();
        Ok(json!({
            "name": self.name,
            "running": is_running,
            "bytes": bytes,
            "free": free(),
            "done": done,
            "errors": last_errors(&self.errors()),
            "boot_id": about["boot_id"],
            "restarted": boot_id().ok().as_deref() != about["boot_id"].as_str(),
            "realtime_ns": about["realtime_ns"],
            "note": about["note"],
        }))
    }
}

/// The first line of the recorder's complaints, which is none.
pub const GREETING: &str = "transom record:";

/// What the recorder complained of.
pub fn last_errors(file: &Path) -> String {
    const LINES: usize = 5;
    let text = fs::read_to_string(file).unwrap_or_default();
    let lines: Vec<&str> = text.lines().filter(|line| *line != GREETING).collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}

/// Free bytes where recordings are.
fn free() -> Option<u64> {
    let found = rustix::fs::statvfs(FOLDER).ok()?;
    Some(found.f_bavail * found.f_frsize)
}

/// Prints the state of each, a line each.
pub fn list() -> Result<()> {
    let mut names: Vec<String> = fs::read_dir(folder())
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    for name in names {
        let Ok(recording) = Recording::named(&name) else { continue };
        say!("{}", recording.state()?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_more_than_its_number() {
        let own = Process::of(std::process::id().cast_signed()).unwrap();
        assert!(own.is_running());
        assert!(!Process { started: own.started + 1, ..own.clone() }.is_running());
        assert!(!Process { boot_id: "another".into(), ..own }.is_running());
    }

    #[test]
    fn a_recording_of_an_earlier_boot_has_ended_and_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let recording = Recording { name: "walk".into(), folder: folder.path().to_owned() };
        let own = Process::of(std::process::id().cast_signed()).unwrap();
        recording.note(&own, 7, &json!({ "kept": true })).unwrap();
        fs::write(recording.file(TRACE), "four").unwrap();
        let state = recording.state().unwrap();
        assert_eq!((&state["running"], &state["restarted"]), (&json!(true), &json!(false)));
        recording.note(&Process { boot_id: "another".into(), ..own }, 7, &json!({})).unwrap();
        let state = recording.state().unwrap();
        assert_eq!((&state["running"], &state["restarted"]), (&json!(false), &json!(true)));
        assert_eq!((&state["bytes"], &state["done"]), (&json!(4), &Value::Null));
    }

    #[test]
    fn names_with_a_way_out_are_refused() {
        for name in ["", "..", "a/b", "a b"] {
            assert!(Recording::named(name).is_err(), "{name}");
        }
    }
}
