//! What a daemon costs, as the kernel accounts for it.

use std::time::Instant;

use super::Terminal;

fn ticks_per_second() -> f64 {
    // SAFETY: sysconf takes any name.
    unsafe { libc::sysconf(libc::_SC_CLK_TCK) as f64 }
}

/// User and system time of a process so far, in clock ticks (proc(5): 14 and 15).
pub fn ticks(terminal: &Terminal) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", terminal.pid())).expect("stat");
    let after = stat.rsplit(')').next().expect("a name");
    let fields: Vec<&str> = after.split_whitespace().collect();
    fields[11..13].iter().map(|field| field.parse::<u64>().expect("a number")).sum()
}

/// kB of memory of the daemon's process.
pub fn resident(terminal: &Terminal) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", terminal.pid()));
    let status = status.expect("the daemon runs");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("a size");
    line.split_whitespace().nth(1).and_then(|kb| kb.parse().ok()).expect("a number")
}

/// Ticks of the whole machine in which it worked, softirqs among them (proc(5), /proc/stat).
fn machine() -> u64 {
    let stat = std::fs::read_to_string("/proc/stat").expect("stat");
    let line = stat.lines().next().expect("all CPUs");
    let fields = line.split_whitespace().skip(1).map(|field| field.parse::<u64>().expect("ticks"));
    // user nice system idle iowait irq softirq; what follows is of guests, or in these.
    fields.take(7).enumerate().filter(|(n, _)| !matches!(n, 3 | 4)).map(|(_, ticks)| ticks).sum()
}

/// Percent of one core since it was begun.
pub struct Meter {
    began: Instant,
    machine: u64,
    daemons: Vec<u64>,
}

impl Meter {
    pub fn start(terminals: &[Terminal]) -> Meter {
        let daemons = terminals.iter().map(ticks).collect();
        Meter { began: Instant::now(), machine: machine(), daemons }
    }

    pub fn seconds(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    fn percent(&self, ticks: u64) -> f64 {
        ticks as f64 / ticks_per_second() / self.seconds() * 100.0
    }

    /// Of each daemon.
    pub fn daemons(&self, terminals: &[Terminal]) -> Vec<f64> {
        let each = terminals.iter().zip(&self.daemons);
        each.map(|(terminal, before)| self.percent(ticks(terminal) - before)).collect()
    }

    /// Of everything on the machine.
    pub fn machine(&self) -> f64 {
        self.percent(machine() - self.machine)
    }
}
