//! Where the daemon of this network namespace answers.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use transom_machine::lock;
use transom_output::folders;

use crate::made::Made;

/// Daemons that start hold a folder for milliseconds.
pub const LOCK_PATIENCE: Duration = Duration::from_secs(2);

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

/// One daemon a network namespace, so its number is between these two in the name.
const NAME: (&str, &str) = ("peer-", ".sock");

pub fn socket(given: Option<PathBuf>) -> Result<PathBuf> {
    if let Some(path) = given {
        return Ok(path);
    }
    let namespace = fs::metadata("/proc/self/ns/net").context("reading /proc/self/ns/net")?.ino();
    Ok(directory()?.join(format!("{}{namespace}{}", NAME.0, NAME.1)))
}

/// Removes what killed daemons of other namespaces have left in this folder: nobody else would, as
/// those namespaces may be gone. Only while the folder is locked: a daemon that starts may take such a
/// place between the look at it and its removal.
pub fn sweep(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if is_of_a_daemon(&entry.file_name()) && holder(&entry.path()) == Holder::Gone {
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn is_of_a_daemon(name: &OsStr) -> bool {
    let number = name.to_str().and_then(|name| name.strip_prefix(NAME.0)?.strip_suffix(NAME.1));
    number.is_some_and(|number| number.parse::<u64>().is_ok())
}

/// Of a socket that is there: the process that listens at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    Gone,
    Lives,
    /// The socket is another user's, whom alone it tells whether somebody listens.
    Hidden,
}

/// Asked with a datagram, which no daemon takes: it is not disturbed, and one that only just begins is
/// known, too.
pub fn holder(socket: &Path) -> Holder {
    let asked = UnixDatagram::unbound().and_then(|asks| asks.connect(socket));
    match asked.map_err(|error| error.kind()) {
        Err(ErrorKind::ConnectionRefused) => Holder::Gone,
        Err(ErrorKind::PermissionDenied) => Holder::Hidden,
        _ => Holder::Lives,
    }
}

/// `user 0`, to whom it belongs.
pub fn owner(socket: &Path) -> String {
    let uid = fs::symlink_metadata(socket).map(|socket| socket.uid());
    uid.map_or("another user".to_owned(), |uid| format!("user {uid}"))
}

/// Where root's daemons note the folders that they make. Another user has no place that is there
/// whatever he sets.
pub fn notes() -> Option<&'static Path> {
    rustix::process::geteuid().is_root().then(lock::run)
}

/// That others remove the folder just now is a moment's chance.
const TRIES: u32 = 100;

/// The lock of a socket's folder, which is made if it is not there: daemons of several namespaces
/// start at the same time, and each removes what is left.
pub fn hold(socket: &Path) -> Result<(File, Made)> {
    let folder = folder(socket);
    for _ in 0..TRIES {
        // That one other programs of ours have, too.
        let not_there = folders::not_there(folder).filter(|path| path != lock::run());
        let mut made = Made::new(not_there.collect());
        DirBuilder::new()
            .recursive(true)
            .mode(0o755)
            .create(folder)
            .with_context(|| format!("creating {}", folder.display()))?;
        let held = match lock::hold_folder(folder, LOCK_PATIENCE) {
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            held => held.with_context(|| format!("locking {}", folder.display()))?,
        };
        if held.metadata()?.nlink() > 0 {
            if let Some(notes) = notes() {
                made.note(socket, notes)
                    .with_context(|| format!("noting in {} what was made", notes.display()))?;
            }
            return Ok((held, made));
        }
    }
    bail!("{} is removed again and again", folder.display())
}

pub fn folder(socket: &Path) -> &Path {
    socket.parent().filter(|path| !path.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Only its owner may ask.
pub fn restrict(socket: &Path) -> Result<()> {
    fs::set_permissions(socket, fs::Permissions::from_mode(0o600))
        .with_context(|| format!("protecting {}", socket.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn what_killed_daemons_left_goes_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let (left, lives) = (at("peer-4026531840.sock"), at("peer-4026532001.sock"));
        let of_another = at("peer-mine.sock");
        for gone in [&left, &of_another] {
            drop(UnixListener::bind(gone).unwrap());
        }
        let _listener = UnixListener::bind(&lives).unwrap();
        sweep(folder.path());
        assert!(!left.exists());
        assert!(lives.exists() && of_another.exists());
    }
}
