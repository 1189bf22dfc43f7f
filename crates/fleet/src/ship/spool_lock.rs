//! One shipper a spool. The lock is on the folder itself, so that the spool need not be written.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result, bail};
use rustix::fs::{FlockOperation, flock};

use super::still_there;

pub struct SpoolLock {
    path: PathBuf,
    folder: File,
}

impl SpoolLock {
    /// # Errors
    /// Another shipper has it, or it is not there.
    pub fn take(spool: &Path) -> Result<SpoolLock> {
        let named = || format!("opening the spool {}", spool.display());
        let folder = File::open(spool).with_context(named)?;
        if !folder.metadata().with_context(named)?.is_dir() {
            bail!("{} is no folder: --spool names that of the agent", spool.display());
        }
        if flock(&folder, FlockOperation::NonBlockingLockExclusive).is_err() {
            bail!(
                "another transom-fleet ships the spool {}: stop it, or let it go on",
                spool.display()
            );
        }
        Ok(SpoolLock { path: spool.to_owned(), folder })
    }

    /// When a name was last added to it or went, where the file system says.
    ///
    /// # Errors
    /// The spool was removed, or another folder has its name, which somebody else may ship.
    pub fn check(&self) -> Result<Option<SystemTime>> {
        still_there::check(&self.folder, &self.path).context("the spool")?;
        Ok(self.folder.metadata().context("the spool")?.modified().ok())
    }
}
