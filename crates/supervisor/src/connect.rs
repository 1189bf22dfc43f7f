//! `connect`, blocking or not, and how its end is told.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use crate::calls::{Answer, address};
use crate::errno::{Errno, Result};
use crate::notify::Call;
use crate::pair::{self, Pair};
use crate::socket::Role;
use crate::supervisor::Supervisor;
use crate::system;

impl Supervisor<'_> {
    pub fn connect(
        &mut self,
        key: u64,
        theirs: BorrowedFd,
        call: &Call,
        until: Option<Instant>,
    ) -> Result<Answer> {
        let address = address(call)?;
        let socket = self.sockets.get_mut(&key).ok_or(Errno(libc::EBADF))?;
        if let Some(errno) = socket.error.take() {
            return Err(errno);
        }
        let stream = socket.is_stream();
        let key =
            if matches!(socket.role, Role::Dead) { self.revive(key, theirs, call)? } else { key };
        let socket = self.sockets.get_mut(&key).ok_or(Errno(libc::EBADF))?;
        if let Role::Connecting = socket.role {
            // A blocking one that a signal has interrupted goes on waiting.
            return self.wait(key, theirs, call, until, Errno(libc::EALREADY));
        }
        if socket.told && address.family() != libc::AF_UNSPEC {
            return Err(Errno(libc::EISCONN));
        }
        let mut connecting = self.stack.connect(socket.id, address.as_bytes());
        if std::mem::take(&mut socket.refused) && connecting == Err(Errno(libc::ECONNABORTED)) {
            connecting = self.stack.connect(socket.id, address.as_bytes());
        }
        match connecting {
            Ok(()) => {
                if stream && address.family() != libc::AF_UNSPEC {
                    self.connected(key, Some(theirs));
                }
                Ok(Answer::Value(0))
            }
            Err(errno @ Errno(libc::EINPROGRESS | libc::EALREADY)) if stream => {
                socket.role = Role::Connecting;
                self.wait(key, theirs, call, until, errno)
            }
            Err(errno) => Err(errno),
        }
    }

    fn wait(
        &mut self,
        key: u64,
        theirs: BorrowedFd,
        call: &Call,
        until: Option<Instant>,
        not_blocking: Errno,
    ) -> Result<Answer> {
        match self.wait_or_fail(key, theirs, call, libc::SO_SNDTIMEO, until) {
            Err(Errno(libc::EAGAIN)) => Err(not_blocking),
            other => other,
        }
    }

    /// The stack has named a socket that is being connected.
    pub fn connection_decided(&mut self, key: u64) {
        let Some(socket) = self.sockets.get(&key) else { return };
        let id = socket.id;
        let decided = (libc::EPOLLOUT | libc::EPOLLERR | libc::EPOLLHUP) as u32;
        if self.stack.poll(id) & decided == 0 {
            return;
        }
        let mut error = [0; 4];
        let asked = self.stack.getsockopt(id, libc::SOL_SOCKET, libc::SO_ERROR, &mut error);
        match asked.map(|_| i32::from_ne_bytes(error)) {
            Ok(0) => {
                self.connected(key, None);
                let told = self.answer_connect(key, Ok(Answer::Value(0)));
                if let Some(socket) = self.sockets.get_mut(&key) {
                    socket.told = told;
                }
                // The peer may have spoken first.
                self.pump(key);
            }
            Ok(number) => self.refused(key, Errno(number)),
            Err(errno) => self.refused(key, errno),
        }
    }

    /// From now on the program can write.
    fn connected(&mut self, key: u64, theirs: Option<BorrowedFd>) {
        let found = if theirs.is_none() { self.program_end(key) } else { None };
        let theirs = theirs.or(found.as_ref().map(|found| found.as_fd()));
        let Some(socket) = self.sockets.get_mut(&key) else { return };
        let Some(ours) = &socket.ours else { return };
        // First the buffer: nobody who sees the pair writable is to find it small.
        if let Some(theirs) = theirs {
            pair::widen(theirs);
            socket.narrow = false;
        }
        pair::empty(ours.as_fd(), socket.filled);
        socket.filled = 0;
        socket.role = Self::connected_role();
    }

    fn refused(&mut self, key: u64, errno: Errno) {
        if self.answer_connect(key, Err(errno)) {
            if let Some(socket) = self.sockets.get_mut(&key) {
                socket.role = Role::Fresh;
                socket.refused = true;
            }
            return;
        }
        let theirs = self.program_end(key);
        if let Some(socket) = self.sockets.get_mut(&key) {
            socket.error = Some(errno);
        }
        self.bury(key, theirs.as_ref().map(|theirs| theirs.as_fd()));
    }

    /// Whether anybody was still waiting.
    fn answer_connect(&mut self, key: u64, answer: Result<Answer>) -> bool {
        let Some(socket) = self.sockets.get_mut(&key) else { return false };
        let mut any = false;
        for waiting in std::mem::take(&mut socket.waiting) {
            self.waiting.remove(&waiting.call.tid);
            any |= self.listener.waits(waiting.call.id);
            self.finish(&waiting.call, answer);
        }
        any
    }

    /// A stream socket may be connected anew after it was refused: its dead pair is replaced by
    /// another under the same number.
    fn revive(&mut self, key: u64, theirs: BorrowedFd, call: &Call) -> Result<u64> {
        let flags = system::status_flags(theirs)?;
        let (pair, filled) = Pair::prefilled()?;
        system::set_status_flags(pair.theirs.as_fd(), flags)?;
        // Close-on-exec belongs to the descriptor, not to what we have a copy of.
        let close_on_exec = self.processes.is_close_on_exec(call.tid, call.fd());
        self.listener.replace(call.id, pair.theirs.as_fd(), call.fd(), close_on_exec)?;
        let old = self.take_out(key).ok_or(Errno(libc::EBADF))?;
        let what = (old.domain, old.kind, old.protocol);
        let (key, _) = self.enter(old.id, what, (pair, filled), Role::Fresh)?;
        if let Some(socket) = self.sockets.get_mut(&key) {
            socket.holder = (call.tid, call.fd());
        }
        Ok(key)
    }
}
