//! Network namespaces with a name in `/run/netns`, so that `ip netns exec` finds them.

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::batch;

/// Where `ip netns` keeps the names.
const NAMES: &str = "/run/netns";

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
    let path = path(name);
    let file = File::open(&path).with_context(|| format!("opening {}", path.display()))?;
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| -> Result<T> {
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
                .with_context(|| format!("entering {}", path.display()))?;
            Ok(work())
        });
        thread.join().map_err(|_| anyhow!("the thread in {name} died"))?
    })
}

/// Processes that live in the namespace with this number.
pub fn processes(inode: u64) -> Vec<i32> {
    let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
    pids.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter(|pid| {
            let metadata = fs::metadata(format!("/proc/{pid}/ns/net"));
            metadata.is_ok_and(|metadata| metadata.ino() == inode)
        })
        .collect()
}
