//! Datagrams between the program's end and the stack, and where they came from.
//!
//! The program may read a datagram natively (`read`, `recv`) or through us (`recvfrom`, `recvmsg`),
//! and only the latter asks for its source. The sources wait in a queue here; a mark on each datagram
//! says which of them is its own.

use std::collections::VecDeque;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::BorrowedFd;

use crate::address::Address;
use crate::errno::{Errno, Result};
use crate::loopback::Wire;
use crate::stack::{Received, SocketId, Stack};
use crate::stream::Pumped;
use crate::system;

/// Datagrams that one socket may move before the others have their turn.
const SHARE: usize = 256;

/// More datagrams than the program's end can hold, with at least 768 bytes of overhead each: an older
/// entry belongs to a datagram that was read natively.
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

/// Which datagram one is. It is in its TTL and TOS on the way to the program's end, of which the
/// program sees nothing: what it asks of them is answered by the stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// 0, which no packet has, is not used.
    ttl: u8,
    tos: u8,
}

impl Mark {
    fn next(self) -> Self {
        match self.ttl {
            u8::MAX => Self { ttl: 1, tos: self.tos.wrapping_add(1) },
            ttl => Self { ttl: ttl + 1, tos: self.tos },
        }
    }

    fn control(self) -> Vec<u8> {
        let message = |name: i32, value: u8| {
            let mut bytes = CONTROL_BYTES.to_ne_bytes().to_vec();
            bytes.extend(libc::IPPROTO_IP.to_ne_bytes());
            bytes.extend(name.to_ne_bytes());
            bytes.extend(i32::from(value).to_ne_bytes());
            bytes.resize(CONTROL_BYTES.next_multiple_of(8), 0);
            bytes
        };
        [message(libc::IP_TTL, self.ttl), message(libc::IP_TOS, self.tos)].concat()
    }

    /// From what came with the datagram: the TTL as an `int`, the TOS as a byte.
    fn of(control: &[u8]) -> Option<Self> {
        let value = |name: i32| {
            let mut rest = control;
            while let Some((header, body)) = rest.split_at_checked(HEADER_BYTES) {
                let len = usize::from_ne_bytes(*header.first_chunk()?);
                if header[8..] == [libc::IPPROTO_IP.to_ne_bytes(), name.to_ne_bytes()].concat() {
                    return body.first().copied();
                }
                rest = rest.get(len.max(HEADER_BYTES).next_multiple_of(8)..)?;
            }
            None
        };
        Some(Self { ttl: value(libc::IP_TTL)?, tos: value(libc::IP_TOS)? })
    }
}

/// `sizeof(struct cmsghdr)`, and with an `int`.
const HEADER_BYTES: usize = 16;
const CONTROL_BYTES: usize = HEADER_BYTES + 4;

/// What is known of a datagram at the program's end.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Arrived {
    pub mark: Mark,
    pub source: Address,
    pub control: Vec<u8>,
}

pub struct Datagram {
    pub wire: Wire,
    arrived: VecDeque<Arrived>,
    last: Mark,
    /// The stack was full.
    outbound: Option<Vec<u8>>,
    /// Asked for by some option of the program: ancillary data comes with datagrams.
    pub wants_control: bool,
    /// An error of the network that the program's end does not show yet.
    pub failure: Option<Errno>,
    /// What the program's end shows as `ECONNREFUSED`.
    pub shown: Option<Errno>,
}

impl Datagram {
    pub fn new(wire: Wire) -> Self {
        Self {
            wire,
            arrived: VecDeque::new(),
            last: Mark::default(),
            outbound: None,
            wants_control: false,
            failure: None,
            shown: None,
        }
    }

    /// From the program to its connected peer.
    pub fn pump_out(
        &mut self,
        stack: &mut dyn Stack,
        id: SocketId,
        ours: BorrowedFd,
        scratch: &mut [u8],
    ) -> Pumped {
        for _ in 0..SHARE {
            let held = self.outbound.take();
            let taken = match &held {
                Some(held) => &held[..],
                None => match system::recv(ours, scratch, 0) {
                    Ok(got) => &scratch[..got],
                    // Of one of ours that came after the program had closed its end.
                    Err(Errno(libc::ECONNREFUSED)) => continue,
                    Err(_) => return Pumped::Idle,
                },
            };
            let mut send = || stack.send(id, &[IoSlice::new(taken)], 0, None, &[]);
            match send() {
                Err(Errno(libc::EAGAIN)) => {
                    self.outbound = Some(taken.to_vec());
                    return Pumped::Idle;
                }
                // Of an earlier datagram: this one has not been sent yet.
                Err(errno) if FROM_THE_NETWORK.contains(&errno.0) => {
                    self.failure = Some(errno);
                    let _ = send();
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

    /// From the stack to the program. What its end has no room for is lost, as on any UDP socket.
    pub fn pump_in(
        &mut self,
        stack: &mut dyn Stack,
        id: SocketId,
        ours: BorrowedFd,
        scratch: &mut [u8],
    ) -> Pumped {
        for _ in 0..SHARE {
            let room = if self.wants_control { CONTROL_ROOM } else { 0 };
            let mut message = Received { control: Vec::with_capacity(room), ..Received::default() };
            match stack.recv(id, &mut [IoSliceMut::new(scratch)], 0, Some(&mut message)) {
                Ok(len) => self.give(ours, &scratch[..len], message),
                Err(errno) if errno.would_block() => return Pumped::Idle,
                Err(errno) => self.failure = Some(errno),
            }
        }
        Pumped::More
    }

    fn give(&mut self, ours: BorrowedFd, bytes: &[u8], message: Received) {
        let mark = self.last.next();
        let send = || system::send_message(ours, &[IoSlice::new(bytes)], 0, None, &mark.control());
        // An error is that of an earlier one, which the program's end refused.
        if send().or_else(|_| send()).is_ok() {
            let Received { source, control, .. } = message;
            self.remember(Arrived { mark, source, control });
        }
    }

    fn remember(&mut self, arrived: Arrived) {
        self.last = arrived.mark;
        self.arrived.push_back(arrived);
        if self.arrived.len() > REMEMBERED {
            self.arrived.pop_front();
        }
    }

    /// Takes the next datagram from the program's end for it. `None`: it reads no more.
    pub fn take(
        &mut self,
        theirs: BorrowedFd,
        scratch: &mut [u8],
        flags: i32,
    ) -> Result<Option<(usize, Arrived)>> {
        let peeked = flags & libc::MSG_PEEK;
        loop {
            let control = Vec::with_capacity(4 * HEADER_BYTES);
            let mut message = Received { control, ..Received::default() };
            let data = &mut [IoSliceMut::new(scratch)];
            let got =
                system::receive_message(theirs, data, peeked | libc::MSG_TRUNC, Some(&mut message));
            let len = got.map_err(|errno| self.shown.take().unwrap_or(errno))?;
            let Some(mark) = Mark::of(&message.control) else { return Ok(None) };
            if let Some(arrived) = self.read(mark, peeked != 0) {
                return Ok(Some((len, arrived)));
            }
            // Not ours: somebody else on the loopback device has found the port.
            if peeked != 0 {
                let _ = system::recv(theirs, &mut [], 0);
            }
        }
    }

    /// What belongs to the datagram with this mark; `peeked`: it is still there. Those before it were
    /// read natively.
    fn read(&mut self, mark: Mark, peeked: bool) -> Option<Arrived> {
        let at = self.arrived.iter().position(|arrived| arrived.mark == mark)?;
        self.arrived.drain(..at);
        if peeked { self.arrived.front().cloned() } else { self.arrived.pop_front() }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::os::fd::AsFd;

    use proptest::prelude::*;

    use super::*;
    use crate::loopback::{Ends, Loopback};

    fn from(port: u16) -> Received {
        let source = Address::from(SocketAddr::from(([192, 0, 2, 1], port)));
        Received { source, ..Received::default() }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// Whatever part of the datagrams the program reads natively, the others keep their source.
        #[test]
        fn sources_stay_with_their_datagrams(
            reads in prop::collection::vec((0usize..2000, any::<bool>()), 0..100)
        ) {
            let Ends { ours, theirs, wire } = Loopback::default().open().unwrap();
            let mut datagram = Datagram::new(wire);
            let mut scratch = [0; 2000];
            for (port, (len, _)) in reads.iter().enumerate() {
                datagram.give(ours.as_fd(), &[1; 2000][..*len], from(port as u16));
            }
            for (port, (len, native)) in reads.iter().enumerate() {
                if *native {
                    prop_assert_eq!(system::recv(theirs.as_fd(), &mut scratch, 0), Ok(*len));
                    continue;
                }
                for flags in [libc::MSG_PEEK, 0] {
                    let taken = datagram.take(theirs.as_fd(), &mut scratch, flags);
                    let (got, arrived) = taken.unwrap().unwrap();
                    prop_assert_eq!((got, arrived.source), (*len, from(port as u16).source));
                }
            }
        }
    }

    #[test]
    fn sources_of_datagrams_read_natively_do_not_pile_up() {
        let Ends { ours, theirs, wire } = Loopback::default().open().unwrap();
        let mut datagram = Datagram::new(wire);
        for port in 0..2 * REMEMBERED {
            datagram.give(ours.as_fd(), b"x", from(port as u16));
            assert_eq!(system::recv(theirs.as_fd(), &mut [0; 4], 0), Ok(1));
        }
        assert_eq!(datagram.arrived.len(), REMEMBERED);
    }

    #[test]
    fn datagrams_of_somebody_else_are_passed_over() {
        let Ends { ours, theirs, wire } = Loopback::default().open().unwrap();
        let mut datagram = Datagram::new(wire);
        system::send(ours.as_fd(), b"without our mark", 0).unwrap();
        datagram.give(ours.as_fd(), b"ours", from(7));
        for flags in [libc::MSG_PEEK, 0] {
            let (len, arrived) =
                datagram.take(theirs.as_fd(), &mut [0; 32], flags).unwrap().unwrap();
            assert_eq!((len, arrived.source), (4, from(7).source));
        }
    }

    #[test]
    fn no_mark_comes_again_while_its_datagram_may_wait() {
        let marks = std::iter::successors(Some(Mark::default().next()), |mark| Some(mark.next()));
        let marks: Vec<_> = marks.take(30 * REMEMBERED).map(|mark| (mark.ttl, mark.tos)).collect();
        let different: std::collections::HashSet<_> = marks.iter().collect();
        assert_eq!(different.len(), marks.len());
    }
}
