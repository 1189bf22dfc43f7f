//! A socket of the program: what we know of it.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::time::Instant;

use crate::address::Address;
use crate::buffers::Buffers;
use crate::closings::Watched;
use crate::datagram::Datagram;
use crate::errno::Errno;
use crate::notify::Call;
use crate::pair;
use crate::stack::SocketId;
use crate::stream::Stream;

/// A call of the program, which may have waited for its socket.
#[derive(Clone, Copy)]
pub struct Request {
    pub call: Call,
    /// `SO_RCVTIMEO` or `SO_SNDTIMEO`.
    pub until: Option<Instant>,
    /// Bytes, or messages, that the call has moved already; of a `connect`, attempts before it.
    pub done: usize,
}

/// What a socket is at the moment, and with it what the program's descriptor is.
pub enum State {
    /// A stream socket that is neither connected nor listens. Its descriptor is a Unix socket
    /// without a peer, so reading and writing fail as they do on an unconnected TCP socket.
    Fresh,
    /// SYN sent to this address. The descriptor's sending side is full.
    Connecting(Address),
    Connected(Stream),
    Listening(Queue),
    Datagram(Box<Datagram>),
    /// Refused, reset, timed out: our end of the pair is closed, and the program's end shows it.
    Ended(Failure),
}

/// Why a stream ended, until the program has learnt it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The stack has the error. The program's end shows `ECONNRESET` for it.
    InStack,
    /// We have the error. The program's end shows `ECONNRESET` for it.
    Shown(Errno),
    /// We have the error. The peer's FIN came first, so the program's end shows only that.
    Hidden(Errno),
    /// The program has asked for it.
    Reported,
}

/// Connections that wait for `accept`.
#[derive(Default)]
pub struct Queue {
    /// Bytes in the program's end that make the listener readable.
    pub tokens: usize,
    /// Taken from the stack, but the program was interrupted before it got them.
    pub taken: VecDeque<(SocketId, Address)>,
}

/// What a pair tells us about its program's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// Some process has it: a hang-up will say when the last one closes it.
    Held,
    /// It hung up, which says that it is closed.
    Closed,
    /// The program has shut it down, or our end is closed, or is none that hangs up: `Watch` knows.
    Watched,
    /// Our end is closed, and nobody was found who has the program's: it may be in a message that
    /// nobody has received yet.
    Lost,
}

pub struct Socket {
    pub id: SocketId,
    pub domain: i32,
    pub kind: i32,
    /// As the program asked for it.
    pub protocol: i32,
    /// It came from `accept`.
    pub accepted: bool,
    /// Our end of the pair; a fresh stream has none yet.
    pub ours: Option<OwnedFd>,
    /// Of the program's end, to find it among its descriptors.
    pub inode: u64,
    /// Bytes that keep the program's direction full.
    pub filled: usize,
    /// The program's end has the smallest send buffer, which its next call must widen.
    pub narrow: bool,
    /// What the pair may hold.
    pub buffers: Buffers,
    /// Thread and descriptor that used it last.
    pub holder: (i32, RawFd),
    pub waiting: Vec<Request>,
    pub presence: Presence,
    /// Room in the program's end wakes us.
    pub watches_room: bool,
    /// `TCP_FASTOPEN_CONNECT`.
    pub fast_open: bool,
    /// `SO_LINGER` with 0 s: closing throws away what is unsent.
    pub abort: bool,
    /// Tells when the program closes a datagram socket.
    pub closing: Option<Watched>,
    /// Keys that it had before its descriptor was replaced: copies of that descriptor have them.
    pub former: Vec<u64>,
    pub state: State,
}

impl Socket {
    pub fn is_stream(&self) -> bool {
        self.kind == libc::SOCK_STREAM
    }

    /// What it binds to has a port: raw sockets and those of ICMP messages have none.
    pub fn has_ports(&self) -> bool {
        let is_icmp = matches!(self.protocol, libc::IPPROTO_ICMP | libc::IPPROTO_ICMPV6);
        self.kind != libc::SOCK_RAW && !is_icmp
    }

    /// The program has closed its end, which the loop may not have heard yet.
    pub fn is_closed(&self) -> bool {
        let hung_up = || self.ours.as_ref().is_some_and(|ours| pair::hung_up(ours.as_fd()));
        match self.presence {
            Presence::Held => hung_up(),
            Presence::Closed => true,
            Presence::Watched | Presence::Lost => false,
        }
    }
}
