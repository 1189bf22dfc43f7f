//! One at a time, by locked files: the kernel gives the lock back when the process dies.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

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
    let file = open(path)?;
    flock(&file, FlockOperation::LockExclusive)?;
    Ok(file)
}

/// The same for what is in a folder: the lock is the folder's own, so that no file stays in one that
/// others have, too. Whoever may read the folder may hold it, so that nobody is waited for longer than
/// this.
///
/// # Errors
/// The folder cannot be read, or another process holds it for so long.
pub fn hold_folder(path: &Path, patience: Duration) -> io::Result<File> {
    let folder = File::open(path)?;
    let until = Instant::now() + patience;
    loop {
        match flock(&folder, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(folder),
            Err(Errno::WOULDBLOCK) if Instant::now() < until => thread::sleep(patience / 100),
            Err(Errno::WOULDBLOCK) => {
                let named = format!(
                    "another process has locked it; `fuser {}` tells which",
                    path.display()
                );
                return Err(io::Error::new(io::ErrorKind::WouldBlock, named));
            }
            Err(error) => return Err(error.into()),
        }
    }
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
