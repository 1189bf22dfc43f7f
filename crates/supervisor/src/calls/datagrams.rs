//! `sendto`, `sendmsg`, `recvfrom`, `recvmsg` and their `mmsg` forms on datagram sockets.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use libc::c_long;

use super::{Answer, give_address, read_address};
use crate::address::Address;
use crate::datagram::Arrived;
use crate::errno::{Errno, Result};
use crate::memory::{Memory, Piece};
use crate::message::{Header, MULTI_BYTES, MULTI_LEN_AT};
use crate::notify::Call;
use crate::pair;
use crate::rights;
use crate::socket::{Request, State};
use crate::stack::Received;
use crate::supervisor::Supervisor;
use crate::system;

/// `UIO_MAXIOV`: the kernel cuts a vector of messages to as many.
pub(super) const MAX_MESSAGES: usize = 1024;

/// A datagram that was taken from the pair, or an error message from the stack's queue of them.
struct Taken {
    /// As it was sent; what is beyond the room is lost.
    len: usize,
    arrived: Arrived,
    flags: i32,
}

impl Supervisor<'_> {
    pub(super) fn send_datagrams(
        &mut self,
        key: u64,
        theirs: BorrowedFd,
        request: &Request,
    ) -> Result<Answer> {
        let call = &request.call;
        let memory = Memory(call.tid);
        if c_long::from(call.nr) == libc::SYS_sendto && call.args[4] == 0 {
            // Its end puts the parts of such a datagram together itself (`MSG_MORE`).
            return Ok(Answer::Native);
        }
        if let Some(errno) = self.pending_error(key, theirs) {
            return Err(errno);
        }
        let (sent, flags) = match c_long::from(call.nr) {
            libc::SYS_sendto => {
                let piece = Piece { address: call.args[1], len: call.args[2] as usize };
                let name = read_address(memory, call.args[4], call.int(5));
                let flags = call.int(3);
                (
                    name.and_then(|name| self.send_one(key, memory, &[piece], flags, &name, &[])),
                    flags,
                )
            }
            libc::SYS_sendmsg => {
                let flags = call.int(2);
                (self.send_message(key, memory, call.args[1], flags), flags)
            }
            _ => (self.send_many(key, memory, call), call.int(3)),
        };
        match sent {
            Err(Errno(libc::EAGAIN)) if flags & libc::MSG_DONTWAIT == 0 => {
                self.wait_or_fail(key, theirs, request, libc::SO_SNDTIMEO)
            }
            other => other.map(|sent| Answer::Value(sent as i64)),
        }
    }

    /// How many were sent; an error only of the first.
    fn send_many(&mut self, key: u64, memory: Memory, call: &Call) -> Result<usize> {
        let (at, flags) = (call.args[1], call.int(3));
        let count = (call.args[2] as u32 as usize).min(MAX_MESSAGES);
        for index in 0..count {
            let header = at + (index * MULTI_BYTES) as u64;
            match self.send_message(key, memory, header, flags) {
                Ok(sent) => memory.write_int(header + MULTI_LEN_AT, sent as i32)?,
                Err(errno) if index == 0 => return Err(errno),
                Err(_) => return Ok(index),
            }
        }
        Ok(count)
    }

    fn send_message(&mut self, key: u64, memory: Memory, at: u64, flags: i32) -> Result<usize> {
        let header = Header::read(memory, at)?;
        let pieces = header.pieces(memory)?;
        let name = match header.name {
            0 => Address::default(),
            name => read_address(memory, name, header.name_len as i32)?,
        };
        let control = header.control(memory)?;
        rights::for_message(memory.0, &control)?;
        self.send_one(key, memory, &pieces, flags, &name, &control)
    }

    fn send_one(
        &mut self,
        key: u64,
        memory: Memory,
        pieces: &[Piece],
        flags: i32,
        name: &Address,
        control: &[u8],
    ) -> Result<usize> {
        let socket = self.sockets.get(&key).ok_or(Errno(libc::EBADF))?;
        let len: usize = pieces.iter().map(|piece| piece.len).sum();
        if len > self.scratch.len() {
            return Err(Errno(libc::EMSGSIZE));
        }
        if memory.gather(pieces, &mut self.scratch[..len])? < len {
            return Err(Errno(libc::EFAULT));
        }
        let destination = (!name.is_empty()).then_some(name.as_bytes());
        let data = [IoSlice::new(&self.scratch[..len])];
        self.stack.send(socket.id, &data, flags, destination, control)
    }

    pub(super) fn receive_datagrams(
        &mut self,
        key: u64,
        theirs: BorrowedFd,
        request: &Request,
    ) -> Result<Answer> {
        let call = &request.call;
        if c_long::from(call.nr) == libc::SYS_recvmmsg {
            return self.receive_many(key, theirs, request);
        }
        let (received, flags) = match c_long::from(call.nr) {
            libc::SYS_recvfrom => (self.receive_from(key, theirs, call), call.int(3)),
            _ => {
                let flags = call.int(2);
                let header = Header::read(Memory(call.tid), call.args[1]);
                (
                    header.and_then(|header| self.receive_into(key, theirs, call, &header, flags)),
                    flags,
                )
            }
        };
        match received {
            Err(Errno(libc::EAGAIN)) if flags & (libc::MSG_DONTWAIT | libc::MSG_ERRQUEUE) == 0 => {
                match self.wait_or_fail(key, theirs, request, libc::SO_RCVTIMEO) {
                    // Nothing comes any more: nobody waits for it.
                    Ok(Answer::Later) if is_shut_down(theirs) => {
                        self.unpark(call.tid);
                        Ok(Answer::Value(0))
                    }
                    other => other,
                }
            }
            other => other.map(|received| Answer::Value(received as i64)),
        }
    }

    fn receive_from(&mut self, key: u64, theirs: BorrowedFd, call: &Call) -> Result<usize> {
        let (len, flags) = (call.args[2] as usize, call.int(3));
        let taken = self.take(key, theirs, flags, 0)?;
        let piece = Piece { address: call.args[1], len };
        let copied = self.copy_out(call, &[piece], &taken)?;
        if call.args[4] != 0 {
            give_address(call, 4, &taken.arrived.source)?;
        }
        Ok(if flags & libc::MSG_TRUNC != 0 { taken.len } else { copied })
    }

    fn receive_into(
        &mut self,
        key: u64,
        theirs: BorrowedFd,
        call: &Call,
        header: &Header,
        flags: i32,
    ) -> Result<usize> {
        let memory = Memory(call.tid);
        let pieces = header.pieces(memory)?;
        let taken = self.take(key, theirs, flags, header.control_room())?;
        let copied = self.copy_out(call, &pieces, &taken)?;
        let mut told = taken.flags;
        if copied < taken.len {
            told |= libc::MSG_TRUNC;
        }
        let mut control = &taken.arrived.control[..];
        if control.len() > header.control_room() {
            control = whole_messages(control, header.control_room());
            told |= libc::MSG_CTRUNC;
        }
        header.write_back(memory, taken.arrived.source.as_bytes(), control, told)?;
        Ok(if flags & libc::MSG_TRUNC != 0 { taken.len } else { copied })
    }

    /// As many as were asked for, or as the flags and the time that is given allow.
    fn receive_many(&mut self, key: u64, theirs: BorrowedFd, request: &Request) -> Result<Answer> {
        let call = &request.call;
        let memory = Memory(call.tid);
        let (at, flags) = (call.args[1], call.int(3));
        let count = (call.args[2] as u32 as usize).min(MAX_MESSAGES);
        let until = request.until.or(time_given(memory, call.args[4])?);
        let mut done = request.done;
        while done < count {
            let header_at = at + (done * MULTI_BYTES) as u64;
            let header = Header::read(memory, header_at)?;
            // As the kernel has it: not the time, but the first datagram after it, ends the call.
            let late = done > 0 && until.is_some_and(|until| Instant::now() >= until);
            match self.receive_into(key, theirs, call, &header, flags & !libc::MSG_WAITFORONE) {
                Ok(received) => memory.write_int(header_at + MULTI_LEN_AT, received as i32)?,
                Err(Errno(libc::EAGAIN)) if flags & libc::MSG_DONTWAIT == 0 && !late => {
                    if done > 0 && flags & libc::MSG_WAITFORONE != 0 {
                        break;
                    }
                    let request = Request { done, until, ..*request };
                    match self.wait_or_fail(key, theirs, &request, libc::SO_RCVTIMEO) {
                        Err(Errno(libc::EAGAIN)) if done > 0 => break,
                        other => return other,
                    }
                }
                Err(errno) if done == 0 => return Err(errno),
                Err(_) => break,
            }
            done += 1;
        }
        Ok(Answer::Value(done as i64))
    }

    /// An error of the network that no call has reported yet.
    pub(super) fn pending_error(&mut self, key: u64, theirs: BorrowedFd) -> Option<Errno> {
        let State::Datagram(datagram) = &mut self.sockets.get_mut(&key)?.state else { return None };
        let errno = datagram.shown.take()?;
        // A native call may have reported it.
        (system::take_error(theirs) != Ok(0)).then_some(errno)
    }

    /// The next datagram, into `scratch`.
    fn take(&mut self, key: u64, theirs: BorrowedFd, flags: i32, room: usize) -> Result<Taken> {
        let socket = self.sockets.get_mut(&key).ok_or(Errno(libc::EBADF))?;
        if flags & libc::MSG_ERRQUEUE != 0 {
            let mut message = Received { control: Vec::with_capacity(room), ..Received::default() };
            let data = &mut [IoSliceMut::new(&mut self.scratch)];
            let len = self.stack.recv(socket.id, data, libc::MSG_ERRQUEUE, Some(&mut message))?;
            // The one that stands for it, for `poll`.
            let _ = system::recv(theirs, &mut [], libc::MSG_ERRQUEUE);
            let Received { source, control, flags } = message;
            let arrived = Arrived { source, control, ..Arrived::default() };
            return Ok(Taken { len, arrived, flags });
        }
        let State::Datagram(datagram) = &mut socket.state else {
            return Err(Errno(libc::ENOTCONN));
        };
        let taken = datagram.take(theirs, &mut self.scratch, flags)?;
        let (len, arrived) = taken.unwrap_or_default();
        Ok(Taken { len, arrived, flags: 0 })
    }

    fn copy_out(&self, call: &Call, pieces: &[Piece], taken: &Taken) -> Result<usize> {
        let room: usize = pieces.iter().map(|piece| piece.len).fold(0, usize::saturating_add);
        let len = taken.len.min(room).min(self.scratch.len());
        if Memory(call.tid).scatter(pieces, &self.scratch[..len])? < len {
            return Err(Errno(libc::EFAULT));
        }
        Ok(len)
    }
}

/// The program has shut it down for receiving.
fn is_shut_down(theirs: BorrowedFd) -> bool {
    pair::events(theirs) & libc::POLLRDHUP != 0
}

/// The `struct timespec` of `recvmmsg`.
fn time_given(memory: Memory, at: u64) -> Result<Option<Instant>> {
    if at == 0 {
        return Ok(None);
    }
    let mut bytes = [0; 16];
    memory.read(at, &mut bytes)?;
    let (seconds, nanos) = bytes.split_at(8);
    let seconds = i64::from_ne_bytes(seconds.try_into().expect("half of 16"));
    let nanos = i64::from_ne_bytes(nanos.try_into().expect("half of 16"));
    match (u64::try_from(seconds), u32::try_from(nanos)) {
        (Ok(seconds), Ok(nanos @ 0..1_000_000_000)) => {
            Ok(Instant::now().checked_add(Duration::new(seconds, nanos)))
        }
        _ => Err(Errno(libc::EINVAL)),
    }
}

/// Ancillary messages that fit, whole ones only: `cmsg_len` is the first word of each, and each
/// begins at a multiple of 8 bytes.
fn whole_messages(control: &[u8], room: usize) -> &[u8] {
    let mut end = 0;
    while let Some(first) = control.get(end..end + 8) {
        let len = usize::from_ne_bytes(first.try_into().expect("eight bytes"));
        let next = end.saturating_add(len.max(16).next_multiple_of(8));
        if next > room.min(control.len()) {
            break;
        }
        end = next;
    }
    &control[..end]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ancillary_messages_are_not_cut_in_the_middle() {
        let mut control = vec![0; 48];
        control[0] = 20;
        control[24] = 24;
        assert_eq!(whole_messages(&control, 48).len(), 48);
        assert_eq!(whole_messages(&control, 47).len(), 24);
        assert_eq!(whole_messages(&control, 23).len(), 0);
    }

    proptest! {
        #[test]
        fn no_ancillary_data_leads_out_of_its_room(
            control in prop::collection::vec(any::<u8>(), 0..200), room in 0usize..300
        ) {
            prop_assert!(whole_messages(&control, room).len() <= room.min(control.len()));
        }
    }
}
