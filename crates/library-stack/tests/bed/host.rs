//! A host with servers of its own kernel, gone when it is dropped.

use std::fs;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::ops::Deref;
use std::os::fd::{FromRawFd, OwnedFd};

use transom_testbed::Namespace;

pub struct Host(Namespace);

impl Deref for Host {
    type Target = Namespace;

    fn deref(&self) -> &Namespace {
        &self.0
    }
}

impl Host {
    pub fn new(side: &str) -> Self {
        Self(Namespace::new(side))
    }

    /// A connection that does not come in all the time that any test takes fails the test.
    pub fn listen(&self, at: &str) -> TcpListener {
        let listener = self.inside(|| TcpListener::bind(at)).expect("a listener");
        let same = OwnedFd::from(listener.try_clone().expect("a descriptor"));
        TcpStream::from(same).set_read_timeout(Some(super::TABLE)).expect("a time to wait");
        listener
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
