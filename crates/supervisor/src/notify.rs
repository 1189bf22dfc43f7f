//! The kernel's notifications: receiving calls, answering them, handing descriptors over.
//!
//! `seccomp_unotify(2)`, Linux 5.14 or newer (`SECCOMP_ADDFD_FLAG_SEND`).

use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};

use libc::c_long;

use crate::errno::{Errno, Result};

/// `SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP` (6.6): the woken side runs where the waker ran.
const SYNC_WAKE_UP: u64 = 1;

/// Room for a notification of a kernel that knows more fields than we do.
const NOTIFICATION_BYTES: usize = 512;

/// A system call that waits for our answer.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    pub id: u64,
    /// The calling thread, as seen from our PID namespace.
    pub tid: i32,
    /// `libc::SYS_*`.
    pub nr: i32,
    /// `AUDIT_ARCH_*`.
    pub arch: u32,
    pub args: [u64; 6],
}

impl Call {
    /// Descriptors, flags and lengths are `int`s.
    pub fn int(&self, index: usize) -> i32 {
        self.args[index] as i32
    }

    /// Whether it asks for the same. Behind its arguments are whatever was in the registers.
    pub fn is_like(&self, other: &Self) -> bool {
        let count = argument_count(self.nr);
        self.nr == other.nr && self.args[..count] == other.args[..count]
    }

    /// The descriptor that all calls but `socket` are about; of `splice`, where the bytes go.
    pub fn fd(&self) -> RawFd {
        if c_long::from(self.nr) == libc::SYS_splice { self.int(2) } else { self.int(0) }
    }
}

fn argument_count(nr: i32) -> usize {
    match c_long::from(nr) {
        libc::SYS_listen | libc::SYS_shutdown => 2,
        libc::SYS_accept4 | libc::SYS_sendmmsg => 4,
        libc::SYS_getsockopt | libc::SYS_setsockopt | libc::SYS_recvmmsg => 5,
        libc::SYS_sendto | libc::SYS_recvfrom | libc::SYS_splice => 6,
        _ => 3,
    }
}

#[repr(C, align(8))]
struct Buffer([u8; NOTIFICATION_BYTES]);

pub struct Listener(OwnedFd);

impl Listener {
    pub fn new(fd: OwnedFd) -> Self {
        let listener = Self(fd);
        // Older kernels refuse; it is only quicker with it.
        let _ = listener.set_flags(SYNC_WAKE_UP);
        listener
    }

    pub fn raw(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    fn set_flags(&self, flags: u64) -> Result<()> {
        // SAFETY: the flags are passed by value.
        let returned =
            unsafe { libc::ioctl(self.raw(), libc::SECCOMP_IOCTL_NOTIF_SET_FLAGS, flags) };
        Errno::check(returned.into()).map(drop)
    }

    /// Call only when `EPOLLIN` said that one waits. `ENOENT`: a signal took it away meanwhile.
    pub fn receive(&self) -> Result<Call> {
        let mut buffer = Buffer([0; NOTIFICATION_BYTES]);
        self.ioctl(libc::SECCOMP_IOCTL_NOTIF_RECV, &mut buffer)?;
        // SAFETY: the buffer is larger than the structure, aligned for it, and filled by the kernel.
        let raw: libc::seccomp_notif = unsafe { mem::transmute_copy(&buffer) };
        let libc::seccomp_data { nr, arch, args, .. } = raw.data;
        Ok(Call { id: raw.id, tid: raw.pid as i32, nr, arch, args })
    }

    /// Whether the call still waits: what was read from the caller's memory was the caller's.
    pub fn waits(&self, id: u64) -> bool {
        let mut id = id;
        self.ioctl(libc::SECCOMP_IOCTL_NOTIF_ID_VALID, &mut id).is_ok()
    }

    /// `ENOENT`: nobody waits any more (a signal, or the thread has ended).
    pub fn answer(&self, id: u64, answer: Result<i64>) -> Result<()> {
        let (val, error) = match answer {
            Ok(value) => (value, 0),
            Err(errno) => (0, -errno.0),
        };
        self.respond(libc::seccomp_notif_resp { id, val, error, flags: 0 })
    }

    /// The kernel carries the call out itself, on whatever the arguments are by then: only for
    /// descriptors that are not ours, or where our pair takes the call natively.
    pub fn let_through(&self, id: u64) -> Result<()> {
        let flags = libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32;
        self.respond(libc::seccomp_notif_resp { id, val: 0, error: 0, flags })
    }

    fn respond(&self, mut response: libc::seccomp_notif_resp) -> Result<()> {
        self.ioctl(libc::SECCOMP_IOCTL_NOTIF_SEND, &mut response).map(drop)
    }

    /// Installs a copy of `fd` in the program as its lowest free number and answers the call with
    /// that number, both or neither. `ENOENT`: nobody waits any more.
    pub fn hand_over(&self, id: u64, fd: BorrowedFd, close_on_exec: bool) -> Result<RawFd> {
        self.add(id, fd, libc::SECCOMP_ADDFD_FLAG_SEND as u32, 0, close_on_exec)
    }

    /// Puts `fd` in the place of the program's descriptor `number`; the call still waits.
    pub fn replace(&self, id: u64, fd: BorrowedFd, number: RawFd, cloexec: bool) -> Result<RawFd> {
        self.add(id, fd, libc::SECCOMP_ADDFD_FLAG_SETFD as u32, number as u32, cloexec)
    }

    fn add(&self, id: u64, fd: BorrowedFd, flags: u32, newfd: u32, cloexec: bool) -> Result<RawFd> {
        let newfd_flags = if cloexec { libc::O_CLOEXEC as u32 } else { 0 };
        let srcfd = fd.as_raw_fd() as u32;
        let mut add = libc::seccomp_notif_addfd { id, flags, srcfd, newfd, newfd_flags };
        // `ESRCH`: the signal came when the caller was about to take it.
        let gone = |errno: Errno| if errno.0 == libc::ESRCH { Errno(libc::ENOENT) } else { errno };
        self.ioctl(libc::SECCOMP_IOCTL_NOTIF_ADDFD, &mut add).map_err(gone)
    }

    fn ioctl<T>(&self, request: libc::Ioctl, argument: &mut T) -> Result<i32> {
        // SAFETY: each request is made with the structure that it is defined for.
        let returned = unsafe { libc::ioctl(self.raw(), request, argument as *mut T) };
        Errno::check(returned.into()).map(|value| value as i32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_in_registers_is_no_argument() {
        let call = |nr: c_long, args| Call { id: 0, tid: 1, nr: nr as i32, arch: 0, args };
        let connect = call(libc::SYS_connect, [3, 0x1000, 16, 4, 5, 6]);
        assert!(connect.is_like(&call(libc::SYS_connect, [3, 0x1000, 16, 7, 8, 9])));
        assert!(!connect.is_like(&call(libc::SYS_connect, [3, 0x1000, 28, 4, 5, 6])));
        assert!(!connect.is_like(&call(libc::SYS_bind, connect.args)));
        let sendto = call(libc::SYS_sendto, [3, 0x1000, 5, 0, 0x2000, 16]);
        assert!(!sendto.is_like(&call(libc::SYS_sendto, [3, 0x1000, 5, 0, 0x2000, 28])));
    }
}
