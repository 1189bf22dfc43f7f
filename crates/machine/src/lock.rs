//! One at a time, by locked files: the kernel gives the lock back when the process dies.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use rustix::fs::{FlockOperation, flock};

/// Where what processes of ours share is noted, until the machine is started anew. Android has no
/// /run, and nothing can be made in its /; its /dev is in memory, too.
pub fn run() -> &'static Path {
    static RUN: LazyLock<PathBuf> = LazyLock::new(|| {
        let folder = if Path::new("/run").is_dir() { "/run" } else { "/dev" };
        Path::new(folder).join("transom")
    });
    &RUN
}

/// Waits until nobody else holds the file's lock, and holds it as long as the result lives. The
/// file and its directory are made if they are not there; the file stays.
///
/// # Errors
/// The file cannot be made.
pub fn hold(path: &Path) -> io::Result<File> {
    locked(open(path)?)
}

/// The same for what is in a folder: the lock is the folder's own, so that no file stays in one that
/// others have, too.
///
/// # Errors
/// The folder cannot be read.
pub fn hold_folder(path: &Path) -> io::Result<File> {
    locked(File::open(path)?)
}

fn locked(file: File) -> io::Result<File> {
    flock(&file, FlockOperation::LockExclusive)?;
    Ok(file)
}

/// A file to lock, or bytes of it.
///
/// # Errors
/// It cannot be made.
pub fn open(path: &Path) -> io::Result<File> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)
}
