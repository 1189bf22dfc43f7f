//! A network namespace with servers of its own kernel, gone when it is dropped.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

const PREFIX: &str = "tx-run";

pub struct Host {
    pub name: String,
}

impl Host {
    pub fn new(side: &str) -> Self {
        remove_stale();
        static MADE: AtomicU32 = AtomicU32::new(0);
        let run = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}-{}-{run}{side}", std::process::id());
        run_to_end("ip", &["netns", "add", &name]);
        let host = Self { name };
        host.ip("link set lo up");
        host
    }

    /// `ip` with these words.
    pub fn ip(&self, words: &str) {
        let words: Vec<&str> = ["-n", &self.name].into_iter().chain(words.split(' ')).collect();
        run_to_end("ip", &words);
    }

    /// What a program on this host prints.
    pub fn output(&self, program: &str, words: &[&str]) -> String {
        let all = [&["netns", "exec", &self.name, program], words].concat();
        run_to_end("ip", &all)
    }

    fn namespace(&self) -> OwnedFd {
        File::open(format!("/run/netns/{}", self.name)).expect("the namespace").into()
    }

    /// The command will run on this host.
    pub fn enter(&self, command: &mut Command) {
        let namespace = self.namespace();
        let enter = move || {
            // SAFETY: a system call with a descriptor that lives as long as the command.
            match unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) } {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            }
        };
        // SAFETY: between fork and exec it makes one system call and touches no memory.
        unsafe { command.pre_exec(enter) };
    }

    /// Runs `work` on a thread inside the namespace: sockets made there stay there.
    pub fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let namespace = self.namespace();
        std::thread::scope(|scope| {
            let thread = scope.spawn(move || {
                let network = Some(LinkNameSpaceType::Network);
                move_into_link_name_space(namespace.as_fd(), network).expect("entering it");
                work()
            });
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    pub fn listen(&self, at: &str) -> TcpListener {
        self.inside(|| TcpListener::bind(at)).expect("a listener")
    }

    /// Of MPTCP (RFC 8684), at a port of any IPv4 address.
    pub fn listen_multipath(&self) -> TcpListener {
        self.inside(|| {
            // SAFETY: a new socket, which the listener owns; it is bound by listening.
            unsafe {
                let fd = libc::socket(libc::AF_INET, libc::SOCK_STREAM, libc::IPPROTO_MPTCP);
                assert!(fd >= 0, "this kernel has no MPTCP: {}", io::Error::last_os_error());
                let listener = TcpListener::from_raw_fd(fd);
                assert_eq!(libc::listen(fd, 8), 0);
                listener
            }
        })
    }

    /// The kernel's own counters (RFC 4022 and others), as `Tcp.OutRsts`.
    pub fn counters(&self) -> HashMap<String, u64> {
        let text = self.inside(|| fs::read_to_string("/proc/thread-self/net/snmp"));
        let text = text.expect("counters");
        let lines: Vec<&str> = text.lines().collect();
        let mut all = HashMap::new();
        for pair in lines.chunks(2) {
            let (kind, names) = pair[0].split_once(": ").expect("names");
            let (_, values) = pair[1].split_once(": ").expect("values");
            for (name, value) in names.split(' ').zip(values.split(' ')) {
                all.insert(format!("{kind}.{name}"), value.parse().unwrap_or(0));
            }
        }
        all
    }

    /// Its TCP has seen no segment and sent none, no reset either; UDP has delivered nothing.
    pub fn noticed_nothing(&self) {
        let counters = self.counters();
        for name in ["Tcp.InSegs", "Tcp.OutSegs", "Tcp.OutRsts", "Tcp.InErrs", "Udp.NoPorts"] {
            assert_eq!(counters[name], 0, "{name} of the host");
        }
    }

    /// Bytes that the interface has sent.
    pub fn sent(&self, interface: &str) -> u64 {
        self.device_count(interface, 8)
    }

    /// Bytes that the interface has received.
    pub fn received(&self, interface: &str) -> u64 {
        self.device_count(interface, 0)
    }

    fn device_count(&self, interface: &str, column: usize) -> u64 {
        let text = self.inside(|| fs::read_to_string("/proc/thread-self/net/dev")).expect("dev");
        let line = text.lines().find_map(|line| line.trim().strip_prefix(&format!("{interface}:")));
        let field = line.and_then(|line| line.split_whitespace().nth(column));
        field.unwrap_or_else(|| panic!("no {interface}")).parse().expect("a number")
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.name]).output();
    }
}

/// As arguments of a program.
pub fn host_and_port(at: SocketAddr) -> [String; 2] {
    [at.ip().to_string(), at.port().to_string()]
}

fn run_to_end(program: &str, words: &[&str]) -> String {
    let output = Command::new(program).args(words).output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {}: {said}", words.join(" "));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Namespaces of tests that were killed.
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
