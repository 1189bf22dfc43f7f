//! Two hosts joined by two paths, for Multipath TCP of their kernel.

use std::net::{SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::{Namespace, link};

/// Paths 10.81.0.0/24 and 10.81.1.0/24, on devices `p0` and `p1`; the client is number 1, the
/// server number 2. The client's kernel adds a subflow from 10.81.1.1 to each connection.
pub struct TwoPaths {
    pub client: Namespace,
    pub server: Namespace,
}

impl TwoPaths {
    pub fn new() -> TwoPaths {
        let (client, server) = (Namespace::new("client"), Namespace::new("server"));
        for path in 0..2 {
            let device = format!("p{path}");
            let [near, far] = [1, 2].map(|number| format!("10.81.{path}.{number}/24"));
            link((&client, &device, &[&near]), (&server, &device, &[&far]));
        }
        for host in [&client, &server] {
            for device in ["all", "p0", "p1"] {
                host.sysctl(&format!("net/ipv4/conf/{device}/rp_filter"), "0");
            }
            host.ip("mptcp limits set subflow 4 add_addr_accepted 4");
        }
        // The second path leads to the server's first address, too.
        client.ip("route add 10.81.0.2 via 10.81.1.2 dev p1 table 81");
        client.ip("rule add from 10.81.1.1 table 81");
        client.ip("mptcp endpoint add 10.81.1.1 dev p1 subflow");
        TwoPaths { client, server }
    }

    /// How many subflows the client has to this port.
    pub fn subflows(&self, port: u16) -> usize {
        let to = format!("= :{port}");
        let words = ["-Htn", "state", "established", "dport", &to];
        self.client.output("ss", &words).lines().count()
    }
}

impl Default for TwoPaths {
    fn default() -> TwoPaths {
        TwoPaths::new()
    }
}

fn socket() -> OwnedFd {
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC;
    // SAFETY: a system call without memory, whose result is a descriptor of ours.
    unsafe {
        let fd = libc::socket(libc::AF_INET, kind, libc::IPPROTO_MPTCP);
        assert!(fd >= 0, "a socket of MPTCP: {}", std::io::Error::last_os_error());
        OwnedFd::from_raw_fd(fd)
    }
}

fn raw(at: SocketAddrV4) -> libc::sockaddr_in {
    libc::sockaddr_in {
        sin_family: libc::AF_INET as u16,
        sin_port: at.port().to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from(*at.ip()).to_be() },
        sin_zero: [0; 8],
    }
}

const LENGTH: u32 = size_of::<libc::sockaddr_in>() as u32;

/// As `TcpListener::bind`, with Multipath TCP.
pub fn multipath_listener(at: SocketAddrV4) -> TcpListener {
    let (socket, at) = (socket(), raw(at));
    // SAFETY: the address lives until the call returns.
    let bound = unsafe { libc::bind(socket.as_raw_fd(), (&raw const at).cast(), LENGTH) };
    assert_eq!(bound, 0, "{}", std::io::Error::last_os_error());
    // SAFETY: no memory.
    assert_eq!(unsafe { libc::listen(socket.as_raw_fd(), 16) }, 0);
    socket.into()
}

/// As `TcpStream::connect`, with Multipath TCP.
pub fn multipath_stream(to: SocketAddrV4) -> TcpStream {
    let (socket, to) = (socket(), raw(to));
    // SAFETY: the address lives until the call returns.
    let done = unsafe { libc::connect(socket.as_raw_fd(), (&raw const to).cast(), LENGTH) };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
    socket.into()
}
