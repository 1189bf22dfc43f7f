//! Packets written and read by hand, with arithmetic of their own (RFC 791, 1071, 8200, 9293).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use transom_nic::{Segmentation, VnetHeader};

pub const TCP: u8 = 6;
pub const UDP: u8 = 17;
const FRAGMENT: u8 = 44;

fn sum(bytes: &[u8]) -> u32 {
    let words =
        bytes.chunks(2).map(|two| u32::from(two[0]) << 8 | u32::from(*two.get(1).unwrap_or(&0)));
    words.sum()
}

fn fold(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

fn pseudo(from: IpAddr, to: IpAddr, protocol: u8, length: usize) -> u32 {
    let bytes = |ip: IpAddr| match ip {
        IpAddr::V4(v4) => sum(&v4.octets()),
        IpAddr::V6(v6) => sum(&v6.octets()),
    };
    bytes(from) + bytes(to) + u32::from(protocol) + (length >> 16) as u32 + (length & 0xffff) as u32
}

fn checksum_at(protocol: u8) -> usize {
    if protocol == UDP { 6 } else { 16 }
}

/// An IP packet around `payload`, without fragmentation.
pub fn ip(from: IpAddr, to: IpAddr, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => ipv4(from, to, protocol, payload.len(), 7, 0x4000),
        (IpAddr::V6(from), IpAddr::V6(to)) => ipv6(from, to, protocol, payload.len()),
        _ => panic!("two families"),
    };
    packet.extend(payload);
    packet
}

/// A fragment of packet `id`: the bytes from `at` on of what it carries.
pub fn fragment(
    (from, to): (IpAddr, IpAddr),
    protocol: u8,
    id: u16,
    at: usize,
    part: &[u8],
    more: bool,
) -> Vec<u8> {
    let mut packet = match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let fragment = (at / 8) as u16 | u16::from(more) << 13;
            ipv4(from, to, protocol, part.len(), id, fragment)
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let mut header = ipv6(from, to, FRAGMENT, 8 + part.len());
            header.extend([protocol, 0]);
            header.extend((at as u16 | u16::from(more)).to_be_bytes());
            header.extend(u32::from(id).to_be_bytes());
            header
        }
        _ => panic!("two families"),
    };
    packet.extend(part);
    packet
}

/// `fragment`: flags and offset as they stand in the header.
fn ipv4(
    from: Ipv4Addr,
    to: Ipv4Addr,
    protocol: u8,
    length: usize,
    id: u16,
    fragment: u16,
) -> Vec<u8> {
    let mut header = vec![0x45, 0];
    header.extend(((20 + length) as u16).to_be_bytes());
    header.extend(id.to_be_bytes());
    header.extend(fragment.to_be_bytes());
    header.extend([64, protocol, 0, 0]);
    header.extend(from.octets());
    header.extend(to.octets());
    let check = !fold(sum(&header));
    header[10..12].copy_from_slice(&check.to_be_bytes());
    header
}

fn ipv6(from: Ipv6Addr, to: Ipv6Addr, next: u8, length: usize) -> Vec<u8> {
    let mut header = vec![0x60, 0, 0, 0];
    header.extend((length as u16).to_be_bytes());
    header.extend([next, 64]);
    header.extend(from.octets());
    header.extend(to.octets());
    header
}

/// A TCP segment (ACK, PSH) with its checksum, to go into `ip`.
pub fn tcp(from: SocketAddr, to: SocketAddr, sequence: u32, flags: u8, payload: &[u8]) -> Vec<u8> {
    let mut segment = [from.port().to_be_bytes(), to.port().to_be_bytes()].concat();
    segment.extend(sequence.to_be_bytes());
    segment.extend(9u32.to_be_bytes());
    segment.extend([0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
    segment.extend(payload);
    finish(from.ip(), to.ip(), TCP, segment)
}

pub fn udp(from: SocketAddr, to: SocketAddr, payload: &[u8]) -> Vec<u8> {
    let mut datagram = [from.port().to_be_bytes(), to.port().to_be_bytes()].concat();
    datagram.extend(((8 + payload.len()) as u16).to_be_bytes());
    datagram.extend([0, 0]);
    datagram.extend(payload);
    finish(from.ip(), to.ip(), UDP, datagram)
}

fn finish(from: IpAddr, to: IpAddr, protocol: u8, mut transport: Vec<u8>) -> Vec<u8> {
    let at = checksum_at(protocol);
    transport[at..at + 2].fill(0);
    let check = !fold(pseudo(from, to, protocol, transport.len()) + sum(&transport));
    transport[at..at + 2].copy_from_slice(&check.to_be_bytes());
    transport
}

/// The same packet with only the pseudo-header's sum in it, and the header that leaves the rest, and
/// the cutting, to somebody else. `before`: bytes of link header that the packet will have.
pub fn unfinished(packet: &[u8], before: usize, segment: Option<u16>) -> (VnetHeader, Vec<u8>) {
    let (from, to, protocol, at) = parts(packet);
    let mut packet = packet.to_vec();
    let check = at + checksum_at(protocol);
    let partial = fold(pseudo(from, to, protocol, packet.len() - at));
    packet[check..check + 2].copy_from_slice(&partial.to_be_bytes());
    let mut header = VnetHeader {
        flags: VnetHeader::NEEDS_CSUM,
        csum_start: (before + at) as u16,
        csum_offset: checksum_at(protocol) as u16,
        ..VnetHeader::default()
    };
    if let Some(size) = segment {
        let (way, length) = match (protocol, from.is_ipv4()) {
            (UDP, _) => (Segmentation::Udp, 8),
            (_, true) => (Segmentation::Tcp4, 20),
            (_, false) => (Segmentation::Tcp6, 20),
        };
        header.gso_type = way as u8;
        header.gso_size = size;
        header.hdr_len = (before + at + length) as u16;
    }
    (header, packet)
}

/// Addresses, protocol, and where the transport header is.
pub fn parts(packet: &[u8]) -> (IpAddr, IpAddr, u8, usize) {
    let v4 = |at: usize| IpAddr::from(<[u8; 4]>::try_from(&packet[at..at + 4]).expect("four"));
    let v6 = |at: usize| IpAddr::from(<[u8; 16]>::try_from(&packet[at..at + 16]).expect("16"));
    match packet[0] >> 4 {
        4 => (v4(12), v4(16), packet[9], usize::from(packet[0] & 15) * 4),
        _ => (v6(8), v6(24), packet[6], 40),
    }
}

/// True if every checksum of the packet is right.
pub fn is_right(packet: &[u8]) -> bool {
    let (from, to, protocol, at) = parts(packet);
    let header = packet[0] >> 4 == 6 || fold(sum(&packet[..at])) == 0xffff;
    let transport = &packet[at..];
    header && fold(pseudo(from, to, protocol, transport.len()) + sum(transport)) == 0xffff
}

/// Sequence number and payload of a TCP packet, or of a UDP datagram (sequence number 0).
pub fn content(packet: &[u8]) -> (u32, &[u8]) {
    let (_, _, protocol, at) = parts(packet);
    let transport = &packet[at..];
    if protocol == UDP {
        return (0, &transport[8..]);
    }
    let sequence = u32::from_be_bytes(transport[4..8].try_into().expect("four"));
    (sequence, &transport[usize::from(transport[12] >> 4) * 4..])
}

/// TCP or UDP to this port?
pub fn is_to(packet: &[u8], port: u16) -> bool {
    if packet.len() < 20 || (packet[0] >> 4 == 6 && packet.len() < 40) {
        return false;
    }
    let (_, _, protocol, at) = parts(packet);
    (protocol == TCP || protocol == UDP) && packet.get(at + 2..at + 4) == Some(&port.to_be_bytes())
}

/// An Ethernet frame around an IP packet.
pub fn ethernet(from: [u8; 6], to: [u8; 6], packet: &[u8]) -> Vec<u8> {
    let kind: u16 = if packet[0] >> 4 == 4 { 0x0800 } else { 0x86dd };
    [&to, &from, &kind.to_be_bytes()[..], packet].concat()
}

/// Bytes that are all different from their neighbours.
pub fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|n| (n.wrapping_mul(2654435761) >> 11) as u8).collect()
}
