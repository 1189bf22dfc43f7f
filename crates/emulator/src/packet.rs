//! A packet on its way, and logical time.

use std::any::Any;
use std::fmt::Debug;
use std::rc::Rc;

use transom_link::ethernet;

use crate::ip::{self, Flow};

/// Logical time, ns since the start of the run.
pub type Nanos = u64;

/// Where the bytes of a frame lie: in memory of ours, or with the kernel that made it.
pub trait Body: Any + Debug {
    /// The first bytes: the Ethernet header, and those of IP and TCP or UDP as far as they are in
    /// one piece.
    fn head(&self) -> &[u8];

    /// All bytes, from the Ethernet header on.
    fn size(&self) -> usize;
}

impl Body for Vec<u8> {
    fn head(&self) -> &[u8] {
        self
    }

    fn size(&self) -> usize {
        self.len()
    }
}

/// One Ethernet frame, shared by its duplicates.
#[derive(Clone, Debug)]
pub struct Frame(Rc<dyn Body>);

impl Frame {
    pub fn new(bytes: Vec<u8>) -> Frame {
        Frame::of(bytes)
    }

    pub fn of(body: impl Body) -> Frame {
        Frame(Rc::new(body))
    }

    /// Of a frame of [`Frame::new`] all bytes, else the headers.
    pub fn bytes(&self) -> &[u8] {
        self.0.head()
    }

    /// What the frame was made of, if it was of this kind and no duplicate of it is left.
    pub fn into_body<B: Body>(self) -> Option<B> {
        let body: Rc<dyn Any> = self.0;
        body.downcast().ok().and_then(Rc::into_inner)
    }

    /// What the frame is made of, if it is of this kind.
    pub fn body<B: Body>(&self) -> Option<&B> {
        let body: &dyn Any = &*self.0;
        body.downcast_ref()
    }

    /// The memory for another frame, if no duplicate of this one is left.
    pub fn into_bytes(self) -> Option<Vec<u8>> {
        self.into_body()
    }

    /// Bytes from the IP header on, which the path's rates and queues count.
    pub(crate) fn ip_bytes(&self) -> usize {
        self.0.size().saturating_sub(ethernet::HEADER)
    }

    /// The host it is for; none if it is too short to be a frame.
    pub(crate) fn destination(&self) -> Option<[u8; 6]> {
        let head = self.0.head();
        (head.len() >= ethernet::HEADER).then(|| head[..6].try_into().ok()).flatten()
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

impl PartialEq for Frame {
    fn eq(&self, other: &Frame) -> bool {
        self.0.size() == other.0.size() && self.0.head() == other.0.head()
    }
}

impl Eq for Frame {}

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
