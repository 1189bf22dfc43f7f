//! Compare and swap in a folder. Object storage does it by itself.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, Result};
use rustix::fs::{FlockOperation, flock};
use tempfile::NamedTempFile;

/// Puts `bytes` into the file if it still has what was `read`; whether it did.
pub fn swap(path: &Path, read: &[u8], bytes: &[u8]) -> Result<bool> {
    let named = || format!("swapping {}", path.display());
    let folder = path.parent().with_context(named)?;
    // Of the folder itself, so that no file is left for it; it ends with the descriptor.
    let lock = File::open(folder).with_context(named)?;
    flock(&lock, FlockOperation::LockExclusive).with_context(named)?;
    if fs::read(path).with_context(named)? != read {
        return Ok(false);
    }
    let mut new = NamedTempFile::new_in(folder).with_context(named)?;
    // Hosts read it as somebody else.
    new.as_file().set_permissions(fs::Permissions::from_mode(0o644)).with_context(named)?;
    new.write_all(bytes).and_then(|()| new.as_file().sync_all()).with_context(named)?;
    new.persist(path).map_err(|error| error.error).with_context(named)?;
    lock.sync_all().with_context(named)?;
    Ok(true)
}
