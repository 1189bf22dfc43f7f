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

    /// Traces go by CLOCK_BOOTTIME. `now`: the library's clock, ns, which goes as CLOCK_MONOTONIC does
    /// and stands still while the machine sleeps.
    pub fn events(&self, now: u64) -> Events {
        self.events_ahead(clock_ns(libc::CLOCK_MONOTONIC).wrapping_sub(now), slept)
    }

    /// `ahead`: what CLOCK_MONOTONIC is ahead of the library's clock, ns.
    fn events_ahead(&self, ahead: u64, mut slept: impl FnMut() -> u64 + Send + 'static) -> Events {
        let pipe = self.clone();
        let mut longest = 0;
        Box::new(move |record| {
            longest = longest.max(slept());
            pipe.push(&later(record, ahead.wrapping_add(longest)));
        })
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

/// For how long the machine has slept since its boot, ns: a little less if we are held up between the
/// two clocks, never more.
fn slept() -> u64 {
    let boottime = clock_ns(libc::CLOCK_BOOTTIME);
    boottime.saturating_sub(clock_ns(libc::CLOCK_MONOTONIC))
}

fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is good for the call, which does not fail for these clocks.
    unsafe { libc::clock_gettime(clock, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
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
        let mut events = pipe.events_ahead(0, || 0);
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
    fn each_record_has_the_host_s_time_also_after_the_machine_slept() {
        const HOUR: u64 = 3_600_000_000_000;
        let (mut read, pipe) = pipe();
        // An hour between the second record and the third; the last look at the clocks was held up.
        let mut looks = [7, 7, HOUR, HOUR, HOUR - 50].into_iter();
        let mut events = pipe.events_ahead(1_000, move || looks.next().expect("five records"));
        for time in 1..=5u64 {
            let mut record = [0; EVENT_BYTES];
            record[..8].copy_from_slice(&time.to_ne_bytes());
            events(&record);
        }
        pipe.flush();
        drop((events, pipe));
        let mut all = Vec::new();
        read.read_to_end(&mut all).expect("readable");
        let time = |record: &[u8]| u64::from_ne_bytes(record[..8].try_into().expect("eight"));
        let times: Vec<u64> = all.chunks(EVENT_BYTES).map(time).collect();
        assert_eq!(times, [1_008, 1_009, HOUR + 1_003, HOUR + 1_004, HOUR + 1_005]);
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
