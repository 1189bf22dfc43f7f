//! A TAP device of the host as the wire: the library's interface is the other end of it.

use std::ffi::{c_int, c_ulong};
use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use crate::nic::{Nic, Offload, Transmitted};

// linux/if_tun.h
const TUNSETIFF: c_ulong = 0x4004_54ca;
const TUNSETOFFLOAD: c_ulong = 0x4004_54d0;
const TUN_F_CSUM: c_ulong = 1;
const TUN_F_TSO4: c_ulong = 2;
const TUN_F_TSO6: c_ulong = 4;
const TUN_F_TSO_ECN: c_ulong = 8;

/// The header before each frame.
const HEADER: usize = 10;

/// More pieces than a frame of the library has, with the header.
const MOST_PIECES: usize = 32;

/// `struct ifreq` as TUNSETIFF reads it.
#[repr(C)]
struct Request {
    name: [u8; 16],
    flags: u16,
    rest: [u8; 22],
}

/// The other end of a TAP interface, in the network namespace of the thread that made it.
#[derive(Debug)]
pub struct Tap {
    device: OwnedFd,
}

impl Tap {
    /// Makes the interface `name`, or takes hold of one that is there and free. Whoever wants the
    /// host to use it sets it up. Checksums and segmentation are left to each other.
    ///
    /// # Errors
    /// No privilege (CAP_NET_ADMIN), no TUN driver, the name is in use.
    pub fn open(name: &str) -> io::Result<Self> {
        let flags = libc::O_RDWR | libc::O_NONBLOCK | libc::O_CLOEXEC;
        // SAFETY: a C string.
        let fd = unsafe { libc::open(c"/dev/net/tun".as_ptr(), flags) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: it was just opened.
        let device = unsafe { OwnedFd::from_raw_fd(fd) };
        let flags = (libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR) as u16;
        let mut request = Request { name: [0; 16], flags, rest: [0; 22] };
        let bytes = name.as_bytes();
        if bytes.is_empty() || bytes.len() > 15 {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        request.name[..bytes.len()].copy_from_slice(bytes);
        // SAFETY: the request is what TUNSETIFF reads and writes.
        control(unsafe { libc::ioctl(device.as_raw_fd(), TUNSETIFF, &mut request) })?;
        let offloads = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN;
        // SAFETY: its argument is a number.
        control(unsafe { libc::ioctl(device.as_raw_fd(), TUNSETOFFLOAD, offloads) })?;
        Ok(Self { device })
    }
}

fn control(result: c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

impl Nic for Tap {
    fn transmit(&mut self, offload: Offload, parts: &[IoSlice<'_>]) -> Transmitted {
        let header = offload.to_bytes();
        let mut pieces = [IoSlice::new(&[]); MOST_PIECES];
        pieces[0] = IoSlice::new(&header);
        let count = parts.len().min(MOST_PIECES - 1);
        pieces[1..=count].copy_from_slice(&parts[..count]);
        // SAFETY: an `IoSlice` has the layout of an iovec.
        let n = unsafe {
            libc::writev(self.device.as_raw_fd(), pieces.as_ptr().cast(), count as c_int + 1)
        };
        match io::Error::last_os_error().raw_os_error() {
            Some(libc::EAGAIN | libc::ENOBUFS) if n < 0 => Transmitted::Full,
            // Down, or a frame that the host does not like: lost, as on any wire.
            _ => Transmitted::Taken,
        }
    }

    fn receive(&mut self, buffer: &mut [u8]) -> Option<(usize, Offload)> {
        let mut header = [0; HEADER];
        let pieces = [
            libc::iovec { iov_base: header.as_mut_ptr().cast(), iov_len: HEADER },
            libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() },
        ];
        // SAFETY: both pieces are ours to write.
        let n = unsafe { libc::readv(self.device.as_raw_fd(), pieces.as_ptr(), 2) };
        let size = usize::try_from(n).ok()?.checked_sub(HEADER)?;
        Some((size, Offload::from_bytes(header)))
    }

    fn descriptor(&self) -> Option<RawFd> {
        Some(self.device.as_raw_fd())
    }
}
