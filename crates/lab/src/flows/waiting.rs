//! How long a program was ready to run and got no processor.
//!
//! The emulator measures its own lateness, but a host whose programs are short of CPU is slower
//! than the experiment says, and the emulator does not notice. The kernel counts how long each
//! thread ran and how long it waited on a run queue: `/proc/PID/task/TID/schedstat`, the first two
//! fields, ns (`CONFIG_SCHED_INFO`).
//!
//! Packets are received in softirqs. Under load the kernel leaves them to a thread per CPU,
//! `ksoftirqd`, of ordinary priority: while that waits, programs sleep for want of packets.

use std::collections::BTreeMap;
use std::fs;

use serde::{Deserialize, Serialize};

/// Between two looks, s: a thread that ends takes its count with it.
const EACH_S: f64 = 0.2;
/// A run is rejected if a program waited for more than this share of its flow's time, and slept for
/// less than the other.
pub const MOST_WAITED: f64 = 0.1;
pub const LEAST_SLEPT: f64 = 0.3;
/// At the mean of all hosts, also if they slept: one sleeps while the other waits. And for the
/// kernel's receiving, for which all wait.
pub const MOST_WAITED_BY_ALL: f64 = 0.35;

/// The threads of one program and of its children, watched while its flow sends.
#[derive(Debug)]
pub struct Waiting {
    from_s: f64,
    to_s: f64,
    /// Of a program that starts with its flow, all that it has waited counts.
    is_new: bool,
    looked_s: Option<f64>,
    looks: u32,
    /// Thread → its counts when the flow began, and when last looked at.
    threads: BTreeMap<i32, (Counts, Counts)>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    ran_ns: u64,
    waited_ns: u64,
}

/// Shares of a flow's time, of the thread of a program that waited longest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Waited {
    /// It was ready to run and got no processor.
    pub waited: f64,
    /// It had nothing to do.
    pub slept: f64,
}

impl Waited {
    /// A program that still sleeps has done all its work, only later. One that hardly does and
    /// waits is slower than the network would let it be.
    pub fn is_short_of_cpu(&self) -> bool {
        self.waited > MOST_WAITED && self.slept < LEAST_SLEPT
    }
}

/// The kernel's own threads that receive, one per CPU.
#[derive(Debug)]
pub struct Receiving(Vec<(i32, Waiting)>);

impl Receiving {
    /// While flows send, from `from_s` to `to_s`.
    pub fn new(from_s: f64, to_s: f64) -> Receiving {
        let all = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let is_ours = |pid: &i32| {
            fs::read_to_string(format!("/proc/{pid}/comm"))
                .is_ok_and(|name| name.starts_with("ksoftirqd/"))
        };
        let waiting = |pid| (pid, Waiting::new(from_s, to_s, false));
        Receiving(pids.filter(is_ours).map(waiting).collect())
    }

    /// To be called again and again, with the time.
    pub fn look(&mut self, seconds: f64) {
        for (pid, waiting) in &mut self.0 {
            waiting.look(seconds, *pid);
        }
    }

    /// Of the one that waited longest; none where they cannot be seen, as in a PID namespace.
    pub fn of_longest(&self) -> Option<Waited> {
        let each = self.0.iter().filter_map(|(_, waiting)| waiting.of_longest());
        each.max_by(|a, b| a.waited.total_cmp(&b.waited))
    }
}

impl Waiting {
    /// Of a flow that sends from `from_s` to `to_s`; `is_new`: the program starts with it.
    pub fn new(from_s: f64, to_s: f64, is_new: bool) -> Waiting {
        Waiting { from_s, to_s, is_new, looked_s: None, looks: 0, threads: BTreeMap::new() }
    }

    /// To be called again and again, with the time.
    pub fn look(&mut self, seconds: f64, pid: i32) {
        let early = self.looked_s.is_some_and(|last| seconds < last + EACH_S);
        if early || !(self.from_s..=self.to_s).contains(&seconds) {
            return;
        }
        let was_before = self.looked_s.is_none() && !self.is_new;
        let mut pids = vec![pid];
        while let Some(pid) = pids.pop() {
            for thread in threads(pid) {
                pids.extend(children(pid, thread));
                let Some(now) = counts(pid, thread) else { continue };
                let before = if was_before { now } else { Counts::default() };
                self.threads.entry(thread).or_insert((before, now)).1 = now;
            }
        }
        self.looked_s = Some(seconds);
        self.looks += 1;
    }

    /// None if the kernel does not count it, or too few looks were taken to compare.
    pub fn of_longest(&self) -> Option<Waited> {
        if self.looks < 2 && !self.is_new {
            return None;
        }
        let length = self.looked_s.map(|last| last - self.from_s).filter(|&length| length > 0.0)?;
        let share = |ns: u64| ns as f64 / 1e9 / length;
        let each = self.threads.values().map(|(before, last)| {
            let waited = share(last.waited_ns.saturating_sub(before.waited_ns));
            let ran = share(last.ran_ns.saturating_sub(before.ran_ns));
            Waited { waited, slept: (1.0 - waited - ran).max(0.0) }
        });
        each.max_by(|a, b| a.waited.total_cmp(&b.waited))
    }
}

fn threads(pid: i32) -> Vec<i32> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

fn children(pid: i32, thread: i32) -> Vec<i32> {
    let list = fs::read_to_string(format!("/proc/{pid}/task/{thread}/children"));
    list.unwrap_or_default().split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

fn counts(pid: i32, thread: i32) -> Option<Counts> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{thread}/schedstat")).ok()?;
    let mut numbers = text.split_whitespace().map(str::parse);
    Some(Counts { ran_ns: numbers.next()?.ok()?, waited_ns: numbers.next()?.ok()? })
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::{Duration, Instant};

    use transom_testbed::{Spinning, wait_for};

    use super::*;

    fn waited_by<const N: usize>(pids: [i32; N]) -> [Waited; N] {
        let mut all = pids.map(|pid| (pid, Waiting::new(0.1, 60.0, false)));
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(2) {
            for (pid, waiting) in &mut all {
                waiting.look(began.elapsed().as_secs_f64(), *pid);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        all.map(|(_, waiting)| waiting.of_longest().expect("this kernel counts it"))
    }

    #[test]
    fn a_program_that_shares_a_processor_with_two_others_waits_and_one_that_sleeps_does_not() {
        let spinning = Spinning::start(3, 0);
        let mut sleeping = Command::new("sleep").arg("60").spawn().unwrap();
        let [waits, sleeps] = waited_by([spinning.pid(), sleeping.id() as i32]);
        let _ = sleeping.kill();
        let _ = sleeping.wait();
        assert!((0.5..1.05).contains(&waits.waited) && waits.is_short_of_cpu(), "{waits:?}");
        assert!(sleeps.slept > 0.9 && !sleeps.is_short_of_cpu(), "{sleeps:?}");
    }

    #[test]
    fn the_kernels_receiving_threads_are_found_one_per_cpu() {
        let online = std::thread::available_parallelism().unwrap().get();
        let mut receiving = Receiving::new(0.0, 9.0);
        assert!(receiving.0.len() >= online || receiving.0.is_empty(), "{receiving:?}");
        receiving.look(0.5);
        receiving.look(1.0);
        assert_eq!(receiving.of_longest().is_some(), !receiving.0.is_empty());
    }

    #[test]
    fn children_and_what_came_later_are_counted_and_what_was_before_is_not() {
        let mut waiting = Waiting::new(1.0, 9.0, false);
        assert_eq!(waiting.of_longest(), None);
        waiting.look(0.5, std::process::id() as i32);
        assert!(waiting.threads.is_empty(), "too early");
        (waiting.looked_s, waiting.looks) = (Some(3.0), 2);
        let counts = |ran_ms: u64, waited_ms: u64| Counts {
            ran_ns: ran_ms * 1_000_000,
            waited_ns: waited_ms * 1_000_000,
        };
        waiting.threads = BTreeMap::from([
            (1, (counts(700, 5000), counts(800, 5100))),
            (2, (counts(0, 0), counts(500, 500))),
        ]);
        assert_eq!(waiting.of_longest(), Some(Waited { waited: 0.25, slept: 0.5 }));
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        waiting.look(4.0, std::process::id() as i32);
        let _ = child.kill();
        let _ = child.wait();
        assert!(waiting.threads.contains_key(&(child.id() as i32)));
    }

    #[test]
    fn of_a_program_that_starts_with_its_flow_the_start_counts_too() {
        let spinning = Spinning::start(2, 0);
        let pid = spinning.pid();
        wait_for("one to wait for the other", || {
            counts(pid, pid).is_some_and(|now| now.waited_ns > 200_000_000)
        });
        let before = |is_new| {
            let mut waiting = Waiting::new(0.0, 9.0, is_new);
            waiting.look(1.0, pid);
            waiting.of_longest().map(|it| it.waited)
        };
        assert_eq!(before(false), None, "one look tells nothing of what came before");
        assert!(before(true) > Some(0.1), "{:?}", before(true));
    }
}
