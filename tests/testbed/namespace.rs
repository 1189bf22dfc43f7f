//! Network namespaces of our own.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

static NUMBER: AtomicU32 = AtomicU32::new(0);

/// A named network namespace with its loopback device up and Reno, which every kernel allows, as the
/// algorithm, whatever the machine's default is.
pub struct Namespace {
    name: String,
    file: Option<Arc<File>>,
}

/// Runs a program and returns what it prints; it must succeed.
pub fn run(words: &[&str]) -> String {
    let output = Command::new(words[0])
        .args(&words[1..])
        .output()
        .unwrap_or_else(|error| panic!("{words:?}: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn enter(file: &File) -> std::io::Result<()> {
    Ok(move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?)
}

impl Namespace {
    pub fn new(role: &str) -> Namespace {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("transom-{}-{number}-{role}", std::process::id());
        run(&["ip", "netns", "add", &name]);
        let file = File::open(format!("/run/netns/{name}")).expect("a new namespace has a file");
        let namespace = Namespace { name, file: Some(Arc::new(file)) };
        namespace.ip("link set lo up");
        namespace.sysctl("net/ipv4/tcp_congestion_control", "reno");
        // Metrics of an earlier connection would change a later one's start.
        namespace.sysctl("net/ipv4/tcp_no_metrics_save", "1");
        namespace
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    fn file(&self) -> Arc<File> {
        Arc::clone(self.file.as_ref().expect("kept until dropped"))
    }

    /// Inode number, as events name it.
    pub fn inode(&self) -> u32 {
        self.file().metadata().expect("an open file has metadata").ino() as u32
    }

    pub fn path(&self) -> PathBuf {
        PathBuf::from("/run/netns").join(&self.name)
    }

    /// `ip` with these words, inside.
    pub fn ip(&self, words: &str) -> String {
        let mut all = vec!["ip", "-n", &self.name];
        all.extend(words.split_whitespace());
        run(&all)
    }

    /// `tc` with these words, inside.
    pub fn tc(&self, words: &str) -> String {
        let mut all = vec!["tc", "-n", &self.name];
        all.extend(words.split_whitespace());
        run(&all)
    }

    pub fn sysctl(&self, key: &str, value: &str) {
        let path = format!("/proc/sys/{key}");
        self.inside(|| std::fs::write(&path, value))
            .unwrap_or_else(|error| panic!("{path} = {value}: {error}"));
    }

    /// Does something on a thread that lives in the namespace.
    pub fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                enter(&self.file()).expect("entering our own namespace");
                work()
            });
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Starts a thread that lives in the namespace.
    pub fn spawn<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        let file = self.file();
        std::thread::spawn(move || {
            enter(&file).expect("entering our own namespace");
            work()
        })
    }

    /// A program that will run inside.
    pub fn command(&self, program: &str) -> Command {
        let file = self.file();
        let mut command = Command::new(program);
        // SAFETY: setns is safe to call between fork and exec.
        unsafe {
            command.pre_exec(move || match libc::setns(file.as_raw_fd(), libc::CLONE_NEWNET) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            });
        }
        command
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        self.file = None;
        let _ = Command::new("ip").args(["netns", "del", &self.name]).status();
    }
}
