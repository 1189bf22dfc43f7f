//! System calls that several files make, without `unsafe` at the place of use.

use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use crate::errno::{Errno, Result};

/// A descriptor that a system call has just made for us, or -1 and `errno`.
pub fn owned(returned: libc::c_long) -> Result<OwnedFd> {
    let fd = Errno::check(returned)?;
    // SAFETY: it is fresh, so nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

pub fn set_option(fd: BorrowedFd, level: i32, name: i32, value: &[u8]) -> Result<()> {
    let (at, len) = (value.as_ptr().cast(), value.len() as u32);
    // SAFETY: pointer and length are those of `value`.
    let returned = unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, at, len) };
    Errno::check(returned.into()).map(drop)
}

/// The length of the answer.
pub fn get_option(fd: BorrowedFd, level: i32, name: i32, value: &mut [u8]) -> Result<usize> {
    let mut len = value.len() as u32;
    let at = value.as_mut_ptr().cast();
    // SAFETY: pointer and length are those of `value`.
    let returned = unsafe { libc::getsockopt(fd.as_raw_fd(), level, name, at, &mut len) };
    Errno::check(returned.into()).map(|_| len as usize)
}

/// `SO_COOKIE`: a number that no other socket of this kernel has had since boot.
pub fn cookie(fd: BorrowedFd) -> Result<u64> {
    let mut bytes = [0; 8];
    get_option(fd, libc::SOL_SOCKET, libc::SO_COOKIE, &mut bytes)?;
    Ok(u64::from_ne_bytes(bytes))
}

pub fn inode(fd: BorrowedFd) -> Result<u64> {
    // SAFETY: all zeros is a `stat`, and the kernel fills it.
    let mut stat: libc::stat = unsafe { mem::zeroed() };
    // SAFETY: as above.
    Errno::check(unsafe { libc::fstat(fd.as_raw_fd(), &mut stat) }.into())?;
    Ok(stat.st_ino)
}

/// `O_NONBLOCK`, …: shared by all copies of a descriptor.
pub fn status_flags(fd: BorrowedFd) -> Result<i32> {
    // SAFETY: no pointers.
    let flags = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) };
    Errno::check(flags.into()).map(|flags| flags as i32)
}

pub fn set_status_flags(fd: BorrowedFd, flags: i32) -> Result<()> {
    // SAFETY: no pointers.
    Errno::check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags) }.into()).map(drop)
}

/// `FIONREAD`: on a stream or `SOCK_SEQPACKET` pair, all bytes that wait together.
pub fn unread(fd: BorrowedFd) -> Result<usize> {
    let mut bytes: i32 = 0;
    // SAFETY: the request writes an `int`.
    Errno::check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::FIONREAD, &mut bytes) }.into())?;
    Ok(bytes as usize)
}

pub fn shutdown(fd: BorrowedFd, how: i32) -> Result<()> {
    // SAFETY: no pointers.
    Errno::check(unsafe { libc::shutdown(fd.as_raw_fd(), how) }.into()).map(drop)
}

/// `SO_ERROR`, which is then cleared.
pub fn take_error(fd: BorrowedFd) -> Result<i32> {
    let mut bytes = [0; 4];
    get_option(fd, libc::SOL_SOCKET, libc::SO_ERROR, &mut bytes)?;
    Ok(i32::from_ne_bytes(bytes))
}

/// The process that connected this Unix socket.
pub fn peer_pid(fd: BorrowedFd) -> Result<i32> {
    let mut bytes = [0; 12];
    get_option(fd, libc::SOL_SOCKET, libc::SO_PEERCRED, &mut bytes)?;
    Ok(i32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
}

/// `SIOCATMARK`: whether the next byte is an urgent one. Kernels without urgent data on Unix sockets
/// (before 5.15) have none.
pub fn at_mark(fd: BorrowedFd) -> bool {
    const SIOCATMARK: u64 = 0x8905;
    let mut mark: i32 = 0;
    // SAFETY: the request writes an `int`.
    let asked = unsafe { libc::ioctl(fd.as_raw_fd(), SIOCATMARK as libc::Ioctl, &mut mark) };
    asked == 0 && mark != 0
}

/// `send(2)`, never blocking, never `SIGPIPE`.
pub fn send(fd: BorrowedFd, bytes: &[u8], flags: i32) -> Result<usize> {
    let flags = flags | libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: pointer and length are those of `bytes`.
    let sent = unsafe { libc::send(fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), flags) };
    Errno::check(sent as i64).map(|sent| sent as usize)
}

/// `recv(2)`, never blocking. With `MSG_TRUNC` the result may exceed the room.
pub fn recv(fd: BorrowedFd, bytes: &mut [u8], flags: i32) -> Result<usize> {
    let flags = flags | libc::MSG_DONTWAIT;
    // SAFETY: pointer and length are those of `bytes`.
    let got = unsafe { libc::recv(fd.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len(), flags) };
    Errno::check(got as i64).map(|got| got as usize)
}

/// To one thread, as the kernel sends `SIGPIPE`.
pub fn signal_thread(tid: i32, signal: i32) {
    // SAFETY: no pointers.
    unsafe { libc::syscall(libc::SYS_tkill, tid, signal) };
}

/// An epoll set.
pub struct Epoll(OwnedFd);

impl Epoll {
    pub fn new() -> Result<Self> {
        // SAFETY: no pointers.
        owned(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) }.into()).map(Self)
    }

    pub fn raw(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    pub fn add(&self, fd: RawFd, events: u32, data: u64) -> Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, events, data)
    }

    pub fn change(&self, fd: RawFd, events: u32, data: u64) -> Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, events, data)
    }

    pub fn remove(&self, fd: RawFd) -> Result<()> {
        self.control(libc::EPOLL_CTL_DEL, fd, 0, 0)
    }

    fn control(&self, operation: i32, fd: RawFd, events: u32, data: u64) -> Result<()> {
        let mut event = libc::epoll_event { events, u64: data };
        // SAFETY: the event lives across the call.
        let returned = unsafe { libc::epoll_ctl(self.raw(), operation, fd, &mut event) };
        Errno::check(returned.into()).map(drop)
    }

    /// Fills `events` from the front; `None` waits for ever. A signal is an empty result.
    pub fn wait(
        &self,
        events: &mut [libc::epoll_event],
        timeout: Option<std::time::Duration>,
    ) -> Result<usize> {
        let timeout = timeout.map(|limit| libc::timespec {
            tv_sec: limit.as_secs().min(1 << 30) as i64,
            tv_nsec: limit.subsec_nanos().into(),
        });
        let limit = timeout.as_ref().map_or(std::ptr::null(), |limit| limit as *const _);
        let room = events.len() as i32;
        // SAFETY: pointers and lengths are those of `events` and `timeout`; no signal mask.
        let got = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.raw(),
                events.as_mut_ptr(),
                room,
                limit,
                std::ptr::null::<libc::sigset_t>(),
                0,
            )
        };
        match Errno::check(got) {
            Err(Errno(libc::EINTR)) => Ok(0),
            other => other.map(|got| got as usize),
        }
    }
}
