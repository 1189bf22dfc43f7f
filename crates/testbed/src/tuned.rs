//! `transom tune` for the length of a test, and what it did to a socket.

use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::process::{Child, Output, Stdio};
use std::thread::JoinHandle;

use rustix::process::{Pid, Signal, kill_process};

use super::{Namespace, transom, witness::socket_lines};

/// `transom tune` with these words; its output, whether it succeeded or not.
pub fn tune(words: &[&str]) -> Output {
    transom().arg("tune").args(words).output().expect("transom runs")
}

/// The same, which must succeed; what it printed.
pub fn tuned(words: &[&str]) -> String {
    let output = tune(words);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "tune {words:?}: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// `transom tune set` in one namespace, cleared when it is dropped.
pub struct Setting {
    netns: String,
}

impl Setting {
    pub fn of(netns: &str, words: &[&str]) -> Setting {
        let mut all = vec!["set", "--netns", netns];
        all.extend(words);
        tuned(&all);
        Setting { netns: netns.to_owned() }
    }

    /// `steady` by itself: on a machine that stalls, round trips grow, and its guard takes it back.
    pub fn unguarded(netns: &str, words: &[&str]) -> Setting {
        let setting = Setting { netns: netns.to_owned() };
        let all = [&["set", "--netns", netns], words].concat();
        let output = tune(&all);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "tune {all:?}: {said}");
        let (_, guard) = said.split_once("transom: process ").expect("the guard is told");
        let process = guard.split_whitespace().next().and_then(|it| it.parse().ok());
        let process = process.and_then(Pid::from_raw).expect("a number");
        kill_process(process, Signal::KILL).expect("the guard runs");
        setting
    }

    pub fn clear(self) {}
}

impl Drop for Setting {
    fn drop(&mut self) {
        let _ = tune(&["clear", "--netns", &self.netns]);
    }
}

/// A `transom tune apply` that runs.
pub struct Policy {
    pub child: Child,
    reader: Option<JoinHandle<String>>,
    _file: tempfile::NamedTempFile,
}

impl Policy {
    /// Starts it and returns when the policy is in force.
    pub fn start(netns: &str, text: &str) -> Policy {
        Policy::start_with(netns, text, &[])
    }

    /// The same with more words for `apply`.
    pub fn start_with(netns: &str, text: &str, words: &[&str]) -> Policy {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), text).expect("a file");
        let mut child = transom()
            .args(["tune", "apply", "--netns", netns])
            .args(words)
            .arg(file.path())
            .stderr(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("transom runs");
        let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
        let first = lines.next().and_then(Result::ok).unwrap_or_default();
        assert!(first.contains("is in force"), "tune apply: {first}");
        let rest = move || lines.map_while(Result::ok).map(|line| line + "\n").collect();
        Policy { child, reader: Some(std::thread::spawn(rest)), _file: file }
    }

    /// What it wrote on standard error from when it was in force until it has ended.
    pub fn said(&mut self) -> String {
        let reader = self.reader.take().expect("asked once");
        reader.join().expect("it only reads")
    }

    pub fn signal(&mut self, signal: i32) {
        // SAFETY: the child is ours and not yet waited for.
        unsafe { libc::kill(self.child.id() as i32, signal) };
    }

    /// Ctrl-C; what it printed.
    pub fn stop(mut self) -> String {
        self.signal(libc::SIGINT);
        let mut text = String::new();
        if let Some(out) = &mut self.child.stdout {
            let _ = std::io::Read::read_to_string(out, &mut text);
        }
        assert!(self.child.wait().expect("our child").success());
        text
    }

    pub fn kill(mut self) {
        self.signal(libc::SIGKILL);
        let _ = self.child.wait();
    }
}

impl Drop for Policy {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            self.signal(libc::SIGINT);
            let _ = self.child.wait();
        }
    }
}

/// The congestion control of the connection to this port, by `ss`; of other programs' sockets.
pub fn algorithm_to(namespace: &Namespace, port: u16) -> String {
    let text = socket_lines(namespace, port);
    let known = ["reno", "cubic", "bbr", "steady"];
    let found = text.split_whitespace().find(|word| known.contains(word));
    found.unwrap_or_else(|| panic!("no connection to {port}: {text}")).to_owned()
}

/// The congestion control that the kernel says a socket has.
pub fn algorithm_of(stream: &TcpStream) -> String {
    let (mut name, mut length) = ([0u8; 16], 16);
    // SAFETY: `name` has the length that is told.
    let result = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_CONGESTION,
            name.as_mut_ptr().cast(),
            &mut length,
        )
    };
    assert_eq!(result, 0, "TCP_CONGESTION: {}", std::io::Error::last_os_error());
    let end = name.iter().position(|&byte| byte == 0).unwrap_or(16);
    String::from_utf8_lossy(&name[..end]).into_owned()
}
