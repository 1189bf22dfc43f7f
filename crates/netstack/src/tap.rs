//! A TAP device of the host as the wire: the library's interface is the other end of it.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use anyhow::Result;
use bytemuck::{bytes_of, bytes_of_mut};
use rustix::io::{Errno, readv, writev};
use transom_link::tun::{self, Frames};
use transom_link::{VnetHeader, behind};

use crate::nic::{Nic, Transmitted};

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
    pub fn open(name: &str) -> Result<Self> {
        let (device, _) = tun::open_with_offloads(name, Frames::Ethernet)?;
        Ok(Self { device })
    }
}

impl Nic for Tap {
    fn transmit(&mut self, header: VnetHeader, parts: &[IoSlice<'_>]) -> Transmitted {
        match behind(bytes_of(&header), parts, |all| writev(&self.device, all)) {
            Err(Errno::AGAIN | Errno::NOBUFS) => Transmitted::Full,
            // Down, or a frame that the host does not like: lost, as on any wire.
            _ => Transmitted::Taken,
        }
    }

    fn receive(&mut self, buffer: &mut [u8]) -> Option<(usize, VnetHeader)> {
        let mut header = VnetHeader::default();
        let into = &mut [IoSliceMut::new(bytes_of_mut(&mut header)), IoSliceMut::new(buffer)];
        let size = readv(&self.device, into).ok()?.checked_sub(size_of::<VnetHeader>())?;
        Some((size, header))
    }

    fn descriptor(&self) -> Option<RawFd> {
        Some(self.device.as_raw_fd())
    }
}
