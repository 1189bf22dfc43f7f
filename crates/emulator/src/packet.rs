//! A packet on its way, and logical time.

use std::rc::Rc;

use transom_link::ethernet;

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

    /// Of whom it is meant for; none if it is too short to be a frame.
    pub(crate) fn destination(&self) -> Option<[u8; 6]> {
        (self.0.len() >= ethernet::HEADER).then(|| self.0[..6].try_into().ok()).flatten()
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
