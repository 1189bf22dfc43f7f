//! Error numbers as system calls return them.

use std::fmt;

/// A positive error number of the host (`libc::ECONNREFUSED`, …).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Errno(pub i32);

pub type Result<T> = std::result::Result<T, Errno>;

impl Errno {
    /// What the last system call of this thread left in `errno`.
    pub fn last() -> Self {
        Self::from(std::io::Error::last_os_error())
    }

    /// The result of a system call: -1 means that `errno` tells why.
    pub fn check(returned: libc::c_long) -> Result<libc::c_long> {
        if returned == -1 { Err(Self::last()) } else { Ok(returned) }
    }

    /// As in `errno(3)`; a number that no socket call returns has none.
    pub fn name(self) -> Option<&'static str> {
        NAMES.iter().find(|(number, _)| *number == self.0).map(|(_, name)| *name)
    }

    /// `EAGAIN`: not now.
    pub fn would_block(self) -> bool {
        self.0 == libc::EAGAIN
    }
}

impl From<std::io::Error> for Errno {
    /// An error that did not come from the system is `EIO`.
    fn from(error: std::io::Error) -> Self {
        Self(error.raw_os_error().unwrap_or(libc::EIO))
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "errno {}", self.0),
        }
    }
}

impl std::error::Error for Errno {}

macro_rules! names {
    ($($name:ident)*) => { &[$((libc::$name, stringify!($name))),*] };
}

const NAMES: &[(i32, &str)] = names! {
    EPERM ENOENT ESRCH EINTR EIO EBADF EAGAIN ENOMEM EACCES EFAULT EBUSY ENODEV EINVAL ENFILE EMFILE
    EPIPE ENOSYS ENOTSOCK EDESTADDRREQ EMSGSIZE EPROTOTYPE ENOPROTOOPT EPROTONOSUPPORT
    ESOCKTNOSUPPORT EOPNOTSUPP EPFNOSUPPORT EAFNOSUPPORT EADDRINUSE EADDRNOTAVAIL ENETDOWN
    ENETUNREACH ECONNABORTED ECONNRESET ENOBUFS EISCONN ENOTCONN ESHUTDOWN ETIMEDOUT ECONNREFUSED
    EHOSTDOWN EHOSTUNREACH EALREADY EINPROGRESS ENOTTY EPROTO ERANGE EDOM
};
