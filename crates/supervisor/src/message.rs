//! `struct msghdr` of the program: where its buffers are.

use crate::errno::{Errno, Result};
use crate::memory::{Memory, Piece};

/// `sizeof(struct msghdr)` on 64-bit Linux.
pub const HEADER_BYTES: usize = 56;
/// `sizeof(struct mmsghdr)`: a header, the length sent or received, padding.
pub const MULTI_BYTES: usize = 64;
/// `offsetof(struct mmsghdr, msg_len)`.
pub const MULTI_LEN_AT: u64 = 56;
/// `UIO_MAXIOV`: more buffers are `EMSGSIZE`.
const MAX_PIECES: usize = 1024;
/// More ancillary data than any option of the Internet's protocols needs.
const MAX_CONTROL: usize = 64 * 1024;

const NAMELEN_AT: u64 = 8;
const CONTROLLEN_AT: u64 = 40;
const FLAGS_AT: u64 = 48;

/// A header as the program wrote it; nothing in it is checked yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Where it lies.
    pub at: u64,
    pub name: u64,
    pub name_len: u32,
    pub pieces_at: u64,
    pub pieces: usize,
    pub control: u64,
    pub control_len: usize,
}

impl Header {
    pub fn parse(at: u64, bytes: &[u8; HEADER_BYTES]) -> Self {
        let word = |offset: usize| {
            let mut eight = [0; 8];
            eight.copy_from_slice(&bytes[offset..offset + 8]);
            u64::from_ne_bytes(eight)
        };
        Self {
            at,
            name: word(0),
            // An `int` before four bytes of padding.
            name_len: word(8) as u32,
            pieces_at: word(16),
            pieces: word(24) as usize,
            control: word(32),
            control_len: word(40) as usize,
        }
    }

    pub fn read(memory: Memory, at: u64) -> Result<Self> {
        let mut bytes = [0; HEADER_BYTES];
        memory.read(at, &mut bytes)?;
        Ok(Self::parse(at, &bytes))
    }

    /// The buffers. Too many, or too long together: what the kernel says (`EMSGSIZE`, `EINVAL`).
    pub fn pieces(&self, memory: Memory) -> Result<Vec<Piece>> {
        if self.pieces > MAX_PIECES {
            return Err(Errno(libc::EMSGSIZE));
        }
        let mut bytes = vec![0; self.pieces * 16];
        memory.read(self.pieces_at, &mut bytes)?;
        parse_pieces(&bytes)
    }

    /// The ancillary data to send.
    pub fn control(&self, memory: Memory) -> Result<Vec<u8>> {
        if self.control == 0 || self.control_len == 0 {
            return Ok(Vec::new());
        }
        if self.control_len > MAX_CONTROL {
            return Err(Errno(libc::ENOBUFS));
        }
        let mut bytes = vec![0; self.control_len];
        memory.read(self.control, &mut bytes)?;
        Ok(bytes)
    }

    /// The room for ancillary data to be received.
    pub fn control_room(&self) -> usize {
        if self.control == 0 { 0 } else { self.control_len.min(MAX_CONTROL) }
    }

    /// Tells the program what was received beside the bytes.
    pub fn write_back(
        &self,
        memory: Memory,
        name: &[u8],
        control: &[u8],
        flags: i32,
    ) -> Result<()> {
        if self.name != 0 {
            let room = name.len().min(self.name_len as usize);
            memory.write(self.name, &name[..room])?;
            memory.write_int(self.at + NAMELEN_AT, name.len() as i32)?;
        }
        memory.write(self.control, control)?;
        memory.write(self.at + CONTROLLEN_AT, &(control.len() as u64).to_ne_bytes())?;
        memory.write_int(self.at + FLAGS_AT, flags)
    }
}

/// An array of `struct iovec`.
fn parse_pieces(bytes: &[u8]) -> Result<Vec<Piece>> {
    let mut total: usize = 0;
    let mut pieces = Vec::with_capacity(bytes.len() / 16);
    for one in bytes.chunks_exact(16) {
        let (address, len) = one.split_at(8);
        let address = u64::from_ne_bytes(address.try_into().expect("half of 16"));
        let len = u64::from_ne_bytes(len.try_into().expect("half of 16")) as usize;
        total = total
            .checked_add(len)
            .filter(|sum| *sum <= isize::MAX as usize)
            .ok_or(Errno(libc::EINVAL))?;
        pieces.push(Piece { address, len });
    }
    Ok(pieces)
}

#[cfg(test)]
mod tests {
    use std::mem;

    use proptest::prelude::*;

    use super::*;

    fn bytes_of(header: &libc::msghdr) -> [u8; HEADER_BYTES] {
        assert_eq!(mem::size_of::<libc::msghdr>(), HEADER_BYTES);
        // SAFETY: the structure has this size, and every byte of a copy may be looked at.
        unsafe { mem::transmute_copy(header) }
    }

    proptest! {
        #[test]
        fn a_header_is_read_as_the_c_library_wrote_it(
            name: u64, name_len: u32, iov: u64, iovlen: u64, control: u64, control_len: u64
        ) {
            // SAFETY: all zeros is a header.
            let mut header: libc::msghdr = unsafe { mem::zeroed() };
            header.msg_name = name as *mut _;
            header.msg_namelen = name_len;
            header.msg_iov = iov as *mut _;
            header.msg_iovlen = iovlen as _;
            header.msg_control = control as *mut _;
            header.msg_controllen = control_len as _;
            let parsed = Header::parse(7, &bytes_of(&header));
            let expected = Header {
                at: 7, name, name_len, pieces_at: iov, pieces: iovlen as usize, control,
                control_len: control_len as usize,
            };
            prop_assert_eq!(parsed, expected);
        }

        #[test]
        fn any_bytes_are_a_header_that_reads_without_harm(bytes: [u8; HEADER_BYTES]) {
            let memory = Memory(std::process::id() as i32);
            let header = Header::parse(0, &bytes);
            if let Ok(pieces) = header.pieces(memory) {
                prop_assert_eq!(pieces.len(), header.pieces);
            }
            prop_assert!(header.control_room() <= MAX_CONTROL);
        }

        #[test]
        fn buffers_longer_than_memory_together_are_refused(
            lens in prop::collection::vec(any::<u64>(), 0..8)
        ) {
            let bytes: Vec<u8> =
                lens.iter().flat_map(|len| [[0; 8], len.to_ne_bytes()].concat()).collect();
            let sum: u128 = lens.iter().map(|len| u128::from(*len)).sum();
            let parsed = parse_pieces(&bytes);
            prop_assert_eq!(parsed.is_ok(), sum <= isize::MAX as u128);
            if let Ok(pieces) = parsed {
                prop_assert_eq!(pieces.iter().map(|p| p.len as u64).collect::<Vec<_>>(), lens);
            }
        }
    }
}
