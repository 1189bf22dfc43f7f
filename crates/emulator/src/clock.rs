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

/// How long before a packet is due the alarm must ring: as long as waking up takes, which is
/// learned, because it differs tenfold between an idle virtual machine and a busy one.
#[derive(Debug)]
pub(crate) struct Lead {
    /// Median of how late the thread woke up.
    learned: Nanos,
    /// What the user asked for on top.
    spin: Nanos,
    /// The last moment it was used for, so that each teaches once.
    used_for: Nanos,
}

impl Lead {
    const STEP: Nanos = 1_000;
    /// Above this the machine is overloaded, and watching the clock would make it worse.
    const LONGEST: Nanos = 150_000;

    pub fn new(spin: Nanos) -> Lead {
        Lead { learned: 0, spin, used_for: 0 }
    }

    pub fn before(&self, due: Nanos) -> Nanos {
        due.saturating_sub(self.learned + self.spin)
    }

    /// The thread woke up so much after the alarm was to ring. Steps of the same size up and down
    /// settle at the median.
    pub fn woke(&mut self, late: Nanos, due: Nanos) {
        self.used_for = due;
        if late > self.learned {
            self.learned = (self.learned + Lead::STEP).min(Lead::LONGEST);
        } else {
            self.learned = self.learned.saturating_sub(Lead::STEP);
        }
    }

    /// Packets follow so closely that the thread does not sleep between them. Then it learns
    /// nothing, and must not go on watching the clock because of what it learned when idle.
    pub fn no_time_to_sleep(&mut self, due: Nanos) {
        if self.used_for != due {
            self.used_for = due;
            self.learned = self.learned.saturating_sub(Lead::STEP);
        }
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

#[cfg(test)]
mod tests {
    use super::Lead;

    #[test]
    fn the_alarm_comes_to_ring_as_early_as_waking_up_takes() {
        let mut lead = Lead::new(0);
        (1..1000).for_each(|due| lead.woke(60_000, due));
        assert!((59_000..=61_000).contains(&(1_000_000 - lead.before(1_000_000))));
    }

    #[test]
    fn packets_without_a_pause_end_the_watching_of_the_clock() {
        let mut lead = Lead::new(0);
        (1..1000).for_each(|due| lead.woke(60_000, due));
        (1..100).for_each(|due| lead.no_time_to_sleep(due));
        assert_eq!(lead.before(1_000_000), 1_000_000);
    }

    #[test]
    fn one_packet_teaches_once() {
        let mut lead = Lead::new(0);
        lead.woke(60_000, 1);
        lead.woke(60_000, 2);
        (0..100).for_each(|_| lead.no_time_to_sleep(2));
        assert_eq!(lead.before(10_000), 8_000);
    }
}
