//! sock_diag(7): TCP sockets of this network namespace with their TCP_INFO, for anyone.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use transom_link::netlink::{Message, Netlink, Request, address, number};

/// linux/sock_diag.h, inet_diag.h
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const INET_DIAG_INFO: u16 = 2;
const INET_DIAG_CONG: u16 = 4;
const INET_DIAG_SKMEMINFO: u16 = 7;
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
        let found = self.0.dump(request(family)).context("asking sock_diag")?;
        Ok(found.iter().filter_map(connection).collect())
    }
}

/// struct inet_diag_req_v2
fn request(family: i32) -> Request {
    let extensions = [INET_DIAG_INFO, INET_DIAG_CONG, INET_DIAG_SKMEMINFO];
    let extensions = extensions.iter().fold(0, |bits, kind| bits | 1 << (kind - 1));
    let mut body = vec![family as u8, libc::IPPROTO_TCP as u8, extensions, 0];
    body.extend((EVERY_STATE & !TIME_WAIT & !LISTEN).to_ne_bytes());
    body.extend([0; SOCKET_ID]);
    Request::new(SOCK_DIAG_BY_FAMILY, 0, &body)
}

/// struct inet_diag_msg: family and state, the socket's id from byte 4, the inode from byte 68.
fn connection(message: &Message) -> Option<Connection> {
    let body = message.body.get(..MESSAGE)?;
    let length = if i32::from(body[0]) == libc::AF_INET { 4 } else { 16 };
    let end = |port: usize, at: usize| {
        let port = u16::from_be_bytes(body[port..port + 2].try_into().ok()?);
        Some(SocketAddr::new(address(&body[at..at + length])?, port))
    };
    let mut found = Connection {
        local: end(4, 8)?,
        remote: end(6, 24)?,
        interface: message.u32(40),
        cookie: u64::from(message.u32(48)) << 32 | u64::from(message.u32(44)),
        inode: message.u32(68),
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
    fn both_ends_of_a_connection_are_found_with_what_waits_in_them() {
        of("127.0.0.1:0", libc::AF_INET);
        of("[::1]:0", libc::AF_INET6);
    }
}
