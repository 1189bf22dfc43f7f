//! Network interfaces for a network stack in user space: TAP, TUN, and packet sockets on an
//! interface whose address is shared with the host.
//!
//! No call blocks and no thread is started: the owner of a [`Nic`] polls its descriptor. Frames from
//! the wire are checked before they are handed on ([`check`]).

#![warn(clippy::print_stdout, clippy::print_stderr)]

pub mod check;
mod claim;
mod clsact;
mod divert;
mod events;
mod frame;
mod hook;
mod interface;
mod neighbour;
mod packet;
mod path;
mod ports;
mod socket;
mod tun;

use std::io::IoSlice;
use std::os::fd::BorrowedFd;

pub use claim::{HeldPort, Ports};
pub use divert::{Counts, Divert, Transport};
pub use events::{Event, InterfaceEvents};
pub use hook::Attach;
pub use interface::Interface;
pub use neighbour::{Neighbour, Neighbours};
pub use packet::{PacketNic, PacketOptions};
pub use path::{Path, PathSpec};
pub use transom_link::netlink::Address;
pub use transom_link::{Segmentation, VnetHeader};
pub use tun::{Mode, Tun};

/// What a receive buffer must hold: the largest IP packet (RFC 791) behind an Ethernet header.
pub const MOST_BYTES: usize = 65535 + transom_link::ethernet::HEADER;

/// What frames of an interface look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Ethernet II frames, without the frame check sequence.
    Ethernet { mac: [u8; 6] },
    /// IP packets without anything before them: cellular modems, TUN, PPP.
    RawIp,
}

/// What may be left to the interface when transmitting. All false: every frame must be complete
/// and no longer than the MTU, and its [`VnetHeader`] empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offloads {
    /// The checksum of TCP and UDP.
    pub checksum: bool,
    /// Cutting a TCP segment over IPv4 to [`VnetHeader::gso_size`].
    pub tso4: bool,
    /// The same over IPv6.
    pub tso6: bool,
    /// Cutting a UDP payload into datagrams (Linux 6.2).
    pub uso: bool,
}

/// What became of a frame that was to be transmitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transmitted {
    Sent,
    /// The queue below is full: try again when the descriptor is writable.
    Full,
    /// Refused and lost: the queueing discipline dropped it, or the kernel does not take such a
    /// frame (longer than the MTU, inconsistent offload).
    Dropped,
    /// The interface is down; the frame is lost. It may come up again.
    Down,
    /// The interface is no more, or now in another network namespace. This `Nic` is of no more use.
    Gone,
}

/// What there was to receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// A frame, in the first `length` bytes of the buffer; the header has been checked against it.
    Frame {
        header: VnetHeader,
        length: usize,
    },
    Nothing,
    /// As in [`Transmitted`].
    Down,
    Gone,
}

/// Frames since the interface was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub received: u64,
    pub received_bytes: u64,
    pub transmitted: u64,
    pub transmitted_bytes: u64,
    /// Received, and not handed on: malformed, or larger than the buffer.
    pub refused: u64,
    /// Dropped by the kernel because they were not fetched in time.
    pub overrun: u64,
    /// [`Transmitted::Dropped`] and [`Transmitted::Down`].
    pub dropped: u64,
}

impl Counters {
    pub(crate) fn transmitted(&mut self, became: Transmitted, bytes: usize) {
        match became {
            Transmitted::Sent => {
                self.transmitted += 1;
                self.transmitted_bytes += bytes as u64;
            }
            Transmitted::Dropped | Transmitted::Down => self.dropped += 1,
            Transmitted::Full | Transmitted::Gone => {}
        }
    }

    pub(crate) fn received(&mut self, bytes: usize) {
        self.received += 1;
        self.received_bytes += bytes as u64;
    }
}

/// One network interface, non-blocking.
pub trait Nic {
    /// To poll: readable when there may be a frame, writable when there may be room again.
    fn descriptor(&self) -> BorrowedFd<'_>;
    fn kind(&self) -> Kind;
    /// Bytes of an IP packet, at the time the interface was opened; [`InterfaceEvents`] reports
    /// changes.
    fn mtu(&self) -> u32;
    fn offloads(&self) -> Offloads;
    /// One frame, in parts, with what is left to the interface.
    fn transmit(&mut self, header: &VnetHeader, parts: &[IoSlice<'_>]) -> Transmitted;
    /// One frame into `buffer`, which should hold [`MOST_BYTES`]: what does not fit is refused.
    fn receive(&mut self, buffer: &mut [u8]) -> Received;
    fn counters(&self) -> Counters;
}
