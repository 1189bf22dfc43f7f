//! Where the headers of a frame are. Every length is checked against the frame.

use transom_link::ethernet;

use crate::Kind;

const IPV4: usize = 20;
const IPV6: usize = 40;

pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;

/// More extension headers than any real packet has.
const EXTENSION_HEADERS: usize = 8;

/// Offsets from the frame's first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Headers {
    pub version: u8,
    /// Of the transport header, which may lie beyond the frame's end.
    pub transport: usize,
    pub protocol: u8,
    /// A part of a larger packet.
    pub fragment: bool,
    /// Where the packet ends according to its length field; 0 for a jumbogram (RFC 2675).
    pub end: usize,
}

/// Bytes before the IP header.
pub(crate) fn link_header(kind: Kind) -> usize {
    match kind {
        Kind::Ethernet { .. } => ethernet::HEADER,
        Kind::RawIp => 0,
    }
}

/// The EtherType of a frame without VLAN tag, or that of its IP version; None: too short, no IP.
pub(crate) fn protocol(kind: Kind, frame: &[u8]) -> Option<u16> {
    match kind {
        Kind::Ethernet { .. } => Some(u16::from_be_bytes(frame.get(12..14)?.try_into().ok()?)),
        Kind::RawIp => ethernet::protocol(frame),
    }
}

/// None: no IP, or its headers do not fit into the frame.
pub(crate) fn headers(kind: Kind, frame: &[u8]) -> Option<Headers> {
    let network = link_header(kind);
    match protocol(kind, frame)? {
        ethernet::IPV4 => ipv4(network, frame),
        ethernet::IPV6 => ipv6(network, frame),
        _ => None,
    }
}

fn big_endian(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn ipv4(network: usize, frame: &[u8]) -> Option<Headers> {
    let ip = frame.get(network..)?;
    let header = usize::from(ip.first()? & 15) * 4;
    if ip[0] >> 4 != 4 || header < IPV4 || ip.len() < header {
        return None;
    }
    let length = usize::from(big_endian(ip, 2)?);
    Some(Headers {
        version: 4,
        transport: network + header,
        protocol: ip[9],
        // More fragments, or not the first.
        fragment: big_endian(ip, 6)? & 0x3fff != 0,
        end: network + length,
    })
}

fn ipv6(network: usize, frame: &[u8]) -> Option<Headers> {
    let ip = frame.get(network..)?;
    if ip.len() < IPV6 || ip[0] >> 4 != 6 {
        return None;
    }
    let length = usize::from(big_endian(ip, 4)?);
    let mut next = ip[6];
    let mut at = IPV6;
    let mut fragment = false;
    for _ in 0..EXTENSION_HEADERS {
        let size = match next {
            0 | 43 | 60 => (usize::from(*ip.get(at + 1)?) + 1) * 8,
            44 => 8,
            51 => (usize::from(*ip.get(at + 1)?) + 2) * 4,
            _ => break,
        };
        fragment |= next == 44;
        next = *ip.get(at)?;
        at += size;
    }
    let end = if length == 0 { 0 } else { network + IPV6 + length };
    Some(Headers { version: 6, transport: network + at, protocol: next, fragment, end })
}
