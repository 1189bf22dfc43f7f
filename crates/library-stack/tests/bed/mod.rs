//! Two hosts with kernels of their own stacks, a client and a server, and the program under test
//! between them: in the client, with the library's stack on the client's interfaces.

// Each test file uses its own part of this.
#![allow(dead_code)]

pub mod host;
pub mod tunnel;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use host::Host;

/// Longer than anything here takes, on a machine that does much else.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Of the table of behaviours: some hundred, of which some wait for seconds on purpose.
pub const TABLE: Duration = Duration::from_secs(400);

/// The next `number` connections.
pub fn accept(listener: &TcpListener, number: usize) -> Vec<TcpStream> {
    (0..number).map(|_| listener.accept().expect("a connection").0).collect()
}

/// Client and server, with no link between them yet.
pub struct Bed {
    pub client: Host,
    pub server: Host,
}

impl Bed {
    pub fn new() -> Self {
        Self { client: Host::new("c"), server: Host::new("s") }
    }

    /// With path 0.
    pub fn with_path() -> Self {
        let bed = Self::new();
        bed.add_path(0);
        bed
    }

    /// An Ethernet link: `c<n>` with 10.70.<n>.1 and fd70:<n>::1 here, `s<n>` with .2 and ::2 there.
    pub fn add_path(&self, n: u8) {
        let addresses = |last: u8| [format!("10.70.{n}.{last}/24"), format!("fd70:{n}::{last}/64")];
        let (ours, theirs) = (addresses(1), addresses(2));
        transom_testbed::link(
            (&self.client, &format!("c{n}"), &ours.each_ref().map(String::as_str)),
            (&self.server, &format!("s{n}"), &theirs.each_ref().map(String::as_str)),
        );
    }

    /// On the first path the client has the address fe80::70:1 of link scope, the server fe80::70:2.
    pub fn number_link_scope(&self) {
        for (host, link, n) in [(&self.client, "c0", 1), (&self.server, "s0", 2)] {
            host.ip(&format!("-6 addr flush dev {link} scope link"));
            host.ip(&format!("addr add fe80::70:{n}/64 dev {link} nodad"));
        }
    }

    /// Both ends of path `n` send no faster than this.
    pub fn limit_rate(&self, n: u8, mbit: u32) {
        let shape = |host: &Host, name: String| {
            let rate = format!("{mbit}mbit");
            let words = ["qdisc", "replace", "dev", &name, "root", "tbf", "rate", &rate];
            host.output("tc", &[&words[..], &["burst", "16kb", "latency", "40ms"]].concat());
        };
        shape(&self.client, format!("c{n}"));
        shape(&self.server, format!("s{n}"));
    }

    /// Of the server, for more connections at once than std asks for (128).
    pub fn listen_for_many(&self) -> TcpListener {
        more_descriptors();
        let listener = self.server.listen("10.70.0.2:0");
        // SAFETY: the descriptor is a listening socket.
        assert_eq!(unsafe { libc::listen(listener.as_raw_fd(), 4096) }, 0);
        listener
    }

    /// The program in the client, on the library's stack. Its script is one of `tests/programs`.
    pub fn python(&self, options: &[&str], script: &str, arguments: &[&str]) -> Running {
        let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(script);
        let script = script.to_str().expect("a path of text");
        self.run(options, &[&["python3", script][..], arguments].concat())
    }

    pub fn run(&self, options: &[&str], program: &[&str]) -> Running {
        Running::start(&mut self.command(options, program))
    }

    /// Not yet started.
    pub fn command(&self, options: &[&str], program: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_transom-netstack"));
        command.args(options).arg("--").args(program);
        self.client.take(&mut command);
        command
    }
}

/// What a program has come to.
#[derive(Debug)]
pub struct Ended {
    pub status: ExitStatus,
    pub stdout: Vec<u8>,
    pub stderr: String,
}

impl Ended {
    /// It must have ended well; what it printed.
    pub fn well(self) -> Vec<u8> {
        assert!(self.status.success(), "{:?}: {}", self.status, self.stderr);
        self.stdout
    }

    pub fn text(self) -> String {
        String::from_utf8(self.well()).expect("text")
    }
}

/// A program under way; ended at the latest when this is dropped.
pub struct Running {
    child: Child,
    stdout: Option<JoinHandle<Vec<u8>>>,
    stderr: Option<JoinHandle<Vec<u8>>>,
    lines: Lines,
    said: Lines,
}

type Lines = std::sync::Arc<std::sync::Mutex<Vec<u8>>>;

impl Running {
    pub fn start(command: &mut Command) -> Self {
        Self::spawn(command.stdin(Stdio::null()))
    }

    /// What it reads comes from [`Running::tell`].
    pub fn start_with_input(command: &mut Command) -> Self {
        Self::spawn(command.stdin(Stdio::piped()))
    }

    fn spawn(command: &mut Command) -> Self {
        // In a group of its own: nothing that outlives its supervisor outlives the test.
        command.process_group(0);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("transom-netstack");
        let lines = Lines::default();
        let stdout = child.stdout.take().expect("a pipe");
        let stderr = child.stderr.take().expect("a pipe");
        let said = Lines::default();
        let (printed, complained) = (lines.clone(), said.clone());
        Self {
            child,
            stdout: Some(std::thread::spawn(move || drain(stdout, &printed))),
            stderr: Some(std::thread::spawn(move || drain(stderr, &complained))),
            lines,
            said,
        }
    }

    pub fn tell(&mut self, words: &str) {
        let stdin = self.child.stdin.as_mut().expect("an input");
        stdin.write_all(words.as_bytes()).expect("it reads");
    }

    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// The processes that it has started and those that it has inherited, which have not ended.
    pub fn children(&self) -> Vec<i32> {
        let list = format!("/proc/{0}/task/{0}/children", self.pid());
        let list = std::fs::read_to_string(list).expect("a kernel that lists children");
        list.split_whitespace().map(|pid| pid.parse().expect("a number")).collect()
    }

    pub fn signal(&self, signal: i32) {
        // SAFETY: no pointers; the child has not been waited for, so the number is still its own.
        assert_eq!(unsafe { libc::kill(self.pid(), signal) }, 0);
    }

    /// Until it has printed this.
    pub fn wait_for(&mut self, words: &str) {
        let lines = self.lines.clone();
        self.wait_in(&lines, words);
    }

    /// Until this is on its standard error.
    pub fn wait_for_said(&mut self, words: &str) {
        let said = self.said.clone();
        self.wait_in(&said, words);
    }

    fn wait_in(&mut self, lines: &Lines, words: &str) {
        let end = Instant::now() + PATIENCE;
        loop {
            let said = String::from_utf8_lossy(&lines.lock().expect("lines")).into_owned();
            if said.contains(words) {
                return;
            }
            let over = self.child.try_wait().expect("waiting").is_some() || Instant::now() > end;
            if over {
                let ended = self.finish();
                panic!("it never said {words:?} but {said:?}: {}", ended.stderr);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The same for what the program does when the supervisor is gone: it is no child of ours.
    pub fn wait_for_after_death(self, words: &str) {
        until(words, || {
            String::from_utf8_lossy(&self.lines.lock().expect("lines")).contains(words)
        });
    }

    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("waiting").is_some()
    }

    /// Waits for its end; one that does not come fails the test.
    pub fn end(self) -> Ended {
        self.end_within(PATIENCE)
    }

    pub fn end_within(mut self, patience: Duration) -> Ended {
        let end = Instant::now() + patience;
        while !self.has_ended() {
            if Instant::now() > end {
                let ended = self.finish();
                panic!("no end after {patience:?}: {}", ended.stderr);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        self.finish()
    }

    fn finish(&mut self) -> Ended {
        if !self.has_ended() {
            self.kill_all();
        }
        let status = self.child.wait().expect("waiting");
        let read = |thread: &mut Option<JoinHandle<Vec<u8>>>| {
            thread.take().map(|thread| thread.join().expect("reading")).unwrap_or_default()
        };
        let stdout = read(&mut self.stdout);
        let stderr = String::from_utf8_lossy(&read(&mut self.stderr)).into_owned();
        Ended { status, stdout, stderr }
    }

    fn kill_all(&mut self) {
        // SAFETY: no pointers; the group is the child's, which has not been waited for.
        unsafe { libc::kill(-self.pid(), libc::SIGKILL) };
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.stdout.is_some() {
            self.kill_all();
            let _ = self.child.wait();
        }
    }
}

fn drain(mut pipe: impl Read, seen: &Lines) -> Vec<u8> {
    let mut buffer = vec![0; 1 << 16];
    loop {
        match pipe.read(&mut buffer) {
            Ok(0) | Err(_) => return seen.lock().expect("lines").clone(),
            Ok(length) => seen.lock().expect("lines").extend_from_slice(&buffer[..length]),
        }
    }
}

/// Waits until it is so; `what` is what the failure says.
pub fn until(what: &str, mut so: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !so() {
        assert!(Instant::now() < end, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Bytes in which a lost, doubled or misplaced piece shows: a counter, four bytes each.
pub fn numbered(from: usize, length: usize) -> Vec<u8> {
    let first = from / 4;
    let words = (first..(from + length).div_ceil(4)).flat_map(|word| (word as u32).to_be_bytes());
    words.skip(from % 4).take(length).collect()
}

/// For the server's side, which is this process.
fn more_descriptors() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure lives as long as the calls.
    unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit), 0);
        limit.rlim_cur = limit.rlim_max;
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &limit), 0);
    }
}
