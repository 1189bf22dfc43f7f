//! System calls that several files make, without `unsafe` at the place of use.

use std::ffi::CStr;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::{mem, ptr};

use transom_link::options;

use crate::address::{Address, CAPACITY};
use crate::errno::{Errno, Result};
use crate::stack::Received;

/// A descriptor that a system call has just made for us, or -1 and `errno`.
pub fn owned(returned: libc::c_long) -> Result<OwnedFd> {
    let fd = Errno::check(returned)?;
    // SAFETY: it is fresh, so nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

/// As many as we may ever have.
pub fn most_descriptors() -> usize {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel fills the structure.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
    limit.rlim_max as usize
}

/// `slot` becomes a copy of `fd`; its number stays.
pub fn put_in_place(fd: BorrowedFd, slot: &mut OwnedFd) -> Result<()> {
    // SAFETY: the slot owns its number, whose former descriptor is closed.
    let put = unsafe { libc::dup3(fd.as_raw_fd(), slot.as_raw_fd(), libc::O_CLOEXEC) };
    Errno::check(put.into()).map(drop)
}

pub fn udp_socket() -> Result<OwnedFd> {
    // SAFETY: no pointers.
    owned(unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) }.into())
}

pub fn bind(fd: BorrowedFd, address: &[u8]) -> Result<()> {
    let (at, len) = (address.as_ptr().cast(), address.len() as u32);
    // SAFETY: pointer and length are those of `address`.
    Errno::check(unsafe { libc::bind(fd.as_raw_fd(), at, len) }.into()).map(drop)
}

pub fn connect(fd: BorrowedFd, address: &[u8]) -> Result<()> {
    let (at, len) = (address.as_ptr().cast(), address.len() as u32);
    // SAFETY: pointer and length are those of `address`.
    Errno::check(unsafe { libc::connect(fd.as_raw_fd(), at, len) }.into()).map(drop)
}

/// `IFF_UP` for an interface of the namespace that this thread is in.
pub fn bring_up(interface: &CStr) -> Result<()> {
    let socket = udp_socket()?;
    // SAFETY: all zeros is an `ifreq`.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(interface.to_bytes()) {
        *to = *from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = libc::IFF_UP as i16;
    // SAFETY: the request reads an `ifreq`.
    let set = unsafe {
        libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as libc::Ioctl, &raw const request)
    };
    Errno::check(set.into()).map(drop)
}

/// An `ioctl` that reads, or changes, what the host knows of an interface, by its name, in the namespace
/// that this thread is in.
pub fn ask_about_interface(request: u32, interface: &mut [u8]) -> Result<()> {
    assert!(interface.len() >= mem::size_of::<libc::ifreq>());
    let socket = udp_socket()?;
    let at: *mut u8 = interface.as_mut_ptr();
    // SAFETY: the request reads and writes an `ifreq`, for which there is room.
    let asked = unsafe { libc::ioctl(socket.as_raw_fd(), request as libc::Ioctl, at) };
    Errno::check(asked.into()).map(drop)
}

pub fn set_option(fd: BorrowedFd, level: i32, name: i32, value: &[u8]) -> Result<()> {
    options::check(level, name, value).map_err(Errno)?;
    let (at, len) = (value.as_ptr().cast(), value.len() as u32);
    // SAFETY: pointer and length are those of `value`, which holds no pointers itself.
    let returned = unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, at, len) };
    Errno::check(returned.into()).map(drop)
}

/// As much as we may: without `CAP_NET_ADMIN`, `net.core.rmem_max`.
pub fn set_receive_buffer(fd: BorrowedFd, bytes: i32) {
    let size = bytes.to_ne_bytes();
    if set_option(fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &size).is_err() {
        let _ = set_option(fd, libc::SOL_SOCKET, libc::SO_RCVBUF, &size);
    }
}

/// The length of the answer.
pub fn get_option(fd: BorrowedFd, level: i32, name: i32, value: &mut [u8]) -> Result<usize> {
    options::check(level, name, value).map_err(Errno)?;
    let mut len = value.len() as u32;
    let at = value.as_mut_ptr().cast();
    // SAFETY: pointer and length are those of `value`, which asks for no more than it has room for.
    let returned = unsafe { libc::getsockopt(fd.as_raw_fd(), level, name, at, &mut len) };
    Errno::check(returned.into()).map(|_| (len as usize).min(value.len()))
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

/// `FIONREAD`: on a stream, all bytes that wait together; of datagrams, the first one's.
pub fn unread(fd: BorrowedFd) -> Result<usize> {
    let mut bytes: i32 = 0;
    // SAFETY: the request writes an `int`.
    Errno::check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::FIONREAD, &mut bytes) }.into())?;
    Ok(bytes as usize)
}

/// The bytes in a pipe; an error for whatever else it is.
pub fn in_pipe(fd: BorrowedFd) -> Result<usize> {
    // SAFETY: no pointers.
    Errno::check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETPIPE_SZ) }.into())?;
    unread(fd)
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

pub fn read(fd: BorrowedFd, bytes: &mut [u8]) -> Result<usize> {
    // SAFETY: pointer and length are those of `bytes`.
    let got = unsafe { libc::read(fd.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len()) };
    Errno::check(got as i64).map(|got| got as usize)
}

/// `sendmsg(2)`, never blocking, never `SIGPIPE`.
pub fn send_message(
    fd: BorrowedFd,
    data: &[IoSlice],
    flags: i32,
    destination: Option<&[u8]>,
    control: &[u8],
) -> Result<usize> {
    // SAFETY: all zeros is a header; `IoSlice` has the layout of `iovec`; nothing is written to.
    let sent = unsafe {
        let mut header: libc::msghdr = mem::zeroed();
        header.msg_iov = data.as_ptr() as *mut libc::iovec;
        header.msg_iovlen = data.len() as _;
        if let Some(name) = destination {
            header.msg_name = name.as_ptr() as *mut _;
            header.msg_namelen = name.len() as u32;
        }
        if !control.is_empty() {
            header.msg_control = control.as_ptr() as *mut _;
            header.msg_controllen = control.len() as _;
        }
        libc::sendmsg(fd.as_raw_fd(), &header, flags | libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL)
    };
    Errno::check(sent as i64).map(|sent| sent as usize)
}

/// `recvmsg(2)`, never blocking. The room for ancillary data is the capacity of `message.control`.
pub fn receive_message(
    fd: BorrowedFd,
    data: &mut [IoSliceMut],
    flags: i32,
    message: Option<&mut Received>,
) -> Result<usize> {
    let mut name = [0u8; CAPACITY];
    // SAFETY: all zeros is a header; `IoSliceMut` has the layout of `iovec`; name and control
    // have the room that is told.
    let (got, header) = unsafe {
        let mut header: libc::msghdr = mem::zeroed();
        header.msg_iov = data.as_mut_ptr().cast();
        header.msg_iovlen = data.len() as _;
        if let Some(message) = &message {
            header.msg_name = name.as_mut_ptr().cast();
            header.msg_namelen = name.len() as u32;
            let room = message.control.capacity();
            let control = message.control.as_ptr() as *mut libc::c_void;
            header.msg_control = if room > 0 { control } else { ptr::null_mut() };
            header.msg_controllen = room as _;
        }
        let got = libc::recvmsg(fd.as_raw_fd(), &mut header, flags | libc::MSG_DONTWAIT);
        (got, header)
    };
    let got = Errno::check(got as i64)?;
    if let Some(message) = message {
        message.source = Address::from_bytes(&name[..(header.msg_namelen as usize).min(CAPACITY)]);
        message.flags = header.msg_flags;
        // SAFETY: the kernel has written so many bytes, at most the capacity.
        unsafe { message.control.set_len(header.msg_controllen) };
    }
    Ok(got as usize)
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
