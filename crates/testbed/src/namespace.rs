//! Network namespaces of our own.

use std::collections::HashMap;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;

use transom_machine::namespace::{self, NAMES};

/// What all their names begin with; the number of the process that made them follows.
const PREFIX: &str = "transom-";

/// A named network namespace with its loopback device up, no duplicate address detection, and
/// Reno, which every kernel allows, as the algorithm, whatever the machine's default is. It goes
/// when it is dropped; one whose process was killed goes when the next test starts.
pub struct Namespace {
    name: String,
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

/// As arguments of a program.
pub fn host_and_port(at: SocketAddr) -> [String; 2] {
    [at.ip().to_string(), at.port().to_string()]
}

impl Namespace {
    /// `role`: the last part of its name.
    pub fn new(role: &str) -> Namespace {
        static STALE: Once = Once::new();
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        STALE.call_once(remove_stale);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}{}-{number}-{role}", std::process::id());
        run(&["ip", "netns", "add", &name]);
        let namespace = Namespace { name };
        namespace.ip("link set lo up");
        namespace.sysctl("net/ipv4/tcp_congestion_control", "reno");
        // Metrics of an earlier connection would change a later one's start.
        namespace.sysctl("net/ipv4/tcp_no_metrics_save", "1");
        for kind in ["all", "default"] {
            namespace.sysctl(&format!("net/ipv6/conf/{kind}/accept_dad"), "0");
        }
        namespace
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn path(&self) -> PathBuf {
        Path::new(NAMES).join(&self.name)
    }

    /// Inode number, as events name it.
    pub fn inode(&self) -> u32 {
        namespace::inode(&self.path()).expect("it is there until dropped")
    }

    /// `ip` with these words, inside.
    pub fn ip(&self, words: &str) -> String {
        self.tool("ip", words)
    }

    /// `tc` with these words, inside.
    pub fn tc(&self, words: &str) -> String {
        self.tool("tc", words)
    }

    fn tool(&self, program: &str, words: &str) -> String {
        let mut all = vec![program, "-n", &self.name];
        all.extend(words.split_whitespace());
        run(&all)
    }

    /// What a program in it prints; it must succeed.
    pub fn output(&self, program: &str, words: &[&str]) -> String {
        run(&[&["ip", "netns", "exec", &self.name, program], words].concat())
    }

    pub fn sysctl(&self, key: &str, value: &str) {
        let path = format!("/proc/sys/{key}");
        self.inside(|| fs::write(&path, value))
            .unwrap_or_else(|error| panic!("{path} = {value}: {error}"));
    }

    /// Does something on a thread that lives in the namespace: sockets made there stay there.
    pub fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        namespace::inside(&self.path(), work).expect("entering our own namespace")
    }

    /// Starts a thread that lives in the namespace.
    pub fn spawn<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        let path = self.path();
        std::thread::spawn(move || {
            namespace::inside(&path, work).expect("entering our own namespace")
        })
    }

    /// A program that will run inside.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        self.take(&mut command);
        command
    }

    /// The command will run inside.
    pub fn take(&self, command: &mut Command) {
        let file = File::open(self.path()).expect("it is there until dropped");
        let enter = move || {
            // SAFETY: a system call with a descriptor that lives as long as the command.
            match unsafe { libc::setns(file.as_raw_fd(), libc::CLONE_NEWNET) } {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        };
        // SAFETY: between fork and exec it makes one system call and touches no memory.
        unsafe { command.pre_exec(enter) };
    }

    /// The kernel's own counters (RFC 4022 and others), as `Tcp.OutRsts`, `TcpExt.ListenDrops`,
    /// `Ip6InDelivers`.
    pub fn counters(&self) -> HashMap<String, u64> {
        self.inside(|| {
            let mut all = HashMap::new();
            let read = |of: &str| {
                fs::read_to_string(format!("/proc/thread-self/net/{of}")).expect("counters")
            };
            let both = read("snmp") + &read("netstat");
            let lines: Vec<&str> = both.lines().collect();
            for pair in lines.chunks(2) {
                let (kind, names) = pair[0].split_once(": ").expect("names");
                let (_, values) = pair[1].split_once(": ").expect("values");
                for (name, value) in names.split(' ').zip(values.split(' ')) {
                    all.insert(format!("{kind}.{name}"), value.parse().unwrap_or(0));
                }
            }
            for line in read("snmp6").lines() {
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

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.name]).output();
    }
}

/// An Ethernet link between two namespaces, up at both ends: an interface of the first name with
/// these addresses, as `10.99.0.1/24`, and one of the second name with the others.
pub fn link(first: (&Namespace, &str, &[&str]), second: (&Namespace, &str, &[&str])) {
    let peer = second.0.name();
    first.0.ip(&format!("link add {} type veth peer name {} netns {peer}", first.1, second.1));
    for (namespace, device, addresses) in [first, second] {
        for address in addresses {
            // Nobody else has it; until that is found out, the address is not answered for (RFC 4862).
            let at_once = if address.contains(':') { " nodad" } else { "" };
            namespace.ip(&format!("addr add {address} dev {device}{at_once}"));
        }
        namespace.ip(&format!("link set {device} up"));
    }
}

/// Namespaces of processes that are no more.
fn remove_stale() {
    for entry in fs::read_dir(NAMES).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let pid = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next());
        let Some(pid) = pid.and_then(|pid| pid.parse::<u32>().ok()) else { continue };
        if !Path::new(&format!("/proc/{pid}")).exists() {
            let _ = Command::new("ip").args(["netns", "del", &name]).output();
        }
    }
}
