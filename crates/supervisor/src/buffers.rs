//! How much the two directions of a pair hold, beside what the stack's socket holds.
//!
//! As long as the stack chooses its buffers, the pair's are as large as is good for speed. Where the
//! program has limited one, it wants little to wait below it: then the pair holds as much again, and
//! no more.

use crate::stack::{SocketId, Stack};

/// Of `asm-generic/socket.h` (Linux 5.14): which buffers the program has set, and the kernel no longer
/// chooses.
pub const SO_BUF_LOCK: i32 = 72;
const SEND_LOCKED: i32 = 1;
const RECEIVE_LOCKED: i32 = 2;

/// Bytes of payload and kernel overhead, as `SO_SNDBUF` is told; the kernel doubles it, and cuts it to
/// `net.core.wmem_max` without `CAP_NET_ADMIN`.
const USUAL: i32 = 512 * 1024;

/// Fewer bytes at a time are not worth the way, and would become small segments.
const LEAST: usize = 4096;

/// The limits of one connection, in bytes as the kernel counts them; `None`: the program has set none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Buffers {
    send: Option<i32>,
    receive: Option<i32>,
}

impl Buffers {
    /// What the program has set on this socket, or on the listener that it comes from.
    pub fn of(stack: &mut dyn Stack, id: SocketId) -> Self {
        let mut option = |level, name| {
            let mut bytes = [0; 4];
            let asked = stack.getsockopt(id, level, name, &mut bytes);
            asked.ok().map(|_| i32::from_ne_bytes(bytes))
        };
        let locked = option(libc::SOL_SOCKET, SO_BUF_LOCK).unwrap_or(0);
        let mut if_locked =
            |bit, name| if locked & bit == 0 { None } else { option(libc::SOL_SOCKET, name) };
        let buffer = if_locked(SEND_LOCKED, libc::SO_SNDBUF);
        let receive = if_locked(RECEIVE_LOCKED, libc::SO_RCVBUF);
        // 0, and above an `int`: no limit.
        let unsent =
            option(libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT).filter(|unsent| *unsent > 0);
        Self { send: buffer.into_iter().chain(unsent).min(), receive }
    }

    /// Whether this option changes what [`Buffers::of`] gives.
    pub fn are_of(level: i32, name: i32) -> bool {
        match level {
            libc::SOL_SOCKET => matches!(
                name,
                libc::SO_SNDBUF
                    | libc::SO_SNDBUFFORCE
                    | libc::SO_RCVBUF
                    | libc::SO_RCVBUFFORCE
                    | SO_BUF_LOCK
            ),
            _ => (level, name) == (libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT),
        }
    }

    /// For `SO_SNDBUF` of the program's end.
    pub fn outbound(self) -> i32 {
        size(self.send)
    }

    /// For `SO_SNDBUF` of our end.
    pub fn inbound(self) -> i32 {
        size(self.receive)
    }

    /// How many bytes may be on their way from the program to the stack at once: some wait in our hands
    /// if the stack takes fewer. `None`: no limit.
    pub fn outbound_at_once(self) -> Option<usize> {
        self.send.map(part)
    }

    /// The same for those from the stack.
    pub fn inbound_at_once(self) -> Option<usize> {
        self.receive.map(part)
    }
}

fn size(limit: Option<i32>) -> i32 {
    limit.map_or(USUAL, |limit| (limit / 2).min(USUAL))
}

/// A third of a buffer is free when the stack says that there is room.
fn part(limit: i32) -> usize {
    (limit as usize / 4).max(LEAST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_of_the_program_is_one_of_the_pair() {
        let buffers = Buffers { send: Some(131_072), receive: None };
        assert_eq!((buffers.outbound(), buffers.inbound()), (65_536, USUAL));
        assert_eq!(buffers.outbound_at_once(), Some(32_768));
        assert_eq!(buffers.inbound_at_once(), None);
    }

    #[test]
    fn a_limit_of_a_byte_moves_no_single_bytes() {
        let buffers = Buffers { send: Some(1), receive: Some(i32::MAX) };
        assert_eq!(buffers.outbound_at_once(), Some(LEAST));
        assert_eq!(buffers.inbound(), USUAL);
    }
}
