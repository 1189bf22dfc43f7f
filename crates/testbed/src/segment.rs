//! TCP segments as they lie on the wire (RFC 9293, RFC 2018).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

pub const FIN: u8 = 0x01;
pub const SYN: u8 = 0x02;
pub const RST: u8 = 0x04;
pub const ACK: u8 = 0x10;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    pub from: SocketAddr,
    pub to: SocketAddr,
    pub seq: u32,
    pub ack: u32,
    pub flags: u8,
    /// As it stands in the header, not scaled.
    pub window: u16,
    /// Shift count of the window scale option, in SYNs.
    pub scale: Option<u8>,
    /// Bytes.
    pub payload: u32,
    /// Left and right edges.
    pub sack: Vec<(u32, u32)>,
}

fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

impl Segment {
    /// Reads an IP packet; `None` if it holds no whole TCP header.
    pub fn of_ip(packet: &[u8]) -> Option<Segment> {
        match packet.first()? >> 4 {
            4 => {
                let header = usize::from(packet[0] & 15) * 4;
                if packet.len() < header + 20 || packet[9] != 6 {
                    return None;
                }
                let address = |at| IpAddr::V4(Ipv4Addr::from(be32(packet, at)));
                let length = usize::from(be16(packet, 2)).checked_sub(header)?;
                Segment::of_tcp(&packet[header..], length, address(12), address(16))
            }
            6 => {
                if packet.len() < 60 || packet[6] != 6 {
                    return None;
                }
                let address = |at: usize| {
                    let bytes: [u8; 16] = packet[at..at + 16].try_into().expect("16 bytes");
                    IpAddr::V6(Ipv6Addr::from(bytes))
                };
                let length = usize::from(be16(packet, 4));
                Segment::of_tcp(&packet[40..], length, address(8), address(24))
            }
            _ => None,
        }
    }

    fn of_tcp(tcp: &[u8], length: usize, from: IpAddr, to: IpAddr) -> Option<Segment> {
        let header = usize::from(tcp[12] >> 4) * 4;
        if tcp.len() < header || header < 20 {
            return None;
        }
        let mut segment = Segment {
            from: SocketAddr::new(from, be16(tcp, 0)),
            to: SocketAddr::new(to, be16(tcp, 2)),
            seq: be32(tcp, 4),
            ack: be32(tcp, 8),
            flags: tcp[13],
            window: be16(tcp, 14),
            scale: None,
            payload: length.checked_sub(header)? as u32,
            sack: Vec::new(),
        };
        segment.read_options(&tcp[20..header]);
        Some(segment)
    }

    fn read_options(&mut self, mut rest: &[u8]) {
        while let [kind, ..] = *rest {
            let length = match (kind, rest.get(1)) {
                (0, _) => return,
                (1, _) => 1,
                (_, Some(&length)) if length >= 2 && usize::from(length) <= rest.len() => {
                    usize::from(length)
                }
                _ => return,
            };
            let (option, after) = rest.split_at(length);
            match kind {
                3 => self.scale = option.get(2).copied(),
                5 => {
                    let blocks = option[2..].chunks_exact(8);
                    self.sack = blocks.map(|block| (be32(block, 0), be32(block, 4))).collect();
                }
                _ => {}
            }
            rest = after;
        }
    }

    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Sequence number after the last byte, SYN and FIN counted.
    pub fn end(&self) -> u32 {
        let controls = u32::from(self.has(SYN)) + u32::from(self.has(FIN));
        self.seq.wrapping_add(self.payload).wrapping_add(controls)
    }
}
