//! A packet on its way, and logical time.

use std::any::Any;
use std::fmt::Debug;
use std::rc::Rc;

use transom_link::ethernet;

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

    /// A duplicate of it is left.
    pub fn is_shared(&self) -> bool {
        Rc::strong_count(&self.0) > 1
    }

    /// The memory for another frame, if no duplicate of this one is left.
    pub fn into_bytes(self) -> Option<Vec<u8>> {
        self.into_body()
    }

    /// Bytes from the IP header on, which the path's rates and queues count.
    pub(crate) fn ip_bytes(&self) -> usize {
        self.0.size().saturating_sub(ethernet::HEADER)
    }

    /// Of whom it is meant for; none if it is too short to be a frame.
    pub(crate) fn destination(&self) -> Option<[u8; 6]> {
        let head = self.0.head();
        (head.len() >= ethernet::HEADER).then(|| head[..6].try_into().ok()).flatten()
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
