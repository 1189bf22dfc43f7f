//! CPU time: of the machine while the flows send, and of each program.

use std::collections::BTreeMap;
use std::fs;

use serde::{Deserialize, Serialize};

use super::waiting::Waited;

/// Name of the file in a run's folder.
pub const FILE: &str = "cpu.json";
/// Programs start, libraries boot and windows open, s.
const BEGINNING_S: f64 = 1.0;

/// What a run cost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spent {
    /// None: the flows were too short to look.
    pub machine: Option<Machine>,
    /// How long the kernel's receiving waited for a processor.
    #[serde(default)]
    pub receiving: Option<Waited>,
    /// The longest time in which the lab itself did not come to look at the flows, s.
    #[serde(default)]
    pub longest_gap_s: f64,
    pub flows: BTreeMap<String, Programs>,
}

/// All processors together, in the time in which flows sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Length of that time, s.
    pub seconds: f64,
    /// CPU time in it, s: all there was, and what was used.
    pub all_s: f64,
    pub busy_s: f64,
}

/// CPU time of the programs of a flow with their children, from start to end, s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Programs {
    pub from_s: f64,
    pub to_s: f64,
    /// How long each waited for a processor; none if the kernel does not count it.
    #[serde(default)]
    pub from_waited: Option<Waited>,
    #[serde(default)]
    pub to_waited: Option<Waited>,
}

/// Looks at the machine's clocks a moment after the beginning and at the end.
#[derive(Debug)]
pub struct Window {
    from_s: f64,
    to_s: f64,
    first: Option<(f64, Clocks)>,
    last: Option<(f64, Clocks)>,
}

impl Window {
    /// Of flows that send from `from_s` to `to_s`.
    pub fn new(from_s: f64, to_s: f64) -> Window {
        let from_s = from_s + BEGINNING_S.min((to_s - from_s) / 2.0);
        Window { from_s, to_s, first: None, last: None }
    }

    /// To be called again and again, with the time.
    pub fn look(&mut self, seconds: f64) {
        if seconds >= self.from_s && self.first.is_none() {
            self.first = Clocks::now().map(|clocks| (seconds, clocks));
        }
        if seconds >= self.to_s && self.last.is_none() {
            self.last = Clocks::now().map(|clocks| (seconds, clocks));
        }
    }

    pub fn machine(&self) -> Option<Machine> {
        let ((from, first), (to, last)) = (self.first?, self.last?);
        let since = |ticks: fn(&Clocks) -> u64| seconds(ticks(&last).checked_sub(ticks(&first))?);
        let machine = Machine {
            seconds: to - from,
            all_s: since(|clocks| clocks.all)?,
            busy_s: since(|clocks| clocks.busy)?,
        };
        (machine.seconds > 0.0 && machine.all_s > 0.0).then_some(machine)
    }
}

/// Ticks since boot of all processors together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Clocks {
    all: u64,
    busy: u64,
}

impl Clocks {
    fn now() -> Option<Clocks> {
        Clocks::of(&fs::read_to_string("/proc/stat").ok()?)
    }

    /// The first line of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal; what
    /// comes after is in user and nice already.
    fn of(stat: &str) -> Option<Clocks> {
        let words = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace();
        let ticks: Vec<u64> = words.map(str::parse).collect::<Result<_, _>>().ok()?;
        let [user, nice, system, idle, waiting, irq, softirq, stolen, ..] = ticks[..] else {
            return None;
        };
        let busy = user + nice + system + irq + softirq;
        Some(Clocks { all: busy + idle + waiting + stolen, busy })
    }
}

/// CPU time of a process that has ended and was not waited for yet, with that of its children, s.
pub fn of_process(pid: i32) -> Option<f64> {
    used(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Fields 14 to 17 of `/proc/PID/stat`: utime, stime, cutime, cstime.
fn used(stat: &str) -> Option<f64> {
    // The program's name, in brackets, may itself hold blanks and brackets.
    let (_, rest) = stat.rsplit_once(')')?;
    let ticks = rest.split_whitespace().skip(11).take(4).map(str::parse::<u64>);
    seconds(ticks.sum::<Result<u64, _>>().ok()?)
}

fn seconds(ticks: u64) -> Option<f64> {
    // SAFETY: a plain library call.
    let each = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    (each > 0).then(|| ticks as f64 / each as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_is_busy_with_all_but_idling_waiting_and_what_others_took() {
        let stat = "cpu  10 20 30 1000 40 5 6 70 3 2\ncpu0 1 2 3\n";
        assert_eq!(Clocks::of(stat), Some(Clocks { all: 1181, busy: 71 }));
        assert_eq!(Clocks::of("cpu0 1 2 3 4 5 6 7 8\n"), None);
        assert_eq!(Clocks::of("cpu  1 2 3\n"), None);
    }

    #[test]
    fn a_programs_children_are_counted_with_it() {
        let mut stat = "7 (a (b) c) Z 1 7 7 0 -1 4 1 0 0 0 300 100 50 50".to_owned();
        let second = seconds(1).unwrap();
        assert_eq!(used(&stat), Some(500.0 * second));
        stat.truncate(20);
        assert_eq!(used(&stat), Some(0.0), "not a field is there");
        assert_eq!(used("7 no brackets"), None);
    }

    #[test]
    fn the_beginning_is_not_counted() {
        let mut window = Window::new(2.0, 5.0);
        for seconds in [2.5, 2.9] {
            window.look(seconds);
            assert!(window.first.is_none(), "{seconds}");
        }
        (0..20).for_each(|n| window.look(3.0 + 0.1 * f64::from(n)));
        assert!(window.machine().is_none(), "it is not over");
        window.look(5.01);
        window.look(9.0);
        let (from, to) = (window.first.unwrap().0, window.last.unwrap().0);
        assert_eq!((from, to), (3.0, 5.01));
    }

    #[test]
    fn of_flows_shorter_than_the_beginning_the_second_half_counts() {
        assert_eq!(Window::new(0.0, 1.0).from_s, 0.5);
    }
}
