//! The header that tells what of a frame is still to be done: virtio 1.2, section 5.1.6, in the
//! form of ten bytes that Linux's TUN and packet sockets exchange (linux/virtio_net.h).

use bytemuck::{Pod, Zeroable};

/// Bytes before a frame.
pub(crate) const LENGTH: usize = size_of::<VnetHeader>();

/// Numbers are in the machine's byte order, as both kernel interfaces have them by default.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct VnetHeader {
    /// [`VnetHeader::NEEDS_CSUM`], [`VnetHeader::DATA_VALID`].
    pub flags: u8,
    /// Numbers of [`Segmentation`], with [`VnetHeader::ECN`] set when the first segment has CWR.
    pub gso_type: u8,
    /// Bytes of all headers up to the payload; only with segmentation.
    pub hdr_len: u16,
    /// Payload bytes of each segment.
    pub gso_size: u16,
    /// With `NEEDS_CSUM`: where summing begins, in bytes from the frame's first …
    pub csum_start: u16,
    /// … and where the sum goes, in bytes from there; it holds the pseudo-header's sum already.
    pub csum_offset: u16,
}

/// Who cuts the payload into segments, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Segmentation {
    None = 0,
    Tcp4 = 1,
    Tcp6 = 4,
    /// A UDP payload into datagrams of `gso_size` (Linux 6.2).
    Udp = 5,
}

impl VnetHeader {
    /// The transport checksum is not yet computed.
    pub const NEEDS_CSUM: u8 = 1;
    /// The transport checksum has been verified.
    pub const DATA_VALID: u8 = 2;
    pub const ECN: u8 = 0x80;

    /// None: a kind of segmentation that we never ask for (UDP fragmentation), or none at all.
    pub fn segmentation(&self) -> Option<Segmentation> {
        match self.gso_type & !Self::ECN {
            0 => Some(Segmentation::None),
            1 => Some(Segmentation::Tcp4),
            4 => Some(Segmentation::Tcp6),
            5 => Some(Segmentation::Udp),
            _ => None,
        }
    }

    pub fn needs_checksum(&self) -> bool {
        self.flags & Self::NEEDS_CSUM != 0
    }

    /// True if the frame is complete: nothing is left to whoever gets it.
    pub fn is_empty(&self) -> bool {
        !self.needs_checksum() && self.gso_type == 0
    }
}
