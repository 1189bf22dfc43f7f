//! What links read and write of an IP packet: the flow it belongs to, and its ECN field.

/// IANA's numbers of the protocols whose first four bytes are two ports.
const WITH_PORTS: [u8; 5] = [6, 17, 33, 132, 136];
/// IPv6 extension headers that may stand before the transport's: hop-by-hop, routing, destination.
const EXTENSIONS: [u8; 3] = [0, 43, 60];
const IPV6_HEADER: usize = 40;
/// Congestion experienced (RFC 3168, 5), in the two bits of the ECN field.
const CE: u8 = 3;

/// What tells flows apart. Everything that is no IP packet belongs to one flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flow {
    /// Of the host that sends, folded from its address.
    pub source: u64,
    pub destination: u64,
    /// The transport protocol and both ports; fragments have no ports.
    pub transport: u64,
}

impl Flow {
    /// Spreads flows over queues; `key` decides how.
    pub fn hash(self, key: u64) -> u64 {
        mix(mix(mix(key, self.source), self.destination), self.transport)
    }
}

/// A multiplication spreads each bit upwards, the shift brings it down again.
pub(crate) fn mix(state: u64, word: u64) -> u64 {
    let product = (state ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    product ^ (product >> 32)
}

pub(crate) fn flow(packet: &[u8]) -> Flow {
    match packet.first().map(|byte| byte >> 4) {
        Some(4) => flow_v4(packet),
        Some(6) => flow_v6(packet),
        _ => None,
    }
    .unwrap_or_default()
}

fn flow_v4(packet: &[u8]) -> Option<Flow> {
    let header = usize::from(packet[0] & 0xf) * 4;
    let protocol = *packet.get(9)?;
    // More fragments, or not the first one.
    let is_fragment = word(packet, 4)? & 0x3fff != 0;
    Some(Flow {
        source: word(packet, 12)?,
        destination: word(packet, 16)?,
        transport: transport(packet, header, protocol, is_fragment),
    })
}

fn flow_v6(packet: &[u8]) -> Option<Flow> {
    let address = |at: usize| {
        let half = |at: usize| Some(u64::from_be_bytes(packet.get(at..at + 8)?.try_into().ok()?));
        Some(mix(half(at)?, half(at + 8)?))
    };
    let (mut next, mut at) = (*packet.get(6)?, IPV6_HEADER);
    while EXTENSIONS.contains(&next) {
        let Some(extension) = packet.get(at..at + 2) else { break };
        (next, at) = (extension[0], at + 8 + 8 * usize::from(extension[1]));
    }
    Some(Flow {
        source: address(8)?,
        destination: address(24)?,
        transport: transport(packet, at, next, false),
    })
}

fn transport(packet: &[u8], at: usize, protocol: u8, is_fragment: bool) -> u64 {
    let ports = word(packet, at).filter(|_| WITH_PORTS.contains(&protocol) && !is_fragment);
    u64::from(protocol) << 32 | ports.unwrap_or(0)
}

fn word(packet: &[u8], at: usize) -> Option<u64> {
    let bytes: [u8; 4] = packet.get(at..at + 4)?.try_into().ok()?;
    Some(u32::from_be_bytes(bytes).into())
}

/// Whether the ECN field says that both ends understand marks.
pub(crate) fn is_ecn_capable(packet: &[u8]) -> bool {
    match packet {
        [first, second, ..] if first >> 4 == 4 => second & CE != 0,
        [first, second, ..] if first >> 4 == 6 => second >> 4 & CE != 0,
        _ => false,
    }
}

/// Sets "congestion experienced" in a packet that is ECN-capable.
pub(crate) fn mark(packet: &mut [u8]) {
    match packet {
        [first, second, ..] if *first >> 4 == 6 => *second |= CE << 4,
        [first, _, _, _, _, _, _, _, _, _, _, _, ..] if *first >> 4 == 4 => mark_v4(packet),
        _ => {}
    }
}

/// The checksum follows the changed word (RFC 1624, equation 3).
fn mark_v4(packet: &mut [u8]) {
    let before = u16::from_be_bytes([packet[0], packet[1]]);
    packet[1] |= CE;
    let after = u16::from_be_bytes([packet[0], packet[1]]);
    let checksum = u16::from_be_bytes([packet[10], packet[11]]);
    let mut sum = u32::from(!checksum) + u32::from(!before) + u32::from(after);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    packet[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn v4(ports: [u8; 4], tos: u8, flags: u16) -> Vec<u8> {
        let mut packet =
            vec![0x45, tos, 0, 24, 1, 2, 0, 0, 64, 6, 0, 0, 10, 77, 0, 1, 10, 77, 0, 2];
        packet[6..8].copy_from_slice(&flags.to_be_bytes());
        let sum = checksum(&packet);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        [packet, ports.to_vec()].concat()
    }

    fn v6(extension: bool, ports: [u8; 4], class: u8) -> Vec<u8> {
        let mut packet = vec![0; IPV6_HEADER];
        packet[..2].copy_from_slice(&[0x60 | class >> 4, class << 4]);
        packet[6] = if extension { 60 } else { 17 };
        packet[23] = 1;
        packet[39] = 2;
        if extension {
            packet.extend([17, 0, 1, 4, 0, 0, 0, 0]);
        }
        [packet, ports.to_vec()].concat()
    }

    /// RFC 791's: computed from scratch, 0 in the place of the checksum.
    fn checksum(header: &[u8]) -> u16 {
        let words = header.chunks(2).map(|two| u32::from(u16::from_be_bytes([two[0], two[1]])));
        let mut sum: u32 = words.sum();
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !(sum as u16)
    }

    #[test]
    fn ports_addresses_and_the_protocol_tell_flows_apart() {
        let first = flow(&v4([1, 2, 3, 4], 0, 0));
        assert_eq!(first, flow(&v4([1, 2, 3, 4], 2, 0x4000)), "neither ECN nor DF is of the flow");
        assert_ne!(first, flow(&v4([1, 2, 3, 5], 0, 0)));
        let mut other = v4([1, 2, 3, 4], 0, 0);
        other[9] = 17;
        assert_ne!(first, flow(&other));
        other = v4([1, 2, 3, 4], 0, 0);
        other[15] = 9;
        assert_ne!(first.source, flow(&other).source);
        assert_eq!(first.destination, flow(&other).destination);
    }

    #[test]
    fn all_fragments_of_a_datagram_are_one_flow() {
        let (first, second) = (v4([1, 2, 3, 4], 0, 0x2000), v4([9, 9, 9, 9], 0, 0x00b9));
        assert_eq!(flow(&first), flow(&second));
    }

    #[test]
    fn ports_are_found_behind_extension_headers() {
        assert_eq!(flow(&v6(true, [1, 2, 3, 4], 0)), flow(&v6(false, [1, 2, 3, 4], 0)));
        assert_ne!(flow(&v6(true, [1, 2, 3, 4], 0)), flow(&v6(true, [1, 2, 3, 5], 0)));
    }

    #[test]
    fn a_marked_packet_has_ce_and_all_else_as_before() {
        for tos in [0xb9, 0xba, 0xbb] {
            let mut packet = v4([1, 2, 3, 4], tos, 0);
            assert!(is_ecn_capable(&packet));
            mark(&mut packet);
            assert_eq!(packet, v4([1, 2, 3, 4], 0xbb, 0), "and the checksum of that");
            let mut packet = v6(false, [1, 2, 3, 4], tos);
            assert!(is_ecn_capable(&packet));
            mark(&mut packet);
            assert_eq!(packet, v6(false, [1, 2, 3, 4], 0xbb));
        }
        assert!(!is_ecn_capable(&v4([1, 2, 3, 4], 0xb8, 0)));
        assert!(!is_ecn_capable(&v6(false, [1, 2, 3, 4], 0xb8)));
    }

    proptest! {
        #[test]
        fn the_checksum_of_a_marked_header_is_right(mut packet in prop::collection::vec(any::<u8>(), 20)) {
            packet[0] = 0x45;
            packet[10..12].copy_from_slice(&[0, 0]);
            let sum = checksum(&packet);
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
            mark(&mut packet);
            let written = u16::from_be_bytes([packet[10], packet[11]]);
            packet[10..12].copy_from_slice(&[0, 0]);
            prop_assert_eq!(written, checksum(&packet));
        }

        #[test]
        fn any_bytes_can_be_looked_at_and_marked(mut packet: Vec<u8>) {
            let length = packet.len();
            flow(&packet);
            is_ecn_capable(&packet);
            mark(&mut packet);
            prop_assert_eq!(packet.len(), length);
        }
    }
}
