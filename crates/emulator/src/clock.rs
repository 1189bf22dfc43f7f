//! Real time as logical time, the alarm clock of the thread, and its priority.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use anyhow::{Context, Result};
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};

use crate::packet::Nanos;

/// Above ordinary programs; below the kernel's own threads (50).
const PRIORITY: i32 = 10;

fn nanos(clock: ClockId) -> Nanos {
    let now = clock_gettime(clock);
    now.tv_sec as Nanos * 1_000_000_000 + now.tv_nsec as Nanos
}

pub(crate) fn boottime() -> Nanos {
    nanos(ClockId::Boottime)
}

/// CPU time of the calling thread.
pub(crate) fn thread_cpu() -> Nanos {
    nanos(ClockId::ThreadCPUTime)
}

/// Logical time that runs as CLOCK_MONOTONIC does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    origin: Nanos,
}

impl Clock {
    pub fn start() -> Clock {
        Clock { origin: nanos(ClockId::Monotonic) }
    }

    pub fn now(self) -> Nanos {
        nanos(ClockId::Monotonic).saturating_sub(self.origin)
    }
}

/// A timer that becomes readable at an absolute time: being interrupted between reading the clock
/// and going to sleep costs nothing.
#[derive(Debug)]
pub(crate) struct Alarm {
    fd: OwnedFd,
    origin: Nanos,
    set: Option<Nanos>,
}

impl Alarm {
    pub fn new(clock: Clock) -> Result<Alarm> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let fd = timerfd_create(TimerfdClockId::Monotonic, flags).context("making a timer")?;
        Ok(Alarm { fd, origin: clock.origin, set: None })
    }

    /// Setting it anew also takes back that it rang.
    pub fn set(&mut self, at: Nanos) -> Result<()> {
        if self.set == Some(at) {
            return Ok(());
        }
        let at_monotonic = (self.origin + at).max(1);
        let value = Timespec {
            tv_sec: (at_monotonic / 1_000_000_000) as i64,
            tv_nsec: (at_monotonic % 1_000_000_000) as _,
        };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
        timerfd_settime(&self.fd, TimerfdTimerFlags::ABSTIME, &once).context("setting a timer")?;
        self.set = Some(at);
        Ok(())
    }
}

impl AsFd for Alarm {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Asks for SCHED_FIFO for the calling thread; false where that is not allowed.
pub(crate) fn become_realtime() -> bool {
    let parameters = libc::sched_param { sched_priority: PRIORITY };
    // Children of this thread, if there ever were any, would not inherit it.
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: 0 is the calling thread, and the parameters are read only.
    unsafe { libc::sched_setscheduler(0, policy, &parameters) == 0 }
}
