//! Does this kernel run BPF programs while process 1 of the machine is current?
//!
//! Some virtual machines' kernels do not: what TCP does in softirqs on process 1's time is then
//! seen by no probe, on any tier. The kernel itself says nothing of it. But a switch to process 1
//! is made while another process is current, and the switch away from it while it is, so a program
//! that counts both counts as many of one as of the other, or none of the second.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use libbpf_rs::{MapCore, MapFlags, Object};
use transom_machine::objects::{self, map};

use crate::session::{attach, keep_programs};
use crate::survey::Fact;

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessOne {
    /// Programs run while it is current.
    Seen,
    /// They do not.
    Unseen,
    /// It did not run often enough meanwhile.
    NotTested,
}

const PROGRAM: &str = "try_process_1";
const LOOK_EVERY: Duration = Duration::from_millis(10);

impl ProcessOne {
    /// Watches the machine until there is an answer, at most this long.
    ///
    /// # Errors
    /// If the kernel does not take the program.
    pub fn test(at_most: Duration) -> Result<ProcessOne> {
        let began = Instant::now();
        let mut open = objects::feature::open()?;
        keep_programs(&mut open, &[PROGRAM]);
        let object = open.load().context("the kernel did not accept the test of process 1")?;
        let _links = attach(&object, &[])?;
        let cpus = libbpf_rs::num_possible_cpus()? as u64;
        loop {
            let found = judge(count(&object, 0)?, count(&object, 1)?, cpus);
            if found != ProcessOne::NotTested || began.elapsed() >= at_most {
                return Ok(found);
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// As `transom check` shows it.
    pub fn fact(self) -> Fact {
        let (ok, found) = match self {
            ProcessOne::Seen => (true, "programs run while it is current"),
            ProcessOne::Unseen => (false, "no program runs while it is current"),
            ProcessOne::NotTested => (true, "not tested: it did not run meanwhile"),
        };
        let remedy = "this machine's kernel hides what happens on its time: some events are \
                      missing; sends that are missing are counted as unseen_send";
        let remedy = if ok { String::new() } else { remedy.to_owned() };
        Fact { name: "process 1", ok, found: found.to_owned(), remedy }
    }
}

fn count(object: &Object, away: u32) -> Result<u64> {
    let value = map(object, "process_1_switches")?
        .lookup(&away.to_ne_bytes(), MapFlags::ANY)?
        .unwrap_or_default();
    Ok(u64::from_ne_bytes(value.as_slice().try_into().context("a count of 8 bytes")?))
}

/// At most one of its threads per CPU was switched to and runs still.
fn judge(to: u64, away: u64, cpus: u64) -> ProcessOne {
    match (to, away) {
        (_, 1..) => ProcessOne::Seen,
        (to, 0) if to > cpus => ProcessOne::Unseen,
        _ => ProcessOne::NotTested,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_switch_away_shows_that_programs_run() {
        assert_eq!(judge(0, 1, 2), ProcessOne::Seen);
        assert_eq!(judge(9, 8, 2), ProcessOne::Seen);
    }

    #[test]
    fn more_switches_to_it_than_can_still_run_show_that_they_do_not() {
        assert_eq!(judge(3, 0, 2), ProcessOne::Unseen);
    }

    #[test]
    fn threads_that_may_still_run_show_nothing() {
        assert_eq!(judge(0, 0, 2), ProcessOne::NotTested);
        assert_eq!(judge(2, 0, 2), ProcessOne::NotTested);
    }
}
