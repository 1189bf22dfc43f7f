//! Each call of the program: whose socket it means, what it is answered.

mod accept;
mod connect;
mod datagrams;
mod drivers;
mod foreign;
mod options;
pub mod requests;
mod streams;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use libc::c_long;

use crate::address::{Address, CAPACITY};
use crate::datagram::Datagram;
use crate::errno::{Errno, Result};
use crate::filter;
use crate::loopback::Ends;
use crate::memory::Memory;
use crate::notify::Call;
use crate::pair;
use crate::rights;
use crate::socket::{Presence, Request, State};
use crate::supervisor::Supervisor;
use crate::system;
use crate::unheard;

/// `SOCK_TYPE_MASK`: the flags of `socket` and `accept4` lie above.
const SOCK_TYPE_MASK: i32 = 0xf;

/// Obsolete (packet(7)), and not in `libc`.
const SOCK_PACKET: i32 = 10;

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
    /// `EPIPE`, and `SIGPIPE` for the thread.
    BrokenPipe,
}

impl Supervisor<'_> {
    /// Answers a call, now or later.
    pub fn serve(&mut self, call: &Call) {
        if let Some(what) = filter::foreign(call) {
            return self.serve_foreign(call, what);
        }
        // A signal came amid a call that waited: what it has moved is the answer when it is repeated.
        let amid = self
            .unpark(call.tid)
            .filter(|waited| waited.done > 0 && c_long::from(waited.call.nr) != libc::SYS_connect);
        let amid = amid.map(|waited| (waited.call, waited.done as i64));
        if let Some(answer) = self.unheard.begin(&self.listener, call, amid) {
            return self.finish(call, answer.map(Answer::Value));
        }
        let request = Request { call: *call, until: None, done: 0 };
        let answer = match self.carry_out(&request, true) {
            // Some may be those of sockets that the program has closed.
            Err(Errno(libc::EMFILE | libc::ENFILE)) => {
                self.notice_closed();
                self.carry_out(&request, true)
            }
            other => other,
        };
        self.finish(call, answer);
    }

    /// The same for a call that has waited.
    pub fn serve_again(&mut self, request: &Request) {
        if self.listener.waits(request.call.id) {
            if request.done == 0 {
                unheard::read_anew(request.call.tid);
            }
            let answer = self.carry_out(request, false);
            self.finish(&request.call, answer);
        }
    }

    /// The time of a call is over.
    pub fn give_up(&mut self, request: &Request) {
        let answer = match (request.done, c_long::from(request.call.nr)) {
            (0, libc::SYS_connect) => Err(Errno(libc::EINPROGRESS)),
            // It waited for the attempt of an earlier call.
            (_, libc::SYS_connect) => Err(Errno(libc::EALREADY)),
            (0, _) => Err(Errno(libc::EAGAIN)),
            (done, _) => Ok(Answer::Value(done as i64)),
        };
        self.finish(&request.call, answer);
    }

    pub fn finish(&mut self, call: &Call, answer: Result<Answer>) {
        self.trace.call(call, answer);
        let said = match answer {
            Ok(Answer::Value(value)) => self.listener.answer(call.id, Ok(value)),
            Err(errno) => self.listener.answer(call.id, Err(errno)),
            Ok(Answer::Native) => self.listener.let_through(call.id),
            Ok(Answer::BrokenPipe) => {
                let said = self.listener.answer(call.id, Err(Errno(libc::EPIPE)));
                if said.is_ok() {
                    system::signal_thread(call.tid, libc::SIGPIPE);
                }
                said
            }
            Ok(Answer::Later) => return,
            Ok(Answer::Handed(_)) => Ok(()),
        };
        // A signal was quicker. The kernel repeats the call if the program's handler says so, and
        // then it must not be carried out twice.
        let kept = (said == Err(Errno(libc::ENOENT))).then(|| carried_out(answer)).flatten();
        self.unheard.end(call, kept);
    }

    fn carry_out(&mut self, request: &Request, first: bool) -> Result<Answer> {
        let call = &request.call;
        let nr = c_long::from(call.nr);
        if nr == libc::SYS_socket {
            return self.socket(call);
        }
        // Programs talk much over Unix sockets: not even a look at whose it is, if it cannot matter.
        if self.sockets.is_empty() {
            return Ok(Answer::Native);
        }
        // No such descriptor, no socket, not ours: the kernel knows what to say.
        let theirs = match self.processes.descriptor(call.tid, call.fd()) {
            Ok(theirs) => theirs,
            Err(errno) => {
                self.trace.not_seen(call, errno);
                return Ok(Answer::Native);
            }
        };
        let Ok(mut key) = system::cookie(theirs.as_fd()) else { return Ok(Answer::Native) };
        let mut theirs = theirs;
        if !self.sockets.contains_key(&key) {
            let Some(followed) = self.follow(key, call) else { return Ok(Answer::Native) };
            key = followed;
            theirs = self.processes.descriptor(call.tid, call.fd())?;
        }
        let theirs = theirs.as_fd();
        let Some(socket) = self.sockets.get_mut(&key) else { return Ok(Answer::Native) };
        if !self.listener.waits(call.id) {
            // The number of its thread may mean another one by now, and so its memory.
            return Err(Errno(libc::EINTR));
        }
        socket.holder = (call.tid, call.fd());
        if socket.presence == Presence::Lost {
            self.watch(key, theirs);
        }
        let Some(socket) = self.sockets.get_mut(&key) else { return Ok(Answer::Native) };
        let stream = socket.is_stream();
        if socket.narrow && matches!(socket.state, State::Connected(_)) {
            socket.narrow = false;
            self.fit(key, theirs);
        }
        if first && stream {
            // What it wrote before this call is to be with the stack before it.
            self.pump(key);
            if !self.sockets.contains_key(&key) {
                return Err(Errno(libc::ECONNRESET));
            }
        }
        self.on_socket(key, theirs, request)
    }

    /// A call on a socket of ours.
    fn on_socket(&mut self, key: u64, theirs: BorrowedFd, request: &Request) -> Result<Answer> {
        let call = &request.call;
        let socket = self.sockets.get(&key).ok_or(Errno(libc::EBADF))?;
        let (id, stream) = (socket.id, socket.is_stream());
        match c_long::from(call.nr) {
            libc::SYS_bind => self.bind(key, call),
            libc::SYS_connect => self.connect(key, theirs, request),
            libc::SYS_listen => self.listen(key, theirs, call.int(1)),
            libc::SYS_accept => self.accept(key, theirs, request, 0),
            libc::SYS_accept4 => self.accept(key, theirs, request, call.int(3)),
            libc::SYS_getsockname => give_address(call, 1, &self.stack.getsockname(id)?),
            libc::SYS_getpeername => give_address(call, 1, &self.stack.getpeername(id)?),
            libc::SYS_getsockopt => self.getsockopt(key, theirs, call),
            libc::SYS_setsockopt => self.setsockopt(key, theirs, call),
            libc::SYS_shutdown => self.shutdown(key, theirs, call),
            libc::SYS_ioctl => self.ioctl(key, theirs, call),
            // A datagram's own socket knows what more to come means.
            libc::SYS_splice if !stream => Ok(Answer::Native),
            _ if stream => self.stream_message(key, theirs, request),
            libc::SYS_sendto | libc::SYS_sendmsg | libc::SYS_sendmmsg => {
                self.send_datagrams(key, theirs, request)
            }
            _ => self.receive_datagrams(key, theirs, request),
        }
    }

    /// `bind(2)`. No port is refused only because we have not seen yet that the program has closed
    /// the socket that had it.
    fn bind(&mut self, key: u64, call: &Call) -> Result<Answer> {
        let address = address(call)?;
        let socket = self.sockets.get(&key).ok_or(Errno(libc::EBADF))?;
        let id = socket.id;
        if socket.has_ports() {
            rights::for_bind(call.tid, &address)?;
        }
        let bound = match self.stack.bind(id, address.as_bytes()) {
            Err(Errno(libc::EADDRINUSE)) => {
                self.notice_closed();
                self.stack.bind(id, address.as_bytes())
            }
            other => other,
        };
        bound.map(|()| Answer::Value(0))
    }

    /// `socket(2)`: of IPv4 and IPv6 never let through, whatever happens.
    fn socket(&mut self, call: &Call) -> Result<Answer> {
        let (domain, kind) = (call.int(0), call.int(1) & SOCK_TYPE_MASK);
        let flags = call.int(1) & !SOCK_TYPE_MASK;
        let mut protocol = call.int(2);
        if flags & !(libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK) != 0 {
            return Err(Errno(libc::EINVAL));
        }
        if kind == SOCK_PACKET {
            // One of AF_PACKET, which are the host's.
            return Ok(Answer::Native);
        }
        rights::for_socket(call.tid, kind, protocol)?;
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
        let entered = self.enter_new(id, (domain, kind, call.int(2)));
        let (key, theirs) = entered.inspect_err(|_| self.stack.close(id))?;
        self.hand_over(call, key, theirs.as_fd(), flags).inspect_err(|_| self.remove(key))
    }

    fn enter_new(&mut self, id: crate::SocketId, what: (i32, i32, i32)) -> Result<(u64, OwnedFd)> {
        let (theirs, ours, state) = if what.1 == libc::SOCK_STREAM {
            (pair::unconnected()?, None, State::Fresh)
        } else {
            let Ends { ours, theirs, wire } = self.loopback.open()?;
            (theirs, Some(ours), State::Datagram(Box::new(Datagram::new(wire))))
        };
        let key = self.enter(id, what, theirs.as_fd(), ours, state)?;
        Ok((key, theirs))
    }

    /// Gives the program its end, with the flags of `socket` or `accept4`.
    fn hand_over(
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
    fn shutdown(&mut self, key: u64, theirs: BorrowedFd, call: &Call) -> Result<Answer> {
        let how = call.int(1);
        let Some(socket) = self.sockets.get_mut(&key) else { return Err(Errno(libc::EBADF)) };
        let connected = match &socket.state {
            State::Connected(stream) => !stream.over(),
            _ => false,
        };
        if !connected {
            return self.shut_down_in_stack(key, theirs, call);
        }
        if !matches!(how, libc::SHUT_RD | libc::SHUT_WR | libc::SHUT_RDWR) {
            return Err(Errno(libc::EINVAL));
        }
        self.watch(key, theirs);
        system::shutdown(theirs, how)?;
        self.pump(key);
        Ok(Answer::Value(0))
    }

    fn shut_down_in_stack(&mut self, key: u64, theirs: BorrowedFd, call: &Call) -> Result<Answer> {
        let how = call.int(1);
        let socket = self.sockets.get(&key).ok_or(Errno(libc::EBADF))?;
        let done = self.stack.shutdown(socket.id, how);
        match &socket.state {
            // UDP without a peer says ENOTCONN, and does it all the same.
            State::Datagram(_) if matches!(done, Ok(()) | Err(Errno(libc::ENOTCONN))) => {
                // As above of one without a peer.
                let _ = system::shutdown(theirs, how);
                self.retry(key);
            }
            State::Listening(_) if done.is_ok() && how != libc::SHUT_WR => {
                self.close_taken(key);
                let key = self.replace(key, theirs, call)?;
                self.retry(key);
            }
            State::Connecting(_) => self.connection_decided(key),
            _ => {}
        }
        done.map(|()| Answer::Value(0))
    }

    /// A call that found its socket not ready: it waits, or it fails with `EAGAIN` as the program
    /// wishes. `option` is its timeout, `SO_RCVTIMEO` or `SO_SNDTIMEO`.
    fn wait_or_fail(
        &mut self,
        key: u64,
        theirs: BorrowedFd,
        request: &Request,
        option: i32,
    ) -> Result<Answer> {
        if system::status_flags(theirs)? & libc::O_NONBLOCK != 0 {
            return Err(Errno(libc::EAGAIN));
        }
        let limit = || timeout(theirs, option).map(|limit| Instant::now() + limit);
        self.park(key, Request { until: request.until.or_else(limit), ..*request });
        Ok(Answer::Later)
    }
}

/// What a call was answered that may have done something. One that found nothing, or its caller gone
/// (`EINTR`, or `ENOENT` from the kernel's listener), has done nothing.
fn carried_out(answer: Result<Answer>) -> Option<Result<i64>> {
    match answer {
        Ok(Answer::Value(value)) => Some(Ok(value)),
        Err(Errno(libc::EAGAIN | libc::EINTR | libc::ENOENT)) => None,
        Err(errno) => Some(Err(errno)),
        Ok(_) => None,
    }
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
fn read_address(memory: Memory, at: u64, len: i32) -> Result<Address> {
    let mut bytes = [0; CAPACITY];
    let len = usize::try_from(len).ok().filter(|len| *len <= CAPACITY);
    let bytes = &mut bytes[..len.ok_or(Errno(libc::EINVAL))?];
    memory.read(at, bytes)?;
    Ok(Address::from_bytes(bytes))
}

/// Writes an address where argument `index` points, its length where the next one does; cut to the
/// length found there, as the kernel does.
fn give_address(call: &Call, index: usize, address: &Address) -> Result<Answer> {
    let memory = Memory(call.tid);
    let (at, len_at) = (call.args[index], call.args[index + 1]);
    let room = usize::try_from(memory.read_int(len_at)?).map_err(|_| Errno(libc::EINVAL))?;
    let bytes = address.as_bytes();
    memory.write(at, &bytes[..bytes.len().min(room)])?;
    memory.write_int(len_at, bytes.len() as i32)?;
    Ok(Answer::Value(0))
}
