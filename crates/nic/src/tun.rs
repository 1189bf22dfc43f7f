//! An interface made for the stack alone, with addresses of its own: TAP (Ethernet) or TUN (IP).

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use anyhow::Result;
use rustix::io::{Errno, readv, writev};
use transom_link::{behind, length, tun};

use crate::check;
use crate::interface::Interface;
use crate::{Counters, Kind, MOST_BYTES, Nic, Offloads, Received, Transmitted, VnetHeader};

/// Frames that one call passes over before it lets the caller look at something else.
const REFUSED_AT_ONCE: usize = 64;

/// The kind of interface that is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Ethernet. `mac` is the address of the stack's end and must differ from that of the host's
    /// end.
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
    /// No TUN driver, no CAP_NET_ADMIN, an invalid name, a name in use.
    pub fn create(name: &str, mode: Mode, offload: bool) -> Result<Tun> {
        let (frames, kind) = match mode {
            Mode::Tap { mac } => (tun::Frames::Ethernet, Kind::Ethernet { mac }),
            Mode::Tun => (tun::Frames::RawIp, Kind::RawIp),
        };
        let (device, offloads) = if offload {
            let (device, uso) = tun::open_with_offloads(name, frames)?;
            (device, Offloads { checksum: true, tso4: true, tso6: true, uso })
        } else {
            (tun::open(name, frames)?, Offloads::default())
        };
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
            behind(bytemuck::bytes_of(header), parts, |all| writev(&self.device, all))
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
        self.counters.transmitted(became, length(parts));
        became
    }

    fn receive(&mut self, buffer: &mut [u8]) -> Received {
        // A TUN cuts what does not fit, silently: a frame may fill the room only where none is cut.
        let room = if buffer.len() >= MOST_BYTES { usize::MAX } else { buffer.len() };
        for _ in 0..REFUSED_AT_ONCE {
            let mut header = VnetHeader::default();
            let before = if self.headers { size_of::<VnetHeader>() } else { 0 };
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
