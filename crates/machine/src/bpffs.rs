//! The file system where BPF objects get names.

use std::path::Path;

use anyhow::{Context, Result};
use rustix::mount::{MountFlags, UnmountFlags};

/// Where it is usually mounted.
pub const PATH: &str = "/sys/fs/bpf";

pub fn is_mounted(at: &Path) -> bool {
    const BPF_FS_MAGIC: u64 = 0xcafe_4a11;
    rustix::fs::statfs(at).is_ok_and(|stat| stat.f_type as u64 == BPF_FS_MAGIC)
}

/// Mounts it if it is not mounted there; returns whether it had to.
///
/// # Errors
/// No CAP_SYS_ADMIN, or no such directory.
pub fn mount(at: &Path) -> Result<bool> {
    if is_mounted(at) {
        return Ok(false);
    }
    rustix::mount::mount("bpf", at, "bpf", MountFlags::empty(), None)
        .with_context(|| format!("mounting bpffs on {}", at.display()))?;
    Ok(true)
}

/// # Errors
/// It is in use.
pub fn unmount(at: &Path) -> Result<()> {
    rustix::mount::unmount(at, UnmountFlags::empty())
        .with_context(|| format!("unmounting {}", at.display()))
}
