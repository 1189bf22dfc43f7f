//! The two directions of a connection between our end of the pair and the stack.
//!
//! Each direction holds what its receiver did not take, and takes no more from its sender until that
//! is gone: back-pressure. Each ends on its own: half-close.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::BorrowedFd;

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
}

impl Held {
    fn keep(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    fn rest(&self) -> &[u8] {
        &self.bytes[self.taken..]
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
    /// The program has closed or shut down its sending side, and we have read up to there.
    pub program_ended: bool,
    /// The stack knows of it: FIN.
    fin_sent: bool,
    /// The stack has given all up to the peer's FIN.
    peer_ended: bool,
    /// The program's end has been told.
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
}

impl Stream {
    /// All that the program has sent is with the stack, and so is its end.
    pub fn delivered(&self) -> bool {
        self.program_ended && self.outbound.is_empty() && self.fin_sent
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
        scratch: &mut [u8],
    ) -> Result<Pumped> {
        let sent = self.pump_out(stack, id, ours, scratch)?;
        let received = self.pump_in(stack, id, ours, scratch)?;
        let idle = sent == Pumped::Idle && received == Pumped::Idle;
        Ok(if idle { Pumped::Idle } else { Pumped::More })
    }

    /// From the program to the stack.
    pub fn pump_out(
        &mut self,
        stack: &mut dyn Stack,
        id: SocketId,
        ours: BorrowedFd,
        scratch: &mut [u8],
    ) -> Result<Pumped> {
        let mut moved = 0;
        while moved < SHARE {
            if !self.outbound.is_empty() {
                match offer(stack, id, self.outbound.rest())? {
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
            match system::recv(ours, scratch, 0) {
                Err(errno) if errno.would_block() => return Ok(Pumped::Idle),
                // Closed, with bytes unread on its side.
                Ok(0) | Err(_) => self.program_ended = true,
                Ok(got) => {
                    moved += got;
                    let taken = offer(stack, id, &scratch[..got])?;
                    self.outbound.keep(&scratch[taken..got]);
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
        scratch: &mut [u8],
    ) -> Result<Pumped> {
        let mut moved = 0;
        while moved < SHARE && !self.deaf {
            if !self.inbound.is_empty() {
                match self.give(ours, None) {
                    0 => return Ok(Pumped::Idle),
                    taken => self.inbound.took(taken),
                }
                continue;
            }
            if self.peer_ended {
                if !self.end_passed {
                    self.end_passed = true;
                    let _ = system::shutdown(ours, libc::SHUT_WR);
                }
                return Ok(Pumped::Idle);
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

    /// To the program: these bytes, or those that are held. 0: there is no room now.
    fn give(&mut self, ours: BorrowedFd, fresh: Option<&[u8]>) -> usize {
        match system::send(ours, fresh.unwrap_or(self.inbound.rest())) {
            Ok(taken) => taken,
            Err(errno) => {
                self.deaf = !errno.would_block();
                0
            }
        }
    }
}

/// To the stack. 0: there is no room now.
fn offer(stack: &mut dyn Stack, id: SocketId, bytes: &[u8]) -> Result<usize> {
    match stack.send(id, &[IoSlice::new(bytes)], 0, None, &[]) {
        Err(Errno(libc::EAGAIN)) => Ok(0),
        other => other,
    }
}

#[cfg(test)]
#[path = "stream_tests.rs"]
mod tests;
