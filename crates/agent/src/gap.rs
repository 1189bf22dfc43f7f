//! The time between two agents, in which nobody looked.

use std::fmt;

use transom_spool::AgentEvent;

use crate::journal::{Beat, Head};

/// What is now.
pub struct Now {
    pub boot: [u8; 16],
    pub boottime_ns: u64,
    pub wall_us: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    pub ns: u64,
    /// About as many ended without a row.
    pub connections: u64,
    stopped: bool,
    rebooted: bool,
}

impl Gap {
    /// `counts`: connections opened since this boot, and established now.
    pub fn between(head: &Head, last: &Beat, now: &Now, (opened, established): (u64, u64)) -> Gap {
        let rebooted = head.boot != now.boot;
        // Only the wall clock goes on over a restart of the machine, whose counts begin at 0.
        let (ns, opened_before) = if rebooted {
            let last_us = (last.time_ns as i64).saturating_add(last.wall_offset_ns) / 1000;
            let us = now.wall_us.saturating_sub(last_us).max(0);
            (us as u64 * 1000, 0)
        } else {
            (now.boottime_ns.saturating_sub(last.time_ns), last.opened)
        };
        Gap {
            ns,
            connections: (opened + last.established).saturating_sub(opened_before + established),
            stopped: AgentEvent::ALL.get(usize::from(last.event)) == Some(&AgentEvent::Stop),
            rebooted,
        }
    }

    pub fn seconds(&self) -> f64 {
        self.ns as f64 / 1e9
    }
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ended = match (self.stopped, self.rebooted) {
            (true, false) => "stopped",
            (true, true) => "stopped before the machine was started again",
            (false, false) => "ended without a stop",
            (false, true) => "ended with the machine, which was started again",
        };
        write!(
            f,
            "the agent before this one {ended}: {:.1} s without an agent, about {} connections of \
             this network namespace without a row",
            self.seconds(),
            self.connections
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOOT: [u8; 16] = [1; 16];
    /// Since 1970.
    const WALL_US: i64 = 1_800_000_000_000_000;

    fn last(event: AgentEvent) -> Beat {
        let place = AgentEvent::ALL.iter().position(|known| *known == event).unwrap();
        Beat {
            time_ns: 90_000_000_000,
            wall_offset_ns: WALL_US * 1000 - 90_000_000_000,
            opened: 500,
            established: 10,
            ..Beat::new(place as u8)
        }
    }

    fn gap(boot: [u8; 16], boottime_ns: u64, wall_us: i64, counts: (u64, u64)) -> Gap {
        let head = Head::new(BOOT, WALL_US, 1, 1000);
        let now = Now { boot, boottime_ns, wall_us };
        Gap::between(&head, &last(AgentEvent::Stop), &now, counts)
    }

    #[test]
    fn within_a_boot_it_is_what_the_kernels_clock_and_counts_say() {
        // The wall clock was set back meanwhile.
        let gap = gap(BOOT, 97_000_000_000, WALL_US - 5, (503, 9));
        assert_eq!((gap.ns, gap.connections), (7_000_000_000, 4));
        let said = gap.to_string();
        assert!(
            said.contains("stopped: 7.0 s without an agent, about 4 connections of this"),
            "{said}"
        );
    }

    #[test]
    fn after_a_restart_of_the_machine_it_is_what_the_wall_clock_says() {
        // Ten ended with the machine, and two of the five that were opened since.
        let gap = gap([2; 16], 20_000_000_000, WALL_US + 60_000_000, (5, 3));
        assert_eq!((gap.ns, gap.connections), (60_000_000_000, 12));
        assert!(gap.to_string().contains("machine was started again"), "{gap}");
    }

    #[test]
    fn a_clock_that_was_set_back_over_a_restart_makes_no_gap_of_centuries() {
        assert_eq!(gap([2; 16], 20_000_000_000, 7, (0, 0)).ns, 0);
    }

    #[test]
    fn a_kill_is_told_from_a_stop() {
        let head = Head::new(BOOT, WALL_US, 1, 1000);
        let now = Now { boot: BOOT, boottime_ns: 91_000_000_000, wall_us: WALL_US };
        let gap = Gap::between(&head, &last(AgentEvent::Period), &now, (500, 10));
        assert!(gap.to_string().contains("ended without a stop"), "{gap}");
    }
}
