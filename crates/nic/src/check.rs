//! Checks frames from the wire before a stack receives them. Any machine may have sent the frame,
//! and through a bridge or a virtual machine the header before it, too.
//!
//! Checked is all that the two say about each other. What is wrong inside a complete packet is for
//! the stack to find, as with any interface.

use transom_link::ethernet;

use crate::frame::{self, Headers, TCP, UDP};
use crate::{Kind, MOST_BYTES, Segmentation, VnetHeader};

/// Smallest payload of a TCP segment that is cut (TCP_MIN_GSO_SIZE of net/ipv4/tcp.c): below, one
/// frame from the wire would become tens of thousands.
const LEAST_TCP_SEGMENT: u16 = 8;
/// UDP_MAX_SEGMENTS of linux/udp.h.
const MOST_DATAGRAMS: usize = 128;
const TCP_HEADER: usize = 20;
const UDP_HEADER: usize = 8;
const TCP_CHECKSUM: u16 = 16;
const UDP_CHECKSUM: u16 = 6;

/// Why a frame is not handed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Shorter than the headers that every frame has.
    Short,
    /// Longer than any packet.
    Long,
    /// On an interface without Ethernet: neither IPv4 nor IPv6.
    NotIp,
    /// The place of the checksum lies outside the frame or inside the headers before it.
    Checksum,
    /// The frame is not what its header wants to have cut.
    Segmentation,
}

/// The header as it may be handed on: unknown flags and meaningless fields are 0, `hdr_len` is what
/// the frame says, and a segmentation that would give one segment is none.
///
/// # Errors
/// What a kernel should not get.
pub fn received(kind: Kind, header: &VnetHeader, frame: &[u8]) -> Result<VnetHeader, Refusal> {
    let link = frame::link_header(kind);
    if frame.len() <= link {
        return Err(Refusal::Short);
    }
    if frame.len() > MOST_BYTES {
        return Err(Refusal::Long);
    }
    if kind == Kind::RawIp {
        let least = match frame::protocol(kind, frame).ok_or(Refusal::NotIp)? {
            ethernet::IPV4 => 20,
            _ => 40,
        };
        if frame.len() < least {
            return Err(Refusal::Short);
        }
    }
    let mut checked = VnetHeader::default();
    if header.needs_checksum() {
        let end = usize::from(header.csum_start) + usize::from(header.csum_offset) + 2;
        if usize::from(header.csum_start) < link + 20 || end > frame.len() {
            return Err(Refusal::Checksum);
        }
        checked.flags = VnetHeader::NEEDS_CSUM;
        checked.csum_start = header.csum_start;
        checked.csum_offset = header.csum_offset;
    } else {
        checked.flags = header.flags & VnetHeader::DATA_VALID;
    }
    match header.segmentation() {
        Some(Segmentation::None) if header.gso_type == 0 => Ok(checked),
        Some(Segmentation::None) | None => Err(Refusal::Segmentation),
        Some(way) => segmented(kind, header, checked, way, frame).ok_or(Refusal::Segmentation),
    }
}

fn segmented(
    kind: Kind,
    header: &VnetHeader,
    mut checked: VnetHeader,
    way: Segmentation,
    frame: &[u8],
) -> Option<VnetHeader> {
    let headers = frame::headers(kind, frame)?;
    let (payload, sum_at) = payload(way, &headers, frame)?;
    let tcp = way != Segmentation::Udp;
    let segments = (frame.len() - payload).div_ceil(usize::from(header.gso_size.max(1)));
    let size_fits = match tcp {
        true => header.gso_size >= LEAST_TCP_SEGMENT,
        false => header.gso_size > 0 && segments <= MOST_DATAGRAMS,
    };
    // Trains of datagrams are only cut with their sums (virtio_net_hdr_to_skb).
    let sum_fits = match checked.needs_checksum() {
        true => {
            usize::from(checked.csum_start) == headers.transport && checked.csum_offset == sum_at
        }
        false => tcp,
    };
    let whole = headers.end == frame.len() && !headers.fragment && payload < frame.len();
    if !size_fits || !sum_fits || !whole || (!tcp && header.gso_type & VnetHeader::ECN != 0) {
        return None;
    }
    if segments > 1 {
        checked.gso_type = header.gso_type;
        checked.gso_size = header.gso_size;
        checked.hdr_len = u16::try_from(payload).ok()?;
    }
    Some(checked)
}

/// Where the payload begins, and where in the transport header the checksum is.
fn payload(way: Segmentation, headers: &Headers, frame: &[u8]) -> Option<(usize, u16)> {
    let (version, protocol) = (headers.version, headers.protocol);
    let transport = frame.get(headers.transport..)?;
    let fits = match way {
        Segmentation::Tcp4 => version == 4 && protocol == TCP,
        Segmentation::Tcp6 => version == 6 && protocol == TCP,
        Segmentation::Udp => protocol == UDP,
        Segmentation::None => false,
    };
    if !fits {
        return None;
    }
    if protocol == UDP {
        return (transport.len() >= UDP_HEADER)
            .then_some((headers.transport + UDP_HEADER, UDP_CHECKSUM));
    }
    let length = usize::from(*transport.get(12)? >> 4) * 4;
    (length >= TCP_HEADER && transport.len() >= length)
        .then_some((headers.transport + length, TCP_CHECKSUM))
}
