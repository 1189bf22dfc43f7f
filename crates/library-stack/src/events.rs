//! The library's events on their way to `transom run --record`: whole records into a pipe.
//!
//! The trace file is written by the other end, which is not linked with the kernel. If it falls
//! behind, the pipe is full and the stack waits: an event is late rather than lost.

use std::fs::File;
use std::io::Write;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Result, bail};
use transom_netstack::{EVENT_BYTES, Events};

/// Written at once, beside the end of each turn: half of a pipe.
const ENOUGH: usize = 256 * EVENT_BYTES;

#[derive(Clone)]
pub struct Pipe(Arc<Mutex<Waiting>>);

struct Waiting {
    records: Vec<u8>,
    /// None: nobody reads any more.
    file: Option<File>,
}

impl Pipe {
    /// Takes over the descriptor, which `transom run` has left open for us.
    pub fn inherited(fd: RawFd) -> Result<Self> {
        // SAFETY: no pointers.
        if fd <= libc::STDERR_FILENO
            || unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) } < 0
        {
            bail!("--events {fd}: no such descriptor; it is for `transom run --record`");
        }
        // SAFETY: it is open, and by the option's meaning ours.
        let file = File::from(unsafe { OwnedFd::from_raw_fd(fd) });
        Ok(Self(Arc::new(Mutex::new(Waiting { records: Vec::new(), file: Some(file) }))))
    }

    /// `ahead`: what CLOCK_BOOTTIME, which traces go by, is ahead of the library's clock, ns.
    pub fn events(&self, ahead: u64) -> Events {
        let pipe = self.clone();
        Box::new(move |record| pipe.push(&later(record, ahead)))
    }

    fn push(&self, record: &[u8; EVENT_BYTES]) {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.records.extend_from_slice(record);
        if waiting.records.len() >= ENOUGH {
            waiting.write();
        }
    }

    pub fn flush(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write();
    }
}

/// The time is the record's first field.
fn later(record: &[u8; EVENT_BYTES], ahead: u64) -> [u8; EVENT_BYTES] {
    let mut record = *record;
    if let Some(time) = record.first_chunk_mut() {
        *time = u64::from_ne_bytes(*time).wrapping_add(ahead).to_ne_bytes();
    }
    record
}

impl Waiting {
    fn write(&mut self) {
        if let Some(file) = &mut self.file
            && !self.records.is_empty()
            && file.write_all(&self.records).is_err()
        {
            self.file = None;
        }
        self.records.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::fd::IntoRawFd;

    use super::*;

    fn pipe() -> (File, Pipe) {
        let mut ends = [0; 2];
        // SAFETY: the array has room for both.
        assert_eq!(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) }, 0);
        // SAFETY: both are new and ours.
        let read = unsafe { File::from_raw_fd(ends[0]) };
        (read, Pipe::inherited(ends[1]).expect("open"))
    }

    #[test]
    fn records_come_whole_and_in_order() {
        let (mut read, pipe) = pipe();
        let mut events = pipe.events(0);
        (0..300u32).for_each(|number| events(&[number as u8; EVENT_BYTES]));
        pipe.flush();
        drop((events, pipe));
        let mut all = Vec::new();
        read.read_to_end(&mut all).expect("readable");
        assert_eq!(all.len(), 300 * EVENT_BYTES);
        assert!(all.chunks(EVENT_BYTES).zip(0..300u32).all(|(r, n)| r == [n as u8; EVENT_BYTES]));
    }

    #[test]
    fn times_become_those_of_the_host() {
        let mut record = [7; EVENT_BYTES];
        record[..8].copy_from_slice(&5u64.to_ne_bytes());
        let moved = later(&record, 1_000);
        assert_eq!(moved[..8], 1_005u64.to_ne_bytes());
        assert_eq!(moved[8..], record[8..]);
    }

    #[test]
    fn when_nobody_reads_the_stack_goes_on() {
        let (read, pipe) = pipe();
        drop(read);
        pipe.push(&[0; EVENT_BYTES]);
        pipe.flush();
        pipe.push(&[0; EVENT_BYTES]);
        pipe.flush();
    }

    #[test]
    fn a_descriptor_that_is_not_open_is_refused() {
        let file = File::open("/dev/null").expect("there");
        let fd = file.into_raw_fd();
        // SAFETY: ours.
        unsafe { libc::close(fd) };
        assert!(Pipe::inherited(fd).is_err());
        assert!(Pipe::inherited(1).is_err());
    }
}
