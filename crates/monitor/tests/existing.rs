//! Connections that were there before the probes, in however small a memory.

use std::alloc::{GlobalAlloc, Layout, System};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use transom_event::{Kind, Raw};
use transom_monitor::{Filter, Monitor, MonitorOptions, Survey};
use transom_testbed::{Namespace, needs_probes};

/// The bytes that Rust holds, now and at most since that was set.
struct Counted;

static HELD: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static ALLOCATOR: Counted = Counted;

// SAFETY: all is passed on as it came.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let held = HELD.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(held, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(place, layout) }
    }
}

/// What there is to tell: two events or three for each end, of 128 bytes.
const MANY: usize = 450;
const LITTLE: usize = 64 << 10;

#[test]
fn however_many_there_are_none_is_kept_until_it_is_taken() {
    needs_probes!();
    let namespace = Namespace::new("many");
    let _held: Vec<_> = namespace.inside(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let pair = |_| (TcpStream::connect(address).unwrap(), listener.accept().unwrap());
        (0..MANY).map(pair).collect()
    });
    let start = |existing: bool| {
        let before = HELD.load(Ordering::Relaxed);
        let netns = Some(namespace.name().to_owned());
        let filter = Filter { netns, ..Filter::default() };
        let ring_bytes = 64 << 10;
        let options = MonitorOptions { filter, ring_bytes, existing, ..MonitorOptions::default() };
        let monitor = Monitor::start(Survey::take(), &options).unwrap();
        (monitor, HELD.load(Ordering::Relaxed) - before)
    };
    // The first one pays for what every later one uses, too.
    drop(start(false));
    let (without, bare) = start(false);
    drop(without);
    let (mut monitor, held) = start(true);
    assert!(held < bare + LITTLE, "{held} bytes, and {bare} where none is listed");
    let before = HELD.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    let mut told = 0;
    let mut sink = |raw: &Raw| told += usize::from(raw.head.kind == Kind::Open as u8);
    monitor.poll(Duration::ZERO, &mut sink).unwrap();
    assert_eq!(told, 2 * MANY);
    let most = MOST.load(Ordering::Relaxed) - before;
    assert!(most < LITTLE, "{most} bytes while they are told");
    assert_eq!(monitor.losses().unwrap(), []);
}
