//! `listen` and `accept`, and how a listener becomes readable.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use crate::address::Address;
use crate::calls::{Answer, give_address};
use crate::errno::{Errno, Result};
use crate::notify::Call;
use crate::pair::Pair;
use crate::socket::{Queue, Role};
use crate::stack::SocketId;
use crate::supervisor::Supervisor;
use crate::system;

/// Bytes that tell of waiting connections: each new one is a new edge for `EPOLLET`, and nobody
/// needs more of them.
const MOST_TOKENS: usize = 64;

impl Supervisor<'_> {
    pub fn listen(&mut self, key: u64, id: SocketId, backlog: i32) -> Result<Answer> {
        self.stack.listen(id, backlog)?;
        if let Some(socket) = self.sockets.get_mut(&key)
            && matches!(socket.role, Role::Fresh)
        {
            socket.role = Self::listening_role();
        }
        Ok(Answer::Value(0))
    }

    pub fn accept(
        &mut self,
        key: u64,
        theirs: BorrowedFd,
        call: &Call,
        flags: i32,
        until: Option<Instant>,
    ) -> Result<Answer> {
        if flags & !(libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK) != 0 {
            return Err(Errno(libc::EINVAL));
        }
        let (id, peer) = match self.next_connection(key) {
            Err(Errno(libc::EAGAIN)) => {
                self.nothing_waits(key, theirs);
                return self.wait_or_fail(key, theirs, call, libc::SO_RCVTIMEO, until);
            }
            other => other?,
        };
        let answer = self.give_connection(key, call, id, &peer, flags);
        if !self.more_wait(key) {
            self.nothing_waits(key, theirs);
        }
        answer
    }

    fn next_connection(&mut self, key: u64) -> Result<(SocketId, Address)> {
        let socket = self.sockets.get_mut(&key).ok_or(Errno(libc::EBADF))?;
        if let Role::Listening(queue) = &mut socket.role
            && let Some(taken) = queue.taken.pop_front()
        {
            return Ok(taken);
        }
        self.stack.accept(socket.id)
    }

    fn give_connection(
        &mut self,
        listener: u64,
        call: &Call,
        id: SocketId,
        peer: &Address,
        flags: i32,
    ) -> Result<Answer> {
        if !self.listener.waits(call.id) {
            self.keep(listener, id, peer);
            return Err(Errno(libc::EINTR));
        }
        if call.args[1] != 0 {
            give_address(call, 1, peer).inspect_err(|_| self.stack.close(id))?;
        }
        let what = match self.sockets.get(&listener) {
            Some(socket) => (socket.domain, socket.kind, socket.protocol),
            None => return Err(Errno(libc::EBADF)),
        };
        let entered = Pair::open(libc::SOCK_STREAM)
            .and_then(|pair| self.enter(id, what, (pair, 0), Self::connected_role()));
        let (key, theirs) = entered.inspect_err(|_| self.stack.close(id))?;
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

    fn keep(&mut self, listener: u64, id: SocketId, peer: &Address) {
        match self.sockets.get_mut(&listener).map(|socket| &mut socket.role) {
            Some(Role::Listening(queue)) => queue.taken.push_back((id, *peer)),
            _ => self.stack.close(id),
        }
    }

    fn more_wait(&mut self, key: u64) -> bool {
        let Some(socket) = self.sockets.get(&key) else { return false };
        let taken = matches!(&socket.role, Role::Listening(queue) if !queue.taken.is_empty());
        taken || self.stack.poll(socket.id) & libc::EPOLLIN as u32 != 0
    }

    /// The stack has named a listener: somebody who waits in `accept` gets the connection, the others
    /// see the listener readable.
    pub fn connections_wait(&mut self, key: u64) {
        self.retry(key);
        if !self.more_wait(key) {
            return;
        }
        if let Some((ours, queue)) = self.listening(key)
            && queue.tokens < MOST_TOKENS
            && system::send(ours, &[0]).is_ok()
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
        match (&socket.ours, &mut socket.role) {
            (Some(ours), Role::Listening(queue)) => Some((ours.as_fd(), queue)),
            _ => None,
        }
    }
}
