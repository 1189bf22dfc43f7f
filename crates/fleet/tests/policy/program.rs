//! The program, a key, a place in a folder, and a host that believes the key.

use std::path::{Path, PathBuf};
use std::process::Command;

use transom_fleet::policy::place::Place;
use transom_rollout::{Host, Known, Now, Wanted, generation_name, signing_key, trusted_keys};

pub const POLICY: &str = "[[rule]]\nmatch = { rtt = \"32ms..\" }\naction = { cap = 100 }\n";

/// A folder with all that an operator has.
pub struct Operator {
    pub folder: tempfile::TempDir,
}

/// `transom-fleet policy`, with nothing of this machine's settings.
pub fn policy<'a>(words: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_transom-fleet"));
    command
        .arg("policy")
        .args(words)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("AWS_EC2_METADATA_DISABLED", "true")
        .env("HOME", "/nonexistent");
    command
}

/// What it said: the standard output, or the standard error if it failed.
pub fn said(command: &mut Command) -> Result<String, String> {
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
}

impl Operator {
    /// With a policy, a key, and the file that hosts trust.
    pub fn new() -> Operator {
        let operator = Operator { folder: tempfile::tempdir().unwrap() };
        std::fs::create_dir(operator.path("fleet")).unwrap();
        std::fs::write(operator.path("far.toml"), POLICY).unwrap();
        let public = said(&mut policy(["key", &operator.text("fleet.key")])).unwrap();
        std::fs::write(operator.path("trusted"), public).unwrap();
        operator
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// Where the policies are: a folder.
    pub fn address(&self) -> String {
        format!("file://{}", self.text("fleet"))
    }

    /// `publish` to this address, with more words.
    pub fn publish_to(&self, address: &str, more: &[&str]) -> Command {
        let [policy_file, key] = [self.text("far.toml"), self.text("fleet.key")];
        let words = ["publish", &policy_file, "--to", address, "--key", &key];
        policy(words.into_iter().chain(more.iter().copied()))
    }

    pub fn publish(&self, more: &[&str]) -> Command {
        self.publish_to(&self.address(), more)
    }

    /// `step`, `rollback` with more words.
    pub fn signed(&self, command: &str, more: &[&str]) -> Command {
        let [address, key] = [self.address(), self.text("fleet.key")];
        let words = [command, "--to", &address, "--key", &key];
        policy(words.into_iter().chain(more.iter().copied()))
    }

    pub fn status(&self, more: &[&str]) -> Command {
        let [address, trusted] = [self.address(), self.text("trusted")];
        let words = ["status", "--from", &address, "--trust", &trusted];
        policy(words.into_iter().chain(more.iter().copied()))
    }

    /// As the program opens it.
    pub fn place(&self) -> Place {
        let key = signing_key(&std::fs::read_to_string(self.path("fleet.key")).unwrap()).unwrap();
        let public = key.verifying_key();
        Place::open(&self.address(), Some(key), vec![public]).unwrap()
    }

    /// Publishes one, which all hosts have then: its waves are over.
    pub fn publish_for_all(&self) {
        said(&mut self.publish(&["--first", "web-7"])).unwrap();
        let place = self.place();
        let state = place.under_way().unwrap();
        let mut done = state.current.clone();
        done.progress.is_done = true;
        place.swap(Some(&state.last()), &done).unwrap();
    }

    /// What a host that trusts the key is to have at a time: a generation's number.
    pub fn host_has(&self, host: &str, now_s: u64) -> Option<u64> {
        has(&self.path("fleet/policy"), &self.path("trusted"), host, now_s)
    }
}

/// The same of any files and keys.
pub fn has(files: &Path, trusted: &Path, host: &str, now_s: u64) -> Option<u64> {
    let keys = trusted_keys(&std::fs::read_to_string(trusted).unwrap()).unwrap();
    let mut host = Host::new(host, keys, Known::default());
    let now = Now { wall_s: now_s, boot_s: 1 };
    let read = |number| Ok(std::fs::read(files.join(generation_name(number)))?);
    host.take(&std::fs::read(files.join("current")).unwrap(), read, now).unwrap();
    match host.wanted(now) {
        Wanted::Policy { generation, text } => {
            assert_eq!(text, POLICY);
            Some(generation)
        }
        Wanted::Nothing(_) => None,
    }
}
