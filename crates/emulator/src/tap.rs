//! TAP and TUN interfaces: the ends of the emulated network in the hosts' kernels.

use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use anyhow::{Context, Result, ensure};
use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, read, write};

const DEVICE: &CStr = c"/dev/net/tun";

/// Makes the TAP interface `name` in the network namespace that the calling thread is in, without
/// offloads and packet information. Its MAC address, MTU and IP addresses are the caller's to set.
///
/// It lives as long as the descriptor, and so does the namespace: deleting that by name takes
/// effect when the emulator stops.
///
/// Errors: no TUN driver, no CAP_NET_ADMIN, a name longer than 15 bytes or taken already.
pub fn open_tap(name: &str) -> Result<OwnedFd> {
    open(name, libc::IFF_TAP)
}

/// [`open_tap`] of a TUN interface: raw IP without a link header, as a cellular modem's.
///
/// Errors: the same.
pub fn open_tun(name: &str) -> Result<OwnedFd> {
    open(name, libc::IFF_TUN)
}

fn open(name: &str, kind: libc::c_int) -> Result<OwnedFd> {
    let bytes = name.as_bytes();
    ensure!(
        !bytes.is_empty() && bytes.len() < libc::IFNAMSIZ && !bytes.contains(&0),
        "interface name {name:?}: 1 to 15 bytes"
    );
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let fd = rustix::fs::open(DEVICE, flags, Mode::empty()).context(
        "opening /dev/net/tun: load the kernel's TUN driver (modprobe tun), and run as root",
    )?;
    // SAFETY: an ifreq of zeroes is a valid one.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(bytes) {
        *to = *from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (kind | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: the descriptor is open, and the kernel reads and writes one ifreq.
    let made = unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETIFF as _, &mut request) };
    if made < 0 {
        let error = std::io::Error::last_os_error();
        let hint = match error.raw_os_error() {
            Some(libc::EBUSY) => "an interface of this name exists already",
            Some(libc::EPERM) => "it needs root (CAP_NET_ADMIN)",
            _ => "refused by the kernel",
        };
        return Err(error).context(format!("making the interface {name}: {hint}"));
    }
    Ok(fd)
}

/// What reading from a TAP gave.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    Frame(usize),
    Nothing,
    /// The interface is no more, or will never give anything again.
    Vanished,
}

pub(crate) fn take(tap: impl AsFd, buffer: &mut [u8]) -> Taken {
    match read(tap, buffer) {
        Ok(length) => Taken::Frame(length),
        Err(Errno::AGAIN | Errno::INTR) => Taken::Nothing,
        Err(_) => Taken::Vanished,
    }
}

/// What became of a frame handed to a host.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Given {
    Taken,
    /// Interface down, queue full, no memory, or not a frame that the kernel takes.
    Refused,
    Vanished,
}

pub(crate) fn give(tap: impl AsFd, frame: &[u8]) -> Given {
    loop {
        return match write(tap.as_fd(), frame) {
            Ok(_) => Given::Taken,
            Err(Errno::INTR) => continue,
            Err(Errno::BADFD | Errno::BADF) => Given::Vanished,
            Err(_) => Given::Refused,
        };
    }
}
