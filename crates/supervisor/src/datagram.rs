//! Datagrams between the pair and the stack, and where they came from.
//!
//! The program may read a datagram natively (`read`, `recv`) or through us (`recvfrom`, `recvmsg`),
//! and only the latter asks for its source. The sources wait in a queue beside the pair; how many
//! bytes are unread in the pair tells which of them have been passed over.

use std::collections::VecDeque;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::BorrowedFd;

use crate::address::Address;
use crate::errno::Errno;
use crate::pair;
use crate::stack::{Received, SocketId, Stack};
use crate::stream::Pumped;
use crate::system;

/// Datagrams that one socket may move before the others have their turn.
const SHARE: usize = 256;

/// More datagrams than the pair's buffer can hold, with at least 768 bytes of overhead each: an
/// older entry belongs to a datagram that was read natively.
const REMEMBERED: usize = 2048;

/// Room for ancillary data of a datagram (packet info, timestamps, TTL, errors).
const CONTROL_ROOM: usize = 512;

/// Errors of a connected socket that ICMP brings (ip(7), "Error Handling").
const FROM_THE_NETWORK: [i32; 7] = [
    libc::ECONNREFUSED,
    libc::EHOSTUNREACH,
    libc::ENETUNREACH,
    libc::EHOSTDOWN,
    libc::ENOPROTOOPT,
    libc::EPROTO,
    libc::EACCES,
];

/// What is known of a datagram in the pair.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Arrived {
    pub len: usize,
    pub source: Address,
    pub control: Vec<u8>,
    /// Not a datagram, but an error of the socket, which woke the program by an empty one.
    pub error: Option<Errno>,
    /// The same, after the error was reported.
    pub reported: bool,
}

#[derive(Default)]
pub struct Datagram {
    arrived: VecDeque<Arrived>,
    /// Of all in `arrived`.
    bytes: usize,
    /// The pair was full.
    inbound: Option<(Vec<u8>, Arrived)>,
    /// The stack was full.
    outbound: Option<Vec<u8>>,
    /// Asked for by some option of the program: ancillary data comes with datagrams.
    pub wants_control: bool,
}

impl Datagram {
    /// From the program to its connected peer.
    pub fn pump_out(
        &mut self,
        stack: &mut dyn Stack,
        id: SocketId,
        ours: BorrowedFd,
        scratch: &mut [u8],
    ) -> Pumped {
        for _ in 0..SHARE {
            let taken = match self.outbound.take() {
                Some(held) => held,
                None => match system::recv(ours, scratch, 0) {
                    Ok(0) if pair::hung_up(ours) => return Pumped::Idle,
                    Ok(got) => scratch[..got].to_vec(),
                    Err(_) => return Pumped::Idle,
                },
            };
            match stack.send(id, &[IoSlice::new(&taken)], 0, None, &[]) {
                Err(Errno(libc::EAGAIN)) => {
                    self.outbound = Some(taken);
                    return Pumped::Idle;
                }
                // Of an earlier datagram: this one has not been sent yet.
                Err(errno) if FROM_THE_NETWORK.contains(&errno.0) => {
                    self.give_error(ours, errno);
                    let _ = stack.send(id, &[IoSlice::new(&taken)], 0, None, &[]);
                }
                // What else is wrong, is wrong with this datagram: it is lost, as datagrams may be.
                _ => {}
            }
        }
        Pumped::More
    }

    pub fn has_outbound(&self) -> bool {
        self.outbound.is_some()
    }

    /// From the stack to the program.
    pub fn pump_in(
        &mut self,
        stack: &mut dyn Stack,
        id: SocketId,
        ours: BorrowedFd,
        scratch: &mut [u8],
    ) -> Pumped {
        for _ in 0..SHARE {
            if let Some((bytes, arrived)) = self.inbound.take()
                && !self.give(ours, &bytes, arrived)
            {
                return Pumped::Idle;
            }
            let room = if self.wants_control { CONTROL_ROOM } else { 0 };
            let mut message = Received { control: Vec::with_capacity(room), ..Received::default() };
            let got = stack.recv(id, &mut [IoSliceMut::new(scratch)], 0, Some(&mut message));
            let (bytes, arrived) = match got {
                Ok(len) => {
                    let Received { source, control, .. } = message;
                    (&scratch[..len], Arrived { len, source, control, ..Arrived::default() })
                }
                Err(errno) if errno.would_block() => return Pumped::Idle,
                Err(errno) => {
                    self.give_error(ours, errno);
                    continue;
                }
            };
            if !self.give(ours, bytes, arrived) {
                return Pumped::Idle;
            }
        }
        Pumped::More
    }

    /// An empty datagram wakes whoever waits.
    fn give_error(&mut self, ours: BorrowedFd, errno: Errno) {
        self.give(ours, &[], Arrived { error: Some(errno), ..Arrived::default() });
    }

    fn give(&mut self, ours: BorrowedFd, bytes: &[u8], arrived: Arrived) -> bool {
        match system::send(ours, bytes, 0) {
            Err(errno) if errno.would_block() => {
                self.inbound = Some((bytes.to_vec(), arrived));
                false
            }
            Err(_) => false,
            Ok(_) => {
                self.remember(arrived);
                true
            }
        }
    }

    fn remember(&mut self, arrived: Arrived) {
        self.bytes += arrived.len;
        self.arrived.push_back(arrived);
        if self.arrived.len() > REMEMBERED {
            self.forget_first();
        }
    }

    fn forget_first(&mut self) -> Option<Arrived> {
        let first = self.arrived.pop_front()?;
        self.bytes -= first.len;
        Some(first)
    }

    /// Forgets what was read natively: `unread` bytes are left in the pair.
    pub fn align(&mut self, unread: usize) {
        while self.bytes > unread {
            self.forget_first();
        }
    }

    /// Of the next datagram; 0: there is none.
    pub fn first_len(&self) -> usize {
        self.arrived.front().map_or(0, |first| first.len)
    }

    /// The oldest error that was not reported.
    pub fn take_error(&mut self) -> Option<Errno> {
        let found = self.arrived.iter_mut().find(|arrived| arrived.error.is_some())?;
        found.reported = true;
        found.error.take()
    }

    /// What comes next is no datagram, and its error is known.
    pub fn first_is_reported(&self) -> bool {
        self.arrived.front().is_some_and(|first| first.reported)
    }

    /// The error that the next datagram stands for.
    pub fn next_error(&self) -> Option<Errno> {
        self.arrived.front().and_then(|first| first.error)
    }

    /// What belongs to the datagram of `len` bytes that was read after `align`; `peeked`: it is
    /// still there.
    pub fn read(&mut self, len: usize, peeked: bool) -> Arrived {
        if peeked {
            let found = self.arrived.iter().find(|arrived| arrived.len == len);
            return found.cloned().unwrap_or_default();
        }
        while let Some(first) = self.forget_first() {
            if first.len == len {
                return first;
            }
        }
        Arrived::default()
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use proptest::prelude::*;

    use super::*;

    fn arrived(len: usize, port: u16) -> Arrived {
        let source = Address::from(SocketAddr::from(([192, 0, 2, 1], port)));
        Arrived { len, source, ..Arrived::default() }
    }

    proptest! {
        /// Whatever part of the datagrams the program reads natively, the others keep their source.
        #[test]
        fn sources_stay_with_their_datagrams(
            reads in prop::collection::vec((1usize..2000, any::<bool>()), 0..100)
        ) {
            let mut datagram = Datagram::default();
            let mut unread = 0;
            for (port, (len, _)) in reads.iter().enumerate() {
                datagram.remember(arrived(*len, port as u16));
                unread += len;
            }
            for (port, (len, native)) in reads.iter().enumerate() {
                if !native {
                    datagram.align(unread);
                    prop_assert_eq!(datagram.read(*len, true), arrived(*len, port as u16));
                    prop_assert_eq!(datagram.read(*len, false), arrived(*len, port as u16));
                }
                unread -= len;
            }
            datagram.align(unread);
            prop_assert!(datagram.arrived.is_empty());
        }
    }

    #[test]
    fn sources_of_datagrams_read_natively_do_not_pile_up() {
        let mut datagram = Datagram::default();
        for port in 0..3 * REMEMBERED {
            datagram.remember(arrived(10, port as u16));
        }
        assert_eq!(datagram.arrived.len(), REMEMBERED);
        assert_eq!(datagram.bytes, 10 * REMEMBERED);
    }
}
