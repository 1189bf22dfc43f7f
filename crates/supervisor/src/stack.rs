//! What a network stack must offer so that a program's sockets can live in it.
//!
//! Everything happens on one thread, in one loop:
//!
//! ```text
//! wait for: a call of the program, the program's end of a pair, poll_fds(), deadline()
//!   └► operations of this trait (any number)
//!   └► turn(): the stack runs until it has nothing to do; says which sockets changed
//!   └► operations on these sockets … turn() … until turn() names none
//! ```
//!
//! No operation blocks: what cannot be done now is `EAGAIN` (`EINPROGRESS` for `connect`), and a
//! later `turn` names the socket when it may succeed. All sockets behave as if `O_NONBLOCK` were set.
//! Addresses and option values are the bytes of the kernel's `struct sockaddr_*` and options, flags
//! and constants those of the host (`libc`), errors its error numbers.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::RawFd;
use std::time::Duration;

use crate::address::Address;
use crate::errno::Result;

/// A socket of the stack; the number is the stack's own (a descriptor, an index). Not used again
/// for another socket before `close`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SocketId(pub u64);

/// A descriptor of the host that the loop must wait for on the stack's behalf (a NIC, a timer).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PollFd {
    pub fd: RawFd,
    /// `EPOLLIN`, `EPOLLOUT`, as for `epoll_ctl`; level-triggered.
    pub events: u32,
}

/// What `recvmsg` tells beside the bytes.
#[derive(Clone, Debug, Default)]
pub struct Received {
    /// Of the sender (datagrams); empty for a stream.
    pub source: Address,
    /// Ancillary data: whole `struct cmsghdr`s. Its capacity at the call is the room for them.
    pub control: Vec<u8>,
    /// `MSG_TRUNC`, `MSG_CTRUNC`, `MSG_ERRQUEUE`, …
    pub flags: i32,
}

/// One path of a connection, for `--status`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PathStatus {
    pub local: Address,
    pub remote: Address,
    /// RFC 9293 name: `ESTABLISHED`, `SYN-SENT`, …
    pub state: &'static str,
    /// Segments.
    pub cwnd: u32,
    /// Smoothed, µs.
    pub rtt_us: u32,
    /// Bytes of the program that the peer has acknowledged.
    pub sent: u64,
    /// Bytes received in order.
    pub received: u64,
    /// Segments retransmitted.
    pub retransmitted: u32,
    /// MPTCP: used only when no other path is left.
    pub backup: bool,
}

/// What has not reached the peers yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Undelivered {
    pub connections: usize,
    /// Sent or not, without the peer's acknowledgment.
    pub bytes: u64,
}

/// A network stack with the system calls of sockets.
pub trait Stack {
    /// `socket(2)`. `kind` has no `SOCK_NONBLOCK` or `SOCK_CLOEXEC`. A family or protocol that the
    /// stack has not is `EAFNOSUPPORT` or `EPROTONOSUPPORT`.
    fn socket(&mut self, domain: i32, kind: i32, protocol: i32) -> Result<SocketId>;

    /// `bind(2)`.
    fn bind(&mut self, socket: SocketId, address: &[u8]) -> Result<()>;

    /// `connect(2)`. `EINPROGRESS`: `turn` names the socket when it is decided (`poll` has
    /// `EPOLLOUT` or `EPOLLERR`); then `SO_ERROR` tells how.
    fn connect(&mut self, socket: SocketId, address: &[u8]) -> Result<()>;

    /// `listen(2)`.
    fn listen(&mut self, socket: SocketId, backlog: i32) -> Result<()>;

    /// `accept(2)`: the new connection and its peer.
    fn accept(&mut self, socket: SocketId) -> Result<(SocketId, Address)>;

    /// `shutdown(2)`; `how` is `SHUT_RD`, `SHUT_WR` or `SHUT_RDWR`.
    fn shutdown(&mut self, socket: SocketId, how: i32) -> Result<()>;

    /// `close(2)`: the number is free again; what was sent is still delivered (`lingering`).
    fn close(&mut self, socket: SocketId);

    /// `sendmsg(2)`. `destination` is `None` on connected sockets; `control` holds whole
    /// `struct cmsghdr`s or nothing. May take less than offered from a stream.
    fn send(
        &mut self,
        socket: SocketId,
        data: &[IoSlice],
        flags: i32,
        destination: Option<&[u8]>,
        control: &[u8],
    ) -> Result<usize>;

    /// `recvmsg(2)`. `message` is `None` where nobody asks for source and ancillary data.
    /// 0 bytes of a stream: the peer has sent its FIN.
    fn recv(
        &mut self,
        socket: SocketId,
        data: &mut [IoSliceMut],
        flags: i32,
        message: Option<&mut Received>,
    ) -> Result<usize>;

    /// `getsockopt(2)`. `value` comes with the program's own bytes, as some options read them, and
    /// has the length that it offers; returns the length of the answer.
    fn getsockopt(
        &mut self,
        socket: SocketId,
        level: i32,
        name: i32,
        value: &mut [u8],
    ) -> Result<usize>;

    /// `setsockopt(2)`.
    fn setsockopt(&mut self, socket: SocketId, level: i32, name: i32, value: &[u8]) -> Result<()>;

    /// A sysctl of the stack, `net.ipv4.tcp_allowed_congestion_control`; empty: it has none of this name.
    fn sysctl(&mut self, name: &str) -> String;

    /// `getsockname(2)`.
    fn getsockname(&mut self, socket: SocketId) -> Result<Address>;

    /// `getpeername(2)`.
    fn getpeername(&mut self, socket: SocketId) -> Result<Address>;

    /// `ioctl(2)` with what `request` reads and writes: a number, a time, a `struct ifreq`.
    fn ioctl(&mut self, socket: SocketId, request: u32, argument: &mut [u8]) -> Result<()>;

    /// `SIOCGIFCONF`: as many whole `struct ifreq` as fit. How many bytes of `list` are filled, or
    /// without a list how many would be.
    fn interfaces(&mut self, socket: SocketId, list: Option<&mut [u8]>) -> Result<usize>;

    /// What `poll(2)` says now: `EPOLLIN`, `EPOLLPRI`, `EPOLLOUT`, `EPOLLERR`, `EPOLLHUP`,
    /// `EPOLLRDHUP`.
    fn poll(&mut self, socket: SocketId) -> u32;

    /// Lets the stack run until it has nothing to do (packets, timers, its threads) and adds the
    /// sockets whose readiness may have grown since the last turn. Naming one too often costs time;
    /// naming one too seldom hangs a program. A socket is named once a change, not as long as it is
    /// ready.
    fn turn(&mut self, ready: &mut Vec<SocketId>);

    /// How long the loop may sleep until the stack's next timer; `None`: until something happens.
    fn deadline(&mut self) -> Option<Duration>;

    /// What the loop must wait for on the stack's behalf; asked for before each sleep.
    fn poll_fds(&self) -> &[PollFd];

    /// Connections that still have something to deliver, closed ones above all. When the program has
    /// ended, the loop goes on as long as there are any and their bytes become fewer.
    fn lingering(&mut self) -> Undelivered {
        Undelivered::default()
    }

    /// The paths of a connection: one, or each subflow of an MPTCP connection. Empty: not a
    /// connection. `accepted`: it came from `accept`, so the peer sent the SYN.
    fn paths(&mut self, socket: SocketId, accepted: bool) -> Vec<PathStatus>;
}
