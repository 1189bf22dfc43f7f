//! A socket of the program: what we know of it.

use std::collections::VecDeque;
use std::os::fd::{OwnedFd, RawFd};
use std::time::Instant;

use crate::address::Address;
use crate::datagram::Datagram;
use crate::errno::Errno;
use crate::notify::Call;
use crate::stack::SocketId;
use crate::stream::Stream;

/// A call that waits until its socket is ready.
#[derive(Clone, Copy)]
pub struct Waiting {
    pub call: Call,
    /// `SO_RCVTIMEO` or `SO_SNDTIMEO`.
    pub until: Option<Instant>,
}

/// What a socket is at the moment.
pub enum Role {
    /// A stream socket that is neither connected nor listens.
    Fresh,
    /// SYN sent.
    Connecting,
    Connected(Stream),
    Listening(Queue),
    Datagram(Datagram),
    /// Refused, reset, timed out: the program's end has seen it; ours is closed.
    Dead,
}

/// Connections that wait for `accept`.
#[derive(Default)]
pub struct Queue {
    /// Bytes in the program's end that make the listener readable.
    pub tokens: usize,
    /// Taken from the stack, but the program was interrupted before it got them.
    pub taken: VecDeque<(SocketId, Address)>,
}

pub struct Socket {
    pub id: SocketId,
    pub domain: i32,
    pub kind: i32,
    pub protocol: i32,
    /// Our end of the pair.
    pub ours: Option<OwnedFd>,
    /// Of the program's end, to find it among its descriptors.
    pub inode: u64,
    /// Bytes that keep the program's direction full.
    pub filled: usize,
    /// The program's end still has its small buffer.
    pub narrow: bool,
    /// Thread and descriptor that used it last.
    pub holder: (i32, RawFd),
    /// For `SO_ERROR`.
    pub error: Option<Errno>,
    pub waiting: Vec<Waiting>,
    /// In the `Watch`.
    pub watched: bool,
    /// Room in the program's end wakes us.
    pub told_of_room: bool,
    /// The pair says that the program's end is closed, or shut down both ways.
    pub hung_up: bool,
    /// `SO_LINGER` with 0 s: closing throws away what is unsent.
    pub abort: bool,
    /// The last `connect` failed after it had waited. The stack knows it as one that did not wait and
    /// would tell of the failure once more.
    pub refused: bool,
    /// The last `connect` succeeded after it had waited; the stack would say so once more.
    pub told: bool,
    pub role: Role,
}

impl Socket {
    pub fn is_stream(&self) -> bool {
        self.kind == libc::SOCK_STREAM
    }
}
