//! A processor that is taken.

use std::process::{Child, Command};

/// Shells that never sleep, all on the first processor that this process may use.
pub struct Spinning(Vec<Child>);

impl Spinning {
    /// So many, of this priority.
    pub fn start(count: usize, nice: i32) -> Spinning {
        let (processor, nice) = (Spinning::processor(), nice.to_string());
        let words = ["-c", &processor, "nice", "-n", &nice, "sh", "-c", "while :; do :; done"];
        let spin = || Command::new("taskset").args(words).spawn().expect("taskset");
        Spinning((0..count).map(|_| spin()).collect())
    }

    /// Where they run, for `taskset`: in a container that need not be 0.
    pub fn processor() -> String {
        let allowed = rustix::thread::sched_getaffinity(None).expect("its own");
        let mut all = 0..rustix::thread::CpuSet::MAX_CPU;
        all.find(|&cpu| allowed.is_set(cpu)).expect("it runs on one").to_string()
    }

    /// Of the first of them.
    pub fn pid(&self) -> i32 {
        self.0[0].id() as i32
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
