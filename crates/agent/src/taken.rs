//! The folder of a spool, which one agent has. What a start that fails made there goes again.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};
use rustix::fs::{FlockOperation, flock, statvfs};
use transom_machine::lock;
use transom_output::folders;

use crate::addresses::Tagger;

/// The key of address tags.
pub const KEY: &str = "key";
const LOCK: &str = "lock";
/// What helps a start that cannot even make the key.
pub const NO_ROOM: &str = "its disk is full: make room there, or name another folder with --spool";

pub struct Taken {
    // Before the lock: nobody may take what is just removed.
    made: Made,
    lock: File,
}

impl Taken {
    /// Makes the folder if it is not there.
    ///
    /// # Errors
    /// Another agent has it, or it cannot be made.
    pub fn take(spool: &Path) -> Result<Taken> {
        loop {
            let made = Made::not_there_yet(spool);
            fs::create_dir_all(spool)
                .map_err(|error| unwritable("making the spool", spool, error))?;
            let Some(lock) = locked(spool)? else {
                made.stays();
                return Err(has_another(spool));
            };
            // Of a start that failed meanwhile, which removed it.
            if lock.metadata()?.nlink() > 0 {
                return Ok(Taken { made, lock });
            }
        }
    }

    /// What somebody removed under the running agent is made again: the lock, so that no other
    /// agent has the spool, and the same key.
    ///
    /// # Errors
    /// Another agent has it meanwhile, or it cannot be made.
    pub fn again(&mut self, spool: &Path, tagger: &Tagger) -> Result<()> {
        if self.lock.metadata()?.nlink() == 0 {
            self.lock = locked(spool)?.ok_or_else(|| has_another(spool))?;
        }
        tagger.keep(&spool.join(KEY))
    }

    /// The agent runs.
    pub fn stays(&mut self) {
        std::mem::take(&mut self.made).stays();
    }
}

/// How large the file system of a folder is, in bytes; one that does not say has no end.
pub fn disk(folder: &Path) -> u64 {
    let size = statvfs(folder).map_or(0, |disk| disk.f_blocks.saturating_mul(disk.f_frsize));
    if size == 0 { u64::MAX } else { size }
}

/// `None`: another agent has it.
fn locked(spool: &Path) -> Result<Option<File>> {
    let path = spool.join(LOCK);
    let lock = lock::open(&path).map_err(|error| unwritable("opening", &path, error))?;
    let is_ours = flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok();
    Ok(is_ours.then_some(lock))
}

/// What could not be made, and what helps: what a unit's sandbox refuses looks like a read-only disk.
fn unwritable(doing: &str, path: &Path, error: io::Error) -> anyhow::Error {
    let remedy = match error.kind() {
        io::ErrorKind::ReadOnlyFilesystem => {
            "it is read-only here; the unit transom-agent may write to another spool with \
             ReadWritePaths=FOLDER in a drop-in (docs/install.md)"
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => NO_ROOM,
        _ => "name another folder with --spool",
    };
    anyhow::Error::new(error).context(format!("{doing} {}: {remedy}", path.display()))
}

fn has_another(spool: &Path) -> anyhow::Error {
    let spool = spool.display();
    anyhow!("another agent has the spool {spool}: stop it, or name another one with --spool")
}

/// Files and folders to remove, the innermost first.
#[derive(Default)]
struct Made(Vec<PathBuf>);

impl Made {
    fn not_there_yet(spool: &Path) -> Made {
        let inside = [KEY, LOCK].map(|name| spool.join(name));
        let inside = inside.into_iter().filter(|path| !path.exists());
        Made(inside.chain(folders::not_there(spool)).collect())
    }

    fn stays(mut self) {
        self.0.clear();
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        for path in &self.0 {
            // A folder into which somebody else put something stays.
            let _ = if path.is_dir() { fs::remove_dir(path) } else { fs::remove_file(path) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_made_goes_unless_the_agent_runs() {
        let folder = tempfile::tempdir().unwrap();
        let spool = folder.path().join("new/spool");
        let mut taken = Taken::take(&spool).unwrap();
        fs::write(spool.join(KEY), "key").unwrap();
        assert!(Taken::take(&spool).is_err(), "it is taken");
        assert!(spool.join(LOCK).exists(), "by the first, whose lock stays");
        drop(taken);
        assert!(!folder.path().join("new").exists());
        taken = Taken::take(&spool).unwrap();
        fs::write(spool.join(KEY), "key").unwrap();
        taken.stays();
        drop(taken);
        let again = Taken::take(&spool).unwrap();
        drop(again);
        assert!(spool.join(KEY).exists() && spool.join(LOCK).exists(), "of an earlier agent");
    }

    #[test]
    fn what_was_removed_under_an_agent_is_made_again_and_is_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let spool = folder.path().join("spool");
        let mut taken = Taken::take(&spool).unwrap();
        let tagger = Tagger::of_or_new(&spool.join(KEY)).unwrap();
        taken.stays();
        let key = fs::read(spool.join(KEY)).unwrap();
        fs::remove_dir_all(&spool).unwrap();
        taken.again(&spool, &tagger).unwrap();
        assert_eq!(fs::read(spool.join(KEY)).unwrap(), key);
        assert!(Taken::take(&spool).is_err(), "it is taken");
        fs::remove_dir_all(&spool).unwrap();
        let other = Taken::take(&spool).unwrap();
        assert!(taken.again(&spool, &tagger).is_err(), "another one came first");
        drop(other);
    }

    #[test]
    fn what_others_put_there_stays() {
        let folder = tempfile::tempdir().unwrap();
        let spool = folder.path().join("spool");
        let taken = Taken::take(&spool).unwrap();
        fs::write(spool.join("notes"), "").unwrap();
        drop(taken);
        let left: Vec<_> =
            fs::read_dir(&spool).unwrap().map(|it| it.unwrap().file_name()).collect();
        assert_eq!(left, ["notes"]);
    }
}
