//! TAP and TUN devices: a program's end of an interface of the host (linux/if_tun.h).

use std::ffi::{CStr, c_int, c_short, c_uint, c_ulong};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use anyhow::{Context, Result, ensure};
use rustix::fs::{Mode, OFlags};

use crate::{VnetHeader, check_name};

const DEVICE: &CStr = c"/dev/net/tun";
/// Since Linux 6.2.
const TUN_F_USO4: c_uint = 0x20;
const TUN_F_USO6: c_uint = 0x40;

/// What the device exchanges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frames {
    /// TAP: Ethernet II frames.
    Ethernet,
    /// TUN: IP packets, like those of a cellular modem.
    RawIp,
}

/// Creates the interface `name` in the network namespace of the calling thread, or attaches to an
/// existing one that is free. Addresses, MTU and state are left to the caller.
///
/// The descriptor does not block. The interface goes with it, unless it existed before; until then
/// a namespace that was deleted by name stays, too.
///
/// # Errors
/// No TUN driver, no CAP_NET_ADMIN, an invalid name, a name in use.
pub fn open(name: &str, frames: Frames) -> Result<OwnedFd> {
    create(name, frames, 0)
}

/// [`open`], with a [`VnetHeader`] before each frame: host and program leave checksums and TCP
/// segmentation to each other. Returns also whether they do the same with UDP (Linux 6.2).
///
/// # Errors
/// Those of [`open`]; the driver refuses offloads.
pub fn open_with_offloads(name: &str, frames: Frames) -> Result<(OwnedFd, bool)> {
    let device = create(name, frames, libc::IFF_VNET_HDR)?;
    let mut length = size_of::<VnetHeader>() as c_int;
    control(&device, libc::TUNSETVNETHDRSZ as _, &mut length)
        .context("the TUN driver refuses headers of 10 bytes")?;
    let tcp = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;
    let take = |features: c_uint| {
        let request = libc::TUNSETOFFLOAD as _;
        // SAFETY: this request takes a number, no pointer.
        unsafe { libc::ioctl(device.as_raw_fd(), request, c_ulong::from(features)) == 0 }
    };
    let udp = take(tcp | TUN_F_USO4 | TUN_F_USO6);
    ensure!(udp || take(tcp), "the TUN driver refuses checksum and segmentation offload");
    Ok((device, udp))
}

fn create(name: &str, frames: Frames, headers: c_int) -> Result<OwnedFd> {
    check_name(name)?;
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let device = rustix::fs::open(DEVICE, flags, Mode::empty()).context(
        "opening /dev/net/tun: load the kernel's TUN driver (modprobe tun), and run as root",
    )?;
    let kind = match frames {
        Frames::Ethernet => libc::IFF_TAP,
        Frames::RawIp => libc::IFF_TUN,
    };
    // SAFETY: an ifreq of zeroes is a valid one.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (kind | libc::IFF_NO_PI | headers) as c_short;
    control(&device, libc::TUNSETIFF as _, &mut request).map_err(|error| {
        let hint = match error.raw_os_error() {
            Some(libc::EBUSY) => "an interface of this name is in use",
            Some(libc::EPERM) => "it needs the privilege CAP_NET_ADMIN (run as root)",
            Some(libc::EINVAL) => "the name belongs to an interface of another kind",
            _ => "refused by the kernel",
        };
        anyhow::Error::new(error).context(format!("creating the interface {name}: {hint}"))
    })?;
    Ok(device)
}

fn control<T>(device: &OwnedFd, what: libc::Ioctl, argument: &mut T) -> io::Result<()> {
    // SAFETY: each caller gives the argument that its request reads and writes.
    let done = unsafe { libc::ioctl(device.as_raw_fd(), what, std::ptr::from_mut(argument)) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_name_is_refused_before_anything_is_created() {
        for name in ["", "sixteen-letters-", "a b", "a/b", "a:b", ".."] {
            let error = open(name, Frames::RawIp).unwrap_err().to_string();
            assert!(error.contains("1 to 15 bytes"), "{name:?}: {error}");
        }
    }
}
