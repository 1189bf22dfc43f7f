//! Whose a packet is: addresses, ports and the length of its headers, from the IP header on.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The ends of a TCP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Headers {
    pub source: SocketAddr,
    pub destination: SocketAddr,
    /// Bytes of IP and TCP headers.
    pub length: usize,
}

const TCP: u8 = 6;

/// `None` where it is no TCP, a later fragment, or too short to tell.
pub(crate) fn headers(packet: &[u8]) -> Option<Headers> {
    let (source, destination, at): (IpAddr, IpAddr, usize) = match packet.first()? >> 4 {
        4 => {
            let address = |at: usize| -> Option<Ipv4Addr> {
                let bytes: [u8; 4] = packet.get(at..at + 4)?.try_into().ok()?;
                Some(bytes.into())
            };
            let is_first = u16::from_be_bytes([*packet.get(6)?, *packet.get(7)?]) & 0x1fff == 0;
            let is_tcp = *packet.get(9)? == TCP && is_first;
            let ends = (address(12)?.into(), address(16)?.into());
            is_tcp.then_some((ends.0, ends.1, usize::from(packet[0] & 0xf) * 4))?
        }
        6 => {
            let address = |at: usize| -> Option<Ipv6Addr> {
                let bytes: [u8; 16] = packet.get(at..at + 16)?.try_into().ok()?;
                Some(bytes.into())
            };
            let is_tcp = *packet.get(6)? == TCP;
            let ends = (address(8)?.into(), address(24)?.into());
            is_tcp.then_some((ends.0, ends.1, 40))?
        }
        _ => return None,
    };
    let port = |at: usize| Some(u16::from_be_bytes([*packet.get(at)?, *packet.get(at + 1)?]));
    let length = at + usize::from(packet.get(at + 12)? >> 4) * 4;
    let source = SocketAddr::new(source, port(at)?);
    Some(Headers { source, destination: SocketAddr::new(destination, port(at + 2)?), length })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ports(source: u16, destination: u16, words: u8) -> Vec<u8> {
        let mut tcp = vec![0; 20];
        tcp[..2].copy_from_slice(&source.to_be_bytes());
        tcp[2..4].copy_from_slice(&destination.to_be_bytes());
        tcp[12] = words << 4;
        tcp
    }

    proptest! {
        #[test]
        fn the_ends_of_an_ipv4_packet(
            source: [u8; 4], destination: [u8; 4], from: u16, to: u16, options in 0_u8..10,
            words in 5_u8..16,
        ) {
            let mut packet = vec![0; 20 + 4 * usize::from(options)];
            packet[0] = 0x45 + options;
            packet[9] = TCP;
            packet[12..16].copy_from_slice(&source);
            packet[16..20].copy_from_slice(&destination);
            packet.extend(ports(from, to, words));
            let found = headers(&packet).unwrap();
            prop_assert_eq!(found.source, SocketAddr::new(IpAddr::from(source), from));
            prop_assert_eq!(found.destination, SocketAddr::new(IpAddr::from(destination), to));
            prop_assert_eq!(found.length, 20 + 4 * usize::from(options) + 4 * usize::from(words));
            packet[7] = 1;
            prop_assert_eq!(headers(&packet), None, "a later fragment has no ports");
        }

        #[test]
        fn the_ends_of_an_ipv6_packet(source: [u8; 16], destination: [u8; 16], from: u16, to: u16) {
            let mut packet = vec![0; 40];
            (packet[0], packet[6]) = (0x60, TCP);
            packet[8..24].copy_from_slice(&source);
            packet[24..40].copy_from_slice(&destination);
            packet.extend(ports(from, to, 8));
            let found = headers(&packet).unwrap();
            prop_assert_eq!(found.source, SocketAddr::new(IpAddr::from(source), from));
            prop_assert_eq!(found.destination, SocketAddr::new(IpAddr::from(destination), to));
            prop_assert_eq!(found.length, 72);
        }

        #[test]
        fn no_bytes_are_too_strange(bytes: Vec<u8>) {
            let _ = headers(&bytes);
        }
    }
}
