//! Each call of the program: whose socket it means, what it is answered.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use libc::c_long;

use crate::address::{Address, CAPACITY};
use crate::errno::{Errno, Result};
use crate::memory::Memory;
use crate::notify::Call;
use crate::pair::{self, Pair};
use crate::socket::{Role, Waiting};
use crate::supervisor::Supervisor;
use crate::system;

/// `SOCK_TYPE_MASK`: the flags of `socket` and `accept4` lie above.
const SOCK_TYPE_MASK: i32 = 0xf;

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Value(i64),
    /// The kernel carries it out: on a descriptor that is not ours, or on our pair itself.
    Native,
    /// It waits for its socket.
    Later,
    /// Answered already, together with a new descriptor of this number.
    Handed(i32),
}

impl Supervisor<'_> {
    /// Answers a call, now or later.
    pub fn serve(&mut self, call: &Call) {
        self.unpark(call.tid);
        if let Some((before, answer)) = self.unheard.remove(&call.tid)
            && before.nr == call.nr
            && before.args == call.args
        {
            return self.finish(call, answer.map(Answer::Value));
        }
        let answer = self.carry_out(call, None);
        self.finish(call, answer);
    }

    /// The same for a call that has waited.
    pub fn serve_again(&mut self, waiting: &Waiting) {
        if self.listener.waits(waiting.call.id) {
            let answer = self.carry_out(&waiting.call, waiting.until);
            self.finish(&waiting.call, answer);
        }
    }

    pub fn finish(&mut self, call: &Call, answer: Result<Answer>) {
        self.trace.call(call, answer);
        let said = match answer {
            Ok(Answer::Value(value)) => self.listener.answer(call.id, Ok(value)),
            Err(errno) => self.listener.answer(call.id, Err(errno)),
            Ok(Answer::Native) => self.listener.let_through(call.id),
            Ok(Answer::Later | Answer::Handed(_)) => return,
        };
        // A signal was quicker. The kernel repeats the call if the program's handler says so, and
        // then it must not be carried out twice.
        if said == Err(Errno(libc::ENOENT))
            && once_only(call.nr)
            && let Ok(Answer::Value(value)) = answer
        {
            self.unheard.insert(call.tid, (*call, Ok(value)));
        }
    }

    /// `until` is when a call that has waited before gives up.
    fn carry_out(&mut self, call: &Call, until: Option<Instant>) -> Result<Answer> {
        if c_long::from(call.nr) == libc::SYS_socket {
            return self.socket(call);
        }
        // Programs talk much over Unix sockets: not even a look at whose it is, if it cannot matter.
        let native = Ok(Answer::Native);
        if self.datagrams == 0 && is_message(call.nr) && on_stream(call) == native {
            return native;
        }
        // No such descriptor, no socket, not ours: the kernel knows what to say.
        let theirs = match self.processes.descriptor(call.tid, call.fd()) {
            Ok(theirs) => theirs,
            Err(errno) => {
                self.trace.not_seen(call, errno);
                return Ok(Answer::Native);
            }
        };
        let theirs = theirs.as_fd();
        let Ok(key) = system::cookie(theirs) else { return Ok(Answer::Native) };
        let Some(socket) = self.sockets.get_mut(&key) else { return Ok(Answer::Native) };
        if !self.listener.waits(call.id) {
            // The number of its thread may mean another one by now, and so its memory.
            return Err(Errno(libc::EINTR));
        }
        socket.holder = (call.tid, call.fd());
        if socket.narrow && matches!(socket.role, Role::Connected(_)) {
            socket.narrow = false;
            pair::widen(theirs);
        }
        if socket.is_stream() {
            // What it wrote before this call is to be with the stack before it.
            self.pump(key);
            if !self.sockets.contains_key(&key) {
                return Err(Errno(libc::ECONNRESET));
            }
        }
        self.on_socket(key, theirs, call, until)
    }

    /// A call on a socket of ours.
    fn on_socket(
        &mut self,
        key: u64,
        theirs: BorrowedFd,
        call: &Call,
        until: Option<Instant>,
    ) -> Result<Answer> {
        let socket = self.sockets.get(&key).ok_or(Errno(libc::EBADF))?;
        let (id, stream) = (socket.id, socket.is_stream());
        match c_long::from(call.nr) {
            libc::SYS_bind => {
                self.stack.bind(id, address(call)?.as_bytes()).map(|()| Answer::Value(0))
            }
            libc::SYS_connect => self.connect(key, theirs, call, until),
            libc::SYS_listen => self.listen(key, id, call.int(1)),
            libc::SYS_accept => self.accept(key, theirs, call, 0, until),
            libc::SYS_accept4 => self.accept(key, theirs, call, call.int(3), until),
            libc::SYS_getsockname => give_address(call, 1, &self.stack.getsockname(id)?),
            libc::SYS_getpeername => give_address(call, 1, &self.stack.getpeername(id)?),
            libc::SYS_getsockopt => self.getsockopt(key, theirs, call),
            libc::SYS_setsockopt => self.setsockopt(key, theirs, call),
            libc::SYS_shutdown => self.shutdown(key, theirs, call.int(1)),
            _ if stream => on_stream(call),
            libc::SYS_sendto | libc::SYS_sendmsg | libc::SYS_sendmmsg => {
                self.send_datagrams(key, theirs, call, until)
            }
            _ => self.receive_datagrams(key, theirs, call, until),
        }
    }

    /// `socket(2)`: never let through, whatever happens.
    fn socket(&mut self, call: &Call) -> Result<Answer> {
        let (domain, kind) = (call.int(0), call.int(1) & SOCK_TYPE_MASK);
        let flags = call.int(1) & !SOCK_TYPE_MASK;
        let mut protocol = call.int(2);
        if flags & !(libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK) != 0 {
            return Err(Errno(libc::EINVAL));
        }
        let tcp = kind == libc::SOCK_STREAM && matches!(protocol, 0 | libc::IPPROTO_TCP);
        if tcp && self.options.mptcp {
            protocol = libc::IPPROTO_MPTCP;
        }
        let id = self.stack.socket(domain, kind, protocol)?;
        if tcp && let Some(algorithm) = &self.options.congestion {
            // That the stack has it was asked at the start.
            let name = algorithm.as_bytes();
            let _ = self.stack.setsockopt(id, libc::IPPROTO_TCP, libc::TCP_CONGESTION, name);
        }
        let made = if kind == libc::SOCK_STREAM {
            Pair::prefilled()
        } else {
            Pair::open(libc::SOCK_SEQPACKET).map(|pair| (pair, 0))
        };
        let role = Self::new_role(kind);
        let entered = made.and_then(|made| self.enter(id, (domain, kind, protocol), made, role));
        let (key, theirs) = entered.inspect_err(|_| self.stack.close(id))?;
        self.hand_over(call, key, theirs.as_fd(), flags).inspect_err(|_| self.remove(key))
    }

    /// Gives the program its end, with the flags of `socket` or `accept4`.
    pub fn hand_over(
        &mut self,
        call: &Call,
        key: u64,
        theirs: BorrowedFd,
        flags: i32,
    ) -> Result<Answer> {
        if flags & libc::SOCK_NONBLOCK != 0 {
            system::set_status_flags(theirs, libc::O_RDWR | libc::O_NONBLOCK)?;
        }
        let close_on_exec = flags & libc::SOCK_CLOEXEC != 0;
        let number = self.listener.hand_over(call.id, theirs, close_on_exec)?;
        if let Some(socket) = self.sockets.get_mut(&key) {
            socket.holder = (call.tid, number);
        }
        Ok(Answer::Handed(number))
    }

    /// `shutdown(2)`: on the pair, behind what the program has written; the pump brings the end to
    /// the stack.
    fn shutdown(&mut self, key: u64, theirs: BorrowedFd, how: i32) -> Result<Answer> {
        let Some(socket) = self.sockets.get_mut(&key) else { return Err(Errno(libc::EBADF)) };
        let Role::Connected(_) = socket.role else {
            let done = self.stack.shutdown(socket.id, how);
            self.retry(key);
            return done.map(|()| Answer::Value(0));
        };
        if !matches!(how, libc::SHUT_RD | libc::SHUT_WR | libc::SHUT_RDWR) {
            return Err(Errno(libc::EINVAL));
        }
        if !socket.watched {
            socket.watched = true;
            self.watch.add(theirs, key);
        }
        system::shutdown(theirs, how)?;
        self.pump(key);
        Ok(Answer::Value(0))
    }

    /// A call that found its socket not ready: it waits, or it fails with `EAGAIN` as the program
    /// wishes. `option` is its timeout, `SO_RCVTIMEO` or `SO_SNDTIMEO`.
    pub fn wait_or_fail(
        &mut self,
        key: u64,
        theirs: BorrowedFd,
        call: &Call,
        option: i32,
        until: Option<Instant>,
    ) -> Result<Answer> {
        if system::status_flags(theirs)? & libc::O_NONBLOCK != 0 {
            return Err(Errno(libc::EAGAIN));
        }
        let until = until.or_else(|| timeout(theirs, option).map(|limit| Instant::now() + limit));
        self.park(key, call, until);
        Ok(Answer::Later)
    }
}

/// Calls that do something which doing it again would not.
fn once_only(nr: i32) -> bool {
    matches!(
        c_long::from(nr),
        libc::SYS_bind
            | libc::SYS_connect
            | libc::SYS_sendto
            | libc::SYS_sendmsg
            | libc::SYS_sendmmsg
    )
}

fn is_message(nr: i32) -> bool {
    matches!(
        c_long::from(nr),
        libc::SYS_sendto
            | libc::SYS_sendmsg
            | libc::SYS_sendmmsg
            | libc::SYS_recvfrom
            | libc::SYS_recvmsg
            | libc::SYS_recvmmsg
    )
}

/// Messages on a connection run on the pair, which knows them.
fn on_stream(call: &Call) -> Result<Answer> {
    let flags = match c_long::from(call.nr) {
        libc::SYS_sendto | libc::SYS_sendmmsg => call.int(3),
        libc::SYS_recvfrom | libc::SYS_recvmmsg => call.int(3),
        _ => call.int(2),
    };
    let sends =
        matches!(c_long::from(call.nr), libc::SYS_sendto | libc::SYS_sendmsg | libc::SYS_sendmmsg);
    if sends && flags & libc::MSG_FASTOPEN != 0 {
        return Err(Errno(libc::EOPNOTSUPP));
    }
    // A pair has no queue of errors and would give data instead.
    if !sends && flags & libc::MSG_ERRQUEUE != 0 {
        return Err(Errno(libc::EAGAIN));
    }
    Ok(Answer::Native)
}

/// Set natively on the program's end, so that its own reads know it too. 0: no limit.
fn timeout(theirs: BorrowedFd, option: i32) -> Option<Duration> {
    let mut bytes = [0; 16];
    system::get_option(theirs, libc::SOL_SOCKET, option, &mut bytes).ok()?;
    let (seconds, micros) = bytes.split_at(8);
    let seconds = u64::from_ne_bytes(seconds.try_into().ok()?);
    let micros = u64::from_ne_bytes(micros.try_into().ok()?);
    let limit = Duration::from_secs(seconds) + Duration::from_micros(micros);
    (!limit.is_zero()).then_some(limit)
}

/// The address that `bind` and `connect` name in their second and third argument.
pub fn address(call: &Call) -> Result<Address> {
    read_address(Memory(call.tid), call.args[1], call.int(2))
}

/// An address in the program's memory.
pub fn read_address(memory: Memory, at: u64, len: i32) -> Result<Address> {
    let mut bytes = [0; CAPACITY];
    let len = usize::try_from(len).ok().filter(|len| *len <= CAPACITY);
    let bytes = &mut bytes[..len.ok_or(Errno(libc::EINVAL))?];
    memory.read(at, bytes)?;
    Ok(Address::from_bytes(bytes))
}

/// Writes an address where argument `index` points, its length where the next one does; cut to the
/// length found there, as the kernel does.
pub fn give_address(call: &Call, index: usize, address: &Address) -> Result<Answer> {
    let memory = Memory(call.tid);
    let (at, len_at) = (call.args[index], call.args[index + 1]);
    let room = usize::try_from(memory.read_int(len_at)?).map_err(|_| Errno(libc::EINVAL))?;
    let bytes = address.as_bytes();
    memory.write(at, &bytes[..bytes.len().min(room)])?;
    memory.write_int(len_at, bytes.len() as i32)?;
    Ok(Answer::Value(0))
}
