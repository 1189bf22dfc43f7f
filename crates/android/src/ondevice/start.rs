//! Starts a recorder that nothing of adb can take along when it goes.

use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::fs::Mode;
use serde_json::Value;
use transom_output::{note, say};

use super::leave_cgroup;
use super::lying::{GREETING, Process, Recording, TRACE, folder, last_errors};
use crate::FOLDER;
use crate::clock::Reading;

/// Starts it and prints its own first line, which says that it records.
pub fn start(name: &str, note: &str, options: &[&str]) -> Result<ExitCode> {
    let recording = Recording::named(name)?;
    let note: Value = serde_json::from_str(note).context("the host's note")?;
    // adb's daemon has none.
    rustix::process::umask(Mode::from_raw_mode(0o077));
    make_folder(&folder())?;
    ensure!(!recording.folder.exists(), "there is a recording '{name}' already");
    make_folder(&recording.folder)?;
    let result = start_in(&recording, &note, options);
    if !matches!(result, Ok(ExitCode::SUCCESS)) {
        let _ = fs::remove_dir_all(&recording.folder);
    }
    result
}

/// One that the shell's own user may remove, whoever records.
fn make_folder(path: &Path) -> Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    fs::create_dir(path)
        .and_then(|()| {
            let shell = fs::metadata(FOLDER)?;
            fs::set_permissions(path, Permissions::from_mode(0o755))?;
            match rustix::process::geteuid().is_root() {
                true => chown(path, Some(shell.uid()), Some(shell.gid())),
                false => Ok(()),
            }
        })
        .with_context(|| format!("cannot make {}", path.display()))
}

fn start_in(recording: &Recording, note: &Value, options: &[&str]) -> Result<ExitCode> {
    leave_cgroup();
    let own = std::env::current_exe().context("where this program lies")?;
    let mut command = Command::new(own);
    command.args(["record", "--json", "-o"]).arg(recording.file(TRACE)).args(options);
    command.current_dir(&recording.folder).stdin(Stdio::null());
    command.stdout(File::create(recording.said()).context("cannot write to the device")?);
    command.stderr(complaints(recording).context("cannot write to the device")?);
    let lead_session = || rustix::process::setsid().map(|_| ()).map_err(Into::into);
    // SAFETY: between fork and exec it makes one system call.
    unsafe { command.pre_exec(lead_session) };
    let child = command.spawn().context("cannot start the recorder")?;
    begun(child, recording, note)
}

/// Where the recorder complains. Its first line takes the room in which a recorder can still say that
/// the device is full.
fn complaints(recording: &Recording) -> std::io::Result<File> {
    let mut file = File::create(recording.errors())?;
    writeln!(file, "{GREETING}")?;
    Ok(file)
}

fn begun(mut child: Child, recording: &Recording, note: &Value) -> Result<ExitCode> {
    let process = Process::of(child.id().cast_signed())?;
    recording.note(&process, Reading::now().realtime, note).inspect_err(|_| {
        let _ = child.kill();
    })?;
    loop {
        let said = fs::read_to_string(recording.said()).unwrap_or_default();
        if let Some((line, _)) = said.split_once('\n') {
            say!("{line}")?;
            return Ok(ExitCode::SUCCESS);
        }
        if child.try_wait()?.is_some() {
            note!("{}", last_errors(&recording.errors()));
            return Ok(ExitCode::FAILURE);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
