//! Where the daemon of this network namespace answers.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

/// For root below /run, for others in their own runtime directory.
fn directory() -> Result<PathBuf> {
    if rustix::process::geteuid().is_root() {
        return Ok("/run/transom".into());
    }
    match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(path) => Ok(PathBuf::from(path).join("transom")),
        None => bail!("XDG_RUNTIME_DIR is not set: name a socket with --socket FILE, or be root"),
    }
}

/// One daemon a network namespace, so its number is in the name.
pub fn socket(given: Option<PathBuf>) -> Result<PathBuf> {
    if let Some(path) = given {
        return Ok(path);
    }
    let namespace = fs::metadata("/proc/self/ns/net").context("reading /proc/self/ns/net")?.ino();
    Ok(directory()?.join(format!("peer-{namespace}.sock")))
}

/// The directory of a socket, ours alone if it has to be made.
pub fn prepare(socket: &std::path::Path) -> Result<()> {
    let Some(parent) = socket.parent().filter(|path| !path.as_os_str().is_empty()) else {
        return Ok(());
    };
    DirBuilder::new()
        .recursive(true)
        .mode(0o755)
        .create(parent)
        .with_context(|| format!("creating {}", parent.display()))
}

/// Only its owner may ask.
pub fn restrict(socket: &std::path::Path) -> Result<()> {
    fs::set_permissions(socket, fs::Permissions::from_mode(0o600))
        .with_context(|| format!("protecting {}", socket.display()))
}
