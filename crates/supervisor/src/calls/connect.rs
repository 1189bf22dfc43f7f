//! `connect`, blocking or not, and how its end is reported.

use std::os::fd::{AsFd, BorrowedFd};

use super::{Answer, address};
use crate::address::Address;
use crate::errno::{Errno, Result};
use crate::notify::Call;
use crate::pair;
use crate::socket::{Failure, Request, State};
use crate::stream::Stream;
use crate::supervisor::Supervisor;
use crate::system;

/// Options that the program's end has itself: its replacement must have them, too, and what a listener
/// accepts.
const OF_THE_END: [i32; 4] =
    [libc::SO_RCVTIMEO, libc::SO_SNDTIMEO, libc::SO_RCVLOWAT, libc::SO_OOBINLINE];

impl Supervisor<'_> {
    pub(super) fn connect(
        &mut self,
        key: u64,
        theirs: BorrowedFd,
        request: &Request,
    ) -> Result<Answer> {
        let address = address(&request.call)?;
        let socket = self.sockets.get(&key).ok_or(Errno(libc::EBADF))?;
        let (id, disconnects) = (socket.id, address.family() == libc::AF_UNSPEC);
        match socket.state {
            // A blocking one that a signal has interrupted goes on waiting.
            State::Connecting(_) if !disconnects => {
                let request = Request { done: 1, ..*request };
                return self.wait_connected(key, theirs, &request, Errno(libc::EALREADY));
            }
            State::Ended(failure) => self.forget_read_error(failure, theirs, key),
            _ => {}
        }
        let socket = self.sockets.get(&key).ok_or(Errno(libc::EBADF))?;
        let (fresh, ended) =
            (matches!(socket.state, State::Fresh), matches!(socket.state, State::Ended(_)));
        let stream = socket.is_stream();
        let connecting = self.connect_or_clear(id, &address);
        match connecting {
            Ok(()) if stream && disconnects && !fresh => {
                self.close_taken(key);
                let key = self.replace(key, theirs, &request.call)?;
                self.retry(key);
            }
            Ok(()) if fresh && !disconnects => {
                self.join(key, theirs, false)?;
                self.set_state(key, State::Connected(Stream::default()));
                self.fit(key, theirs);
            }
            Err(errno @ Errno(libc::EINPROGRESS)) if fresh => {
                self.join(key, theirs, true)?;
                self.set_state(key, State::Connecting(address));
                self.fit(key, theirs);
                return self.wait_connected(key, theirs, request, errno);
            }
            // The failure of the attempt before is reported, and it may connect anew.
            Err(errno) if ended && errno.0 != libc::EISCONN => {
                // A signal may keep the new end from it; the failure is told all the same.
                let _ = self.replace(key, theirs, &request.call);
                return Err(errno);
            }
            Ok(()) if !stream => self.name_peer(key, theirs, !disconnects)?,
            other => other?,
        }
        Ok(Answer::Value(0))
    }

    /// Whether the program's end of a datagram socket has somewhere to send to.
    fn name_peer(&mut self, key: u64, theirs: BorrowedFd, there: bool) -> Result<()> {
        let socket = self.sockets.get(&key).ok_or(Errno(libc::EBADF))?;
        match &socket.state {
            State::Datagram(datagram) if there => datagram.wire.connect(theirs),
            State::Datagram(datagram) => datagram.wire.disconnect(theirs),
            _ => Ok(()),
        }
    }

    /// No port may be left only because we have not seen yet which sockets the program has closed.
    fn connect_or_clear(&mut self, id: crate::SocketId, address: &Address) -> Result<()> {
        match self.stack.connect(id, address.as_bytes()) {
            Err(Errno(libc::EADDRNOTAVAIL)) => {
                self.notice_closed();
                self.stack.connect(id, address.as_bytes())
            }
            other => other,
        }
    }

    fn set_state(&mut self, key: u64, state: State) {
        if let Some(socket) = self.sockets.get_mut(&key) {
            socket.state = state;
        }
    }

    fn wait_connected(
        &mut self,
        key: u64,
        theirs: BorrowedFd,
        request: &Request,
        not_blocking: Errno,
    ) -> Result<Answer> {
        match self.wait_or_fail(key, theirs, request, libc::SO_SNDTIMEO) {
            Err(Errno(libc::EAGAIN)) => Err(not_blocking),
            other => other,
        }
    }

    /// The stack has named a socket that is being connected.
    pub fn connection_decided(&mut self, key: u64) {
        let Some(socket) = self.sockets.get_mut(&key) else { return };
        let State::Connecting(address) = socket.state else { return };
        let failed = (libc::EPOLLERR | libc::EPOLLHUP) as u32;
        let events = self.stack.poll(socket.id);
        if events & (libc::EPOLLOUT as u32 | failed) == 0 {
            return;
        }
        let (id, mut waiting) = (socket.id, std::mem::take(&mut socket.waiting));
        for one in &waiting {
            self.waiting.remove(&one.call.tid);
        }
        waiting.retain(|one| self.listener.waits(one.call.id));
        if waiting.is_empty() {
            // The program learns it from `poll`, and from the stack: `SO_ERROR`, or `connect` again.
            return if events & failed == 0 { self.stands(key) } else { self.refused(key) };
        }
        // Who waits learns it from the call, and as from a blocking one: nothing is left to ask.
        let result = self.stack.connect(id, address.as_bytes());
        if let Ok(()) | Err(Errno(libc::EISCONN)) = result {
            self.stands(key);
            for one in waiting {
                self.finish(&one.call, Ok(Answer::Value(0)));
            }
            return;
        }
        let mut key = key;
        for one in waiting {
            if let Ok(theirs) = self.processes.descriptor(one.call.tid, one.call.fd()) {
                key = self.replace(key, theirs.as_fd(), &one.call).unwrap_or(key);
            }
            self.finish(&one.call, result.map(|()| Answer::Value(0)));
        }
    }

    /// The connection stands: from now on the program can write.
    fn stands(&mut self, key: u64) {
        let theirs = self.program_end(key);
        let Some(socket) = self.sockets.get_mut(&key) else { return };
        // First the buffer: nobody who sees the pair writable is to find it small.
        if let Some(theirs) = theirs {
            socket.narrow = false;
            self.fit(key, theirs.as_fd());
        }
        let Some(socket) = self.sockets.get_mut(&key) else { return };
        let Some(ours) = &socket.ours else { return };
        pair::empty(ours.as_fd(), socket.filled);
        socket.filled = 0;
        socket.state = State::Connected(Stream::default());
        // The peer may have spoken first.
        self.pump(key);
    }

    fn refused(&mut self, key: u64) {
        let theirs = self.program_end(key);
        self.bury(key, theirs.as_ref().map(|theirs| theirs.as_fd()), Failure::InStack);
    }

    /// A program that has read the error from its end is not told again by the stack.
    fn forget_read_error(&mut self, failure: Failure, theirs: BorrowedFd, key: u64) {
        if failure == Failure::InStack && system::take_error(theirs) == Ok(0) {
            self.stack_error(key);
        }
    }

    /// The stack's `SO_ERROR`, which is then cleared.
    pub(super) fn stack_error(&mut self, key: u64) -> i32 {
        let Some(socket) = self.sockets.get(&key) else { return 0 };
        let mut bytes = [0; 4];
        let asked = self.stack.getsockopt(socket.id, libc::SOL_SOCKET, libc::SO_ERROR, &mut bytes);
        asked.map_or(0, |_| i32::from_ne_bytes(bytes))
    }

    /// A stream that is not connected any more gets a new end in the place of the one that was, under
    /// the number by which the call knows it. Gives its new key.
    pub(super) fn replace(&mut self, key: u64, theirs: BorrowedFd, call: &Call) -> Result<u64> {
        let end = pair::unconnected()?;
        copy_settings(theirs, end.as_fd());
        self.put_in_place(end.as_fd(), call)?;
        let key = self.rename(key, end.as_fd())?;
        if let Some(socket) = self.sockets.get_mut(&key) {
            socket.holder = (call.tid, call.fd());
        }
        Ok(key)
    }

    /// The program uses a copy of an end that was replaced: the copy is replaced, too. Gives the key
    /// of the end in its place.
    pub(super) fn follow(&mut self, old: u64, call: &Call) -> Option<u64> {
        let key = *self.replaced.get(&old)?;
        let end = self.program_end(key)?;
        self.put_in_place(end.as_fd(), call).ok()?;
        Some(key)
    }

    /// Close-on-exec belongs to the descriptor, not to what we have a copy of.
    fn put_in_place(&mut self, end: BorrowedFd, call: &Call) -> Result<()> {
        let close_on_exec = self.processes.is_close_on_exec(call.tid, call.fd());
        self.listener.replace(call.id, end, call.fd(), close_on_exec).map(drop)
    }
}

fn copy_settings(from: BorrowedFd, to: BorrowedFd) {
    if let Ok(flags) = system::status_flags(from) {
        let _ = system::set_status_flags(to, flags);
    }
    copy_options(from, to);
}

pub(super) fn copy_options(from: BorrowedFd, to: BorrowedFd) {
    for name in OF_THE_END {
        let mut value = [0; 16];
        if let Ok(len) = system::get_option(from, libc::SOL_SOCKET, name, &mut value) {
            let _ = system::set_option(to, libc::SOL_SOCKET, name, &value[..len]);
        }
    }
}
