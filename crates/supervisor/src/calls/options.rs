//! `getsockopt` and `setsockopt`: the stack's, except for what the pair or we ourselves know better.

use std::os::fd::BorrowedFd;

use transom_link::options::{self, TCP_ZEROCOPY_RECEIVE};

use super::Answer;
use crate::buffers::Buffers;
use crate::errno::{Errno, Result};
use crate::loopback;
use crate::memory::Memory;
use crate::notify::Call;
use crate::rights;
use crate::socket::State;
use crate::supervisor::Supervisor;
use crate::system;

/// Longer values belong to options that we refuse.
const MAX_VALUE: usize = 64 * 1024;

/// `linux/tcp.h`; not in `libc`.
const TCP_ULP: i32 = 31;
/// `SO_RCVTIMEO_NEW`, `SO_SNDTIMEO_NEW` of `asm-generic/socket.h`.
const TIMEOUTS: [i32; 4] = [libc::SO_RCVTIMEO, libc::SO_SNDTIMEO, 66, 67];

const CONGESTION: (i32, i32) = (libc::IPPROTO_TCP, libc::TCP_CONGESTION);
/// `TCP_CA_NAME_MAX` without the zero.
const LONGEST_NAME: usize = 15;

/// The program's end of a datagram socket keeps errors as it was asked to, so that `poll` shows them.
const RECEIVE_ERRORS_4: (i32, i32) = (libc::IPPROTO_IP, libc::IP_RECVERR);
const RECEIVE_ERRORS_6: (i32, i32) = (libc::IPPROTO_IPV6, libc::IPV6_RECVERR);

/// Who serves an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Server {
    Stack,
    /// The program's end of the pair: its own reads and writes obey it.
    Pair,
    /// TCP Fast Open is a wish: what a client without a cookie of the server does, an ordinary
    /// handshake, is done always.
    Remembered,
    Refused(Errno),
}

/// An option that carries a pointer, or changes how reads and writes on the descriptor itself work,
/// cannot be given to another stack.
fn server(level: i32, name: i32) -> Server {
    let refused = |number| Server::Refused(Errno(number));
    match (level, name) {
        (libc::SOL_SOCKET, name) if TIMEOUTS.contains(&name) => Server::Pair,
        // Urgent bytes are always fetched apart from the stack, and put in line by the pair.
        (libc::SOL_SOCKET, libc::SO_PEEK_OFF | libc::SO_OOBINLINE) => Server::Pair,
        // The stack's socket is emptied as bytes come, and would wait for the rest for ever.
        (libc::SOL_SOCKET, libc::SO_RCVLOWAT) => Server::Pair,
        (
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER
            | libc::SO_ATTACH_BPF
            | libc::SO_ATTACH_REUSEPORT_CBPF
            | libc::SO_ATTACH_REUSEPORT_EBPF
            | libc::SO_ZEROCOPY,
        ) => refused(libc::EOPNOTSUPP),
        // As of a kernel without such a module: TLS libraries then go on in user space.
        (libc::IPPROTO_TCP, TCP_ULP) => refused(libc::ENOENT),
        (libc::IPPROTO_TCP, TCP_ZEROCOPY_RECEIVE) => refused(libc::EOPNOTSUPP),
        (libc::IPPROTO_TCP, libc::TCP_FASTOPEN_CONNECT) => Server::Remembered,
        _ if options::holds_pointers(level, name) => refused(libc::ENOPROTOOPT),
        _ => Server::Stack,
    }
}

impl Supervisor<'_> {
    pub(super) fn getsockopt(
        &mut self,
        key: u64,
        theirs: BorrowedFd,
        call: &Call,
    ) -> Result<Answer> {
        let memory = Memory(call.tid);
        let (level, name, at, len_at) = (call.int(1), call.int(2), call.args[3], call.args[4]);
        let room = usize::try_from(memory.read_int(len_at)?).map_err(|_| Errno(libc::EINVAL))?;
        let mut value = vec![0; room.min(MAX_VALUE)];
        // Some options read it; where it cannot be read nothing stands in it.
        let _ = memory.read(at, &mut value);
        options::ask_for_less(level, name, &mut value, room);
        let len = self.option_value(key, theirs, (level, name), &mut value)?;
        memory.write(at, &value[..len.min(room)])?;
        memory.write_int(len_at, len as i32)?;
        Ok(Answer::Value(0))
    }

    fn option_value(
        &mut self,
        key: u64,
        theirs: BorrowedFd,
        (level, name): (i32, i32),
        value: &mut [u8],
    ) -> Result<usize> {
        if (level, name) == (libc::SOL_SOCKET, libc::SO_ERROR) {
            return Ok(put_int(value, self.take_error(key, theirs)));
        }
        let socket = self.sockets.get_mut(&key).ok_or(Errno(libc::EBADF))?;
        if (level, name) == (libc::SOL_SOCKET, libc::SO_PROTOCOL) && socket.is_stream() {
            // Multipath TCP is our choice, not the program's.
            let asked_for = if socket.protocol == 0 { libc::IPPROTO_TCP } else { socket.protocol };
            return Ok(put_int(value, asked_for));
        }
        match server(level, name) {
            Server::Stack => self.stack.getsockopt(socket.id, level, name, value),
            Server::Pair => system::get_option(theirs, level, name, value),
            Server::Remembered => Ok(put_int(value, i32::from(socket.fast_open))),
            Server::Refused(errno) => Err(errno),
        }
    }

    /// `SO_ERROR`, which is then cleared.
    fn take_error(&mut self, key: u64, theirs: BorrowedFd) -> i32 {
        let Some(socket) = self.sockets.get(&key) else { return 0 };
        match &socket.state {
            // Not decided yet for the program: it hears of it only after the pair is writable.
            State::Connecting(_) => 0,
            State::Ended(_) => self.take_failure(key, theirs),
            State::Datagram(_) => match self.pending_error(key, theirs) {
                Some(errno) => errno.0,
                None => self.stack_error(key),
            },
            _ => self.stack_error(key),
        }
    }

    pub(super) fn setsockopt(
        &mut self,
        key: u64,
        theirs: BorrowedFd,
        call: &Call,
    ) -> Result<Answer> {
        let (level, name) = (call.int(1), call.int(2));
        let len = usize::try_from(call.int(4)).map_err(|_| Errno(libc::EINVAL))?;
        let mut value = vec![0; len.min(MAX_VALUE)];
        Memory(call.tid).read(call.args[3], &mut value)?;
        rights::for_option(call.tid, level, name, &value)?;
        if (level, name) == CONGESTION && !rights::may_administer(call.tid) {
            self.check_algorithm(key, &value)?;
        }
        if rights::is_of_the_device(level, name) && self.has_device(key) {
            rights::for_another_device(call.tid)?;
        }
        let socket = self.sockets.get_mut(&key).ok_or(Errno(libc::EBADF))?;
        if let State::Datagram(datagram) = &mut socket.state {
            // Any of them may ask for ancillary data (packet info, TTL, timestamps, errors).
            datagram.wants_control = true;
        }
        match server(level, name) {
            Server::Stack => self.stack.setsockopt(socket.id, level, name, &value)?,
            Server::Pair => system::set_option(theirs, level, name, &value)?,
            Server::Remembered => {
                let number = value.first_chunk().map(|bytes| i32::from_ne_bytes(*bytes));
                socket.fast_open = number.ok_or(Errno(libc::EINVAL))? != 0;
            }
            Server::Refused(errno) => return Err(errno),
        }
        if matches!((level, name), RECEIVE_ERRORS_4 | RECEIVE_ERRORS_6) && !socket.is_stream() {
            system::set_option(theirs, libc::IPPROTO_IP, libc::IP_RECVERR, &value)?;
        }
        match (level, name) {
            (libc::SOL_SOCKET, libc::SO_LINGER) => socket.abort = is_abort(&value),
            (libc::SOL_SOCKET, libc::SO_RCVBUF | libc::SO_RCVBUFFORCE) if !socket.is_stream() => {
                // Datagrams wait there, and not in the stack. The kernel tells twice of what was set.
                let bytes = self.int_option(key, libc::SO_RCVBUF) / 2;
                loopback::make_room(theirs, bytes);
            }
            _ if Buffers::are_of(level, name) => self.fit(key, theirs),
            _ => {}
        }
        Ok(Answer::Value(0))
    }

    /// What is no administrator's may have the algorithms of `tcp_allowed_congestion_control` and the one
    /// that it has, and loads no other one into the kernel.
    fn check_algorithm(&mut self, key: u64, value: &[u8]) -> Result<()> {
        let asked = algorithm(value);
        let mut is_among = |which: &str| {
            let listed = self.stack.sysctl(&format!("net.ipv4.tcp_{which}_congestion_control"));
            listed.split_whitespace().any(|name| name.as_bytes() == asked)
        };
        if asked.is_empty() || is_among("allowed") {
            return Ok(());
        }
        if !is_among("available") {
            return Err(Errno(libc::ENOENT));
        }
        let socket = self.sockets.get(&key).ok_or(Errno(libc::EBADF))?;
        let mut current = [0; LONGEST_NAME + 1];
        let (level, name) = CONGESTION;
        self.stack.getsockopt(socket.id, level, name, &mut current)?;
        if algorithm(&current) == asked { Ok(()) } else { Err(Errno(libc::EPERM)) }
    }

    /// Of `SOL_SOCKET`, as the stack has it.
    fn int_option(&mut self, key: u64, name: i32) -> i32 {
        let Some(socket) = self.sockets.get(&key) else { return 0 };
        let mut bytes = [0; 4];
        let asked = self.stack.getsockopt(socket.id, libc::SOL_SOCKET, name, &mut bytes);
        asked.map_or(0, |_| i32::from_ne_bytes(bytes))
    }

    fn has_device(&mut self, key: u64) -> bool {
        self.int_option(key, rights::SO_BINDTOIFINDEX) != 0
    }
}

/// The name ends with its first zero, or where the kernel stops reading.
fn algorithm(value: &[u8]) -> &[u8] {
    let read = &value[..value.len().min(LONGEST_NAME)];
    read.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// `struct linger`: on, for 0 seconds.
fn is_abort(value: &[u8]) -> bool {
    value.len() >= 8 && value[..4] != [0; 4] && value[4..8] == [0; 4]
}

/// As the kernel gives an `int` to whoever has less room.
fn put_int(value: &mut [u8], number: i32) -> usize {
    let len = value.len().min(4);
    value[..len].copy_from_slice(&number.to_ne_bytes()[..len]);
    len
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_connection_is_asked_for_goes_to_the_stack() {
        for (level, name) in [
            (libc::IPPROTO_TCP, libc::TCP_NODELAY),
            (libc::IPPROTO_TCP, libc::TCP_INFO),
            (libc::IPPROTO_TCP, libc::TCP_CONGESTION),
            (libc::SOL_SOCKET, libc::SO_REUSEADDR),
            (libc::SOL_SOCKET, libc::SO_SNDBUF),
            (libc::IPPROTO_IP, libc::IP_RECVERR),
            (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY),
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
            (libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS),
        ] {
            assert_eq!(server(level, name), Server::Stack, "{level} {name}");
        }
    }

    #[test]
    fn pointers_never_reach_the_stack() {
        /// `IPT_SO_SET_REPLACE` of iptables, and the same of ip6tables.
        const XT_REPLACE: i32 = 64;
        for (level, name) in [
            (libc::SOL_SOCKET, libc::SO_ATTACH_FILTER),
            (libc::IPPROTO_TCP, TCP_ZEROCOPY_RECEIVE),
            (libc::IPPROTO_IP, XT_REPLACE),
            (libc::IPPROTO_IPV6, XT_REPLACE),
        ] {
            assert!(matches!(server(level, name), Server::Refused(_)), "{level} {name}");
        }
    }

    #[test]
    fn timeouts_are_the_pair_s_because_reads_happen_there() {
        assert_eq!(server(libc::SOL_SOCKET, libc::SO_RCVTIMEO), Server::Pair);
    }

    #[test]
    fn the_name_of_an_algorithm_is_read_as_the_kernel_reads_it() {
        assert_eq!(algorithm(b"bbr"), b"bbr");
        assert_eq!(algorithm(b"bbr\0junk"), b"bbr");
        assert_eq!(algorithm(b"a_name_that_is_too_long"), b"a_name_that_is_");
        assert_eq!(algorithm(b""), b"");
    }

    #[test]
    fn lingering_for_no_time_is_an_abort() {
        let linger = |on: i32, seconds: i32| [on.to_ne_bytes(), seconds.to_ne_bytes()].concat();
        assert!(is_abort(&linger(1, 0)));
        assert!(!is_abort(&linger(1, 5)));
        assert!(!is_abort(&linger(0, 0)));
    }
}
