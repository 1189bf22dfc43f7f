//! The folders that are made for a daemon's socket. They go with it, and those of a daemon that was
//! killed with the next one that starts: each is noted with what tells it from another of that name.

use std::ffi::OsStr;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use rustix::fs::{FlockOperation, flock};
use transom_machine::lock;

use crate::place::{self, Holder, LOCK_PATIENCE};

/// Folders that were made for a socket, the innermost first. They go with this, but for one into
/// which somebody put something.
pub struct Made {
    folders: Vec<PathBuf>,
    note: Option<Note>,
}

/// Locked as long as the daemon lives: the kernel gives the lock back when it is killed.
struct Note {
    path: PathBuf,
    _locked: File,
}

impl Made {
    pub fn new(folders: Vec<PathBuf>) -> Made {
        Made { folders, note: None }
    }

    /// Writes down in the folder of notes what was made, for whoever comes after a kill.
    pub fn note(&mut self, socket: &Path, notes: &Path) -> io::Result<()> {
        let Some(innermost) = self.folders.first() else { return Ok(()) };
        let mut text = std::path::absolute(socket)?.into_os_string().into_encoded_bytes();
        text.push(0);
        for folder in &self.folders {
            text.extend(identity(&fs::symlink_metadata(folder)?).into_bytes());
            text.extend(std::path::absolute(folder)?.as_os_str().as_bytes());
            text.push(0);
        }
        fs::create_dir_all(notes)?;
        let of = fs::symlink_metadata(innermost)?;
        let path = notes.join(format!("{}{}-{}{}", NAME.0, of.dev(), of.ino(), NAME.1));
        let mut file = OpenOptions::new();
        let mut file = file.write(true).create(true).truncate(false).mode(0o600).open(&path)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        file.set_len(0)?;
        file.write_all(&text)?;
        self.note = Some(Note { path, _locked: file });
        Ok(())
    }

    pub fn remove(&mut self) {
        if let Some(note) = self.note.take() {
            let _ = fs::remove_file(&note.path);
        }
        self.folders.drain(..).for_each(|folder| drop(fs::remove_dir(folder)));
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        self.remove();
    }
}

const NAME: (&str, &str) = ("peer-", ".folders");

/// A folder of that name that was made later has another time of birth, where the file system keeps it.
fn identity(folder: &Metadata) -> String {
    let born = folder.created().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    format!("{} {} {} ", folder.dev(), folder.ino(), born.unwrap_or_default().as_nanos())
}

/// Removes the sockets of killed daemons whose folders are noted here, and these folders, as far as
/// nobody put anything else into them.
pub fn sweep(notes: &Path) {
    for entry in fs::read_dir(notes).into_iter().flatten().flatten() {
        let name = entry.file_name();
        if name.to_str().is_some_and(|name| name.starts_with(NAME.0) && name.ends_with(NAME.1)) {
            let _ = sweep_one(&entry.path());
        }
    }
}

fn sweep_one(note: &Path) -> io::Result<()> {
    let mut file = OpenOptions::new().read(true).write(true).open(note)?;
    flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    let mut text = Vec::new();
    file.read_to_end(&mut text)?;
    // One without an end is of a daemon that has only just made it.
    let Some(text) = text.strip_suffix(&[0]) else { return Ok(()) };
    let mut parts = text.split(|&byte| byte == 0);
    let socket = PathBuf::from(OsStr::from_bytes(parts.next().unwrap_or_default()));
    let folders: Vec<&[u8]> = parts.collect();
    let mut alone = None;
    if folders.first().copied().and_then(still_the_same).is_some() {
        // A daemon that takes this place now holds its folder.
        alone = Some(lock::hold_folder(place::folder(&socket), LOCK_PATIENCE)?);
        let is_socket = fs::symlink_metadata(&socket).is_ok_and(|it| it.file_type().is_socket());
        if is_socket && place::holder(&socket) == Holder::Gone {
            fs::remove_file(&socket)?;
        }
    }
    for folder in folders.iter().copied().filter_map(still_the_same) {
        let _ = fs::remove_dir(folder);
    }
    drop(alone);
    fs::remove_file(note)
}

/// The folder of this line of a note, if it is the one that was made then.
fn still_the_same(line: &[u8]) -> Option<&Path> {
    let at = line.iter().position(|&byte| byte == b'/')?;
    let folder = Path::new(OsStr::from_bytes(&line[at..]));
    let there = fs::symlink_metadata(folder).ok()?;
    (there.is_dir() && identity(&there).as_bytes() == &line[..at]).then_some(folder)
}
