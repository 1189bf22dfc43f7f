//! An interface made for the stack alone, with addresses of its own: TAP (Ethernet) or TUN (IP).

use std::ffi::{CStr, c_int, c_uint};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use anyhow::{Context, Result, ensure};
use rustix::fs::{Mode as Permissions, OFlags};
use rustix::io::{Errno, readv, writev};

use crate::interface::{Interface, is_name};
use crate::{Counters, Kind, MOST_BYTES, Nic, Offloads, Received, Transmitted, VnetHeader};
use crate::{check, socket, vnet};

const DEVICE: &CStr = c"/dev/net/tun";
/// linux/if_tun.h, since Linux 6.2.
const TUN_F_USO4: c_uint = 0x20;
const TUN_F_USO6: c_uint = 0x40;
/// Frames that one call passes over before it lets the caller look at something else.
const REFUSED_AT_ONCE: usize = 64;

/// What the interface that is made looks like to the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The host's end is an Ethernet interface; ours has the MAC address given here, which must be
    /// another one than the host's end has.
    Tap { mac: [u8; 6] },
    /// Point to point, IP packets only.
    Tun,
}

/// The other end of a TAP or TUN interface of the host. The interface goes with it.
#[derive(Debug)]
pub struct Tun {
    device: OwnedFd,
    name: String,
    kind: Kind,
    mtu: u32,
    /// Whether a [`VnetHeader`] goes before each frame.
    headers: bool,
    offloads: Offloads,
    counters: Counters,
}

impl Tun {
    /// Makes the interface `name` in the network namespace of the calling thread: up, without
    /// addresses, with the kernel's default MTU. `offload`: let host and stack leave checksums and
    /// segmentation to each other.
    ///
    /// # Errors
    /// No TUN driver, no CAP_NET_ADMIN, a name that is no name or is taken.
    pub fn create(name: &str, mode: Mode, offload: bool) -> Result<Tun> {
        ensure!(is_name(name), "interface name {name:?}: 1 to 15 bytes, no space, no slash");
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let device = rustix::fs::open(DEVICE, flags, Permissions::empty()).context(
            "opening /dev/net/tun: load the kernel's TUN driver (modprobe tun), and run as root",
        )?;
        let mut request = ifreq(name);
        let (way, kind) = match mode {
            Mode::Tap { mac } => (libc::IFF_TAP, Kind::Ethernet { mac }),
            Mode::Tun => (libc::IFF_TUN, Kind::RawIp),
        };
        let headers = if offload { libc::IFF_VNET_HDR } else { 0 };
        request.ifr_ifru.ifru_flags = (way | libc::IFF_NO_PI | headers) as libc::c_short;
        control(&device, libc::TUNSETIFF as _, &mut request).map_err(|error| {
            let hint = match error.raw_os_error() {
                Some(libc::EBUSY) => "an interface of this name is in use",
                Some(libc::EPERM) => "it needs the privilege CAP_NET_ADMIN (run as root)",
                Some(libc::EINVAL) => "the name belongs to an interface of another kind",
                _ => "refused by the kernel",
            };
            anyhow::Error::new(error).context(format!("making the interface {name}: {hint}"))
        })?;
        let offloads = if offload { negotiate(&device)? } else { Offloads::default() };
        let interface = Interface::find(name)?;
        interface.set_up()?;
        let mtu = interface.mtu;
        let (name, counters) = (name.to_owned(), Counters::default());
        Ok(Tun { device, name, kind, mtu, headers: offload, offloads, counters })
    }

    /// The name it was made with; the host may rename its end.
    pub fn name(&self) -> &str {
        &self.name
    }
}

fn ifreq(name: &str) -> libc::ifreq {
    // SAFETY: an ifreq of zeroes is a valid one.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request
}

fn control<T>(device: &OwnedFd, what: libc::Ioctl, argument: &mut T) -> io::Result<()> {
    // SAFETY: each caller gives the argument that its request reads and writes.
    let done = unsafe { libc::ioctl(device.as_raw_fd(), what, std::ptr::from_mut(argument)) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Tells the host what we take unfinished; it takes the same from us.
fn negotiate(device: &OwnedFd) -> Result<Offloads> {
    let mut length = vnet::LENGTH as c_int;
    control(device, libc::TUNSETVNETHDRSZ as _, &mut length)
        .context("the TUN driver refuses headers of 10 bytes")?;
    let tcp = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;
    let take = |features: c_uint| {
        // SAFETY: this request takes a number, no pointer.
        let done = unsafe {
            libc::ioctl(device.as_raw_fd(), libc::TUNSETOFFLOAD as _, libc::c_ulong::from(features))
        };
        done == 0
    };
    let uso = take(tcp | TUN_F_USO4 | TUN_F_USO6);
    ensure!(uso || take(tcp), "the TUN driver refuses checksum and segmentation offload");
    Ok(Offloads { checksum: true, tso4: true, tso6: true, uso })
}

impl Nic for Tun {
    fn descriptor(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }

    fn kind(&self) -> Kind {
        self.kind
    }

    fn mtu(&self) -> u32 {
        self.mtu
    }

    fn offloads(&self) -> Offloads {
        self.offloads
    }

    fn transmit(&mut self, header: &VnetHeader, parts: &[IoSlice<'_>]) -> Transmitted {
        let done = if self.headers {
            socket::behind(bytemuck::bytes_of(header), parts, |all| writev(&self.device, all))
        } else if header.is_empty() {
            writev(&self.device, parts)
        } else {
            Err(Errno::INVAL)
        };
        let became = match done {
            Ok(_) => Transmitted::Sent,
            Err(Errno::AGAIN | Errno::INTR) => Transmitted::Full,
            // tun_get_user's word for an interface that is down.
            Err(Errno::IO) => Transmitted::Down,
            Err(Errno::BADFD | Errno::BADF) => Transmitted::Gone,
            Err(_) => Transmitted::Dropped,
        };
        self.counters.transmitted(became, socket::length(parts));
        became
    }

    fn receive(&mut self, buffer: &mut [u8]) -> Received {
        // A TUN cuts what does not fit, silently: a frame may fill the room only where none is cut.
        let room = if buffer.len() >= MOST_BYTES { usize::MAX } else { buffer.len() };
        for _ in 0..REFUSED_AT_ONCE {
            let mut header = VnetHeader::default();
            let before = if self.headers { vnet::LENGTH } else { 0 };
            let bytes = &mut bytemuck::bytes_of_mut(&mut header)[..before];
            let into = &mut [IoSliceMut::new(bytes), IoSliceMut::new(&mut *buffer)];
            let length = match readv(&self.device, into) {
                Ok(length) => length.saturating_sub(before),
                Err(Errno::AGAIN | Errno::INTR) => return Received::Nothing,
                Err(_) => return Received::Gone,
            };
            match check::received(self.kind, &header, &buffer[..length]) {
                Ok(header) if length < room => {
                    self.counters.received(length);
                    return Received::Frame { header, length };
                }
                _ => self.counters.refused += 1,
            }
        }
        Received::Nothing
    }

    fn counters(&self) -> Counters {
        self.counters
    }
}
