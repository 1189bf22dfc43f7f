//! A packet socket on an interface of the host, whose address the stack shares: Ethernet, or raw IP
//! as cellular modems have it. What concerns the stack is picked by the [`Divert`]'s filter.

use std::cell::Cell;
use std::io::{self, IoSlice, IoSliceMut};
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use anyhow::{Context, Result};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, netdevice, socket_with};

use crate::{
    Attach, Counters, Divert, Interface, Kind, Nic, Offloads, Path, Received, Transmitted,
    Transport, VnetHeader,
};
use crate::{check, frame, socket};

/// Frames that one call passes over before it lets the caller look at something else.
const REFUSED_AT_ONCE: usize = 64;
/// The first bytes of a frame, for its protocol.
const BEGINNING: usize = transom_link::ethernet::HEADER;

/// How a [`PacketNic`] is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketOptions {
    /// Leave checksums and segmentation to the interface (PACKET_VNET_HDR). Without it every frame
    /// is complete; frames that the host's GRO has put together still arrive larger than the MTU.
    pub offload: bool,
    /// Bytes of packets, with the kernel's own, that may wait to be fetched.
    pub receive_buffer: u32,
    /// Bytes of packets, likewise, between us and the interface: its queueing discipline's share of
    /// a path's delay. Beyond it `transmit` says `Full`.
    pub send_buffer: u32,
}

impl Default for PacketOptions {
    fn default() -> PacketOptions {
        PacketOptions { offload: true, receive_buffer: 8 << 20, send_buffer: 1 << 20 }
    }
}

/// A packet socket, and what keeps the host away from its packets.
pub struct PacketNic {
    socket: OwnedFd,
    divert: Divert,
    index: u32,
    kind: Kind,
    mtu: u32,
    offload: bool,
    offloads: Offloads,
    counters: Counters,
    /// The kernel forgets its count when it is read.
    overrun: Cell<u64>,
}

impl PacketNic {
    /// All of it for a path: its addresses, and these local ports.
    ///
    /// # Errors
    /// As [`Divert::attach`] and [`PacketNic::open`].
    pub fn on_path(
        path: &Path,
        ports: impl IntoIterator<Item = (Transport, RangeInclusive<u16>)>,
        options: PacketOptions,
    ) -> Result<PacketNic> {
        let mut divert = Divert::attach(&path.interface, Attach::Best)?;
        for address in path.addresses.iter().chain(&path.link_local) {
            divert.add_address(address.ip)?;
        }
        for (transport, range) in ports {
            divert.add_ports(transport, range)?;
        }
        PacketNic::open(&path.interface, divert, options)
    }

    /// Opens a socket on the interface. Nothing is received before addresses and ports are given
    /// to [`PacketNic::divert_mut`].
    ///
    /// # Errors
    /// No CAP_NET_RAW; the interface is gone.
    pub fn open(
        interface: &Interface,
        divert: Divert,
        options: PacketOptions,
    ) -> Result<PacketNic> {
        let name = &interface.name;
        let kind = interface.kind()?;
        // Only SOCK_RAW has PACKET_VNET_HDR; where there is no link header, both see the same. PPP
        // counts bytes of its own as a link header, which then had to be there.
        let offload = options.offload && !interface.is_ppp();
        let raw = offload || matches!(kind, Kind::Ethernet { .. });
        let way = if raw { SocketType::RAW } else { SocketType::DGRAM };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let packet = socket_with(AddressFamily::PACKET, way, flags, None);
        let packet = packet.map_err(|error| {
            let hint = match error {
                Errno::PERM => "it needs the privilege CAP_NET_RAW (run as root)",
                Errno::AFNOSUPPORT => "the kernel has none (CONFIG_PACKET, or modprobe af_packet)",
                _ => "refused by the kernel",
            };
            anyhow::Error::new(error).context(format!("a packet socket on {name}: {hint}"))
        })?;
        prepare(&packet, &divert, offload, &options)
            .with_context(|| format!("preparing the packet socket on {name}"))?;
        let everything = libc::ETH_P_ALL as u16;
        socket::bind(&packet, &socket::link_address(interface.index, everything))
            .with_context(|| format!("binding a packet socket to {name}"))?;
        let segmentation = Offloads { checksum: true, tso4: true, tso6: true, uso: has_uso() };
        Ok(PacketNic {
            socket: packet,
            divert,
            index: interface.index,
            kind,
            mtu: interface.mtu,
            offload,
            offloads: if offload { segmentation } else { Offloads::default() },
            counters: Counters::default(),
            overrun: Cell::new(0),
        })
    }

    pub fn divert(&self) -> &Divert {
        &self.divert
    }

    /// To add and remove addresses and ports.
    pub fn divert_mut(&mut self) -> &mut Divert {
        &mut self.divert
    }

    /// Down, or gone? The socket's errors do not distinguish them.
    fn is_gone(&self) -> bool {
        netdevice::index_to_name(&self.socket, self.index).is_err()
    }
}

/// Everything before it is bound, so that no packet arrives unfiltered.
fn prepare(
    socket: &OwnedFd,
    divert: &Divert,
    offload: bool,
    options: &PacketOptions,
) -> Result<()> {
    let (level, on) = (libc::SOL_PACKET, 1i32);
    let filter = divert.filter()?.as_raw_fd();
    socket::set_option(socket, libc::SOL_SOCKET, libc::SO_ATTACH_BPF, &filter)
        .context("attaching the filter")?;
    // Since Linux 4.20; on older ones the filter sees what we send, and does not let it through.
    let _ = socket::set_option(socket, level, libc::PACKET_IGNORE_OUTGOING, &on);
    let about = if offload { libc::PACKET_VNET_HDR } else { libc::PACKET_AUXDATA };
    socket::set_option(socket, level, about, &on).context("asking for what is left to do")?;
    for (size, forced, plain) in [
        (options.receive_buffer, libc::SO_RCVBUFFORCE, libc::SO_RCVBUF),
        (options.send_buffer, libc::SO_SNDBUFFORCE, libc::SO_SNDBUF),
    ] {
        // The kernel doubles it, for its own share.
        let half = size / 2;
        socket::set_option(socket, libc::SOL_SOCKET, forced, &half)
            .or_else(|_| socket::set_option(socket, libc::SOL_SOCKET, plain, &half))
            .context("setting the size of a buffer")?;
    }
    Ok(())
}

/// UDP segmentation in virtio-net headers came with Linux 6.2.
fn has_uso() -> bool {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map_while(|n| n.parse().ok());
    let version: (u32, u32) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    version >= (6, 2)
}

impl PacketNic {
    fn send(&self, header: &VnetHeader, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut beginning = [0; BEGINNING];
        let beginning = transom_link::beginning(parts, &mut beginning);
        let protocol = frame::protocol(self.kind, beginning);
        let protocol = protocol.ok_or(io::Error::from_raw_os_error(libc::EINVAL))?;
        let to = socket::link_address(self.index, protocol);
        if self.offload {
            let header = bytemuck::bytes_of(header);
            transom_link::behind(header, parts, |all| socket::send(self.socket.as_fd(), all, &to))
        } else if header.is_empty() {
            socket::send(self.socket.as_fd(), parts, &to)
        } else {
            Err(io::Error::from_raw_os_error(libc::EINVAL))
        }
    }

    fn take(&mut self, buffer: &mut [u8]) -> io::Result<Option<(VnetHeader, usize)>> {
        let mut header = VnetHeader::default();
        let before = if self.offload { size_of::<VnetHeader>() } else { 0 };
        let bytes = &mut bytemuck::bytes_of_mut(&mut header)[..before];
        let into = &mut [IoSliceMut::new(bytes), IoSliceMut::new(&mut *buffer)];
        let arrived = socket::receive(self.socket.as_fd(), into)?;
        let length = arrived.length.saturating_sub(before);
        let verified = libc::TP_STATUS_CSUM_VALID | libc::TP_STATUS_CSUMNOTREADY;
        if arrived.status & verified != 0 {
            // Verified by the interface, or never computed because it came from this machine.
            header.flags = VnetHeader::DATA_VALID;
        }
        let Some(frame) = buffer.get(..length) else { return Ok(None) };
        Ok(check::received(self.kind, &header, frame).ok().map(|header| (header, length)))
    }
}

impl Nic for PacketNic {
    fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
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
        let done = self.send(header, parts).map_err(|error| error.raw_os_error());
        let became = match done {
            Ok(_) => Transmitted::Sent,
            Err(Some(libc::EAGAIN | libc::EINTR)) => Transmitted::Full,
            Err(Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV)) if self.is_gone() => {
                Transmitted::Gone
            }
            Err(Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV)) => Transmitted::Down,
            Err(_) => Transmitted::Dropped,
        };
        self.counters.transmitted(became, transom_link::length(parts));
        became
    }

    fn receive(&mut self, buffer: &mut [u8]) -> Received {
        for _ in 0..REFUSED_AT_ONCE {
            match self.take(buffer) {
                Ok(Some((header, length))) => {
                    self.counters.received(length);
                    return Received::Frame { header, length };
                }
                Ok(None) => self.counters.refused += 1,
                Err(error) => match error.raw_os_error() {
                    Some(libc::EAGAIN | libc::EINTR) => return Received::Nothing,
                    // A kernel before 6.2 cannot put a UDP train into a header, and says so.
                    Some(libc::EINVAL) => self.counters.refused += 1,
                    _ if self.is_gone() => return Received::Gone,
                    _ => return Received::Down,
                },
            }
        }
        Received::Nothing
    }

    fn counters(&self) -> Counters {
        let since = socket::drops(&self.socket).unwrap_or(0);
        self.overrun.set(self.overrun.get() + since);
        Counters { overrun: self.overrun.get(), ..self.counters }
    }
}
