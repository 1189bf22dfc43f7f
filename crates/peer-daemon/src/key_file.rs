//! The file that holds the group's key.

use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Subcommand;
use transom_output::{Output, Replace, note, say, text_of};
use transom_peers::seal::GroupKey;

pub const DEFAULT: &str = "/etc/transom/peer.key";

#[derive(Subcommand)]
pub enum Command {
    /// Make a new key in a file that only its owner can read
    New {
        #[arg(default_value = DEFAULT)]
        file: PathBuf,
    },
}

pub fn run(command: Command) -> Result<ExitCode> {
    let Command::New { file } = command;
    create(&file)?;
    say!("{}", file.display())?;
    note!("Copy this file to each terminal of the group, readable by its owner only.");
    Ok(ExitCode::SUCCESS)
}

/// A random number that nobody can guess.
pub fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    let got = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .context("getrandom")?;
    // The kernel gives up to 256 bytes whole.
    if got != N { bail!("the kernel gave {got} random bytes of {N}") } else { Ok(bytes) }
}

fn create(path: &Path) -> Result<()> {
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        fs::create_dir_all(parent).with_context(|| format!("creating {}", parent.display()))?;
    }
    if path.symlink_metadata().is_ok() {
        bail!("{} exists already; remove it if the group shall have a new key", path.display());
    }
    let key = GroupKey::new(random()?).to_text();
    // Whole or not at all: half a key would be in the way of the next one.
    let mut file = Output::open_private(path, &[], Replace::Never)?;
    writeln!(file, "{key}").with_context(|| format!("cannot write {}", path.display()))?;
    file.finish()
}

/// Reads the key, if nobody else can.
pub fn read(path: &Path) -> Result<GroupKey> {
    let shown = path.display();
    let metadata = match fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => bail!(
            "there is no group key at {shown}: make one with `transom peer key new {shown}`, or \
             copy that of the other terminals there"
        ),
        other => other.with_context(|| format!("looking at {shown}"))?,
    };
    if metadata.is_dir() {
        bail!("{shown} is a directory: name the file that `transom peer key new` made");
    }
    if metadata.mode() & 0o077 != 0 {
        bail!(
            "{shown} can be read by others (mode {:04o}): chmod 600 {shown}, and make a new key if \
             somebody may have",
            metadata.mode() & 0o7777
        );
    }
    let owner = metadata.uid();
    let me = rustix::process::geteuid().as_raw();
    if owner != me && owner != 0 {
        bail!("{shown} belongs to user {owner}, who could read or change it: chown {me} {shown}");
    }
    let text = text_of(path).with_context(|| format!("reading {shown}"))?;
    GroupKey::from_text(&text).with_context(|| {
        format!("{shown} holds no key: its line begins with 'transom-peer-1:' and has 64 digits")
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use transom_testbed::{SmallDisk, needs_root};

    use super::*;

    #[test]
    fn a_new_key_is_random_readable_by_its_owner_and_never_overwritten() {
        let directory = tempfile::tempdir().unwrap();
        let (one, other) = (directory.path().join("a/one"), directory.path().join("other"));
        create(&one).unwrap();
        create(&other).unwrap();
        assert_eq!(fs::metadata(&one).unwrap().mode() & 0o777, 0o600);
        assert!(read(&one).unwrap() != read(&other).unwrap());
        assert!(create(&one).unwrap_err().to_string().contains("exists already"));
    }

    #[test]
    fn a_key_that_a_full_disk_does_not_take_leaves_nothing_in_the_way_of_the_next() {
        needs_root!();
        let disk = SmallDisk::mount(16);
        disk.fill("fill", 0);
        let path = disk.path().join("key");
        let error = format!("{:#}", create(&path).unwrap_err());
        assert!(error.contains("key: No space left on device"), "{error}");
        assert!(!path.exists());
        fs::remove_file(disk.path().join("fill")).unwrap();
        create(&path).unwrap();
        read(&path).unwrap();
    }

    #[test]
    fn a_key_that_others_can_read_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        create(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let error = read(&path).unwrap_err().to_string();
        assert!(error.contains("0640") && error.contains("chmod 600"), "{error}");
    }

    #[test]
    fn a_file_that_is_not_there_or_no_key_is_named_with_the_remedy() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        assert!(read(&path).unwrap_err().to_string().contains("transom peer key new"));
        create(&path).unwrap();
        fs::write(&path, "secret\n").unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("64 digits"));
    }
}
