//! What runs beside a test: a transfer on the device, and a `transom android` on the host.

use std::fs;
use std::io::Write;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use transom_testbed::{fresh_port, receive_all, wait_for};

use crate::device::Desk;

/// A transfer over the device's loopback, until it is dropped.
pub struct Transfer {
    pub port: u16,
    stop: Arc<AtomicBool>,
    rounds: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Transfer {
    /// So many bytes at once, so often a second.
    pub fn start(desk: &Desk, bytes: usize, rate: u64) -> Transfer {
        let port = fresh_port();
        let stop = Arc::new(AtomicBool::new(false));
        let rounds = Arc::new(AtomicU64::new(0));
        let (until, over) = (Arc::clone(&stop), Arc::clone(&rounds));
        let thread = desk.path.right.spawn(move || {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
            let mut sender = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
            let (mut receiver, _) = listener.accept().unwrap();
            while !until.load(Ordering::Relaxed) {
                sender.write_all(&vec![7; bytes]).unwrap();
                receive_all(&mut receiver, bytes);
                over.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(Duration::from_micros(1_000_000 / rate));
            }
        });
        Transfer { port, stop, rounds, thread: Some(thread) }
    }

    /// Waits until it has sent so many times more.
    pub fn go_on(&self, rounds: u64) {
        let end = self.rounds.load(Ordering::Relaxed) + rounds;
        wait_for("the transfer", || self.rounds.load(Ordering::Relaxed) >= end);
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A `transom android` that runs beside the test; what it says goes to a file.
pub struct Beside {
    child: Child,
    said: PathBuf,
}

impl Beside {
    pub fn start(desk: &Desk, words: &[&str]) -> Beside {
        let said = desk.host.folder().join("said");
        let file = fs::File::create(&said).unwrap();
        let mut command = desk.command(words);
        command.stdout(file.try_clone().unwrap()).stderr(file);
        Beside { child: command.spawn().expect("transom runs"), said }
    }

    pub fn said(&self) -> String {
        fs::read_to_string(&self.said).unwrap()
    }

    pub fn wait_for(&mut self, words: &str) {
        let (child, said) = (&mut self.child, &self.said);
        wait_for(words, || {
            let text = fs::read_to_string(said).unwrap();
            let ended = child.try_wait().unwrap();
            assert!(ended.is_none() || text.contains(words), "it ended: {text}");
            text.contains(words)
        });
    }

    pub fn signal(&self, signal: i32) {
        // SAFETY: a child that was not waited for.
        unsafe { libc::kill(self.child.id() as i32, signal) };
    }

    /// Its exit code and all it said.
    pub fn end(mut self) -> (Option<i32>, String) {
        let status = self.child.wait().unwrap();
        (status.code(), self.said())
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
