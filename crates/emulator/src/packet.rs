//! A packet on its way, and logical time.

use std::rc::Rc;

use transom_link::ethernet;

use crate::ip::{self, Flow};

/// Logical time, ns since the start of the run.
pub type Nanos = u64;

/// One Ethernet frame, shared by its duplicates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame(Rc<Vec<u8>>);

impl Frame {
    pub fn new(bytes: Vec<u8>) -> Frame {
        Frame(Rc::new(bytes))
    }

    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The memory for another frame, if no duplicate of this one is left.
    pub fn into_bytes(self) -> Option<Vec<u8>> {
        Rc::into_inner(self.0)
    }

    /// Bytes from the IP header on, which the path's rates and queues count.
    pub(crate) fn ip_bytes(&self) -> usize {
        self.0.len().saturating_sub(ethernet::HEADER)
    }

    /// The host it is for; none if it is too short to be a frame.
    pub(crate) fn destination(&self) -> Option<[u8; 6]> {
        (self.0.len() >= ethernet::HEADER).then(|| self.0[..6].try_into().ok()).flatten()
    }

    pub(crate) fn flow(&self) -> Flow {
        self.ip().map(ip::flow).unwrap_or_default()
    }

    /// Marks it "congestion experienced"; false: its ends do not understand marks. Duplicates stay
    /// as they are.
    pub(crate) fn mark(&mut self) -> bool {
        let capable = self.ip().is_some_and(ip::is_ecn_capable);
        if capable {
            ip::mark(&mut Rc::make_mut(&mut self.0)[ethernet::HEADER..]);
        }
        capable
    }

    /// The IP packet in it.
    fn ip(&self) -> Option<&[u8]> {
        let (header, packet) = self.0.split_at_checked(ethernet::HEADER)?;
        let kind = u16::from_be_bytes([header[12], header[13]]);
        matches!(kind, ethernet::IPV4 | ethernet::IPV6).then_some(packet)
    }
}

/// Broadcast and multicast have an odd first byte.
pub(crate) fn is_group(mac: [u8; 6]) -> bool {
    mac[0] & 1 == 1
}

/// A frame and the port it came in by.
#[derive(Clone, Debug)]
pub(crate) struct Packet {
    pub frame: Frame,
    pub from: usize,
}

pub(crate) fn nanos_of_ms(ms: f64) -> Nanos {
    (ms * 1e6).round() as Nanos
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u16, tos: u8) -> Frame {
        let mut bytes = vec![0; ethernet::HEADER];
        bytes[12..14].copy_from_slice(&kind.to_be_bytes());
        bytes.extend([0x45, tos]);
        bytes.resize(60, 0);
        Frame::new(bytes)
    }

    #[test]
    fn marking_one_leaves_its_duplicate_as_it_was() {
        let mut original = frame(ethernet::IPV4, 2);
        let duplicate = original.clone();
        assert!(original.mark());
        assert_eq!((original.bytes()[15], duplicate.bytes()[15]), (3, 2));
    }

    #[test]
    fn only_ip_packets_that_say_so_are_marked() {
        assert!(!frame(ethernet::IPV4, 0).mark());
        assert!(!frame(0x0806, 2).mark());
        assert!(!Frame::new(vec![2; 13]).mark());
    }
}
