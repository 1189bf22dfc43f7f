//! The ring buffers, one a CPU, and reading them in the order of time.

use std::cell::{Cell, RefCell};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use libbpf_rs::{
    MapCore, MapFlags, MapHandle, MapType, Object, RingBuffer, RingBufferBuilder, libbpf_sys,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use transom_event::Raw;

use crate::clock::boottime_ns;

/// With many CPUs each ring still holds the burst of one.
const LEAST_BYTES: u32 = 256 << 10;

/// Records taken out of one ring in one go, at most.
const MOST_RECORDS: usize = 1 << 16;

/// How many rings there are and how large each is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rings {
    pub number: u32,
    pub bytes_each: u32,
}

impl Rings {
    /// Shares `bytes`, a power of two, among the CPUs this machine may have.
    pub fn of(bytes: u32) -> Result<Rings> {
        let number = u32::try_from(libbpf_rs::num_possible_cpus()?)?;
        Ok(Rings { number, bytes_each: share(bytes, number) })
    }
}

fn share(bytes: u32, number: u32) -> u32 {
    let each = bytes / number.next_power_of_two();
    each.max(LEAST_BYTES.min(bytes))
}

/// What came out of one ring and was not handed on yet.
type Waiting = Rc<RefCell<Vec<Raw>>>;

/// Takes records out of all rings.
pub(crate) struct Reader {
    ring: RingBuffer<'static>,
    waiting: Vec<Waiting>,
    malformed: Rc<Cell<u64>>,
    _maps: Vec<MapHandle>,
}

fn create_ring(bytes: u32) -> Result<MapHandle> {
    let options = libbpf_sys::bpf_map_create_opts {
        sz: size_of::<libbpf_sys::bpf_map_create_opts>() as libbpf_sys::size_t,
        ..Default::default()
    };
    MapHandle::create(MapType::RingBuf, Some("transom_ring"), 0, 0, bytes, &options)
        .with_context(|| format!("creating a ring buffer of {bytes} bytes"))
}

impl Reader {
    /// Creates the rings and puts them where the loaded programs look for them.
    pub fn open(object: &Object, rings: Rings) -> Result<Reader> {
        let outer = object.maps().find(|map| map.name() == "rings").context("no map rings")?;
        let malformed = Rc::new(Cell::new(0));
        let (mut maps, mut waiting) = (Vec::new(), Vec::new());
        for cpu in 0..rings.number {
            let map = create_ring(rings.bytes_each)?;
            let fd = map.as_fd().as_raw_fd();
            outer.update(&cpu.to_ne_bytes(), &fd.to_ne_bytes(), MapFlags::ANY)?;
            maps.push(map);
            waiting.push(Waiting::default());
        }
        let mut builder = RingBufferBuilder::new();
        for (map, records) in maps.iter().zip(&waiting) {
            let (into, bad) = (Rc::clone(records), Rc::clone(&malformed));
            builder.add(map, move |bytes: &[u8]| {
                match Raw::from_bytes(bytes) {
                    Ok(raw) => into.borrow_mut().push(raw),
                    Err(_) => bad.set(bad.get() + 1),
                }
                0
            })?;
        }
        let ring = builder.build()?;
        Ok(Reader { ring, waiting, malformed, _maps: maps })
    }

    /// Records of another length than the contract's.
    pub fn malformed(&self) -> u64 {
        self.malformed.get()
    }

    /// Waits until much has gathered or `timeout` is over, then hands what
    /// happened until now to `sink`, in the order of time. Returns how many.
    pub fn poll(&mut self, timeout: Duration, sink: &mut dyn FnMut(&Raw)) -> Result<usize> {
        // The reader is woken only when much waits; what is less is taken here.
        self.wait(timeout)?;
        // A ring that is read first may get events younger than the last ring's oldest.
        let until = boottime_ns();
        let got = self.ring.consume_raw_n(MOST_RECORDS);
        if got < 0 {
            bail!("reading the ring buffers: {}", std::io::Error::from_raw_os_error(-got));
        }
        let mut batches: Vec<_> = self.waiting.iter().map(|waiting| waiting.borrow_mut()).collect();
        let slices: Vec<&[Raw]> = batches.iter().map(|batch| batch.as_slice()).collect();
        let taken = merge(&slices, until, sink);
        for (batch, taken) in batches.iter_mut().zip(&taken) {
            batch.drain(..*taken);
        }
        Ok(taken.iter().sum())
    }

    fn wait(&self, timeout: Duration) -> Result<()> {
        // SAFETY: the ring buffer owns this descriptor and outlives the call.
        let fd = unsafe { BorrowedFd::borrow_raw(self.ring.epoll_fd()) };
        let timeout = Timespec::try_from(timeout).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 });
        match poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error).context("waiting for events"),
        }
    }
}

/// Hands on the records of all batches up to a time, the oldest first; returns
/// how many of each batch. Within a batch the order stays.
fn merge(batches: &[&[Raw]], until: u64, sink: &mut dyn FnMut(&Raw)) -> Vec<usize> {
    let mut taken = vec![0; batches.len()];
    loop {
        let heads = batches.iter().zip(&taken).enumerate();
        let oldest = heads
            .filter_map(|(at, (batch, &next))| Some((batch.get(next)?.head.time_ns, at)))
            .min();
        match oldest {
            Some((time, at)) if time <= until => {
                sink(&batches[at][taken[at]]);
                taken[at] += 1;
            }
            _ => return taken,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use transom_event::RAW_LEN;

    fn at(time_ns: u64) -> Raw {
        let mut raw = Raw::from_bytes(&[0; RAW_LEN]).unwrap();
        raw.head.time_ns = time_ns;
        raw
    }

    #[test]
    fn records_of_all_rings_come_in_the_order_of_time_up_to_now() {
        let (a, b) = ([at(1), at(4), at(9)], [at(2), at(3), at(5), at(8)]);
        let mut seen = Vec::new();
        let taken = merge(&[&a, &b, &[]], 7, &mut |raw| seen.push(raw.head.time_ns));
        assert_eq!(seen, [1, 2, 3, 4, 5]);
        assert_eq!(taken, [2, 3, 0]);
    }

    #[test]
    fn the_memory_is_shared_but_no_ring_is_too_small() {
        assert_eq!(share(8 << 20, 2), 4 << 20);
        assert_eq!(share(8 << 20, 3), 2 << 20);
        assert_eq!(share(8 << 20, 256), LEAST_BYTES);
        assert_eq!(share(64 << 10, 8), 64 << 10);
    }
}
