//! Real hosts around the back ends: network namespaces, gone when their value is dropped.

// Each test file uses its own part of this.
#![allow(dead_code)]

pub mod packets;
pub mod stack;

use std::collections::HashMap;
use std::fs::{self, File};
use std::os::fd::{AsFd, OwnedFd};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use transom_nic::{MOST_BYTES, Nic, Received, VnetHeader};

const PREFIX: &str = "tx-nic";
/// Longer than anything here takes.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Leaves the test, and says why, where it cannot run.
#[macro_export]
macro_rules! needs_root {
    () => {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: network namespaces and packet sockets need root");
            return;
        }
    };
}

/// Whether this kernel has links on an interface's ingress (TCX, Linux 6.6); said aloud if not.
pub fn has_links() -> bool {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map_while(|n| n.parse().ok());
    let version: (u32, u32) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let has = version >= (6, 6);
    if !has {
        eprintln!("skipped: links on an interface's ingress need Linux 6.6");
    }
    has
}

/// A host of its own.
pub struct Host {
    pub name: String,
}

impl Host {
    /// With loopback, and IPv6 addresses that need not be tested first.
    pub fn new() -> Host {
        remove_stale();
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let run = STARTED.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}-{}-{run}", std::process::id());
        run_to_end("ip", &["netns", "add", &name]);
        let host = Host { name };
        host.ip("link set lo up");
        for kind in ["all", "default"] {
            host.set(&format!("net/ipv6/conf/{kind}/accept_dad"), "0");
        }
        host
    }

    /// `ip` with these words.
    pub fn ip(&self, words: &str) {
        let words: Vec<&str> = ["-n", &self.name].into_iter().chain(words.split(' ')).collect();
        run_to_end("ip", &words);
    }

    /// What a program in this host prints.
    pub fn output(&self, program: &str, words: &[&str]) -> String {
        let name: [&str; 4] = ["netns", "exec", &self.name, program];
        let all: Vec<&str> = name.into_iter().chain(words.iter().copied()).collect();
        run_to_end("ip", &all)
    }

    pub fn set(&self, sysctl: &str, value: &str) {
        self.inside(|| fs::write(format!("/proc/sys/{sysctl}"), value))
            .unwrap_or_else(|error| panic!("{sysctl}: {error}"));
    }

    /// Runs `work` on a thread inside the namespace: sockets made there stay there.
    pub fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let path = format!("/run/netns/{}", self.name);
        let namespace: OwnedFd = File::open(path).expect("the namespace").into();
        std::thread::scope(|scope| {
            let thread = scope.spawn(move || {
                let network = Some(LinkNameSpaceType::Network);
                move_into_link_name_space(namespace.as_fd(), network).expect("entering it");
                work()
            });
            match thread.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }

    /// The kernel's own counters (RFC 4022 and others), as `Tcp.OutRsts`, `Ip6.InDelivers`.
    pub fn counters(&self) -> HashMap<String, u64> {
        self.inside(|| {
            let mut all = HashMap::new();
            let snmp = fs::read_to_string("/proc/thread-self/net/snmp").expect("counters");
            let lines: Vec<&str> = snmp.lines().collect();
            for pair in lines.chunks(2) {
                let (kind, names) = pair[0].split_once(": ").expect("names");
                let (_, values) = pair[1].split_once(": ").expect("values");
                for (name, value) in names.split(' ').zip(values.split(' ')) {
                    all.insert(format!("{kind}.{name}"), value.parse().unwrap_or(0));
                }
            }
            let snmp6 = fs::read_to_string("/proc/thread-self/net/snmp6").expect("counters");
            for line in snmp6.lines() {
                let mut words = line.split_whitespace();
                if let (Some(name), Some(value)) = (words.next(), words.next()) {
                    all.insert(name.to_owned(), value.parse().unwrap_or(0));
                }
            }
            all
        })
    }

    pub fn counter(&self, name: &str) -> u64 {
        *self.counters().get(name).unwrap_or_else(|| panic!("no counter {name}"))
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.name]).output();
    }
}

/// An Ethernet link between two hosts, up at both ends, with 10.99.0.N and fd99::N, N = 1 and 2.
pub fn link(first: (&Host, &str), second: (&Host, &str)) {
    let (a, b) = (first.1, second.1);
    first.0.ip(&format!("link add {a} type veth peer name {b} netns {}", second.0.name));
    for (n, (host, name)) in [(1, first), (2, second)] {
        host.ip(&format!("addr add 10.99.0.{n}/24 dev {name}"));
        host.ip(&format!("addr add fd99::{n}/64 dev {name} nodad"));
        host.ip(&format!("link set {name} up"));
    }
}

pub fn run_to_end(program: &str, words: &[&str]) -> String {
    let output = Command::new(program).args(words).output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {}: {said}", words.join(" "));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Namespaces of processes that are no more.
fn remove_stale() {
    let Ok(entries) = fs::read_dir("/run/netns") else { return };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(rest) = name.strip_prefix(&format!("{PREFIX}-")) else { continue };
        let pid = rest.split('-').next().unwrap_or_default();
        if !std::path::Path::new(&format!("/proc/{pid}")).exists() {
            let _ = Command::new("ip").args(["netns", "del", &name]).output();
        }
    }
}

/// Waits for something to read; false after `patience`.
pub fn wait(descriptor: impl AsFd, patience: Duration) -> bool {
    let mut one = [PollFd::new(&descriptor, PollFlags::IN)];
    let time = Timespec::try_from(patience).expect("a short time");
    poll(&mut one, Some(&time)).expect("poll") > 0
}

/// The next frame that `wanted` wants; none after `patience`.
pub fn next_frame(
    nic: &mut dyn Nic,
    patience: Duration,
    wanted: impl Fn(&[u8]) -> bool,
) -> Option<(VnetHeader, Vec<u8>)> {
    let end = Instant::now() + patience;
    let mut buffer = vec![0; MOST_BYTES];
    loop {
        match nic.receive(&mut buffer) {
            Received::Frame { header, length } if wanted(&buffer[..length]) => {
                return Some((header, buffer[..length].to_vec()));
            }
            Received::Frame { .. } => {}
            Received::Nothing => {
                let left = end.checked_duration_since(Instant::now())?;
                wait(nic.descriptor(), left);
            }
            other => panic!("{other:?}"),
        }
    }
}
