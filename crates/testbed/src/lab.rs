//! `transom lab` on an experiment of the test's own.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use super::transom;

/// A folder with one experiment whose name no other test uses.
pub struct Bench {
    pub folder: tempfile::TempDir,
    pub name: String,
}

impl Bench {
    pub fn new(role: &str, text: &str) -> Bench {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let name = format!("t{}-{role}", std::process::id());
        let experiments = folder.path().join("experiments");
        fs::create_dir(&experiments).expect("an empty folder takes another");
        fs::write(experiments.join(format!("{name}.toml")), text).expect("a file can be written");
        Bench { folder, name }
    }

    pub fn lab(&self, words: &[&str]) -> Command {
        let mut command = transom();
        command.arg("lab").args(words).current_dir(self.folder.path());
        command
    }

    pub fn run(&self, words: &[&str]) -> Output {
        self.lab(&[&["run", self.name.as_str()], words].concat()).output().expect("transom runs")
    }

    pub fn exec(&self, host: &str, command: &[&str]) -> Output {
        let words = [&["exec", "--lab", &self.name, host, "--"], command].concat();
        self.lab(&words).output().expect("transom runs")
    }

    /// Hosts that stay up until the value is dropped.
    pub fn shell(&self) -> Shell {
        let mut command = self.lab(&["shell", &self.name]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut shell = Shell { child: command.spawn().expect("transom runs") };
        wait_until_up(&mut shell.child);
        shell
    }

    pub fn namespace(&self, host: &str) -> PathBuf {
        PathBuf::from(format!("/run/netns/tx-{}-{host}", self.name))
    }

    pub fn results(&self) -> PathBuf {
        self.folder.path().join("results").join(&self.name)
    }

    pub fn of_run(&self, file: &str) -> PathBuf {
        self.results().join("runs/only/1").join(file)
    }

    pub fn left_behind(&self) -> Vec<PathBuf> {
        let state = PathBuf::from(format!("/run/transom/lab/{}.json", self.name));
        let all = [self.namespace("phone"), self.namespace("server"), state];
        all.into_iter().filter(|path| path.exists()).collect()
    }

    pub fn assert_clean(&self) {
        let left = self.left_behind();
        assert!(left.is_empty(), "left behind: {left:?}");
    }

    /// `PATH` with a folder before all in which `program` is this script.
    pub fn path_with(&self, program: &str, script: &str) -> String {
        let folder = self.folder.path().join("bin");
        fs::create_dir_all(&folder).expect("a folder can be made");
        let path = folder.join(program);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("a file can be written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it is ours");
        format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default())
    }
}

/// `transom lab shell`; ended when the value is dropped.
pub struct Shell {
    child: Child,
}

impl Shell {
    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    pub fn signal(&mut self, signal: i32) {
        // SAFETY: the child is ours and not yet waited for.
        unsafe { libc::kill(self.pid(), signal) };
        self.child.wait().expect("it is ours");
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.signal(libc::SIGTERM);
        }
    }
}

/// What a program wrote to its standard error.
pub fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub fn json(path: &Path) -> serde_json::Value {
    let text = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_slice(&text).expect("JSON")
}

/// Until `transom lab shell`, whose output is a pipe, says that packets move.
fn wait_until_up(lab: &mut Child) {
    let mut lines = BufReader::new(lab.stdout.take().expect("its output")).lines();
    let said = lines.by_ref().map_while(Result::ok).find(|line| line.contains(" are up:"));
    assert!(said.is_some(), "the lab ended before its hosts were up");
    // The rest is read by nobody else: a full pipe would stop it, a closed one end it.
    std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
}
