//! The virtio-net header: what of a frame's checksum and segmentation is still to be done. It is
//! that of virtio 1.2, section 5.1.6, in the form of ten bytes that Linux's TUN driver and packet
//! sockets exchange (linux/virtio_net.h).

use bytemuck::{Pod, Zeroable};

/// Numbers are in the machine's byte order, the default of both kernel interfaces.
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

/// How the payload is to be cut into segments.
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

    /// None: UDP fragmentation, which Transom never asks for, or an unknown number.
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

    /// The frame is complete: nothing is left to do.
    pub fn is_empty(&self) -> bool {
        !self.needs_checksum() && self.gso_type == 0
    }

    /// The same for the frame that has `bytes` of a link header before the packet.
    #[must_use]
    pub fn with_link_header(self, bytes: u16) -> VnetHeader {
        let cut = self.gso_type != 0;
        VnetHeader {
            hdr_len: if cut { self.hdr_len.saturating_add(bytes) } else { 0 },
            csum_start: if self.needs_checksum() {
                self.csum_start.saturating_add(bytes)
            } else {
                0
            },
            ..self
        }
    }

    /// The same for the packet without the `bytes` of link header before it.
    #[must_use]
    pub fn without_link_header(self, bytes: u16) -> VnetHeader {
        VnetHeader {
            hdr_len: self.hdr_len.saturating_sub(bytes),
            csum_start: self.csum_start.saturating_sub(bytes),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_fields_lie_where_the_kernel_has_them() {
        let header = VnetHeader {
            flags: 1,
            gso_type: 4,
            hdr_len: 0x0203,
            gso_size: 0x0405,
            csum_start: 0x0607,
            csum_offset: 0x0809,
        };
        let numbers = [0x0203u16, 0x0405, 0x0607, 0x0809].map(u16::to_ne_bytes).concat();
        assert_eq!(bytemuck::bytes_of(&header), [vec![1, 4], numbers].concat());
    }

    fn any_header() -> impl Strategy<Value = VnetHeader> {
        any::<[u8; 10]>().prop_map(bytemuck::cast)
    }

    proptest! {
        #[test]
        fn ten_bytes_are_a_header_and_back(bytes: [u8; 10]) {
            let header: VnetHeader = bytemuck::cast(bytes);
            prop_assert_eq!(bytemuck::cast::<_, [u8; 10]>(header), bytes);
            if let Some(segmentation) = header.segmentation() {
                prop_assert_eq!(segmentation as u8, header.gso_type & !VnetHeader::ECN);
            }
        }

        #[test]
        fn offsets_move_by_the_link_header_and_back(given in any_header(), bytes in 0u16..64) {
            let used = VnetHeader {
                hdr_len: if given.gso_type == 0 { 0 } else { given.hdr_len.min(u16::MAX - bytes) },
                csum_start: match given.needs_checksum() {
                    true => given.csum_start.min(u16::MAX - bytes),
                    false => 0,
                },
                ..given
            };
            let framed = used.with_link_header(bytes);
            prop_assert_eq!(framed.without_link_header(bytes), used);
            prop_assert!(!used.needs_checksum() || framed.csum_start == used.csum_start + bytes);
            prop_assert!(used.gso_type == 0 || framed.hdr_len == used.hdr_len + bytes);
        }
    }
}
