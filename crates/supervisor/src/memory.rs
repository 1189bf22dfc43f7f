//! The memory of a waiting thread.
//!
//! Copied once, before anything is decided by it: the program's other threads may change it under
//! us.

use crate::errno::{Errno, Result};
use crate::unheard;

const FAULT: Errno = Errno(libc::EFAULT);

/// A thread's memory; sound only as long as its call waits (`Listener::waits`).
#[derive(Clone, Copy, Debug)]
pub struct Memory(pub i32);

/// A piece of the program's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    pub address: u64,
    pub len: usize,
}

impl Memory {
    /// All of `bytes`, or `EFAULT`.
    pub fn read(self, address: u64, bytes: &mut [u8]) -> Result<()> {
        let whole = [Piece { address, len: bytes.len() }];
        if self.gather(&whole, bytes)? == bytes.len() { Ok(()) } else { Err(FAULT) }
    }

    pub fn write(self, address: u64, bytes: &[u8]) -> Result<()> {
        let whole = [Piece { address, len: bytes.len() }];
        if self.scatter(&whole, bytes)? == bytes.len() { Ok(()) } else { Err(FAULT) }
    }

    /// An `int`, as lengths of addresses and options are.
    pub fn read_int(self, address: u64) -> Result<i32> {
        let mut bytes = [0; 4];
        self.read(address, &mut bytes)?;
        Ok(i32::from_ne_bytes(bytes))
    }

    pub fn write_int(self, address: u64, value: i32) -> Result<()> {
        self.write(address, &value.to_ne_bytes())
    }

    /// Copies the pieces one after the other into `bytes`, as far as both reach.
    pub fn gather(self, pieces: &[Piece], bytes: &mut [u8]) -> Result<usize> {
        let copied = copy_in(self.0, pieces, bytes)?;
        unheard::was_read(self.0, pieces, &bytes[..copied]);
        Ok(copied)
    }

    /// The other way.
    pub fn scatter(self, pieces: &[Piece], bytes: &[u8]) -> Result<usize> {
        let copied = copy_out(self.0, pieces, bytes)?;
        unheard::was_written(self.0, pieces, &bytes[..copied]);
        Ok(copied)
    }
}

/// `Memory::gather` that leaves no trace.
pub fn copy_in(tid: i32, pieces: &[Piece], bytes: &mut [u8]) -> Result<usize> {
    let remote = remote(pieces, bytes.len());
    if remote.is_empty() {
        return Ok(0);
    }
    let local = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    // SAFETY: `local` is `bytes`; the kernel checks the other side.
    let copied =
        unsafe { libc::process_vm_readv(tid, &local, 1, remote.as_ptr(), remote.len() as u64, 0) };
    Errno::check(copied as i64).map(|copied| copied as usize)
}

/// `Memory::scatter` that leaves no trace.
pub fn copy_out(tid: i32, pieces: &[Piece], bytes: &[u8]) -> Result<usize> {
    let remote = remote(pieces, bytes.len());
    if remote.is_empty() {
        return Ok(0);
    }
    let local = libc::iovec { iov_base: bytes.as_ptr() as *mut _, iov_len: bytes.len() };
    // SAFETY: `local` is `bytes`, only read; the kernel checks the other side.
    let copied =
        unsafe { libc::process_vm_writev(tid, &local, 1, remote.as_ptr(), remote.len() as u64, 0) };
    Errno::check(copied as i64).map(|copied| copied as usize)
}

/// The pieces, cut so that they hold `limit` bytes together.
fn remote(pieces: &[Piece], limit: usize) -> Vec<libc::iovec> {
    let mut left = limit;
    let mut cut = Vec::with_capacity(pieces.len());
    for piece in pieces {
        let len = piece.len.min(left);
        if len > 0 {
            cut.push(libc::iovec { iov_base: piece.address as *mut _, iov_len: len });
        }
        left -= len;
    }
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> Memory {
        Memory(std::process::id() as i32)
    }

    #[test]
    fn pieces_are_gathered_in_order_and_cut_to_the_room() {
        let (first, second) = (*b"abc", *b"defgh");
        let pieces = [
            Piece { address: first.as_ptr() as u64, len: 3 },
            Piece { address: 0, len: 0 },
            Piece { address: second.as_ptr() as u64, len: 5 },
        ];
        let mut bytes = [0; 6];
        assert_eq!(own().gather(&pieces, &mut bytes), Ok(6));
        assert_eq!(&bytes, b"abcdef");
    }

    #[test]
    fn memory_that_is_not_there_is_a_fault() {
        assert_eq!(own().read_int(8), Err(FAULT));
        assert_eq!(own().write_int(8, 1), Err(FAULT));
    }
}
