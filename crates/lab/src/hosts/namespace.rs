//! Network namespaces with a name in `/run/netns`, so that `ip netns exec` finds them.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use transom_machine::namespace::{self, NAMES};

use super::batch;

pub fn path(name: &str) -> PathBuf {
    Path::new(NAMES).join(name)
}

pub fn exists(name: &str) -> bool {
    path(name).symlink_metadata().is_ok()
}

/// Number of the namespace behind the name, as in `/proc/PID/ns/net`; none if there is none, as
/// where `ip netns attach` was cut short: it makes an empty file first.
pub fn inode(name: &str) -> Option<u64> {
    let path = namespace::path(path(name).to_str()?).ok()?;
    fs::metadata(path).ok().map(|metadata| metadata.ino())
}

/// Makes a namespace and gives it a name. `note` learns its number before it has the name, so that
/// whose it is can be told at any time.
///
/// # Errors
/// If the name is taken, the kernel refuses, or `note` does.
pub fn add(name: &str, note: impl FnOnce(u64) -> Result<()> + Send) -> Result<()> {
    fresh(|| {
        let own = fs::metadata("/proc/thread-self/ns/net").context("reading its number")?;
        note(own.ino())?;
        batch::ip(
            None,
            &[format!("netns attach {name} {}", rustix::thread::gettid().as_raw_nonzero())],
        )
    })?
}

/// Does `work` on a thread of its own, in a new namespace without a name: it goes with the thread
/// if nothing else holds it, however that ends.
///
/// # Errors
/// If the kernel makes none.
pub fn fresh<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // SAFETY: a plain system call; of this thread alone.
            let left = unsafe { libc::unshare(libc::CLONE_NEWNET) };
            ensure!(left == 0, "making a namespace: {}", std::io::Error::last_os_error());
            Ok(work())
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// # Errors
/// If the name cannot be removed. A name that is not there is no error.
pub fn delete(name: &str) -> Result<()> {
    match exists(name) {
        true => batch::ip(None, &[format!("netns delete {name}")]),
        false => Ok(()),
    }
}

/// Does `work` on a thread of its own that has entered the namespace.
///
/// # Errors
/// If the namespace is gone or must not be entered.
pub fn inside<T: Send>(name: &str, work: impl FnOnce() -> T + Send) -> Result<T> {
    namespace::inside(&path(name), work)
}
