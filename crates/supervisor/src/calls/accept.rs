//! `listen` and `accept`, and how a listener becomes readable.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use libc::c_long;

use super::connect::copy_options;
use super::{Answer, give_address};
use crate::address::Address;
use crate::errno::{Errno, Result};
use crate::pair::Pair;
use crate::socket::{Queue, Request, State};
use crate::stack::SocketId;
use crate::stream::Stream;
use crate::supervisor::Supervisor;
use crate::system;

/// Bytes that tell of waiting connections: each new one is a new edge for `EPOLLET`, and nobody
/// needs more of them.
const MOST_TOKENS: usize = 64;

impl Supervisor<'_> {
    pub(super) fn listen(&mut self, key: u64, theirs: BorrowedFd, backlog: i32) -> Result<Answer> {
        let socket = self.sockets.get_mut(&key).ok_or(Errno(libc::EBADF))?;
        self.stack.listen(socket.id, backlog)?;
        if let State::Fresh = socket.state {
            self.join(key, theirs, true)?;
            // Nothing can be written to a listener.
            system::shutdown(theirs, libc::SHUT_WR)?;
            if let Some(socket) = self.sockets.get_mut(&key) {
                socket.state = State::Listening(Queue::default());
            }
        }
        Ok(Answer::Value(0))
    }

    pub(super) fn accept(
        &mut self,
        key: u64,
        theirs: BorrowedFd,
        request: &Request,
        flags: i32,
    ) -> Result<Answer> {
        if flags & !(libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK) != 0 {
            return Err(Errno(libc::EINVAL));
        }
        let (id, peer) = match self.next_connection(key) {
            Err(Errno(libc::EAGAIN)) => {
                self.nothing_waits(key, theirs);
                return self.wait_or_fail(key, theirs, request, libc::SO_RCVTIMEO);
            }
            other => other?,
        };
        // Before the program goes on, and looks.
        if !self.more_wait(key) {
            self.nothing_waits(key, theirs);
        }
        self.give_connection(key, Some(theirs), request, id, &peer, flags).inspect_err(|_| {
            if self.more_wait(key) {
                self.show_token(key);
            }
        })
    }

    /// As on the kernel, a thread that waits in `accept` gets the next connection although another one
    /// has closed the descriptor.
    pub fn accept_from_closed(&mut self, key: u64, request: &Request) {
        let call = &request.call;
        if !self.listener.waits(call.id) {
            return;
        }
        let with_flags = c_long::from(call.nr) == libc::SYS_accept4;
        let flags = if with_flags { call.int(3) } else { 0 };
        match self.next_connection(key) {
            Err(Errno(libc::EAGAIN)) => self.park(key, *request),
            Err(errno) => self.finish(call, Err(errno)),
            Ok((id, peer)) => {
                let answer = self.give_connection(key, None, request, id, &peer, flags);
                self.finish(call, answer);
            }
        }
    }

    fn next_connection(&mut self, key: u64) -> Result<(SocketId, Address)> {
        let socket = self.sockets.get_mut(&key).ok_or(Errno(libc::EBADF))?;
        if let State::Listening(queue) = &mut socket.state
            && let Some(taken) = queue.taken.pop_front()
        {
            return Ok(taken);
        }
        self.stack.accept(socket.id)
    }

    fn give_connection(
        &mut self,
        listener: u64,
        listening: Option<BorrowedFd>,
        request: &Request,
        id: SocketId,
        peer: &Address,
        flags: i32,
    ) -> Result<Answer> {
        let call = &request.call;
        if !self.listener.waits(call.id) {
            self.keep(listener, id, peer);
            return Err(Errno(libc::EINTR));
        }
        if call.args[1] != 0 {
            give_address(call, 1, peer).inspect_err(|_| self.stack.close(id))?;
        }
        let entered = self.enter_accepted(listener, listening, id);
        let (key, theirs) = entered.inspect_err(|_| self.keep(listener, id, peer))?;
        let given = self.hand_over(call, key, theirs.as_fd(), flags);
        if given.is_ok() {
            self.pump(key);
        } else {
            // A signal; no descriptor left. The next `accept` finds it.
            self.take_out(key);
            self.keep(listener, id, peer);
        }
        given
    }

    /// The new connection has what was set on its listener.
    fn enter_accepted(
        &mut self,
        listener: u64,
        listening: Option<BorrowedFd>,
        id: SocketId,
    ) -> Result<(u64, OwnedFd)> {
        let socket = self.sockets.get(&listener).ok_or(Errno(libc::EBADF))?;
        let (what, abort) = ((socket.domain, socket.kind, socket.protocol), socket.abort);
        let Pair { ours, theirs } = Pair::open()?;
        if let Some(listening) = listening {
            copy_options(listening, theirs.as_fd());
        }
        let state = State::Connected(Stream::default());
        let key = self.enter(id, what, theirs.as_fd(), Some(ours), state)?;
        if let Some(socket) = self.sockets.get_mut(&key) {
            socket.accepted = true;
            socket.abort = abort;
        }
        self.fit(key, theirs.as_fd());
        Ok((key, theirs))
    }

    fn keep(&mut self, listener: u64, id: SocketId, peer: &Address) {
        match self.sockets.get_mut(&listener).map(|socket| &mut socket.state) {
            Some(State::Listening(queue)) => queue.taken.push_back((id, *peer)),
            _ => self.stack.close(id),
        }
    }

    /// It listens no more: those who were taken for it go, too.
    pub(super) fn close_taken(&mut self, key: u64) {
        if let Some(socket) = self.sockets.get_mut(&key)
            && let State::Listening(queue) = &mut socket.state
        {
            for (id, _) in std::mem::take(&mut queue.taken) {
                self.stack.close(id);
            }
        }
    }

    fn more_wait(&mut self, key: u64) -> bool {
        let Some(socket) = self.sockets.get(&key) else { return false };
        let taken = matches!(&socket.state, State::Listening(queue) if !queue.taken.is_empty());
        taken || self.stack.poll(socket.id) & libc::EPOLLIN as u32 != 0
    }

    /// The stack has named a listener: somebody who waits in `accept` gets the connection, the others
    /// see the listener readable.
    pub fn connections_wait(&mut self, key: u64) {
        self.retry(key);
        if self.more_wait(key) {
            self.show_token(key);
        }
    }

    fn show_token(&mut self, key: u64) {
        if let Some((ours, queue)) = self.listening(key)
            && queue.tokens < MOST_TOKENS
            && system::send(ours, &[0], 0).is_ok()
        {
            queue.tokens += 1;
        }
    }

    /// The listener is not readable any more.
    fn nothing_waits(&mut self, key: u64, theirs: BorrowedFd) {
        if let Some((_, queue)) = self.listening(key)
            && queue.tokens > 0
        {
            queue.tokens = 0;
            let _ = system::recv(theirs, &mut [0; MOST_TOKENS], 0);
        }
    }

    fn listening(&mut self, key: u64) -> Option<(BorrowedFd<'_>, &mut Queue)> {
        let socket = self.sockets.get_mut(&key)?;
        match (&socket.ours, &mut socket.state) {
            (Some(ours), State::Listening(queue)) => Some((ours.as_fd(), queue)),
            _ => None,
        }
    }
}
