//! The two directions of a connection between our end of the pair and the stack.
//!
//! Each direction holds what its receiver did not take, and takes no more from its sender until that
//! is gone: back-pressure. Each ends on its own: half-close.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::BorrowedFd;

use crate::buffers::Buffers;
use crate::calls::requests;
use crate::errno::{Errno, Result};
use crate::stack::{SocketId, Stack};
use crate::system;

/// Bytes that one connection may move before the others have their turn.
const SHARE: usize = 1024 * 1024;

/// Bytes on their way that the receiver could not take yet.
#[derive(Default)]
struct Held {
    bytes: Vec<u8>,
    taken: usize,
    /// It is one byte, the urgent one.
    urgent: bool,
    /// The stack is to wait for what comes behind (`MSG_MORE`).
    more: bool,
}

impl Held {
    fn keep(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    fn keep_urgent(&mut self, byte: u8) {
        self.bytes.push(byte);
        self.urgent = true;
    }

    fn rest(&self) -> &[u8] {
        &self.bytes[self.taken..]
    }

    fn flags(&self) -> i32 {
        match (self.urgent, self.more) {
            (true, _) => libc::MSG_OOB,
            (_, true) => libc::MSG_MORE,
            _ => 0,
        }
    }

    fn took(&mut self, count: usize) {
        self.taken += count;
        if self.taken == self.bytes.len() {
            self.clear();
        }
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.taken = 0;
        self.urgent = false;
        self.more = false;
    }

    fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

#[derive(Default)]
pub struct Stream {
    /// From the program, not yet taken by the stack.
    outbound: Held,
    /// From the stack, not yet taken by the pair.
    inbound: Held,
    /// Of the bytes that lie in the pair or are being written, how many have more to come behind them.
    more_behind: usize,
    /// The program has closed or shut down its sending side, and we have read up to there.
    pub program_ended: bool,
    /// The stack knows of it: FIN.
    fin_sent: bool,
    /// The stack has given all up to the peer's FIN.
    peer_ended: bool,
    /// The program's end shows it.
    end_passed: bool,
    /// The program reads no more.
    deaf: bool,
}

/// What a visit has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pumped {
    /// Nothing to do until either side changes.
    Idle,
    /// Its share is used up; there may be more.
    More,
    /// The program has closed its end and left bytes there unread.
    ClosedUnread,
}

impl Stream {
    /// All that the program has sent is with the stack, and so is its end.
    pub fn delivered(&self) -> bool {
        self.program_ended && self.outbound.is_empty() && self.fin_sent
    }

    /// The program's end shows the peer's end.
    pub fn end_passed(&self) -> bool {
        self.end_passed
    }

    /// The program has more to come behind the next so many bytes of the pair.
    pub fn more_behind(&mut self, bytes: usize) {
        self.more_behind = bytes;
    }

    /// Both directions have ended.
    pub fn over(&self) -> bool {
        self.fin_sent && self.peer_ended
    }

    /// Bytes on their way to the program that its end has not.
    pub fn held_for_program(&self) -> usize {
        self.inbound.rest().len()
    }

    /// Bytes on their way from the program that the stack has not.
    pub fn held_for_stack(&self) -> usize {
        self.outbound.rest().len()
    }

    /// Whether room in the program's end would let something go on.
    pub fn waits_for_program(&self) -> bool {
        !self.inbound.is_empty() && !self.deaf
    }

    /// Moves what can be moved, both ways. An error is the connection's: reset, timed out.
    pub fn pump(
        &mut self,
        stack: &mut dyn Stack,
        id: SocketId,
        ours: BorrowedFd,
        most: Buffers,
        scratch: &mut [u8],
    ) -> Result<Pumped> {
        let sent = self.pump_out(stack, id, ours, most, scratch)?;
        if sent == Pumped::ClosedUnread {
            return Ok(sent);
        }
        let received = self.pump_in(stack, id, ours, most, scratch)?;
        let idle = sent == Pumped::Idle && received == Pumped::Idle;
        Ok(if idle { Pumped::Idle } else { Pumped::More })
    }

    /// From the program to the stack.
    fn pump_out(
        &mut self,
        stack: &mut dyn Stack,
        id: SocketId,
        ours: BorrowedFd,
        most: Buffers,
        scratch: &mut [u8],
    ) -> Result<Pumped> {
        let most = most.outbound_at_once();
        let scratch = first(scratch, most);
        let mut moved = 0;
        while moved < SHARE {
            if !self.outbound.is_empty() {
                match offer(stack, id, self.outbound.rest(), self.outbound.flags())? {
                    0 => return Ok(Pumped::Idle),
                    taken => self.outbound.took(taken),
                }
                continue;
            }
            if self.program_ended {
                if !self.fin_sent {
                    self.fin_sent = true;
                    // The peer may have ended the connection altogether meanwhile.
                    let _ = stack.shutdown(id, libc::SHUT_WR);
                }
                return Ok(Pumped::Idle);
            }
            // What is in our hands makes room in the pair for more.
            if most.is_some() && stack.poll(id) & libc::EPOLLOUT as u32 == 0 {
                return Ok(Pumped::Idle);
            }
            // Behind the last byte a plain `recv` would throw away an urgent byte that is written
            // after the look at the mark, so it only peeks there: for the end, or an error.
            let flags = if system::unread(ours)? == 0 { libc::MSG_PEEK } else { 0 };
            if system::at_mark(ours)
                && let Ok(1) = system::recv(ours, &mut scratch[..1], libc::MSG_OOB)
            {
                self.outbound.keep_urgent(scratch[0]);
                continue;
            }
            match system::recv(ours, scratch, flags) {
                Err(errno) if errno.would_block() => return Ok(Pumped::Idle),
                Err(Errno(libc::ECONNRESET)) => return Ok(Pumped::ClosedUnread),
                Ok(0) | Err(_) => self.program_ended = true,
                Ok(_) if flags & libc::MSG_PEEK != 0 => continue,
                Ok(got) => {
                    moved += got;
                    let more = got <= self.more_behind;
                    self.more_behind = self.more_behind.saturating_sub(got);
                    let flags = if more { libc::MSG_MORE } else { 0 };
                    let taken = offer(stack, id, &scratch[..got], flags)?;
                    self.outbound.keep(&scratch[taken..got]);
                    self.outbound.more = more && taken < got;
                }
            }
        }
        Ok(Pumped::More)
    }

    /// From the stack to the program.
    fn pump_in(
        &mut self,
        stack: &mut dyn Stack,
        id: SocketId,
        ours: BorrowedFd,
        most: Buffers,
        scratch: &mut [u8],
    ) -> Result<Pumped> {
        let scratch = first(scratch, most.inbound_at_once());
        let mut moved = 0;
        while moved < SHARE && !self.deaf {
            if !self.inbound.is_empty() {
                match self.give(ours, None) {
                    0 => return Ok(Pumped::Idle),
                    taken => self.inbound.took(taken),
                }
                continue;
            }
            let events = stack.poll(id);
            if self.peer_ended {
                if !self.end_passed {
                    self.end_passed = true;
                    let _ = system::shutdown(ours, libc::SHUT_WR);
                }
                // No `recv` would tell: the peer has answered with RST what we sent after its end.
                return match events & libc::EPOLLERR as u32 {
                    0 => Ok(Pumped::Idle),
                    _ => stack_error(stack, id).map_or(Ok(Pumped::Idle), Err),
                };
            }
            if self.fetch_urgent(stack, id, events) {
                continue;
            }
            match stack.recv(id, &mut [IoSliceMut::new(scratch)], 0, None) {
                Err(errno) if errno.would_block() => return Ok(Pumped::Idle),
                Err(errno) => return Err(errno),
                Ok(0) => self.peer_ended = true,
                Ok(got) => {
                    moved += got;
                    let taken = self.give(ours, Some(&scratch[..got]));
                    self.inbound.keep(&scratch[taken..got]);
                }
            }
        }
        Ok(if self.deaf { Pumped::Idle } else { Pumped::More })
    }

    /// The urgent byte goes before all that lies behind its mark. `true`: it is held now.
    fn fetch_urgent(&mut self, stack: &mut dyn Stack, id: SocketId, events: u32) -> bool {
        let mut mark = [0; 4];
        if events & libc::EPOLLPRI as u32 == 0
            || stack.ioctl(id, requests::SIOCATMARK, &mut mark).is_err()
            || mark == [0; 4]
        {
            return false;
        }
        let mut byte = [0];
        let got = stack.recv(id, &mut [IoSliceMut::new(&mut byte)], libc::MSG_OOB, None);
        if got == Ok(1) {
            self.inbound.keep_urgent(byte[0]);
        }
        got == Ok(1)
    }

    /// To the program: these bytes, or those that are held. 0: there is no room now.
    fn give(&mut self, ours: BorrowedFd, fresh: Option<&[u8]>) -> usize {
        let (bytes, flags) = match fresh {
            Some(bytes) => (bytes, 0),
            None => (self.inbound.rest(), self.inbound.flags()),
        };
        match system::send(ours, bytes, flags) {
            Ok(taken) => taken,
            // A host without urgent data on Unix sockets: it comes in line.
            Err(Errno(libc::EOPNOTSUPP)) => system::send(ours, bytes, 0).unwrap_or(0),
            Err(errno) => {
                self.deaf = !errno.would_block();
                0
            }
        }
    }
}

fn first(scratch: &mut [u8], most: Option<usize>) -> &mut [u8] {
    let len = most.map_or(scratch.len(), |most| most.min(scratch.len()));
    &mut scratch[..len]
}

/// To the stack. 0: there is no room now.
fn offer(stack: &mut dyn Stack, id: SocketId, bytes: &[u8], flags: i32) -> Result<usize> {
    match stack.send(id, &[IoSlice::new(bytes)], flags, None, &[]) {
        Err(Errno(libc::EAGAIN)) => Ok(0),
        // Multipath TCP has no urgent data: it goes in line.
        Err(Errno(libc::EOPNOTSUPP)) if flags != 0 => offer(stack, id, bytes, 0),
        other => other,
    }
}

/// `SO_ERROR`.
fn stack_error(stack: &mut dyn Stack, id: SocketId) -> Option<Errno> {
    let mut bytes = [0; 4];
    stack.getsockopt(id, libc::SOL_SOCKET, libc::SO_ERROR, &mut bytes).ok()?;
    Some(Errno(i32::from_ne_bytes(bytes))).filter(|errno| errno.0 != 0)
}

#[cfg(test)]
#[path = "stream_tests.rs"]
mod tests;
