//! A path between two namespaces that loses, delays and doubles exactly the
//! segments it is told to: two TUN devices and a thread between them. What a
//! random loss emulator does to a distribution, this does to one segment.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use transom_link::tun::{self, Frames};

use super::{Namespace, Segment};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Towards {
    Right,
    Left,
}

/// What becomes of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Pass,
    Drop,
    Twice,
    /// Congestion Experienced, as a router with a queue would say it (RFC 3168).
    Marked,
    /// That much later than the others.
    Late(Duration),
    /// Kept until a later segment in its direction is not kept, and forwarded just before that one.
    Held,
}

type Judge = Box<dyn FnMut(Towards, &Segment) -> Fate + Send>;

/// `left` is 10.77.0.1 and fd77::1, `right` 10.77.0.2 and fd77::2, on a device `wire`.
pub struct Path {
    pub left: Namespace,
    pub right: Namespace,
    judge: Arc<Mutex<Judge>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Duration>>,
}

fn end(role: &str, host: u8) -> (Namespace, File) {
    let namespace = Namespace::new(role);
    let file = namespace.inside(|| tun::open("wire", Frames::RawIp)).expect("a TUN interface");
    namespace.ip(&format!("addr add 10.77.0.{host}/24 dev wire"));
    namespace.ip(&format!("addr add fd77::{host}/64 dev wire nodad"));
    namespace.ip("link set wire up");
    (namespace, file.into())
}

impl Path {
    /// A path that loses nothing, with this delay each way.
    pub fn new(delay: Duration) -> Path {
        let (left, left_file) = end("left", 1);
        let (right, right_file) = end("right", 2);
        let judge: Arc<Mutex<Judge>> = Arc::new(Mutex::new(Box::new(|_, _| Fate::Pass)));
        let stop = Arc::new(AtomicBool::new(false));
        let mut carrier = Carrier {
            files: [left_file, right_file],
            delay,
            judge: Arc::clone(&judge),
            waiting: BinaryHeap::new(),
            held: [Vec::new(), Vec::new()],
            number: 0,
            late: Duration::ZERO,
        };
        let until = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            // Of this thread alone; without privilege it is one among all.
            let _ = rustix::process::setpriority_process(None, -20);
            while !until.load(Ordering::Relaxed) {
                carrier.carry();
            }
            carrier.late
        });
        Path { left, right, judge, stop, thread: Some(thread) }
    }

    /// From now on, this decides.
    pub fn judge(&self, judge: impl FnMut(Towards, &Segment) -> Fate + Send + 'static) {
        *self.judge.lock().expect("the judge does not panic") = Box::new(judge);
    }

    /// From now on, a bottleneck that takes so long for each data segment towards the right, and
    /// drops those that would wait longer than `queue` before it.
    pub fn bottleneck(&self, each: Duration, queue: Duration) {
        let mut free = Instant::now();
        self.judge(move |towards, segment| {
            if towards == Towards::Left || segment.payload == 0 {
                return Fate::Pass;
            }
            let now = Instant::now();
            let waits = free.saturating_duration_since(now);
            if waits > queue {
                return Fate::Drop;
            }
            free = free.max(now) + each;
            Fate::Late(waits)
        });
    }

    /// From now on, nothing is lost.
    pub fn heal(&self) {
        self.judge(|_, _| Fate::Pass);
    }

    /// From now on, everything is lost.
    pub fn cut(&self) {
        self.judge(|_, _| Fate::Drop);
    }

    /// From now on, all data towards the right has this fate until the retransmission timer has
    /// expired so often: until the first segment has been retransmitted as often (a tail loss probe
    /// repeats the last one). That retransmission passes, and all that follow it.
    pub fn until_timeouts(&self, timeouts: u32, fate: Fate) {
        let (mut first, mut seen) = (None, 0);
        self.judge(move |towards, segment| {
            if towards == Towards::Left || segment.payload == 0 || seen > timeouts {
                return Fate::Pass;
            }
            seen += u32::from(*first.get_or_insert(segment.seq) == segment.seq);
            if seen > timeouts { Fate::Pass } else { fate }
        });
    }

    /// From now on, loses the `n`th segments (from 0) with payload towards the right, once each.
    pub fn lose(&self, mut which: impl FnMut(u32) -> bool + Send + 'static) {
        let mut n = 0;
        self.judge(move |towards, segment| {
            if towards != Towards::Right || segment.payload == 0 {
                return Fate::Pass;
            }
            n += 1;
            if which(n - 1) { Fate::Drop } else { Fate::Pass }
        });
    }
}

impl Drop for Path {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(Ok(late)) = self.thread.take().map(JoinHandle::join) {
            LATE.with(|worst| worst.set(worst.get().max(late)));
        }
    }
}

thread_local! {
    /// By how much a packet came too late, at the worst, on the paths that this thread has dropped.
    static LATE: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// Runs a test whose subject is how long things take. If it fails and the path was not in time, then
/// the machine was what it saw: it is run again, five times in all. A failure on a path that was in
/// time is one.
pub fn on_a_path_in_time(test: impl Fn()) {
    /// Of a segment; round trips are 20 ms and more.
    const TOLERATED: Duration = Duration::from_millis(5);
    let excuse = || {
        let late = LATE.get();
        let told = || format!("the machine was busy, and a segment {} ms late", late.as_millis());
        (late > TOLERATED).then(told)
    };
    super::again_with(excuse, || {
        LATE.set(Duration::ZERO);
        test();
    });
}

/// Sets both ECN bits of a packet whose sender can do ECN; of another it must not be touched.
fn mark(packet: &mut [u8]) {
    let is_ipv4 = packet[0] >> 4 == 4;
    let bits = if is_ipv4 { 0x03 } else { 0x30 };
    assert_ne!(packet[1] & bits, 0, "the sender does not speak ECN");
    packet[1] |= bits;
    if is_ipv4 {
        packet[10..12].fill(0);
        let header = packet[..usize::from(packet[0] & 15) * 4].chunks_exact(2);
        let sum: u32 = header.map(|two| u32::from(u16::from_be_bytes([two[0], two[1]]))).sum();
        let folded = (sum >> 16) + (sum & 0xffff);
        let checksum = !((folded >> 16) + folded) as u16;
        packet[10..12].copy_from_slice(&checksum.to_be_bytes());
    }
}

/// When, in which order, to which end, what.
type Waiting = (Instant, u64, usize, Vec<u8>);

struct Carrier {
    files: [File; 2],
    delay: Duration,
    judge: Arc<Mutex<Judge>>,
    waiting: BinaryHeap<Reverse<Waiting>>,
    /// Packets of each end that were [`Fate::Held`].
    held: [Vec<Vec<u8>>; 2],
    number: u64,
    /// The worst so far.
    late: Duration,
}

impl Carrier {
    fn carry(&mut self) {
        const IDLE: Duration = Duration::from_millis(20);
        let next = self.waiting.peek().map(|Reverse((at, ..))| *at);
        let wait = next.map_or(IDLE, |at| at.saturating_duration_since(Instant::now()).min(IDLE));
        let timeout = Timespec::try_from(wait).expect("a short time");
        let mut fds = [
            PollFd::new(&self.files[0], PollFlags::IN),
            PollFd::new(&self.files[1], PollFlags::IN),
        ];
        let _ = poll(&mut fds, Some(&timeout));
        for from in 0..2 {
            self.take(from);
        }
        let now = Instant::now();
        while self.waiting.peek().is_some_and(|Reverse((at, ..))| *at <= now) {
            let Some(Reverse((at, _, to, packet))) = self.waiting.pop() else { return };
            self.late = self.late.max(now - at);
            let _ = self.files[to].write(&packet);
        }
    }

    fn take(&mut self, from: usize) {
        let mut buffer = [0; 2048];
        while let Ok(length) = self.files[from].read(&mut buffer) {
            let packet = &buffer[..length];
            let towards = if from == 0 { Towards::Right } else { Towards::Left };
            let mut packet = packet.to_vec();
            let Some(segment) = Segment::of_ip(&packet) else {
                self.forward(from, Duration::ZERO, packet);
                continue;
            };
            let fate =
                self.judge.lock().expect("a judge that panics fails its test")(towards, &segment);
            match fate {
                Fate::Held => {
                    self.held[from].push(packet);
                    continue;
                }
                Fate::Marked => mark(&mut packet),
                Fate::Pass | Fate::Drop | Fate::Twice | Fate::Late(_) => {}
            }
            for held in std::mem::take(&mut self.held[from]) {
                self.forward(from, Duration::ZERO, held);
            }
            let (copies, late) = match fate {
                Fate::Drop | Fate::Held => (0, Duration::ZERO),
                Fate::Pass | Fate::Marked => (1, Duration::ZERO),
                Fate::Twice => (2, Duration::ZERO),
                Fate::Late(time) => (1, time),
            };
            for _ in 0..copies {
                self.forward(from, late, packet.clone());
            }
        }
    }

    fn forward(&mut self, from: usize, late: Duration, packet: Vec<u8>) {
        self.number += 1;
        let at = Instant::now() + self.delay + late;
        self.waiting.push(Reverse((at, self.number, 1 - from, packet)));
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    /// How often a test that always fails is run, if the path is so late.
    fn runs(late_ms: u64) -> u32 {
        let runs = Cell::new(0);
        let failing = || {
            runs.set(runs.get() + 1);
            LATE.set(Duration::from_millis(late_ms));
            panic!("as it must");
        };
        catch_unwind(AssertUnwindSafe(|| on_a_path_in_time(failing))).expect_err("it fails");
        runs.get()
    }

    #[test]
    fn only_what_a_busy_machine_may_have_failed_is_run_again() {
        assert_eq!([runs(0), runs(5), runs(6)], [1, 1, 5]);
    }
}
