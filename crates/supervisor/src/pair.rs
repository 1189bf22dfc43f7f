//! The socket pair behind each descriptor of the program: our end and the program's.
//!
//! A fresh pair can be written to at once, a TCP socket only when it is connected. So the program's
//! direction begins full (`prefill`) and is emptied when the connection stands (`open_for_writing`):
//! `poll`, `select` and `epoll` of the program then see what they would see of TCP.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::errno::{Errno, Result};
use crate::system;

/// What each direction of a pair may hold, bytes of payload and kernel overhead; the kernel doubles
/// it, and cuts it to `net.core.wmem_max` without `CAP_NET_ADMIN`.
pub const BUFFER: i32 = 512 * 1024;

const ZEROS: [u8; 4096] = [0; 4096];

pub struct Pair {
    pub ours: OwnedFd,
    pub theirs: OwnedFd,
}

impl Pair {
    /// `SOCK_STREAM`, or `SOCK_SEQPACKET` for datagrams: it keeps their boundaries as `SOCK_DGRAM`
    /// does, but also tells when the other end is closed.
    pub fn new(kind: i32) -> Result<Self> {
        let mut ends = [-1; 2];
        // SAFETY: the array has room for two descriptors, which are then ours.
        let (ours, theirs) = unsafe {
            let made =
                libc::socketpair(libc::AF_UNIX, kind | libc::SOCK_CLOEXEC, 0, ends.as_mut_ptr());
            Errno::check(made.into())?;
            (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1]))
        };
        widen(ours.as_fd());
        Ok(Self { ours, theirs })
    }

    /// A stream of which the program's direction is full; returns with how many bytes.
    pub fn prefilled() -> Result<(Self, usize)> {
        let pair = Self::new(libc::SOCK_STREAM)?;
        let theirs = pair.theirs.as_fd();
        // The smallest that the kernel allows is filled in two or three steps.
        system::set_option(theirs, libc::SOL_SOCKET, libc::SO_SNDBUF, &1i32.to_ne_bytes())?;
        let mut filled = 0;
        loop {
            match system::send(theirs, &ZEROS) {
                Ok(sent) => filled += sent,
                Err(errno) if errno.would_block() => return Ok((pair, filled)),
                Err(errno) => return Err(errno),
            }
        }
    }

    /// One that can be written to from the beginning.
    pub fn open(kind: i32) -> Result<Self> {
        let pair = Self::new(kind)?;
        widen(pair.theirs.as_fd());
        Ok(pair)
    }
}

/// Takes the filling out at our end.
pub fn empty(ours: BorrowedFd, filled: usize) {
    let mut bytes = [0; ZEROS.len()];
    let mut left = filled;
    while left > 0 {
        let room = left.min(bytes.len());
        match system::recv(ours, &mut bytes[..room], 0) {
            Ok(0) | Err(_) => return,
            Ok(got) => left -= got,
        }
    }
}

/// Gives an end its full buffer. The most that we may is enough.
pub fn widen(end: BorrowedFd) {
    let size = BUFFER.to_ne_bytes();
    if system::set_option(end, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &size).is_err() {
        let _ = system::set_option(end, libc::SOL_SOCKET, libc::SO_SNDBUF, &size);
    }
}

/// What `poll(2)` says of a descriptor now.
pub fn events(end: BorrowedFd) -> i16 {
    let asked = libc::POLLIN | libc::POLLOUT | libc::POLLRDHUP;
    let mut poll = libc::pollfd { fd: end.as_raw_fd(), events: asked, revents: 0 };
    // SAFETY: one structure, which lives across the call; it does not wait.
    unsafe { libc::poll(&mut poll, 1, 0) };
    poll.revents
}

/// Whether the other end is closed (or both directions are shut down).
pub fn hung_up(end: BorrowedFd) -> bool {
    events(end) & libc::POLLHUP != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefilled_pair_is_not_writable_until_emptied() {
        let (pair, filled) = Pair::prefilled().unwrap();
        assert_eq!(events(pair.theirs.as_fd()), 0);
        assert_eq!(system::send(pair.theirs.as_fd(), b"early"), Err(Errno(libc::EAGAIN)));
        empty(pair.ours.as_fd(), filled);
        widen(pair.theirs.as_fd());
        assert_eq!(events(pair.theirs.as_fd()), libc::POLLOUT);
        assert_eq!(system::send(pair.theirs.as_fd(), b"data"), Ok(4));
        let mut bytes = [0; 16];
        assert_eq!(system::recv(pair.ours.as_fd(), &mut bytes, 0), Ok(4));
    }

    #[test]
    fn closing_a_prefilled_pair_looks_like_a_refused_connection() {
        let (pair, _) = Pair::prefilled().unwrap();
        drop(pair.ours);
        let all = libc::POLLIN | libc::POLLOUT | libc::POLLRDHUP | libc::POLLERR | libc::POLLHUP;
        assert_eq!(events(pair.theirs.as_fd()), all);
    }

    #[test]
    fn datagrams_of_no_length_pass_and_closing_is_seen() {
        let pair = Pair::open(libc::SOCK_SEQPACKET).unwrap();
        system::send(pair.theirs.as_fd(), b"").unwrap();
        system::send(pair.theirs.as_fd(), b"two").unwrap();
        let mut bytes = [0; 16];
        assert_eq!(system::recv(pair.ours.as_fd(), &mut bytes, 0), Ok(0));
        assert!(!hung_up(pair.ours.as_fd()));
        assert_eq!(system::recv(pair.ours.as_fd(), &mut bytes, 0), Ok(3));
        drop(pair.theirs);
        assert!(hung_up(pair.ours.as_fd()));
    }
}
