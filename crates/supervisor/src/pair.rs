//! The Unix sockets behind each stream descriptor of the program: our end and the program's.
//!
//! A stream's descriptor begins as a Unix socket without a peer: `read` and `write` fail, `poll`
//! shows `out hup`, as of an unconnected TCP socket. When it connects or listens, `Meeting` joins it
//! with an end of ours. Joined, it could be written to at once, a TCP socket only when the handshake
//! is over. So the program's direction begins full (`fill`) and is emptied when the connection
//! stands: `poll`, `select` and `epoll` of the program then see what they would see of TCP.

use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::errno::{Errno, Result};
use crate::system;

const ZEROS: [u8; 4096] = [0; 4096];

/// Strangers may fill it: it is in the abstract namespace.
const BACKLOG: i32 = 128;

pub struct Pair {
    pub ours: OwnedFd,
    pub theirs: OwnedFd,
}

impl Pair {
    /// Joined from the beginning.
    pub fn open() -> Result<Self> {
        let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC;
        let mut ends = [-1; 2];
        // SAFETY: the array has room for two descriptors, which are then ours.
        let (ours, theirs) = unsafe {
            let made = libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr());
            Errno::check(made.into())?;
            (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1]))
        };
        Ok(Self { ours, theirs })
    }
}

/// The program's end of a stream that is not connected.
pub fn unconnected() -> Result<OwnedFd> {
    // SAFETY: no pointers.
    system::owned(unsafe {
        libc::socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0).into()
    })
}

/// Where unconnected ends get their peers.
pub struct Meeting {
    listener: OwnedFd,
    address: (libc::sockaddr_un, u32),
}

impl Meeting {
    pub fn open() -> Result<Self> {
        let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: no pointers.
        let listener = system::owned(unsafe { libc::socket(libc::AF_UNIX, kind, 0) }.into())?;
        let family = libc::AF_UNIX as libc::sa_family_t;
        let mut address = libc::sockaddr_un { sun_family: family, sun_path: [0; 108] };
        let mut len = mem::size_of_val(&address) as u32;
        // SAFETY: a family alone asks for an abstract name of the kernel's choice; `address` has
        // room for the name that it chose.
        unsafe {
            let at = (&raw mut address).cast::<libc::sockaddr>();
            let raw = listener.as_raw_fd();
            Errno::check(libc::bind(raw, at, mem::size_of_val(&family) as u32).into())?;
            Errno::check(libc::listen(raw, BACKLOG).into())?;
            Errno::check(libc::getsockname(raw, at, &mut len).into())?;
        }
        Ok(Self { listener, address: (address, len) })
    }

    /// Gives the program's unconnected end a peer: our end.
    pub fn join(&self, theirs: BorrowedFd) -> Result<OwnedFd> {
        let flags = system::status_flags(theirs)?;
        system::set_status_flags(theirs, flags | libc::O_NONBLOCK)?;
        let joined = self.connect(theirs);
        system::set_status_flags(theirs, flags)?;
        joined?;
        loop {
            let ours = self.accept()?;
            // Whoever else finds the name is sent away.
            if system::peer_pid(ours.as_fd())? == std::process::id() as i32 {
                return Ok(ours);
            }
        }
    }

    fn connect(&self, theirs: BorrowedFd) -> Result<()> {
        let (address, len) = &self.address;
        loop {
            // SAFETY: the address is as long as the kernel said.
            let made =
                unsafe { libc::connect(theirs.as_raw_fd(), (&raw const *address).cast(), *len) };
            match Errno::check(made.into()) {
                // Its queue is full of strangers.
                Err(Errno(libc::EAGAIN)) => drop(self.accept()),
                other => return other.map(drop),
            }
        }
    }

    fn accept(&self) -> Result<OwnedFd> {
        let none = std::ptr::null_mut();
        let raw = self.listener.as_raw_fd();
        // SAFETY: no address is asked for.
        system::owned(unsafe {
            libc::accept4(raw, none, std::ptr::null_mut(), libc::SOCK_CLOEXEC).into()
        })
    }
}

/// Makes the program's direction full; returns with how many bytes.
pub fn fill(theirs: BorrowedFd) -> Result<usize> {
    // The smallest that the kernel allows is filled in two or three steps.
    system::set_option(theirs, libc::SOL_SOCKET, libc::SO_SNDBUF, &1i32.to_ne_bytes())?;
    let mut filled = 0;
    loop {
        match system::send(theirs, &ZEROS, 0) {
            Ok(sent) => filled += sent,
            Err(errno) if errno.would_block() => return Ok(filled),
            Err(errno) => return Err(errno),
        }
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

/// Lets an end send so much before its peer reads. The most that we may is enough.
pub fn resize(end: BorrowedFd, bytes: i32) {
    let size = bytes.to_ne_bytes();
    if system::set_option(end, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &size).is_err() {
        let _ = system::set_option(end, libc::SOL_SOCKET, libc::SO_SNDBUF, &size);
    }
}

/// What `poll(2)` says of a descriptor now.
pub fn events(end: BorrowedFd) -> i16 {
    let asked = libc::POLLIN | libc::POLLOUT | libc::POLLRDHUP | libc::POLLPRI;
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
    use crate::forks;

    fn joined() -> (OwnedFd, OwnedFd) {
        let theirs = unconnected().unwrap();
        let ours = Meeting::open().unwrap().join(theirs.as_fd()).unwrap();
        (ours, theirs)
    }

    #[test]
    fn an_unconnected_end_looks_like_an_unconnected_tcp_socket() {
        let theirs = unconnected().unwrap();
        assert_eq!(events(theirs.as_fd()), libc::POLLOUT | libc::POLLHUP);
        assert_eq!(system::send(theirs.as_fd(), b"early", 0), Err(Errno(libc::ENOTCONN)));
        assert_eq!(system::recv(theirs.as_fd(), &mut [0; 4], 0), Err(Errno(libc::EINVAL)));
    }

    #[test]
    fn joining_keeps_the_flags_and_turns_strangers_away() {
        let _child = forks::one();
        let meeting = Meeting::open().unwrap();
        let theirs = unconnected().unwrap();
        let before = system::status_flags(theirs.as_fd()).unwrap();
        let (address, len) = meeting.address;
        // SAFETY: another process, which only connects and waits to be killed.
        let stranger = unsafe { libc::fork() };
        if stranger == 0 {
            // SAFETY: system calls only; the address is as long as told.
            unsafe {
                let fd = libc::socket(libc::AF_UNIX, libc::SOCK_STREAM, 0);
                libc::connect(fd, (&raw const address).cast(), len);
                libc::pause();
            }
        }
        while events(meeting.listener.as_fd()) & libc::POLLIN == 0 {
            std::thread::yield_now();
        }
        let ours = meeting.join(theirs.as_fd()).unwrap();
        assert_eq!(system::send(theirs.as_fd(), b"mine", 0), Ok(4));
        let mut bytes = [0; 16];
        assert_eq!(system::recv(ours.as_fd(), &mut bytes, 0), Ok(4));
        assert_eq!(system::status_flags(theirs.as_fd()), Ok(before));
        // SAFETY: the child of above.
        unsafe {
            libc::kill(stranger, libc::SIGKILL);
            libc::waitpid(stranger, std::ptr::null_mut(), 0);
        }
    }

    #[test]
    fn a_filled_pair_is_not_writable_until_emptied() {
        let (ours, theirs) = joined();
        let filled = fill(theirs.as_fd()).unwrap();
        assert_eq!(events(theirs.as_fd()), 0);
        assert_eq!(system::send(theirs.as_fd(), b"early", 0), Err(Errno(libc::EAGAIN)));
        empty(ours.as_fd(), filled);
        resize(theirs.as_fd(), 64 * 1024);
        assert_eq!(events(theirs.as_fd()), libc::POLLOUT);
        assert_eq!(system::send(theirs.as_fd(), b"data", 0), Ok(4));
        let mut bytes = [0; 16];
        assert_eq!(system::recv(ours.as_fd(), &mut bytes, 0), Ok(4));
    }

    #[test]
    fn closing_a_filled_pair_looks_like_a_refused_connection() {
        let _no_child = forks::none();
        let (ours, theirs) = joined();
        fill(theirs.as_fd()).unwrap();
        drop(ours);
        let all = libc::POLLIN | libc::POLLOUT | libc::POLLRDHUP | libc::POLLERR | libc::POLLHUP;
        assert_eq!(events(theirs.as_fd()), all);
    }
}
