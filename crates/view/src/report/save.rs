//! Files that are whole or not there.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

use anyhow::{Context, Result, bail};

/// What the first bytes of every page of ours hold.
const SIGNATURE: &str = "<meta name=\"generator\" content=\"transom report";

/// Writes beside `path` and renames, so that no reader ever sees half a file.
///
/// # Errors
/// The directory cannot be written, or the disk is full; `path` is then as it was.
pub fn save(path: &Path, bytes: &[u8]) -> Result<()> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let write = || -> std::io::Result<()> {
        let mut file = tempfile::Builder::new()
            .prefix(".transom-")
            .permissions(mode())
            .tempfile_in(directory)?;
        file.write_all(bytes)?;
        file.as_file().sync_all()?;
        file.persist(path).map_err(|error| error.error)?;
        Ok(())
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}

fn mode() -> std::fs::Permissions {
    use std::os::unix::fs::PermissionsExt;
    std::fs::Permissions::from_mode(0o666)
}

/// [`save`]s a page; a file that is there already is replaced only if it is a
/// page of ours, or if `force` says so.
///
/// # Errors
/// As [`save`], and another file at `path`.
pub fn save_page(path: &Path, html: &str, force: bool) -> Result<()> {
    if !force && !may_replace(path)? {
        bail!(
            "{} is there already and is not a Transom report: name another file with --output, \
             or replace it with --force",
            path.display()
        );
    }
    save(path, html.as_bytes())
}

fn may_replace(path: &Path) -> Result<bool> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(true),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    };
    if !file.metadata()?.is_file() {
        bail!("{} is not a regular file: name another one with --output", path.display());
    }
    let mut head = Vec::new();
    file.take(1000)
        .read_to_end(&mut head)
        .with_context(|| format!("cannot read {}", path.display()))?;
    Ok(head.windows(SIGNATURE.len()).any(|bytes| bytes == SIGNATURE.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_ours_is_replaced_and_another_file_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.html");
        let page = format!("<!doctype html>\n{SIGNATURE} 0.1\">");
        save_page(&path, &page, false).unwrap();
        save_page(&path, &page, false).unwrap();
        std::fs::write(&path, "my thesis").unwrap();
        let refusal = save_page(&path, &page, false).unwrap_err().to_string();
        assert!(refusal.contains("--force"), "{refusal}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "my thesis");
        save_page(&path, &page, true).unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_directory_that_is_not_there_is_named() {
        let error = save(Path::new("/nowhere/at/all.html"), b"x").unwrap_err();
        assert!(format!("{error:#}").contains("/nowhere/at/all.html"));
    }
}
