//! The files of a follower: those that anybody may have written, and those that only root may.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use rustix::fs::OFlags;
use transom_output::Output;
use transom_rollout::{CURRENT, Known, MOST_BYTES, VerifyingKey, generation_name, trusted_keys};

/// Where the signed files lie. Who writes there is not trusted.
pub struct Folder(PathBuf);

impl Folder {
    pub fn open(path: &Path) -> Result<Folder> {
        let shown = path.display();
        let is_folder = fs::metadata(path).with_context(|| format!("looking at {shown}"))?.is_dir();
        ensure!(is_folder, "{shown} is no folder: name the one that `transom-fleet follow` fills");
        Ok(Folder(path.to_owned()))
    }

    /// `None` if there is no such file.
    pub fn current(&self) -> Result<Option<Vec<u8>>> {
        match self.read(CURRENT) {
            Err(error) if is_missing(&error) => Ok(None),
            other => other.map(Some).context(CURRENT),
        }
    }

    pub fn generation(&self, number: u64) -> Result<Vec<u8>> {
        self.read(&generation_name(number))
    }

    /// A link could lead anywhere, and a pipe would never end.
    fn read(&self, name: &str) -> Result<Vec<u8>> {
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        let mut options = OpenOptions::new();
        let options = options.read(true).custom_flags(flags.bits().cast_signed());
        let file = match options.open(self.0.join(name)) {
            Err(error) if error.raw_os_error() == Some(libc::ELOOP) => {
                return Err(error).context("it is a link");
            }
            other => other?,
        };
        ensure!(file.metadata()?.is_file(), "it is no regular file");
        bounded(file)
    }
}

fn is_missing(error: &anyhow::Error) -> bool {
    let cause = error.downcast_ref::<std::io::Error>();
    cause.is_some_and(|cause| cause.kind() == ErrorKind::NotFound)
}

fn bounded(file: File) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(MOST_BYTES + 1).read_to_end(&mut bytes)?;
    ensure!(bytes.len() as u64 <= MOST_BYTES, "it has more than {MOST_BYTES} bytes");
    Ok(bytes)
}

/// # Errors
/// The file is not there, has no keys, or somebody else could put another in its place.
pub fn trusted(path: &Path) -> Result<Vec<VerifyingKey>> {
    let shown = path.display();
    let read = || -> Result<Vec<VerifyingKey>> {
        let file = File::open(path)?;
        own(&file.metadata()?, path)?;
        let text = String::from_utf8(bounded(file)?).context("it is no text")?;
        trusted_keys(&text)
    };
    read().with_context(|| format!("the trusted keys {shown}"))
}

/// Neither the file nor its folder is somebody else's to change.
fn own(file: &Metadata, path: &Path) -> Result<()> {
    let real = fs::canonicalize(path)?;
    let folder = real.parent().unwrap_or(Path::new("/"));
    for (metadata, path) in [(file, real.as_path()), (&fs::metadata(folder)?, folder)] {
        let (mode, owner, shown) = (metadata.mode() & 0o7777, metadata.uid(), path.display());
        let me = rustix::process::geteuid().as_raw();
        ensure!(
            owner == 0 || owner == me,
            "{shown} belongs to user {owner}, who could change it: chown root {shown}"
        );
        // In a folder such as /tmp nobody replaces what is another's.
        let is_sticky = metadata.is_dir() && mode & 0o1000 != 0;
        ensure!(
            mode & 0o022 == 0 || is_sticky,
            "others can write {shown} (mode {mode:04o}): chmod go-w {shown}"
        );
    }
    Ok(())
}

/// What was seen, kept for the next start.
pub struct Seen {
    path: PathBuf,
    known: Known,
}

impl Seen {
    /// # Errors
    /// It cannot be read, others can change it, or its folder cannot be made.
    pub fn open(path: PathBuf) -> Result<Seen> {
        let known =
            read_seen(&path).with_context(|| format!("what was seen, {}", path.display()))?;
        Ok(Seen { path, known })
    }

    pub fn known(&self) -> Known {
        self.known
    }

    /// # Errors
    /// It cannot be written: then it is as it was.
    pub fn keep(&mut self, known: Known) -> Result<()> {
        if known == self.known {
            return Ok(());
        }
        Output::write_all_with(&self.path, 0o600, &serde_json::to_vec(&known)?)?;
        self.known = known;
        Ok(())
    }
}

fn read_seen(path: &Path) -> Result<Known> {
    let file = match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            if let Some(folder) = path.parent() {
                DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
            }
            return Ok(Known::default());
        }
        other => other?,
    };
    own(&file.metadata()?, path)?;
    let remedy = "it is damaged: remove it if no older policy may come back";
    serde_json::from_slice(&bounded(file)?).context(remedy)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn refused<T>(result: Result<T>) -> String {
        format!("{:#}", result.err().expect("it is refused"))
    }

    #[test]
    fn no_link_pipe_or_endless_file_is_read() {
        let place = tempfile::tempdir().unwrap();
        let (folder, file) = (Folder::open(place.path()).unwrap(), place.path().join(CURRENT));
        assert!(folder.current().unwrap().is_none());
        fs::write(&file, b"text").unwrap();
        assert_eq!(folder.current().unwrap().unwrap(), b"text");
        fs::write(&file, vec![b' '; MOST_BYTES as usize + 1]).unwrap();
        assert!(refused(folder.current()).contains("current: it has more than 1048576 bytes"));
        fs::remove_file(&file).unwrap();
        symlink("/etc/shadow", &file).unwrap();
        assert!(refused(folder.current()).contains("it is a link"));
        fs::remove_file(&file).unwrap();
        let made = std::process::Command::new("mkfifo").arg(&file).status().unwrap();
        assert!(made.success());
        assert!(refused(folder.current()).contains("no regular file"));
    }

    #[test]
    fn keys_that_others_can_change_are_not_trusted() {
        let place = tempfile::tempdir().unwrap();
        let keys = place.path().join("keys");
        let key = transom_rollout::SigningKey::from_bytes(&[1; 32]).verifying_key();
        fs::write(&keys, transom_rollout::key_text(key.as_bytes())).unwrap();
        mode(&keys, 0o644);
        assert_eq!(trusted(&keys).unwrap(), [key]);
        mode(&keys, 0o664);
        assert!(refused(trusted(&keys)).contains("chmod go-w"));
        mode(&keys, 0o644);
        mode(place.path(), 0o777);
        assert!(refused(trusted(&keys)).contains("others can write"));
        mode(place.path(), 0o1777);
        assert!(trusted(&keys).is_ok());
    }

    #[test]
    fn what_a_killed_one_left_of_it_goes_with_the_next() {
        let place = tempfile::tempdir().unwrap();
        let mut seen = Seen::open(place.path().join("seen.json")).unwrap();
        fs::write(place.path().join(".seen.json.transom-AbCdEf"), "half").unwrap();
        seen.keep(Known { generation: 3, written_s: 9 }).unwrap();
        let names = fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().file_name());
        assert_eq!(names.collect::<Vec<_>>(), ["seen.json"]);
    }

    #[test]
    fn what_was_seen_is_known_at_the_next_start() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("new/seen.json");
        let known = Known { generation: 3, written_s: 9 };
        let mut seen = Seen::open(path.clone()).unwrap();
        assert_eq!(seen.known(), Known::default());
        seen.keep(known).unwrap();
        assert_eq!(Seen::open(path.clone()).unwrap().known(), known);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600, "whatever the umask");
        fs::write(&path, "{").unwrap();
        assert!(refused(Seen::open(path)).contains("it is damaged"));
    }
}
