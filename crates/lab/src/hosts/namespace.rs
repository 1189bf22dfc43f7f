//! Network namespaces with a name in `/run/netns`, so that `ip netns exec` finds them.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::Result;
use transom_machine::namespace::{self, NAMES};

use super::batch;

pub fn path(name: &str) -> PathBuf {
    Path::new(NAMES).join(name)
}

pub fn exists(name: &str) -> bool {
    path(name).symlink_metadata().is_ok()
}

/// Number of the namespace behind the name, as in `/proc/PID/ns/net`; none if there is none.
pub fn inode(name: &str) -> Option<u64> {
    fs::metadata(path(name)).ok().map(|metadata| metadata.ino())
}

/// # Errors
/// If a name is taken, or the kernel refuses; those made until then stay.
pub fn add(names: &[String]) -> Result<()> {
    batch::ip(None, &names.iter().map(|name| format!("netns add {name}")).collect::<Vec<_>>())
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
