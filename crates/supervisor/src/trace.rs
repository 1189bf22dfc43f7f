//! `--trace`: each call that was answered, as `strace` would write it.

use crate::calls::{Answer, address};
use crate::errno::{Errno, Result};
use crate::notify::Call;
use transom_output::note;

pub struct Trace {
    on: bool,
}

impl Trace {
    pub fn new(on: bool) -> Self {
        Self { on }
    }

    pub fn call(&self, call: &Call, answer: Result<Answer>) {
        if !self.on {
            return;
        }
        let shown = match answer {
            Ok(Answer::Value(value)) => value.to_string(),
            Ok(Answer::Handed(number)) => number.to_string(),
            // The kernel answers, or we shall later.
            Ok(Answer::Native | Answer::Later) => return,
            Ok(Answer::BrokenPipe) => Errno(libc::EPIPE).to_string(),
            Err(errno) => errno.to_string(),
        };
        note!("transom: {} {} = {shown}", call.tid, describe(call));
    }

    /// What a number means could not be asked: the call goes to the pair, if it is one, and fails.
    pub fn not_seen(&self, call: &Call, errno: Errno) {
        if self.on && matches!(errno.0, libc::EPERM | libc::EACCES) {
            let tid = call.tid;
            note!(
                "transom: {tid} {}: not seen, its process may not be traced (not dumpable?)",
                describe(call)
            );
        }
    }

    /// A connection has ended in an error, which the program sees at its next call.
    pub fn failed(&self, (tid, fd): (i32, i32), errno: Errno) {
        if self.on {
            note!("transom: {tid} descriptor {fd}: {errno}");
        }
    }
}

fn describe(call: &Call) -> String {
    let name = name(call.nr);
    match i64::from(call.nr) {
        libc::SYS_socket => socket(call),
        libc::SYS_bind | libc::SYS_connect => {
            let address = address(call).unwrap_or_default();
            format!("{name}({}, {address})", call.fd())
        }
        libc::SYS_listen | libc::SYS_shutdown => format!("{name}({}, {})", call.fd(), call.int(1)),
        libc::SYS_getsockopt | libc::SYS_setsockopt => {
            let (level, option) = (call.int(1), call.int(2));
            format!("{name}({}, {})", call.fd(), option_name(level, option))
        }
        libc::SYS_ioctl => format!("{name}({}, {:#x})", call.fd(), call.args[1] as u32),
        libc::SYS_sendto | libc::SYS_recvfrom => {
            format!("{name}({}, {} bytes)", call.fd(), call.args[2])
        }
        _ => format!("{name}({})", call.fd()),
    }
}

fn socket(call: &Call) -> String {
    let domain = if call.int(0) == libc::AF_INET6 { "AF_INET6" } else { "AF_INET" };
    let kind = match call.int(1) & 0xf {
        libc::SOCK_STREAM => "SOCK_STREAM",
        libc::SOCK_DGRAM => "SOCK_DGRAM",
        libc::SOCK_RAW => "SOCK_RAW",
        _ => "other",
    };
    format!("socket({domain}, {kind}, {})", call.int(2))
}

macro_rules! calls {
    ($($name:ident = $number:ident)*) => { &[$((libc::$number, stringify!($name))),*] };
}

const CALLS: &[(i64, &str)] = calls! {
    socket = SYS_socket bind = SYS_bind connect = SYS_connect listen = SYS_listen
    accept = SYS_accept accept4 = SYS_accept4 getsockname = SYS_getsockname
    getpeername = SYS_getpeername getsockopt = SYS_getsockopt setsockopt = SYS_setsockopt
    shutdown = SYS_shutdown sendto = SYS_sendto sendmsg = SYS_sendmsg sendmmsg = SYS_sendmmsg
    recvfrom = SYS_recvfrom recvmsg = SYS_recvmsg recvmmsg = SYS_recvmmsg ioctl = SYS_ioctl
    splice = SYS_splice
};

fn name(nr: i32) -> &'static str {
    let found = CALLS.iter().find(|(number, _)| *number == i64::from(nr));
    found.map_or("call", |(_, name)| name)
}

macro_rules! options {
    ($($level:ident $name:ident)*) => { &[$((libc::$level, libc::$name, stringify!($name))),*] };
}

/// Those that programs ask for every day.
const OPTIONS: &[(i32, i32, &str)] = options! {
    SOL_SOCKET SO_ERROR SOL_SOCKET SO_REUSEADDR SOL_SOCKET SO_REUSEPORT SOL_SOCKET SO_TYPE
    SOL_SOCKET SO_KEEPALIVE SOL_SOCKET SO_LINGER SOL_SOCKET SO_SNDBUF SOL_SOCKET SO_RCVBUF
    SOL_SOCKET SO_RCVTIMEO SOL_SOCKET SO_SNDTIMEO SOL_SOCKET SO_BROADCAST SOL_SOCKET SO_DOMAIN
    SOL_SOCKET SO_PROTOCOL SOL_SOCKET SO_BINDTODEVICE SOL_SOCKET SO_ZEROCOPY
    IPPROTO_TCP TCP_NODELAY IPPROTO_TCP TCP_INFO IPPROTO_TCP TCP_CONGESTION IPPROTO_TCP TCP_MAXSEG
    IPPROTO_TCP TCP_KEEPIDLE IPPROTO_TCP TCP_KEEPINTVL IPPROTO_TCP TCP_KEEPCNT
    IPPROTO_TCP TCP_CORK IPPROTO_TCP TCP_DEFER_ACCEPT IPPROTO_TCP TCP_FASTOPEN
    IPPROTO_TCP TCP_FASTOPEN_CONNECT IPPROTO_TCP TCP_USER_TIMEOUT IPPROTO_TCP TCP_QUICKACK
    IPPROTO_IP IP_TOS IPPROTO_IP IP_RECVERR IPPROTO_IP IP_MTU_DISCOVER IPPROTO_IP IP_PKTINFO
    IPPROTO_IPV6 IPV6_V6ONLY IPPROTO_IPV6 IPV6_RECVPKTINFO IPPROTO_IPV6 IPV6_TCLASS
    IPPROTO_IPV6 IPV6_RECVERR
};

fn option_name(level: i32, option: i32) -> String {
    let known = OPTIONS.iter().find(|(l, o, _)| (*l, *o) == (level, option));
    known.map_or_else(
        || format!("level {level}, option {option}"),
        |(_, _, name)| (*name).to_owned(),
    )
}
