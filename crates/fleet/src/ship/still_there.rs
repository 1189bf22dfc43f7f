//! Whether an open file or folder still has its name. One that was removed can be locked and written
//! as before, and nobody else sees it.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::{Context, Result, bail};

/// # Errors
/// It was removed, or something else has its name.
pub fn check(open: &File, path: &Path) -> Result<()> {
    let identity = |metadata: &fs::Metadata| (metadata.dev(), metadata.ino());
    let named = || format!("looking at {}", path.display());
    let own = open.metadata().with_context(named)?;
    match fs::metadata(path) {
        Ok(there) if identity(&there) == identity(&own) => Ok(()),
        Ok(_) => bail!("{} was replaced meanwhile: start transom-fleet again", path.display()),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            bail!("{} was removed meanwhile: start transom-fleet again", path.display())
        }
        Err(error) => Err(error).with_context(named),
    }
}
