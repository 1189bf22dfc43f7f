//! Messages on streams: `sendto`, `recvfrom`, `sendmsg`, … on a TCP socket.
//!
//! Nearly all run natively on the pair, which knows them. Those that a Unix socket takes otherwise
//! than TCP does are carried out here: addresses, `MSG_MORE`, `MSG_TRUNC`, `MSG_PEEK | MSG_WAITALL`,
//! and all on a socket that is not connected. `sendmmsg` with `MSG_MORE` and `splice` with
//! `SPLICE_F_MORE` run natively, too, and behind their bytes the stack is told to wait.

use std::os::fd::{AsFd, BorrowedFd};

use libc::c_long;

use super::datagrams::MAX_MESSAGES;
use super::{Answer, read_address};
use crate::errno::{Errno, Result};
use crate::memory::{self, Memory, Piece};
use crate::message::{Header, MULTI_BYTES};
use crate::notify::Call;
use crate::socket::{Failure, Request, State};
use crate::supervisor::Supervisor;
use crate::system;

const PEEK_ALL: i32 = libc::MSG_PEEK | libc::MSG_WAITALL;

/// Buffers and flags of a message.
struct Message {
    pieces: Vec<Piece>,
    flags: i32,
    /// It names an address, or wants one.
    addressed: bool,
    header: Option<Header>,
}

impl Message {
    fn of(call: &Call) -> Result<Self> {
        let memory = Memory(call.tid);
        match c_long::from(call.nr) {
            libc::SYS_sendto | libc::SYS_recvfrom => {
                let piece = Piece { address: call.args[1], len: call.args[2] as usize };
                let addressed = call.args[4] != 0;
                Ok(Self { pieces: vec![piece], flags: call.int(3), addressed, header: None })
            }
            _ => {
                let header = Header::read(memory, call.args[1])?;
                let (pieces, addressed) = (header.pieces(memory)?, header.name != 0);
                Ok(Self { pieces, flags: call.int(2), addressed, header: Some(header) })
            }
        }
    }

    fn len(&self) -> usize {
        self.pieces.iter().map(|piece| piece.len).fold(0, usize::saturating_add)
    }

    /// What is left of the buffers behind the first `done` bytes.
    fn rest(&self, done: usize) -> Vec<Piece> {
        let mut skipped = done;
        let rest = self.pieces.iter().filter_map(|piece| {
            let skip = skipped.min(piece.len);
            skipped -= skip;
            let piece = Piece { address: piece.address + skip as u64, len: piece.len - skip };
            (piece.len > 0).then_some(piece)
        });
        rest.collect()
    }
}

impl Supervisor<'_> {
    pub(super) fn stream_message(
        &mut self,
        key: u64,
        theirs: BorrowedFd,
        request: &Request,
    ) -> Result<Answer> {
        let call = &request.call;
        match c_long::from(call.nr) {
            libc::SYS_sendto | libc::SYS_sendmsg => self.send_bytes(key, theirs, request),
            libc::SYS_recvfrom | libc::SYS_recvmsg => self.receive_bytes(key, theirs, request),
            libc::SYS_sendmmsg if call.int(3) & libc::MSG_MORE != 0 => {
                let bytes = self.bytes_of_messages(call);
                self.hold_back(key, bytes);
                Ok(Answer::Native)
            }
            libc::SYS_splice => {
                let bytes = self.bytes_to_splice(call);
                self.hold_back(key, bytes);
                Ok(Answer::Native)
            }
            _ => Ok(Answer::Native),
        }
    }

    fn send_bytes(&mut self, key: u64, theirs: BorrowedFd, request: &Request) -> Result<Answer> {
        let call = &request.call;
        let message = Message::of(call)?;
        if message.flags & libc::MSG_FASTOPEN != 0 {
            return Err(Errno(libc::EOPNOTSUPP));
        }
        let memory = Memory(call.tid);
        match &message.header {
            Some(header) if message.addressed => {
                read_address(memory, header.name, header.name_len as i32)?;
            }
            None if message.addressed => {
                read_address(memory, call.args[4], call.int(5))?;
            }
            _ => {}
        }
        let socket = self.sockets.get(&key).ok_or(Errno(libc::EBADF))?;
        match socket.state {
            State::Fresh | State::Listening(_) => broken(message.flags),
            State::Ended(_) => match self.take_failure(key, theirs) {
                0 => broken(message.flags),
                number => Err(Errno(number)),
            },
            State::Connected(_) if message.addressed || message.flags & libc::MSG_MORE != 0 => {
                self.send_for_it(key, theirs, request, &message)
            }
            _ => Ok(Answer::Native),
        }
    }

    /// An address means nothing on a connection, and the pair would refuse it; of `MSG_MORE` it knows
    /// nothing. We write for the program.
    fn send_for_it(
        &mut self,
        key: u64,
        theirs: BorrowedFd,
        request: &Request,
        message: &Message,
    ) -> Result<Answer> {
        let (all, mut done) = (message.len(), request.done);
        while done < all {
            let rest = message.rest(done);
            let got = Memory(request.call.tid).gather(&rest, &mut self.scratch);
            let got = match got {
                Ok(got) if got > 0 => got,
                _ if done > 0 => break,
                _ => return Err(Errno(libc::EFAULT)),
            };
            match system::send(theirs, &self.scratch[..got], message.flags & libc::MSG_OOB) {
                Ok(sent) => {
                    done += sent;
                    if message.flags & libc::MSG_MORE != 0 {
                        self.hold_back(key, 0);
                    }
                }
                Err(Errno(libc::EAGAIN)) if message.flags & libc::MSG_DONTWAIT == 0 => {
                    let request = Request { done, ..*request };
                    match self.wait_or_fail(key, theirs, &request, libc::SO_SNDTIMEO) {
                        Err(Errno(libc::EAGAIN)) if done > 0 => break,
                        other => return other,
                    }
                }
                Err(_) if done > 0 => break,
                Err(Errno(libc::EPIPE)) => return broken(message.flags),
                Err(errno) => return Err(errno),
            }
        }
        self.again.push(key);
        Ok(Answer::Value(done as i64))
    }

    /// More is to come behind all that is in the pair now, and behind so many bytes that the call
    /// itself writes there.
    fn hold_back(&mut self, key: u64, coming: usize) {
        if let Some(socket) = self.sockets.get_mut(&key)
            && let (State::Connected(stream), Some(ours)) = (&mut socket.state, &socket.ours)
        {
            stream.more_behind(system::unread(ours.as_fd()).unwrap_or(0) + coming);
        }
    }

    /// What lies in the pipe now, as far as it is wanted.
    fn bytes_to_splice(&mut self, call: &Call) -> usize {
        let pipe = self.processes.descriptor(call.tid, call.int(0));
        let there = pipe.and_then(|pipe| system::in_pipe(pipe.as_fd())).unwrap_or(0);
        there.min(call.args[4] as usize)
    }

    /// Of all messages of a `sendmmsg`. One of them cannot be read, or there is more than we move at
    /// once: none is held back.
    fn bytes_of_messages(&mut self, call: &Call) -> usize {
        let memory = Memory(call.tid);
        let pieces = |index: usize| {
            let at = call.args[1].wrapping_add((index * MULTI_BYTES) as u64);
            Header::read(memory, at)?.pieces(memory)
        };
        let count = (call.args[2] as u32 as usize).min(MAX_MESSAGES);
        let all = (0..count).map(pieces).collect::<Result<Vec<_>>>();
        let all = all.map(|all| all.concat()).unwrap_or_default();
        let bytes = all.iter().map(|piece| piece.len).fold(0, usize::saturating_add);
        let read = memory::copy_in(call.tid, &all, &mut self.scratch);
        if read == Ok(bytes) { bytes } else { 0 }
    }

    fn receive_bytes(&mut self, key: u64, theirs: BorrowedFd, request: &Request) -> Result<Answer> {
        let message = Message::of(&request.call)?;
        let flags = message.flags;
        // A pair has no queue of errors and would give data instead.
        if flags & libc::MSG_ERRQUEUE != 0 {
            return Err(Errno(libc::EAGAIN));
        }
        let socket = self.sockets.get(&key).ok_or(Errno(libc::EBADF))?;
        let ended = match &socket.state {
            State::Fresh | State::Listening(_) => return Err(Errno(libc::ENOTCONN)),
            State::Connected(stream) => stream.end_passed(),
            State::Ended(_) => true,
            _ => return Ok(Answer::Native),
        };
        let special = flags & libc::MSG_TRUNC != 0 || flags & PEEK_ALL == PEEK_ALL;
        if flags & libc::MSG_OOB != 0 || !(message.addressed || special) {
            return Ok(Answer::Native);
        }
        self.receive_for_it(key, theirs, request, &message, ended)
    }

    fn receive_for_it(
        &mut self,
        key: u64,
        theirs: BorrowedFd,
        request: &Request,
        message: &Message,
        ended: bool,
    ) -> Result<Answer> {
        let (flags, all) = (message.flags, message.len());
        let (peek, wait_for_all) = (flags & libc::MSG_PEEK != 0, flags & libc::MSG_WAITALL != 0);
        let mut done = request.done;
        while done < all || all == 0 {
            let room = (all - done).min(self.scratch.len());
            let got = match system::recv(theirs, &mut self.scratch[..room], flags & libc::MSG_PEEK)
            {
                Ok(got) if peek && wait_for_all && got < room && !ended => Err(libc::EAGAIN),
                Ok(got) => Ok(got),
                Err(Errno(number)) => Err(number),
            };
            match got {
                Ok(0) => break,
                Ok(got) => {
                    if flags & libc::MSG_TRUNC == 0 {
                        let bytes = &self.scratch[..got];
                        let memory = Memory(request.call.tid);
                        if memory.scatter(&message.rest(done), bytes)? < got {
                            return Err(Errno(libc::EFAULT));
                        }
                    }
                    done += got;
                    if peek {
                        break;
                    }
                }
                Err(libc::EAGAIN) if done > 0 && !wait_for_all => break,
                Err(libc::EAGAIN) if flags & libc::MSG_DONTWAIT == 0 => {
                    let request = Request { done, ..*request };
                    match self.wait_or_fail(key, theirs, &request, libc::SO_RCVTIMEO) {
                        Err(Errno(libc::EAGAIN)) if done > 0 => break,
                        other => return other,
                    }
                }
                Err(_) if done > 0 => break,
                Err(number) => return Err(Errno(number)),
            }
        }
        no_address(&request.call, message)?;
        Ok(Answer::Value(done as i64))
    }

    /// Why the stream ended, if the program has not learnt it yet.
    pub(super) fn take_failure(&mut self, key: u64, theirs: BorrowedFd) -> i32 {
        let Some(socket) = self.sockets.get_mut(&key) else { return 0 };
        let State::Ended(failure) = &mut socket.state else { return 0 };
        let failure = std::mem::replace(failure, Failure::Reported);
        // What its end shows, a `read` may have taken already.
        let unread = || system::take_error(theirs) != Ok(0);
        match failure {
            Failure::InStack => {
                let unread = unread();
                let number = self.stack_error(key);
                if unread { number } else { 0 }
            }
            Failure::Shown(errno) if unread() => errno.0,
            Failure::Hidden(errno) => errno.0,
            Failure::Shown(_) | Failure::Reported => 0,
        }
    }
}

fn broken(flags: i32) -> Result<Answer> {
    let silent = flags & libc::MSG_NOSIGNAL != 0;
    if silent { Err(Errno(libc::EPIPE)) } else { Ok(Answer::BrokenPipe) }
}

/// What a stream's bytes come from has no name, nor ancillary data.
fn no_address(call: &Call, message: &Message) -> Result<()> {
    let memory = Memory(call.tid);
    match &message.header {
        Some(header) => header.write_back(memory, &[], &[], 0),
        None if call.args[4] != 0 => memory.write_int(call.args[5], 0),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// However a message is cut, what is left is what was not moved yet.
        #[test]
        fn the_rest_of_a_message_begins_where_its_beginning_ended(
            lens in prop::collection::vec(0usize..20, 0..8), done in 0usize..100
        ) {
            let mut at = 1000;
            let pieces: Vec<Piece> = lens.iter().map(|&len| {
                at += 100;
                Piece { address: at, len }
            }).collect();
            let bytes = |pieces: &[Piece]| -> Vec<u64> {
                pieces.iter().flat_map(|p| (p.address..).take(p.len)).collect()
            };
            let message = Message { pieces, flags: 0, addressed: false, header: None };
            let all = bytes(&message.pieces);
            prop_assert_eq!(bytes(&message.rest(done)), &all[done.min(all.len())..]);
        }
    }
}
