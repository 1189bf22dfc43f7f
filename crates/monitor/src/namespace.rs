//! Other network namespaces: which there are, and doing something inside one.

use std::collections::HashMap;
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Runs `work` on a thread of its own that has entered the namespace.
pub fn inside<T: Send>(path: &Path, work: impl FnOnce() -> T + Send) -> Result<T> {
    let file = File::open(path).with_context(|| format!("opening {}", path.display()))?;
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| -> Result<T> {
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
                .with_context(|| format!("entering {}", path.display()))?;
            Ok(work())
        });
        thread.join().map_err(|_| anyhow!("the thread in {} died", path.display()))?
    })
}

/// One path for each network namespace that a process lives in or that has a
/// name, by inode number. Namespaces may go while we look.
pub fn all() -> HashMap<u64, PathBuf> {
    let of_processes = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().bytes().all(|b| b.is_ascii_digit()))
        .map(|entry| entry.path().join("ns/net"));
    let named = fs::read_dir("/run/netns").into_iter().flatten().flatten().map(|e| e.path());
    let mut found = HashMap::new();
    for path in of_processes.chain(named) {
        if let Ok(metadata) = fs::metadata(&path) {
            found.entry(metadata.ino()).or_insert(path);
        }
    }
    found
}
