//! The other end of `bpf/ring.h`: the rings, one per CPU, read in the order of time.

use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use libbpf_rs::{Object, RingBuffer, RingBufferBuilder};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use transom_event::{RAW_LEN, Raw};
use transom_machine::objects::map;

use crate::clock::boottime_ns;
use crate::pace::Pace;

/// With many CPUs each ring still holds the burst of one.
const LEAST_BYTES: u32 = 256 << 10;

/// How many rings there are and how large each is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rings {
    pub number: u32,
    /// Each holds 2^bits records.
    pub bits: u32,
}

impl Rings {
    /// Shares `bytes`, a power of two, among the CPUs this machine may have.
    pub fn of(bytes: u32) -> Result<Rings> {
        let number = u32::try_from(libbpf_rs::num_possible_cpus()?)?;
        let records = share(bytes, number) / RAW_LEN as u32;
        Ok(Rings { number, bits: records.ilog2() })
    }

    pub fn records_each(self) -> u32 {
        1 << self.bits
    }
}

fn share(bytes: u32, number: u32) -> u32 {
    let each = bytes / number.next_power_of_two();
    each.max(LEAST_BYTES.min(bytes))
}

/// A map's memory, seen by both sides.
pub(crate) struct Mapped {
    at: NonNull<u8>,
    bytes: usize,
}

impl Mapped {
    pub fn of(object: &Object, name: &str, bytes: usize) -> Result<Mapped> {
        let map = map(object, name)?;
        let bytes = bytes.next_multiple_of(rustix::param::page_size());
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at a place of the kernel's choice.
        let at =
            unsafe { mmap(std::ptr::null_mut(), bytes, access, MapFlags::SHARED, map.as_fd(), 0) }
                .with_context(|| format!("mapping {name}, {bytes} bytes"))?;
        Ok(Mapped { at: NonNull::new(at.cast()).context("mapped at 0")?, bytes })
    }

    pub fn start(&self) -> NonNull<u8> {
        self.at
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: mapped in `of`; whoever looks into it is dropped before or with it.
        let _ = unsafe { munmap(self.at.as_ptr().cast(), self.bytes) };
    }
}

/// `struct ring`: each side writes its own cache line.
#[repr(C)]
pub(crate) struct Counts {
    pub reserved: AtomicU64,
    pub _pad: [u64; 7],
    pub taken: AtomicU64,
    pub _pad2: [u64; 7],
}

/// One CPU's ring, as this side sees it.
struct Ring {
    cpu: u16,
    bits: u32,
    /// How many were read.
    next: u64,
    counts: NonNull<Counts>,
    records: NonNull<Raw>,
    /// When the record that `next` counts happened, or [`NONE`] if it is not whole yet.
    head_ns: u64,
}

const NONE: u64 = u64::MAX;

impl Ring {
    fn record(&self) -> NonNull<Raw> {
        // SAFETY: inside the mapping, which lives as long as the reader.
        unsafe { self.records.add((self.next & ((1 << self.bits) - 1)) as usize) }
    }

    /// Looks whether the next record is whole.
    #[inline]
    fn look(&mut self) {
        let record = self.record();
        // SAFETY: `cpu`, `kind` and `where` lie in one aligned word.
        let word = unsafe { &*record.as_ptr().byte_add(WORD_OFFSET).cast::<AtomicU32>() };
        let word = word.load(Ordering::Acquire);
        let lap = (self.next >> self.bits) + 1;
        if word as u16 != lap as u16 || (word >> 16) as u8 == 0 {
            self.head_ns = NONE;
            return;
        }
        // SAFETY: the kernel leaves a whole record alone until `taken` passes it.
        self.head_ns = unsafe { record.as_ref() }.head.time_ns;
    }

    /// Hands out what happened until then; how many.
    fn take_until(&mut self, until: u64, sink: &mut dyn FnMut(&Raw)) -> usize {
        let before = self.next;
        while self.head_ns <= until {
            // SAFETY: as in `look`. It is copied, because the kernel's side of `cpu` is the lap.
            let mut raw = unsafe { self.record().read() };
            raw.head.cpu = self.cpu;
            sink(&raw);
            self.next += 1;
            // The kernel learns now and then that places are free, not at each record.
            if self.next.is_multiple_of((1 << self.bits >> 3).max(1)) {
                self.release();
            }
            self.look();
        }
        (self.next - before) as usize
    }

    fn release(&self) {
        // SAFETY: inside the mapping; only this side writes it.
        unsafe { self.counts.as_ref() }.taken.store(self.next, Ordering::Release);
    }
}

const WORD_OFFSET: usize = std::mem::offset_of!(transom_event::Head, cpu);
const _: () = assert!(WORD_OFFSET.is_multiple_of(4), "the word is written at once");

/// Takes records out of all rings.
pub(crate) struct Reader {
    rings: Vec<Ring>,
    doorbell: RingBuffer<'static>,
    pace: Pace,
    _mapped: [Mapped; 2],
}

impl Reader {
    /// Maps what the loaded programs fill.
    pub fn open(object: &Object, rings: Rings) -> Result<Reader> {
        let number = rings.number as usize;
        let counts = Mapped::of(object, "rings", number * size_of::<Counts>())?;
        let records = Mapped::of(object, "records", (number << rings.bits) * RAW_LEN)?;
        let ring = |cpu: usize| Ring {
            cpu: cpu as u16,
            bits: rings.bits,
            next: 0,
            // SAFETY: both maps hold one entry, or one stretch, a CPU.
            counts: unsafe { counts.at.cast::<Counts>().add(cpu) },
            // SAFETY: as above.
            records: unsafe { records.at.cast::<Raw>().add(cpu << rings.bits) },
            head_ns: NONE,
        };
        let bell = map(object, "doorbell")?;
        let mut builder = RingBufferBuilder::new();
        builder.add(&bell, |_: &[u8]| 0)?;
        Ok(Reader {
            rings: (0..number).map(ring).collect(),
            doorbell: builder.build()?,
            pace: Pace::start(Instant::now()),
            _mapped: [counts, records],
        })
    }

    /// Waits until much has gathered or `timeout` is over, or before if much happens, then hands what
    /// happened until now to `sink`, in the order of time. Returns how many.
    pub fn poll(&mut self, timeout: Duration, sink: &mut dyn FnMut(&Raw)) -> Result<usize> {
        // The reader is woken only when much waits; what is less is taken here.
        self.wait(self.pace.wait(timeout))?;
        let taken = self.take(sink)?;
        self.pace.took(taken, Instant::now());
        Ok(taken)
    }

    /// Hands what happened until now to `sink`, without waiting.
    pub fn take(&mut self, sink: &mut dyn FnMut(&Raw)) -> Result<usize> {
        self.doorbell.consume()?;
        // A ring that is read first may get events younger than the last ring's oldest.
        let until = boottime_ns();
        for ring in &mut self.rings {
            ring.look();
        }
        let until = until.min(NONE - 1);
        let mut taken = 0;
        while let Some((at, until)) = oldest(self.rings.iter().map(|ring| ring.head_ns), until) {
            taken += self.rings[at].take_until(until, sink);
        }
        for ring in &self.rings {
            ring.release();
        }
        Ok(taken)
    }

    fn wait(&self, timeout: Duration) -> Result<()> {
        // SAFETY: the doorbell owns this descriptor and outlives the call.
        let fd = unsafe { BorrowedFd::borrow_raw(self.doorbell.epoll_fd()) };
        let timeout = Timespec::try_from(timeout).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 });
        match poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error).context("waiting for events"),
        }
    }
}

/// Which of the rings has the oldest record, if one is as old as `until`, and until when no other
/// ring has one.
fn oldest(heads: impl Iterator<Item = u64>, until: u64) -> Option<(usize, u64)> {
    let (mut first, mut at, mut second) = (NONE, 0, NONE);
    for (ring, time) in heads.enumerate() {
        if time < first {
            (first, at, second) = (time, ring, first);
        } else {
            second = second.min(time);
        }
    }
    (first <= until).then_some((at, second.min(until)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(time_ns: u64) -> Raw {
        let mut raw = Raw::from_bytes(&[0; RAW_LEN]).unwrap();
        raw.head.time_ns = time_ns;
        raw
    }

    #[test]
    fn the_oldest_record_of_all_rings_comes_first_if_it_is_not_younger_than_now() {
        let of = |heads: [u64; 3], until| oldest(heads.into_iter(), until);
        assert_eq!(of([8, NONE, 3], 9), Some((2, 8)), "until the next one of another ring");
        assert_eq!(of([8, NONE, 3], 5), Some((2, 5)), "and until now");
        assert_eq!(of([8, NONE, NONE], 8), Some((0, 8)));
        assert_eq!(of([8, 8, NONE], 9), Some((0, 8)));
        assert_eq!(of([8, NONE, NONE], 7), None);
        assert_eq!(of([NONE, NONE, NONE], NONE - 1), None);
    }

    /// A ring in this process's memory, written as the kernel's side writes it.
    struct KernelSide {
        counts: Box<Counts>,
        records: Vec<Raw>,
    }

    const BITS: u32 = 2;

    impl KernelSide {
        fn new() -> KernelSide {
            let counts = Counts {
                reserved: AtomicU64::new(0),
                _pad: [0; 7],
                taken: AtomicU64::new(0),
                _pad2: [0; 7],
            };
            KernelSide { counts: Box::new(counts), records: vec![at(0); 1 << BITS] }
        }

        fn reader(&mut self) -> Ring {
            let records = NonNull::new(self.records.as_mut_ptr()).unwrap();
            let counts = NonNull::from(&*self.counts);
            Ring { cpu: 5, bits: BITS, next: 0, counts, records, head_ns: NONE }
        }

        fn write(&mut self, number: u64, kind: u8) {
            let raw = &mut self.records[number as usize & ((1 << BITS) - 1)];
            raw.head.time_ns = number;
            raw.head.cpu = (number >> BITS) as u16 + 1;
            raw.head.kind = kind;
        }
    }

    #[test]
    fn a_record_is_seen_when_it_is_whole_and_only_in_its_own_lap() {
        let mut kernel = KernelSide::new();
        let mut ring = kernel.reader();
        ring.look();
        assert_eq!(ring.head_ns, NONE, "nothing was ever written");
        kernel.write(0, 0);
        ring.look();
        assert_eq!(ring.head_ns, NONE, "reserved, not whole");
        for number in 0..4 {
            kernel.write(number, 4);
        }
        ring.look();
        let mut taken = Vec::new();
        ring.take_until(2, &mut |raw| taken.push((raw.head.time_ns, raw.head.cpu)));
        assert_eq!(taken, [(0, 5), (1, 5), (2, 5)], "not what happened later");
        ring.take_until(NONE - 1, &mut |raw| taken.push((raw.head.time_ns, raw.head.cpu)));
        assert_eq!(taken[3..], [(3, 5)], "what lies here next is of the lap before");
        kernel.write(4, 4);
        ring.look();
        assert_eq!(ring.head_ns, 4);
    }

    #[test]
    fn the_memory_is_shared_but_no_ring_is_too_small() {
        assert_eq!(share(8 << 20, 2), 4 << 20);
        assert_eq!(share(8 << 20, 3), 2 << 20);
        assert_eq!(share(8 << 20, 256), LEAST_BYTES);
        assert_eq!(share(64 << 10, 8), 64 << 10);
    }
}
