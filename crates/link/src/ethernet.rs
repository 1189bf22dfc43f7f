//! The header of Ethernet II, and what of it an IP packet alone determines.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Bytes of the header: two MAC addresses, the EtherType.
pub const HEADER: usize = libc::ETH_HLEN as usize;
pub const IPV4: u16 = libc::ETH_P_IP as u16;
pub const IPV6: u16 = libc::ETH_P_IPV6 as u16;
/// Bytes of the fixed part of an IPv6 header, in which the addresses are.
pub const LONGEST_IP: usize = 40;

/// All stations on the link.
pub const BROADCAST: [u8; 6] = [0xff; 6];

pub fn header(destination: [u8; 6], source: [u8; 6], protocol: u16) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[..6].copy_from_slice(&destination);
    header[6..12].copy_from_slice(&source);
    header[12..].copy_from_slice(&protocol.to_be_bytes());
    header
}

/// The EtherType of an IP packet; None: neither IPv4 nor IPv6.
pub fn protocol(packet: &[u8]) -> Option<u16> {
    match packet.first()? >> 4 {
        4 => Some(IPV4),
        6 => Some(IPV6),
        _ => None,
    }
}

/// The stations that a packet to a group goes to, or to all on the link (RFC 1112, 6.4; RFC 2464, 7).
pub fn group(ip: IpAddr) -> Option<[u8; 6]> {
    match ip {
        IpAddr::V4(Ipv4Addr::BROADCAST) => Some(BROADCAST),
        IpAddr::V4(v4) if v4.is_multicast() => {
            let [_, b, c, d] = v4.octets();
            Some([0x01, 0x00, 0x5e, b & 0x7f, c, d])
        }
        IpAddr::V6(v6) if v6.is_multicast() => {
            let [.., a, b, c, d] = v6.octets();
            Some([0x33, 0x33, a, b, c, d])
        }
        _ => None,
    }
}

/// Where an IP packet goes, and its EtherType (RFC 791, 3.1; RFC 8200, 3). The packet may end after
/// [`LONGEST_IP`] bytes.
pub fn destination(packet: &[u8]) -> Option<(IpAddr, u16)> {
    let protocol = protocol(packet)?;
    let ip: IpAddr = if protocol == IPV4 {
        let bytes: [u8; 4] = packet.get(16..20)?.try_into().ok()?;
        Ipv4Addr::from(bytes).into()
    } else {
        let bytes: [u8; 16] = packet.get(24..40)?.try_into().ok()?;
        Ipv6Addr::from(bytes).into()
    };
    Some((ip, protocol))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn packet(to: IpAddr) -> Vec<u8> {
        match to {
            IpAddr::V4(v4) => [&[0x45; 16][..], &v4.octets()].concat(),
            IpAddr::V6(v6) => [&[0x60; 24][..], &v6.octets()].concat(),
        }
    }

    proptest! {
        #[test]
        fn a_packet_goes_to_the_address_in_its_header(to: IpAddr, payload: Vec<u8>) {
            let mut packet = packet(to);
            let header = packet.len();
            for cut in 0..header {
                prop_assert_eq!(destination(&packet[..cut]), None);
            }
            packet.extend(payload);
            let protocol = if to.is_ipv4() { 0x0800 } else { 0x86dd };
            prop_assert_eq!(destination(&packet), Some((to, protocol)));
        }

        #[test]
        fn what_is_not_ip_goes_nowhere(version in 0u8..16, rest: Vec<u8>) {
            prop_assume!(version != 4 && version != 6);
            prop_assert_eq!(destination(&[&[version << 4], &rest[..]].concat()), None);
        }
    }

    #[test]
    fn a_group_has_a_station_of_its_own() {
        for (ip, station) in [
            ("224.0.0.251", Some([0x01, 0x00, 0x5e, 0x00, 0x00, 0xfb])),
            ("239.255.255.250", Some([0x01, 0x00, 0x5e, 0x7f, 0xff, 0xfa])),
            ("ff02::1:ff00:7", Some([0x33, 0x33, 0xff, 0x00, 0x00, 0x07])),
            ("255.255.255.255", Some([0xff; 6])),
            ("192.0.2.255", None),
            ("2001:db8::1", None),
        ] {
            assert_eq!(group(ip.parse().expect("an address")), station, "{ip}");
        }
    }

    #[test]
    fn the_header_is_in_network_order() {
        let header = header([1, 2, 3, 4, 5, 6], [7, 8, 9, 10, 11, 12], IPV6);
        assert_eq!(header, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0x86, 0xdd]);
    }
}
