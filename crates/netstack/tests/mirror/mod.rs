//! A path that ends where it began: what goes to `BEYOND` comes back as if `SEEN_AS` had sent it,
//! so one library is both ends of its connections, with a wire between them.
#![allow(dead_code)]

use std::collections::VecDeque;
use std::io::IoSlice;
use std::os::fd::RawFd;

use transom_netstack::{
    FakeClock, Kernel, Link, Nic, NicParameters, Parameters, Transmitted, VnetHeader,
};

pub const OURS: [u8; 4] = [10, 0, 0, 1];
pub const BEYOND: [u8; 4] = [10, 0, 0, 2];
pub const SEEN_AS: [u8; 4] = [10, 0, 0, 3];

/// What becomes of a packet on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Arrives,
    Lost,
    Doubled,
    /// The device does not take it.
    Refused,
}

pub type Rule = Box<dyn FnMut(&[u8]) -> Fate + Send>;

/// The wire, with a rule that decides over each packet.
pub struct Mirror {
    rule: Rule,
    waiting: VecDeque<Vec<u8>>,
}

impl Mirror {
    pub fn new(rule: impl FnMut(&[u8]) -> Fate + Send + 'static) -> Box<Mirror> {
        Box::new(Mirror { rule: Box::new(rule), waiting: VecDeque::new() })
    }
}

fn ip_checksum(header: &[u8]) -> u16 {
    let mut sum: u32 =
        header.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Addresses are exchanged on both ends; None: not for the mirror.
fn mirrored(packet: &[u8]) -> Option<Vec<u8>> {
    let mut packet = packet.to_vec();
    if packet[0] >> 4 != 4 {
        return None;
    }
    let (source, destination): (&[u8], &[u8]) = (&packet[12..16], &packet[16..20]);
    let (source, destination) = match (source, destination) {
        (s, d) if s == OURS && d == BEYOND => (SEEN_AS, OURS),
        (s, d) if s == OURS && d == SEEN_AS => (BEYOND, OURS),
        _ => return None,
    };
    packet[12..16].copy_from_slice(&source);
    packet[16..20].copy_from_slice(&destination);
    packet[10..12].fill(0);
    let header = usize::from(packet[0] & 15) * 4;
    let sum = ip_checksum(&packet[..header]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    Some(packet)
}

impl Nic for Mirror {
    fn transmit(&mut self, _offload: VnetHeader, parts: &[IoSlice<'_>]) -> Transmitted {
        let packet: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).collect();
        let fate = (self.rule)(&packet);
        if fate == Fate::Refused {
            return Transmitted::Full;
        }
        let copies = usize::from(fate != Fate::Lost) + usize::from(fate == Fate::Doubled);
        for _ in 0..copies {
            self.waiting.extend(mirrored(&packet));
        }
        Transmitted::Taken
    }

    fn receive(&mut self, buffer: &mut [u8]) -> Option<(usize, VnetHeader)> {
        let packet = self.waiting.pop_front()?;
        buffer[..packet.len()].copy_from_slice(&packet);
        // The sum was over the other addresses: as a NIC says that it has checked it.
        Some((packet.len(), VnetHeader { flags: 2, ..VnetHeader::default() }))
    }

    fn descriptor(&self) -> Option<RawFd> {
        None
    }
}

/// A kernel whose seed and clock are given, on the wire as `OURS`; `queue`: packets that wait for it.
pub fn boot(seed: u8, clock: &FakeClock, queue: Option<u32>, mirror: Box<Mirror>) -> Kernel {
    let mut kernel = Kernel::boot(Parameters {
        series: super::bed::series(),
        memory: 64 << 20,
        seed: [seed; 32],
        command_line: String::new(),
        clock: Box::new(clock.clone()),
        console: Box::new(|_| {}),
    })
    .unwrap();
    let parameters = NicParameters {
        name: "cell0".to_owned(),
        link: Link::RawIp,
        mtu: 1500,
        checksum: false,
        tso: false,
        uso: false,
        queue,
    };
    let nic = kernel.add_nic(&parameters, mirror).unwrap();
    kernel.set_up(nic, true).unwrap();
    kernel.add_address(nic, OURS.into(), 24).unwrap();
    kernel
}
