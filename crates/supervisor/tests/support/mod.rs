//! Where the tests of real programs happen.
//!
//! Each test has a network namespace of its own, in which only `lo` is up: its servers and the
//! supervisor live there. The supervised program lives in yet another one, in which nothing is up at
//! all: whatever it sends and receives goes through the supervisor.

#![allow(dead_code, reason = "each test file is a program of its own and needs some of it")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use transom_testbed::has;

pub const SUPERVISOR: &str = env!("CARGO_BIN_EXE_transom-run-host");

/// This test's thread, its later threads and its children are in a namespace of their own from here
/// on. `false`: that needs root.
pub fn own_namespace() -> bool {
    // SAFETY: no pointers; the namespace is that of the calling thread only.
    if !has("root") || unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
        return false;
    }
    let up = Command::new("ip").args(["link", "set", "lo", "up"]).status();
    assert!(up.expect("ip of iproute2").success());
    true
}

/// A program under the supervisor, in a namespace without any network.
pub fn supervised(options: &[&str], program: &[&str]) -> Command {
    let mut command = Command::new(SUPERVISOR);
    command.args(["--stack", "host"]).args(options).arg("--").args(["unshare", "-n"]);
    command.args(program);
    command
}

/// Waits for its end, at most two minutes, for slow machines: then the test fails.
pub fn finished(mut child: Child) -> Output {
    let end = Instant::now() + Duration::from_secs(120);
    // Read aside, so that a full pipe stops nobody.
    let stdout = child.stdout.take().map(|pipe| std::thread::spawn(move || drain(pipe)));
    let stderr = child.stderr.take().map(|pipe| std::thread::spawn(move || drain(pipe)));
    let status = loop {
        if let Some(status) = child.try_wait().expect("waiting") {
            break status;
        }
        if Instant::now() > end {
            let _ = child.kill();
            let said = stderr.map(|thread| thread.join().expect("reader")).unwrap_or_default();
            panic!("no end after 120 s; it said: {}", String::from_utf8_lossy(&said));
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let joined = |thread: Option<std::thread::JoinHandle<Vec<u8>>>| {
        thread.map(|thread| thread.join().expect("reader")).unwrap_or_default()
    };
    Output { status, stdout: joined(stdout), stderr: joined(stderr) }
}

fn drain(mut pipe: impl Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    let _ = pipe.read_to_end(&mut bytes);
    bytes
}

/// Runs it to its end; it must succeed. What it wrote to standard output.
pub fn output(command: &mut Command) -> Vec<u8> {
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let output = finished(child.expect("starting it"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{:?} of {command:?}: {said}", output.status);
    output.stdout
}

pub fn text(command: &mut Command) -> String {
    String::from_utf8(output(command)).expect("text")
}

/// A server that is killed when the test ends.
pub struct Server(Child);

impl Server {
    pub fn start(command: &mut Command) -> Self {
        let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self(quiet.spawn().expect("starting the server"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The supervisor forwards it; a program that stays is ended with its supervisor.
        // SAFETY: no pointers; the child has not been waited for, so the number is still its own.
        unsafe { libc::kill(self.0.id() as i32, libc::SIGTERM) };
        let end = Instant::now() + Duration::from_secs(3);
        while Instant::now() < end {
            if self.0.try_wait().expect("waiting").is_some() {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Until somebody listens there, at most two minutes.
pub fn wait_for(address: SocketAddr) {
    let port = format!(":{:04X} ", address.port());
    let end = Instant::now() + Duration::from_secs(120);
    while Instant::now() < end {
        let listens = |table: &str| {
            let table = std::fs::read_to_string(table).unwrap_or_default();
            table.lines().any(|line| line.contains(&port) && line.contains(" 0A "))
        };
        if listens("/proc/thread-self/net/tcp") || listens("/proc/thread-self/net/tcp6") {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("nobody listens at {address}");
}

/// A web server in a thread of the test: every path is `body`.
pub fn web_server(body: Vec<u8>) -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let address = listener.local_addr().expect("its number");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut request = [0; 4096];
            let _ = stream.read(&mut request);
            let length = body.len();
            let head = format!("HTTP/1.0 200 OK\r\nContent-Length: {length}\r\n\r\n");
            let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body));
        }
    });
    address
}

/// Bytes in which a lost, doubled or misplaced piece shows.
pub fn numbered(len: usize) -> Vec<u8> {
    (0..len as u64 / 8).flat_map(u64::to_be_bytes).collect()
}
