//! Which system calls of the program come to us: the seccomp filter, in classic BPF.
//!
//! Calls that look at no argument are decided once by the kernel (its bitmap of allowed calls since
//! 5.11), so everything but the calls named here costs the program nothing.

use libc::{c_long, sock_filter};

use crate::calls::requests;
use crate::notify::Call;

/// `offsetof(struct seccomp_data, …)`.
const NR: u32 = 0;
const ARCH: u32 = 4;
const ARGS: u32 = 16;

const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
const NOTIFY: u32 = libc::SECCOMP_RET_USER_NOTIF;
/// As if the kernel had no such call.
const NO_SUCH_CALL: u32 = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;

/// `AUDIT_ARCH_*`: ELF machine, 64 bits, little-endian.
#[cfg(target_arch = "x86_64")]
const OUR_ARCH: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const OUR_ARCH: u32 = 0xc000_00b7;

/// `__X32_SYSCALL_BIT`: calls of the x32 ABI, which shares its `AUDIT_ARCH` with x86-64.
const X32: u32 = 0x4000_0000;

/// The ABI of 32-bit programs: its `AUDIT_ARCH`, and the numbers of its calls.
#[cfg(target_arch = "x86_64")]
const NARROW: (u32, NarrowCalls) = (0x4000_0003, NarrowCalls { socket: 359, socketcall: 102 });
#[cfg(target_arch = "aarch64")]
const NARROW: (u32, NarrowCalls) = (0x4000_0028, NarrowCalls { socket: 281, socketcall: NONE });

struct NarrowCalls {
    socket: u32,
    /// All calls of sockets in one, which one is its first argument.
    socketcall: u32,
}

/// No call has this number.
#[cfg(target_arch = "aarch64")]
const NONE: u32 = u32::MAX;
/// Of `socketcall`: `SYS_SOCKET` of `linux/net.h`.
const SOCKET_OF_SOCKETCALL: u32 = 1;

/// What a call of another ABI than ours asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Foreign {
    /// A socket of the family that the first argument says.
    Socket,
    /// The same, its arguments as three `int`s where the second argument points.
    SocketInMemory,
}

/// Whether a call that came to us is of another ABI.
pub fn foreign(call: &Call) -> Option<Foreign> {
    match (call.arch, call.nr as u32) {
        (arch, nr) if arch == NARROW.0 && nr == NARROW.1.socketcall => {
            Some(Foreign::SocketInMemory)
        }
        (OUR_ARCH, nr) if nr & X32 == 0 => None,
        _ => Some(Foreign::Socket),
    }
}

/// `SOCK_TYPE_MASK`: `socket`'s type without its flags.
const SOCK_TYPE_MASK: u32 = 0xf;

/// Answered for streams and datagrams alike.
const ALWAYS: [c_long; 10] = [
    libc::SYS_bind,
    libc::SYS_connect,
    libc::SYS_listen,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_setsockopt,
    libc::SYS_getsockopt,
    libc::SYS_shutdown,
];

/// Carry addresses behind a pointer that the filter cannot follow.
const MESSAGES: [c_long; 4] =
    [libc::SYS_sendmsg, libc::SYS_recvmsg, libc::SYS_sendmmsg, libc::SYS_recvmmsg];

/// Flags of `send` and `recv` that a Unix socket takes otherwise than TCP does.
const NOT_OF_PAIRS: u32 =
    (libc::MSG_TRUNC | libc::MSG_ERRQUEUE | libc::MSG_FASTOPEN | libc::MSG_MORE) as u32;
const PEEK_ALL: u32 = (libc::MSG_PEEK | libc::MSG_WAITALL) as u32;

/// The filter. Without `datagrams` UDP sockets stay the host's.
pub fn program(datagrams: bool) -> Vec<sock_filter> {
    let mut code = vec![load(ARCH)];
    on(&mut code, NARROW.0, &narrow());
    code.extend([jump(libc::BPF_JEQ, OUR_ARCH, 1, 0), give(NO_SUCH_CALL), load(NR)]);
    if cfg!(target_arch = "x86_64") {
        let x32 = x32();
        code.push(jump(libc::BPF_JGE, X32, 0, x32.len() as u8));
        code.extend(x32);
    }
    on(&mut code, libc::SYS_socket, &socket(datagrams));
    for call in ALWAYS {
        on(&mut code, call, &[give(NOTIFY)]);
    }
    for call in [libc::SYS_sendto, libc::SYS_recvfrom] {
        on(&mut code, call, &addressed());
    }
    on(&mut code, libc::SYS_ioctl, &requests());
    if datagrams {
        for call in MESSAGES {
            on(&mut code, call, &[give(NOTIFY)]);
        }
    } else {
        on(&mut code, libc::SYS_sendmsg, &flagged(2, NOT_OF_PAIRS));
        on(&mut code, libc::SYS_sendmmsg, &flagged(3, NOT_OF_PAIRS));
    }
    on(&mut code, libc::SYS_splice, &flagged(5, libc::SPLICE_F_MORE));
    // Its submissions would pass us by.
    on(&mut code, libc::SYS_io_uring_setup, &[give(NO_SUCH_CALL)]);
    code.push(give(ALLOW));
    code
}

/// 32-bit programs: they run, and their sockets of the Internet come to us, to be refused.
fn narrow() -> Vec<sock_filter> {
    let mut code = vec![load(NR)];
    on(&mut code, NARROW.1.socket, &of_the_internet());
    let socket = jump(libc::BPF_JEQ, SOCKET_OF_SOCKETCALL, 0, 1);
    let in_memory = [load(argument_low(0)), socket, give(NOTIFY), give(ALLOW)];
    on(&mut code, NARROW.1.socketcall, &in_memory);
    on(&mut code, libc::SYS_io_uring_setup, &[give(NO_SUCH_CALL)]);
    code.push(give(ALLOW));
    code
}

/// Those of the x32 ABI, likewise; the numbers of these calls are ours with one bit more.
fn x32() -> Vec<sock_filter> {
    let mut code = Vec::new();
    on(&mut code, X32 | libc::SYS_socket as u32, &of_the_internet());
    on(&mut code, X32 | libc::SYS_io_uring_setup as u32, &[give(NO_SUCH_CALL)]);
    code.push(give(ALLOW));
    code
}

/// Only the Internet's families are ours.
fn socket(datagrams: bool) -> Vec<sock_filter> {
    let mut code = Vec::new();
    if !datagrams {
        code.extend([
            load(argument_low(1)),
            statement(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, SOCK_TYPE_MASK),
            jump(libc::BPF_JEQ, libc::SOCK_DGRAM as u32, 0, 1),
            give(ALLOW),
        ]);
    }
    code.extend(of_the_internet());
    code
}

/// By the family, which is the first argument.
fn of_the_internet() -> [sock_filter; 5] {
    [
        load(argument_low(0)),
        jump(libc::BPF_JEQ, libc::AF_INET as u32, 2, 0),
        jump(libc::BPF_JEQ, libc::AF_INET6 as u32, 1, 0),
        give(ALLOW),
        give(NOTIFY),
    ]
}

/// `send` and `recv` of libraries have no address in the fifth argument: they run natively on the
/// pair, unless their flags are not the pair's.
fn addressed() -> Vec<sock_filter> {
    vec![
        load(argument_low(4)),
        jump(libc::BPF_JEQ, 0, 0, 6),
        load(argument_low(4) + 4),
        jump(libc::BPF_JEQ, 0, 0, 4),
        load(argument_low(3)),
        jump(libc::BPF_JSET, NOT_OF_PAIRS, 2, 0),
        statement(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, PEEK_ALL),
        jump(libc::BPF_JEQ, PEEK_ALL, 0, 1),
        give(NOTIFY),
        give(ALLOW),
    ]
}

/// With one of these flags in an argument.
fn flagged(argument: u32, flags: u32) -> [sock_filter; 4] {
    [load(argument_low(argument)), jump(libc::BPF_JSET, flags, 0, 1), give(NOTIFY), give(ALLOW)]
}

/// Of `ioctl`, the requests that sockets of a stack answer.
fn requests() -> Vec<sock_filter> {
    let mut code = vec![load(argument_low(1))];
    for request in requests::served() {
        code.extend([jump(libc::BPF_JEQ, request, 0, 1), give(NOTIFY)]);
    }
    code.push(give(ALLOW));
    code
}

/// `body`, which must end in a decision, for this call (or ABI) only. The accumulator holds its
/// number before and after.
fn on(code: &mut Vec<sock_filter>, what: impl TryInto<u32>, body: &[sock_filter]) {
    let number = what.try_into().unwrap_or(u32::MAX);
    code.push(jump(libc::BPF_JEQ, number, 0, body.len() as u8));
    code.extend_from_slice(body);
}

/// Both architectures are little-endian: the low half comes first.
fn argument_low(index: u32) -> u32 {
    ARGS + 8 * index
}

fn load(offset: u32) -> sock_filter {
    statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset)
}

fn give(decision: u32) -> sock_filter {
    statement(libc::BPF_RET | libc::BPF_K, decision)
}

fn statement(code: u32, k: u32) -> sock_filter {
    sock_filter { code: code as u16, jt: 0, jf: 0, k }
}

/// `jt` and `jf` are how many instructions to leave out.
fn jump(condition: u32, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code: (libc::BPF_JMP | condition | libc::BPF_K) as u16, jt, jf, k }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the kernel would do: the few instructions that we use.
    fn decide(code: &[sock_filter], arch: u32, nr: u32, args: [u64; 6]) -> u32 {
        let word = |offset: u32| match offset {
            NR => nr,
            ARCH => arch,
            _ => {
                let at = offset - ARGS;
                (args[(at / 8) as usize] >> (8 * (at % 8))) as u32
            }
        };
        let (mut at, mut accumulator) = (0, 0);
        loop {
            let instruction = code[at];
            at += 1;
            let k = instruction.k;
            let jump = |taken| usize::from(if taken { instruction.jt } else { instruction.jf });
            match u32::from(instruction.code) {
                0x20 => accumulator = word(k),
                0x54 => accumulator &= k,
                0x15 => at += jump(accumulator == k),
                0x35 => at += jump(accumulator >= k),
                0x45 => at += jump(accumulator & k != 0),
                0x06 => return k,
                other => panic!("instruction {other:#x}"),
            }
        }
    }

    fn call(datagrams: bool, nr: c_long, args: [u64; 6]) -> u32 {
        decide(&program(datagrams), OUR_ARCH, nr as u32, args)
    }

    #[test]
    fn sockets_of_the_internet_are_ours_and_no_others() {
        let socket = |domain: i32, kind: i32| {
            call(true, libc::SYS_socket, [domain as u64, kind as u64, 0, 0, 0, 0])
        };
        assert_eq!(socket(libc::AF_INET, libc::SOCK_STREAM), NOTIFY);
        assert_eq!(socket(libc::AF_INET6, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC), NOTIFY);
        assert_eq!(socket(libc::AF_UNIX, libc::SOCK_STREAM), ALLOW);
        assert_eq!(socket(libc::AF_NETLINK, libc::SOCK_RAW), ALLOW);
    }

    #[test]
    fn bits_above_the_int_do_not_smuggle_a_socket_past_us() {
        let domain = 1 << 32 | libc::AF_INET as u64;
        let args = [domain, libc::SOCK_STREAM as u64, 0, 0, 0, 0];
        assert_eq!(call(true, libc::SYS_socket, args), NOTIFY);
    }

    #[test]
    fn udp_can_stay_on_the_host_while_streams_do_not() {
        let socket = |kind: i32| {
            call(false, libc::SYS_socket, [libc::AF_INET as u64, kind as u64, 0, 0, 0, 0])
        };
        assert_eq!(socket(libc::SOCK_DGRAM | libc::SOCK_NONBLOCK), ALLOW);
        assert_eq!(socket(libc::SOCK_STREAM | libc::SOCK_NONBLOCK), NOTIFY);
        assert_eq!(call(false, libc::SYS_sendmsg, [0; 6]), ALLOW);
        assert_eq!(call(false, libc::SYS_connect, [0; 6]), NOTIFY);
    }

    #[test]
    fn sending_without_an_address_stays_native() {
        let sendto = |address: u64| call(true, libc::SYS_sendto, [3, 1, 1, 0, address, 0]);
        assert_eq!(sendto(0), ALLOW);
        assert_eq!(sendto(0x1000), NOTIFY);
        assert_eq!(sendto(0x1000 << 32), NOTIFY);
    }

    #[test]
    fn flags_that_a_pair_takes_otherwise_are_ours() {
        let recv = |flags: i32| call(false, libc::SYS_recvfrom, [3, 1, 1, flags as u64, 0, 0]);
        for flags in [0, libc::MSG_PEEK, libc::MSG_WAITALL, libc::MSG_DONTWAIT, libc::MSG_OOB] {
            assert_eq!(recv(flags), ALLOW, "{flags:#x}");
        }
        for flags in [libc::MSG_PEEK | libc::MSG_WAITALL, libc::MSG_TRUNC, libc::MSG_ERRQUEUE] {
            assert_eq!(recv(flags), NOTIFY, "{flags:#x}");
        }
    }

    #[test]
    fn requests_of_sockets_are_ours_and_no_others() {
        let ioctl = |request: u64| call(true, libc::SYS_ioctl, [3, request, 0, 0, 0, 0]);
        for request in requests::served() {
            assert_eq!(ioctl(request.into()), NOTIFY, "{request:#x}");
        }
        for request in [u64::from(requests::SIOCATMARK), libc::FIONBIO, libc::TIOCGWINSZ] {
            assert_eq!(ioctl(request), ALLOW, "{request:#x}");
        }
    }

    #[test]
    fn of_another_abi_only_sockets_of_the_internet_come_to_us() {
        let filter = program(true);
        let (narrow, NarrowCalls { socket, socketcall }) = NARROW;
        let decide = |nr: u32, first: i32| decide(&filter, narrow, nr, [first as u64; 6]);
        assert_eq!(decide(socket, libc::AF_INET), NOTIFY);
        assert_eq!(decide(socket, libc::AF_INET6), NOTIFY);
        assert_eq!(decide(socket, libc::AF_UNIX), ALLOW);
        assert_eq!(decide(socketcall, SOCKET_OF_SOCKETCALL as i32), NOTIFY);
        assert_eq!(decide(socketcall, 2), ALLOW);
        assert_eq!(decide(4, 1), ALLOW, "write");
        assert_eq!(decide(libc::SYS_io_uring_setup as u32, 1), NO_SUCH_CALL);
        #[cfg(target_arch = "x86_64")]
        for (nr, first, decision) in
            [(41, libc::AF_INET, NOTIFY), (41, libc::AF_UNIX, ALLOW), (1, 1, ALLOW)]
        {
            assert_eq!(call(true, c_long::from(X32 | nr), [first as u64; 6]), decision);
        }
        let unknown = 0x1234;
        assert_eq!(super::tests::decide(&filter, unknown, 1, [0; 6]), NO_SUCH_CALL);
    }

    #[test]
    fn io_uring_does_not_exist() {
        assert_eq!(call(true, libc::SYS_io_uring_setup, [0; 6]), NO_SUCH_CALL);
    }

    #[test]
    fn a_call_tells_its_abi() {
        let call =
            |arch, nr: u32| foreign(&Call { id: 0, tid: 1, nr: nr as i32, arch, args: [0; 6] });
        assert_eq!(call(OUR_ARCH, libc::SYS_socket as u32), None);
        assert_eq!(call(NARROW.0, NARROW.1.socket), Some(Foreign::Socket));
        #[cfg(target_arch = "x86_64")]
        {
            assert_eq!(call(NARROW.0, 102), Some(Foreign::SocketInMemory));
            assert_eq!(call(OUR_ARCH, X32 | 41), Some(Foreign::Socket));
        }
    }

    #[test]
    fn what_is_held_back_on_a_stream_is_ours() {
        let more = libc::MSG_MORE as u64;
        for datagrams in [true, false] {
            assert_eq!(call(datagrams, libc::SYS_sendto, [3, 1, 1, more, 0, 0]), NOTIFY);
            assert_eq!(call(datagrams, libc::SYS_sendmsg, [3, 1, more, 0, 0, 0]), NOTIFY);
            assert_eq!(call(datagrams, libc::SYS_sendmmsg, [3, 1, 2, more, 0, 0]), NOTIFY);
            let splice =
                |flags: u32| call(datagrams, libc::SYS_splice, [3, 0, 4, 0, 7, u64::from(flags)]);
            assert_eq!(splice(libc::SPLICE_F_MORE | libc::SPLICE_F_MOVE), NOTIFY);
            assert_eq!(splice(libc::SPLICE_F_MOVE | libc::SPLICE_F_NONBLOCK), ALLOW);
        }
    }

    #[test]
    fn reading_and_writing_are_none_of_our_business() {
        for nr in [libc::SYS_read, libc::SYS_write, libc::SYS_epoll_ctl, libc::SYS_dup] {
            assert_eq!(call(true, nr, [3; 6]), ALLOW);
        }
    }
}
