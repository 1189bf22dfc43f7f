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
pub struct Frame {
    body: Rc<dyn Body>,
    /// Marked "congestion experienced" on its way. The bytes are of all duplicates, and may be with
    /// a kernel, so they are changed only when the frame is handed to its host.
    marked: bool,
}

impl Frame {
    pub fn new(bytes: Vec<u8>) -> Frame {
        Frame::of(bytes)
    }

    pub fn of(body: impl Body) -> Frame {
        Frame { body: Rc::new(body), marked: false }
    }

    /// Of a frame of [`Frame::new`] all bytes, else the headers; as they came in, without a mark.
    pub fn bytes(&self) -> &[u8] {
        self.body.head()
    }

    /// Whether its host must get it marked "congestion experienced": see [`mark`].
    pub fn is_marked(&self) -> bool {
        self.marked
    }

    /// What the frame was made of, if it was of this kind and no duplicate of it is left.
    pub fn into_body<B: Body>(self) -> Option<B> {
        let body: Rc<dyn Any> = self.body;
        body.downcast().ok().and_then(Rc::into_inner)
    }

    /// What the frame is made of, if it is of this kind.
    pub fn body<B: Body>(&self) -> Option<&B> {
        let body: &dyn Any = &*self.body;
        body.downcast_ref()
    }

    /// A duplicate of it is left.
    pub fn is_shared(&self) -> bool {
        Rc::strong_count(&self.body) > 1
    }

    /// The memory for another frame, if no duplicate of this one is left.
    pub fn into_bytes(self) -> Option<Vec<u8>> {
        self.into_body()
    }

    /// Bytes from the IP header on, which the path's rates and queues count.
    pub(crate) fn ip_bytes(&self) -> usize {
        self.body.size().saturating_sub(ethernet::HEADER)
    }

    /// The host it is for; none if it is too short to be a frame.
    pub(crate) fn destination(&self) -> Option<[u8; 6]> {
        let head = self.body.head();
        (head.len() >= ethernet::HEADER).then(|| head[..6].try_into().ok()).flatten()
    }

    pub(crate) fn flow(&self) -> Flow {
        self.ip().map(ip::flow).unwrap_or_default()
    }

    /// Marks it "congestion experienced"; false: its ends do not understand marks. Duplicates stay
    /// as they are.
    pub(crate) fn mark(&mut self) -> bool {
        self.marked |= self.ip().is_some_and(ip::is_ecn_capable);
        self.marked
    }

    /// The IP packet in it.
    fn ip(&self) -> Option<&[u8]> {
        let (header, packet) = self.body.head().split_at_checked(ethernet::HEADER)?;
        is_ip(header).then_some(packet)
    }
}

fn is_ip(header: &[u8]) -> bool {
    matches!(u16::from_be_bytes([header[12], header[13]]), ethernet::IPV4 | ethernet::IPV6)
}

/// Writes "congestion experienced" into an Ethernet frame with an IP packet, and the checksum that
/// follows from it (RFC 3168, 5; RFC 1624).
pub fn mark(frame: &mut [u8]) {
    if let Some((header, packet)) = frame.split_at_mut_checked(ethernet::HEADER)
        && is_ip(header)
    {
        ip::mark(packet);
    }
}

impl PartialEq for Frame {
    fn eq(&self, other: &Frame) -> bool {
        self.marked == other.marked
            && self.body.size() == other.body.size()
            && self.body.head() == other.body.head()
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
        assert_eq!((original.is_marked(), duplicate.is_marked()), (true, false));
    }

    #[test]
    fn a_mark_is_written_into_ip_packets_alone() {
        for (kind, tos) in [(ethernet::IPV4, 3), (0x0806, 2)] {
            let mut bytes = frame(kind, 2).into_bytes().unwrap();
            mark(&mut bytes);
            assert_eq!(bytes[15], tos);
        }
        mark(&mut [0; 13]);
    }

    #[test]
    fn only_ip_packets_that_say_so_are_marked() {
        assert!(!frame(ethernet::IPV4, 0).mark());
        assert!(!frame(0x0806, 2).mark());
        assert!(!Frame::new(vec![2; 13]).mark());
    }
}
