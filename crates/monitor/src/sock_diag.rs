//! sock_diag(7): TCP sockets of this network namespace with their TCP_INFO, for anyone, and a
//! notification of each that ends.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use anyhow::{Context, Result};
use rustix::io::Errno;
use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_recv_buffer_size_force};
use rustix::net::{RecvFlags, SocketFlags, recv};
use transom_link::netlink::{
    Message, Netlink, Request, address, messages, number, sock_diag_socket,
};

/// linux/sock_diag.h, inet_diag.h
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const INET_DIAG_INFO: u16 = 2;
const INET_DIAG_CONG: u16 = 4;
const INET_DIAG_SKMEMINFO: u16 = 7;
const INET_DIAG_CGROUP_ID: u16 = 21;
/// enum sknetlink_groups: destroyed TCP sockets of both families, one bit each.
const DESTROYED: u32 = 1 << 0 | 1 << 2;
/// How much of notifications may wait.
const WAITING: usize = 8 << 20;
/// Bytes of struct inet_diag_sockid and inet_diag_msg.
const SOCKET_ID: usize = 48;
const MESSAGE: usize = 72;
/// The kernel's numbers of the TCP states, one bit each.
const EVERY_STATE: u32 = 0xffe;
const TIME_WAIT: u32 = 1 << 6;
const LISTEN: u32 = 1 << 10;
/// Numbers in the attribute SKMEMINFO (SK_MEMINFO_RMEM_ALLOC, _WMEM_QUEUED).
const RMEM_ALLOC: usize = 0;
const WMEM_QUEUED: usize = 5;

/// Asks the kernel.
pub struct SockDiag(Netlink);

/// A connection, as the kernel describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    pub local: SocketAddr,
    pub remote: SocketAddr,
    pub interface: u32,
    pub cookie: u64,
    pub inode: u32,
    /// tcp_states.h
    pub state: u8,
    /// Bytes that were written and are not acknowledged.
    pub unacknowledged: u32,
    /// Number of the cgroup; since Linux 5.9.
    pub cgroup: u64,
    /// struct tcp_info, as much of it as this kernel has.
    pub info: Vec<u8>,
    /// Empty if the kernel does not say.
    pub algorithm: String,
    /// Bytes of memory: `sk_wmem_queued`, `sk_rmem_alloc`.
    pub send_queue: u32,
    pub recv_queue: u32,
}

impl SockDiag {
    /// # Errors
    /// No descriptors left.
    pub fn open() -> Result<SockDiag> {
        Ok(SockDiag(Netlink::open_sock_diag()?))
    }

    /// All connections of a family (AF_INET, AF_INET6); not those in TIME-WAIT.
    ///
    /// # Errors
    /// The kernel has no inet_diag, or refuses.
    pub fn connections(&mut self, family: i32) -> Result<Vec<Connection>> {
        let found = self.sockets(family, EVERY_STATE & !TIME_WAIT & !LISTEN)?;
        Ok(found.iter().filter_map(connection).collect())
    }

    /// The ports on which a program listens.
    ///
    /// # Errors
    /// As [`SockDiag::connections`].
    pub fn listening(&mut self, family: i32) -> Result<HashSet<u16>> {
        let found = self.sockets(family, LISTEN)?;
        Ok(found.iter().filter_map(connection).map(|socket| socket.local.port()).collect())
    }

    fn sockets(&mut self, family: i32, states: u32) -> Result<Vec<Message>> {
        self.0.dump(request(family, states)).context("asking sock_diag")
    }
}

/// Tells of each TCP socket that the kernel takes down in this network namespace.
pub struct Ends {
    socket: OwnedFd,
    buffer: Vec<u8>,
}

impl Ends {
    /// # Errors
    /// The kernel refuses.
    pub fn open() -> Result<Ends> {
        let socket = sock_diag_socket(SocketFlags::CLOEXEC, DESTROYED)?;
        // More than the system's limit needs CAP_NET_ADMIN.
        if set_socket_recv_buffer_size_force(&socket, WAITING).is_err() {
            let _ = set_socket_recv_buffer_size(&socket, WAITING);
        }
        Ok(Ends { socket, buffer: vec![0; 1 << 16] })
    }

    /// The sockets that ended since the last call.
    ///
    /// # Errors
    /// Of the socket; that some were lost is no error, see [`Ends::lost`].
    pub fn take(&mut self, mut sink: impl FnMut(Connection)) -> Result<()> {
        loop {
            match recv(&self.socket, &mut self.buffer[..], RecvFlags::DONTWAIT) {
                Ok((length, _)) => {
                    let all = messages(&self.buffer[..length]).into_iter();
                    all.filter_map(|(_, message)| connection(&message)).for_each(&mut sink);
                }
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::NOBUFS | Errno::INTR) => {}
                Err(error) => return Err(error).context("reading which connections ended"),
            }
        }
    }

    /// Notifications that found no room.
    pub fn lost(&self) -> u64 {
        const SK_MEMINFO_DROPS: usize = 8;
        let mut memory = [0u32; SK_MEMINFO_DROPS + 1];
        let mut length = size_of_val(&memory) as libc::socklen_t;
        // SAFETY: the kernel writes at most `length` bytes into `memory`.
        let result = unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_MEMINFO,
                memory.as_mut_ptr().cast(),
                &raw mut length,
            )
        };
        if result == 0 { memory[SK_MEMINFO_DROPS].into() } else { 0 }
    }
}

impl AsFd for Ends {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// An address as events and rows have it, and its family.
pub fn bytes_of(addr: IpAddr) -> ([u8; 16], u16) {
    let mut bytes = [0; 16];
    match addr {
        IpAddr::V4(v4) => {
            bytes[..4].copy_from_slice(&v4.octets());
            (bytes, libc::AF_INET as u16)
        }
        IpAddr::V6(v6) => (v6.octets(), libc::AF_INET6 as u16),
    }
}

/// struct inet_diag_req_v2
fn request(family: i32, states: u32) -> Request {
    let extensions = [INET_DIAG_INFO, INET_DIAG_CONG, INET_DIAG_SKMEMINFO];
    let extensions = extensions.iter().fold(0, |bits, kind| bits | 1 << (kind - 1));
    let mut body = vec![family as u8, libc::IPPROTO_TCP as u8, extensions, 0];
    body.extend(states.to_ne_bytes());
    body.extend([0; SOCKET_ID]);
    Request::new(SOCK_DIAG_BY_FAMILY, 0, &body)
}

/// The addresses of an IPv6 socket that speaks IPv4 are IPv4, as the probes report them
/// (`bpf/state.h`); the kernel may have forgotten one of them after the end.
fn canonical(address: IpAddr, other: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(_) if other.to_canonical().is_ipv4() => Ipv4Addr::UNSPECIFIED.into(),
        canonical => canonical,
    }
}

/// struct inet_diag_msg: family and state, the socket's id from byte 4, the write queue and the
/// inode at bytes 60 and 68.
fn connection(message: &Message) -> Option<Connection> {
    let body = message.body.get(..MESSAGE)?;
    let length = if i32::from(body[0]) == libc::AF_INET { 4 } else { 16 };
    let port = |at: usize| u16::from_be_bytes([body[at], body[at + 1]]);
    let (local, remote) = (address(&body[8..8 + length])?, address(&body[24..24 + length])?);
    let mut found = Connection {
        local: SocketAddr::new(canonical(local, remote), port(4)),
        remote: SocketAddr::new(canonical(remote, local), port(6)),
        interface: message.u32(40),
        cookie: u64::from(message.u32(48)) << 32 | u64::from(message.u32(44)),
        inode: message.u32(68),
        state: body[1],
        unacknowledged: message.u32(60),
        cgroup: 0,
        info: Vec::new(),
        algorithm: String::new(),
        send_queue: 0,
        recv_queue: 0,
    };
    for (kind, value) in message.attributes(MESSAGE) {
        match kind {
            INET_DIAG_INFO => found.info = value.to_vec(),
            INET_DIAG_CONG => {
                let name = value.strip_suffix(&[0]).unwrap_or(value);
                found.algorithm = String::from_utf8_lossy(name).into_owned();
            }
            INET_DIAG_CGROUP_ID => {
                found.cgroup = value.try_into().map_or(0, u64::from_ne_bytes);
            }
            INET_DIAG_SKMEMINFO => {
                let memory = |at: usize| number(value.get(at * 4..).unwrap_or_default());
                found.send_queue = memory(WMEM_QUEUED);
                found.recv_queue = memory(RMEM_ALLOC);
            }
            _ => {}
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn an_answer_that_is_cut_off_is_no_connection() {
        for length in 0..MESSAGE {
            assert_eq!(connection(&Message { kind: 20, body: vec![2; length] }), None);
        }
    }

    #[test]
    fn both_ends_of_ipv4_over_an_ipv6_socket_are_ipv4_also_when_one_is_forgotten() {
        let of = |address: &str, other: &str| {
            canonical(address.parse().unwrap(), other.parse().unwrap()).to_string()
        };
        assert_eq!(of("::ffff:192.0.2.1", "::ffff:192.0.2.2"), "192.0.2.1");
        assert_eq!(of("::", "::ffff:192.0.2.2"), "0.0.0.0");
        assert_eq!(of("::ffff:192.0.2.1", "::"), "192.0.2.1");
        assert_eq!(of("2001:db8::1", "2001:db8::2"), "2001:db8::1");
        assert_eq!(of("::", "::"), "::");
    }

    fn of(address: &str, family: i32) {
        let listener = TcpListener::bind(address).unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let server = listener.accept().unwrap().0;
        client.set_nonblocking(true).unwrap();
        // Fills both sockets: the server does not read.
        while client.write(&[7; 65536]).is_ok() {}
        let ends = |stream: &TcpStream| (stream.local_addr().unwrap(), stream.peer_addr().unwrap());
        let all = SockDiag::open().unwrap().connections(family).unwrap();
        let find = |stream: &TcpStream| {
            let of = |it: &&Connection| (it.local, it.remote) == ends(stream);
            all.iter().find(of).expect("the connection").clone()
        };
        let (sender, receiver) = (find(&client), find(&server));
        assert!(sender.send_queue > 0 && sender.recv_queue == 0, "{sender:?}");
        assert!(receiver.recv_queue > 0 && receiver.send_queue == 0, "{receiver:?}");
        assert!(sender.cookie != receiver.cookie && sender.inode != receiver.inode);
        assert!(!sender.algorithm.is_empty() && sender.info.len() > 100, "{sender:?}");
        let listens = |it: &Connection| it.local == listener.local_addr().unwrap();
        assert_eq!(all.iter().filter(|it| listens(it)).count(), 1, "only the server's end");
    }

    #[test]
    fn a_connection_that_ended_is_told_with_its_counters() {
        let mut ends = Ends::open().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        assert!(SockDiag::open().unwrap().listening(libc::AF_INET).unwrap().contains(&at.port()));
        let mut client = TcpStream::connect(at).unwrap();
        client.write_all(&[7; 1000]).unwrap();
        let own = client.local_addr().unwrap();
        let mut told = Vec::new();
        let mut look = || {
            ends.take(|end| told.extend((end.local == own).then_some(end))).unwrap();
            told.len()
        };
        assert_eq!(look(), 0, "it goes on");
        drop((client, listener.accept().unwrap()));
        let end = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while look() == 0 {
            assert!(std::time::Instant::now() < end);
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        assert_eq!((told[0].remote, told[0].state), (at, 7));
        // SYN and FIN count as a byte each.
        let acked = u64::from_ne_bytes(told[0].info[120..128].try_into().unwrap());
        assert!((1001..=1002).contains(&acked), "{acked}");
        assert_eq!(ends.lost(), 0);
    }

    #[test]
    fn both_ends_of_a_connection_are_found_with_what_waits_in_them() {
        of("127.0.0.1:0", libc::AF_INET);
        of("[::1]:0", libc::AF_INET6);
    }
}
