//! How long a program was ready to run and got no processor.
//!
//! The emulator measures its own lateness, but a host whose programs wait is slower than the
//! experiment says, and nobody notices. The kernel counts how long each thread waited on a run
//! queue: `/proc/PID/task/TID/schedstat`, second field, ns (`CONFIG_SCHED_INFO`).

use std::collections::BTreeMap;
use std::fs;

use super::cpu::BEGINNING_S;

/// Between two looks, s: a thread that ends takes its count with it.
const EACH_S: f64 = 0.2;

/// The threads of one program and of its children, watched while flows send.
#[derive(Debug)]
pub struct Waiting {
    from_s: f64,
    to_s: f64,
    looked: Option<(f64, f64)>,
    /// Thread → ns waited when it was first seen in this time, and last.
    threads: BTreeMap<i32, (u64, u64)>,
}

impl Waiting {
    /// Of a flow that sends from `from_s` to `to_s`.
    pub fn new(from_s: f64, to_s: f64) -> Waiting {
        let from_s = from_s + BEGINNING_S.min((to_s - from_s) / 2.0);
        Waiting { from_s, to_s, looked: None, threads: BTreeMap::new() }
    }

    /// To be called again and again, with the time.
    pub fn look(&mut self, seconds: f64, pid: i32) {
        let early = self.looked.is_some_and(|(_, last)| seconds < last + EACH_S);
        if early || !(self.from_s..=self.to_s).contains(&seconds) {
            return;
        }
        let is_first = self.looked.is_none();
        let mut pids = vec![pid];
        while let Some(pid) = pids.pop() {
            for thread in threads(pid) {
                pids.extend(children(pid, thread));
                let Some(waited) = waited(pid, thread) else { continue };
                // All that a later thread has waited, it has waited since.
                let first = if is_first { waited } else { 0 };
                self.threads.entry(thread).or_insert((first, waited)).1 = waited;
            }
        }
        let first = self.looked.map_or(seconds, |(first, _)| first);
        self.looked = Some((first, seconds));
    }

    /// Share of the time in which the thread that waited longest got no processor; none if the
    /// kernel does not count it, or the time was too short.
    pub fn share(&self) -> Option<f64> {
        let (first, last) = self.looked.filter(|(first, last)| last > first)?;
        let waited = self.threads.values().map(|(first, last)| last.saturating_sub(*first));
        Some(waited.max()? as f64 / 1e9 / (last - first))
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

fn waited(pid: i32, thread: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{thread}/schedstat")).ok()?;
    text.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};
    use std::time::{Duration, Instant};

    use super::*;

    /// Shells that never sleep, all on one processor.
    struct Spinning(Vec<Child>);

    impl Spinning {
        fn on_the_first_processor(count: usize) -> Spinning {
            let spin = || {
                Command::new("taskset").args(["-c", "0", "sh", "-c", "while :; do :; done"]).spawn()
            };
            Spinning((0..count).map(|_| spin().unwrap()).collect())
        }
    }

    impl Drop for Spinning {
        fn drop(&mut self) {
            for child in &mut self.0 {
                let _ = child.kill();
                let _ = child.wait();
            }
        }
    }

    fn share_of(pid: i32) -> f64 {
        let mut waiting = Waiting::new(-0.9, 60.0);
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(2) {
            waiting.look(began.elapsed().as_secs_f64(), pid);
            std::thread::sleep(Duration::from_millis(20));
        }
        waiting.share().expect("this kernel counts it")
    }

    #[test]
    fn who_shares_a_processor_with_three_others_waits_most_of_the_time_and_who_sleeps_does_not() {
        let spinning = Spinning::on_the_first_processor(4);
        let mut sleeping = Command::new("sleep").arg("60").spawn().unwrap();
        let waits = share_of(spinning.0[0].id() as i32);
        let sleeps = share_of(sleeping.id() as i32);
        let _ = sleeping.kill();
        let _ = sleeping.wait();
        assert!((0.5..1.05).contains(&waits), "{waits}");
        assert!(sleeps < 0.01, "{sleeps}");
    }

    #[test]
    fn children_and_what_came_later_are_counted_and_what_was_before_is_not() {
        let mut waiting = Waiting::new(0.0, 9.0);
        assert_eq!(waiting.share(), None);
        waiting.look(0.5, std::process::id() as i32);
        assert!(waiting.threads.is_empty(), "too early");
        waiting.looked = Some((1.0, 3.0));
        waiting.threads =
            BTreeMap::from([(1, (5_000_000_000, 5_100_000_000)), (2, (0, 500_000_000))]);
        assert_eq!(waiting.share(), Some(0.25));
        let child = Spinning::on_the_first_processor(1);
        waiting.look(4.0, std::process::id() as i32);
        assert!(waiting.threads.contains_key(&(child.0[0].id() as i32)));
    }
}
