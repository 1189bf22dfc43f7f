//! Where files land: what lies there, and the program that ships to it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use transom_spool::{Connection, read};

/// A folder that is a store.
pub struct Folder(pub tempfile::TempDir);

impl Folder {
    pub fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    pub fn address(&self) -> String {
        format!("file://{}", self.0.path().display())
    }

    /// Names of the objects that were files of a spool, sorted.
    pub fn objects(&self) -> Vec<String> {
        let mut names = self.all_objects();
        names.retain(|name| !is_of_hosts(name));
        names
    }

    /// Names of what is said of machines, sorted.
    pub fn of_hosts(&self) -> Vec<String> {
        let mut names = self.all_objects();
        names.retain(|name| is_of_hosts(name));
        names
    }

    fn all_objects(&self) -> Vec<String> {
        let mut found = Vec::new();
        gather(self.0.path(), &mut found);
        let name =
            |path: PathBuf| path.strip_prefix(self.0.path()).unwrap().to_str().unwrap().to_owned();
        let mut names: Vec<String> = found.into_iter().map(name).collect();
        names.retain(|name| name.ends_with(".parquet"));
        names.sort();
        names
    }

    pub fn cookies(&self) -> Vec<u64> {
        let objects = self.objects();
        let of = objects.iter().filter(|name| name.starts_with("connections/"));
        cookies(of.map(|name| std::fs::read(self.0.path().join(name)).unwrap()))
    }
}

pub fn is_of_hosts(name: &str) -> bool {
    name.starts_with("hosts/") || name.contains("/hosts/")
}

/// All files below.
pub fn gather(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            gather(&path, found);
        } else {
            found.push(path);
        }
    }
}

/// Of the rows of all these objects, sorted.
pub fn cookies(objects: impl Iterator<Item = Vec<u8>>) -> Vec<u64> {
    let rows = objects.flat_map(|bytes| read::<Connection, _>(bytes::Bytes::from(bytes)).unwrap());
    let mut cookies: Vec<u64> = rows.map(|row| row.cookie).collect();
    cookies.sort_unstable();
    cookies
}

/// `transom-fleet ship`, with nothing of this machine's settings.
pub fn ship(spool: &Path, to: &str) -> Command {
    ship_of("web-1", spool, to)
}

pub fn ship_of(host: &str, spool: &Path, to: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_transom-fleet"));
    command
        .args(["ship", "--host", host, "--to", to, "--spool"])
        .arg(spool)
        .env_clear()
        .env("AWS_EC2_METADATA_DISABLED", "true")
        .env("HOME", "/nonexistent")
        .stdin(Stdio::null());
    command
}

/// Whether it ended well, and what it said.
pub fn ended(command: &mut Command) -> (bool, String) {
    let output = command.output().unwrap();
    (output.status.success(), String::from_utf8(output.stderr).unwrap())
}
