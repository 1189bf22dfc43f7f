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

    /// Times are those of another clock from now on.
    pub fn restart(&mut self, clock: Clock) {
        (self.origin, self.set) = (clock.origin, None);
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
    /// So late or less the thread woke up three times out of four.
    learned: Nanos,
    /// What the user asked for on top.
    spin: Nanos,
    /// The last moment it was used for, so that each teaches once.
    used_for: Nanos,
}

impl Lead {
    /// Three steps up weigh as much as one down: that settles at the upper quartile.
    const DOWN: Nanos = 1_500;
    const UP: Nanos = 3 * Lead::DOWN;
    /// Above this the machine is overloaded, and watching the clock would make it worse.
    const LONGEST: Nanos = 200_000;

    pub fn new(spin: Nanos) -> Lead {
        Lead { learned: 0, spin, used_for: 0 }
    }

    pub fn before(&self, due: Nanos) -> Nanos {
        due.saturating_sub(self.learned + self.spin)
    }

    /// The thread woke up so much after the alarm was to ring.
    pub fn woke(&mut self, late: Nanos, due: Nanos) {
        self.used_for = due;
        if late > self.learned {
            self.learned = (self.learned + Lead::UP).min(Lead::LONGEST);
        } else {
            self.learned = self.learned.saturating_sub(Lead::DOWN);
        }
    }

    /// Packets follow so closely that the thread does not sleep between them. Then it learns
    /// nothing, and must not go on watching the clock because of what it learned when idle.
    pub fn no_time_to_sleep(&mut self, due: Nanos) {
        if self.used_for != due {
            self.used_for = due;
            self.learned = self.learned.saturating_sub(Lead::DOWN);
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

    fn learned(lead: &Lead) -> u64 {
        1_000_000 - lead.before(1_000_000)
    }

    #[test]
    fn the_alarm_comes_to_ring_as_early_as_three_of_four_wakings_take() {
        let mut lead = Lead::new(0);
        for due in 1..4_000 {
            lead.woke(due * 7_919 % 100 * 1_000, due);
        }
        assert!((65_000..=85_000).contains(&learned(&lead)), "{}", learned(&lead));
    }

    #[test]
    fn packets_without_a_pause_end_the_watching_of_the_clock() {
        let mut lead = Lead::new(0);
        (1..100).for_each(|due| lead.woke(60_000, due));
        (1..100).for_each(|due| lead.no_time_to_sleep(due));
        assert_eq!(learned(&lead), 0);
    }

    #[test]
    fn one_packet_teaches_once() {
        let mut lead = Lead::new(0);
        lead.woke(60_000, 1);
        let before = learned(&lead);
        (0..100).for_each(|_| lead.no_time_to_sleep(1));
        assert_eq!(learned(&lead), before);
    }

    #[test]
    fn what_the_user_asks_for_comes_on_top() {
        assert_eq!(learned(&Lead::new(30_000)), 30_000);
    }
}
