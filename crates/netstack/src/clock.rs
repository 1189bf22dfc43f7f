//! The time that the library lives in.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// All that the library knows of time.
pub trait Clock: Send {
    /// Nanoseconds since some moment; never goes back.
    fn now(&mut self) -> u64;
    /// Nanoseconds since 1970.
    fn wall(&mut self) -> u64;
    /// Returns when `now` is at least `until`. Needed only where the library itself must wait amid
    /// a call (removing a NIC).
    fn wait(&mut self, until: u64);
}

/// The host's own.
#[derive(Debug)]
pub struct SystemClock {
    start: Instant,
}

impl Default for SystemClock {
    fn default() -> Self {
        Self { start: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn now(&mut self) -> u64 {
        // From 1, for 0 would be a boot before the beginning of time.
        self.start.elapsed().as_nanos() as u64 + 1
    }

    fn wall(&mut self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64
    }

    fn wait(&mut self, until: u64) {
        thread::sleep(Duration::from_nanos(until.saturating_sub(self.now())));
    }
}

/// A clock that goes when it is told to. Clones show the same time.
#[derive(Clone, Debug)]
pub struct FakeClock {
    now: Arc<AtomicU64>,
    wall: u64,
}

impl FakeClock {
    /// `wall`: nanoseconds since 1970 when the clock shows 0.
    pub fn new(wall: u64) -> Self {
        Self { now: Arc::new(AtomicU64::new(1)), wall }
    }

    pub fn advance(&self, by: Duration) {
        self.now.fetch_add(by.as_nanos() as u64, Ordering::Relaxed);
    }

    /// Never back.
    pub fn advance_to(&self, time: u64) {
        self.now.fetch_max(time, Ordering::Relaxed);
    }
}

impl Clock for FakeClock {
    fn now(&mut self) -> u64 {
        self.now.load(Ordering::Relaxed)
    }

    fn wall(&mut self) -> u64 {
        self.wall + self.now()
    }

    fn wait(&mut self, until: u64) {
        self.advance_to(until);
    }
}
