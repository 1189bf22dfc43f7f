//! What a router, or the link itself, would say of a packet that cannot go on: ICMP's "destination
//! unreachable" (RFC 792) and ICMPv6's (RFC 4443). The library takes it as any other and ends
//! connection attempts with EHOSTUNREACH or ENETUNREACH.

#[cfg(test)]
use std::net::IpAddr;

/// Why a packet goes nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The next station does not answer.
    NoAnswer,
    /// No way leads there.
    NoRoute,
}

const IPV4_HEADER: usize = 20;
const IPV6_HEADER: usize = 40;
const ICMP_HEADER: usize = 8;
const ICMP: u8 = 1;
const ICMPV6: u8 = 58;
/// As much as an error may quote: 576 bytes in all, 1280 with IPv6.
const QUOTED_V4: usize = 576 - IPV4_HEADER - ICMP_HEADER;
const QUOTED_V6: usize = 1280 - IPV6_HEADER - ICMP_HEADER;

/// The error that answers this packet, as if its destination had sent it: a packet from one of our
/// own addresses would be dropped. None: it is no packet of IP, or itself an error of ICMP.
pub fn answer(packet: &[u8], why: Why) -> Option<Vec<u8>> {
    match packet.first()? >> 4 {
        4 => answer_v4(packet, why),
        6 => answer_v6(packet, why),
        _ => None,
    }
}

fn answer_v4(packet: &[u8], why: Why) -> Option<Vec<u8>> {
    const HOST: u8 = 1;
    const NET: u8 = 0;
    if packet.len() < IPV4_HEADER || packet[9] == ICMP {
        return None;
    }
    let quoted = &packet[..packet.len().min(QUOTED_V4)];
    let code = if why == Why::NoAnswer { HOST } else { NET };
    let mut icmp = vec![3, code, 0, 0, 0, 0, 0, 0];
    icmp.extend_from_slice(quoted);
    let sum = checksum(&[&icmp]);
    icmp[2..4].copy_from_slice(&sum.to_be_bytes());

    let mut header = [0u8; IPV4_HEADER];
    header[0] = 0x45;
    header[2..4].copy_from_slice(&((IPV4_HEADER + icmp.len()) as u16).to_be_bytes());
    header[8] = 64;
    header[9] = ICMP;
    header[12..16].copy_from_slice(&packet[16..20]);
    header[16..20].copy_from_slice(&packet[12..16]);
    let sum = checksum(&[&header]);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    Some([&header[..], &icmp].concat())
}

fn answer_v6(packet: &[u8], why: Why) -> Option<Vec<u8>> {
    const ADDRESS: u8 = 3;
    const ROUTE: u8 = 0;
    if packet.len() < IPV6_HEADER || packet[6] == ICMPV6 {
        return None;
    }
    let quoted = &packet[..packet.len().min(QUOTED_V6)];
    let code = if why == Why::NoAnswer { ADDRESS } else { ROUTE };
    let mut icmp = vec![1, code, 0, 0, 0, 0, 0, 0];
    icmp.extend_from_slice(quoted);

    let mut header = [0u8; IPV6_HEADER];
    header[0] = 0x60;
    header[4..6].copy_from_slice(&(icmp.len() as u16).to_be_bytes());
    header[6] = ICMPV6;
    header[7] = 64;
    header[8..24].copy_from_slice(&packet[24..40]);
    header[24..40].copy_from_slice(&packet[8..24]);
    let length = (icmp.len() as u32).to_be_bytes();
    let sum = checksum(&[&header[8..40], &length, &[0, 0, 0, ICMPV6], &icmp]);
    icmp[2..4].copy_from_slice(&sum.to_be_bytes());
    Some([&header[..], &icmp].concat())
}

/// RFC 1071. All parts but the last have an even length.
fn checksum(parts: &[&[u8]]) -> u16 {
    let words = parts.iter().flat_map(|part| part.chunks(2));
    let sum: u32 =
        words.map(|word| u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0))).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    !((folded & 0xffff) + (folded >> 16)) as u16
}

/// The addresses of an answer, source first.
#[cfg(test)]
fn addresses(packet: &[u8]) -> [IpAddr; 2] {
    let v4 = |at: usize| IpAddr::from(<[u8; 4]>::try_from(&packet[at..at + 4]).expect("four"));
    let v6 = |at: usize| IpAddr::from(<[u8; 16]>::try_from(&packet[at..at + 16]).expect("sixteen"));
    if packet[0] >> 4 == 4 { [v4(12), v4(16)] } else { [v6(8), v6(24)] }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp_v4(length: usize) -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 9];
        packet.resize(length.max(IPV4_HEADER), 7);
        packet
    }

    fn tcp_v6(length: usize) -> Vec<u8> {
        let mut packet = vec![0x60, 0, 0, 0, 0, 0, 6, 64];
        packet.extend([0xfd; 16]);
        packet.extend([0xfe; 16]);
        packet.resize(length.max(IPV6_HEADER), 7);
        packet
    }

    #[test]
    fn the_answer_goes_back_to_the_sender_and_quotes_its_packet() {
        for (packet, header) in [(tcp_v4(60), IPV4_HEADER), (tcp_v6(80), IPV6_HEADER)] {
            let error = answer(&packet, Why::NoAnswer).expect("an answer");
            let [from, to] = addresses(&packet);
            assert_eq!(addresses(&error), [to, from]);
            assert_eq!(error[header + ICMP_HEADER..], packet[..]);
        }
        let kind = |packet: &[u8], why, header: usize| {
            answer(packet, why).map(|error| (error[header], error[header + 1]))
        };
        assert_eq!(kind(&tcp_v4(60), Why::NoAnswer, IPV4_HEADER), Some((3, 1)));
        assert_eq!(kind(&tcp_v4(60), Why::NoRoute, IPV4_HEADER), Some((3, 0)));
        assert_eq!(kind(&tcp_v6(80), Why::NoAnswer, IPV6_HEADER), Some((1, 3)));
        assert_eq!(kind(&tcp_v6(80), Why::NoRoute, IPV6_HEADER), Some((1, 0)));
    }

    #[test]
    fn errors_are_not_answered_with_errors() {
        let error = answer(&tcp_v4(60), Why::NoAnswer).expect("an answer");
        assert_eq!(answer(&error, Why::NoAnswer), None);
        let error = answer(&tcp_v6(80), Why::NoAnswer).expect("an answer");
        assert_eq!(answer(&error, Why::NoAnswer), None);
    }

    #[test]
    fn answers_hold_together_whatever_the_packet() {
        for length in 0..2000 {
            for (first, kind) in [(0x45, 6), (0x60, 17), (0x45, ICMP), (0x10, 6)] {
                let mut packet: Vec<u8> = (0..length).map(|n| (n * 31 + length) as u8).collect();
                packet.splice(..1.min(length), [first]);
                for at in [6, 9] {
                    packet.get_mut(at).into_iter().for_each(|byte| *byte = kind);
                }
                let Some(error) = answer(&packet, Why::NoRoute) else { continue };
                if error[0] >> 4 == 4 {
                    assert!(error.len() <= 576);
                    assert_eq!(checksum(&[&error[..IPV4_HEADER]]), 0);
                    assert_eq!(checksum(&[&error[IPV4_HEADER..]]), 0);
                } else {
                    assert!(error.len() <= 1280);
                    let icmp = &error[IPV6_HEADER..];
                    let length = (icmp.len() as u32).to_be_bytes();
                    let parts = [&error[8..40], &length, &[0, 0, 0, ICMPV6], icmp];
                    assert_eq!(checksum(&parts), 0);
                }
            }
        }
    }
}
