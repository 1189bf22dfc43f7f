//! What the agent costs: its own CPU time, and that of its probes.

use std::fs::File;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use transom_machine::ProgramStats;

/// CPU time of this process until now.
pub fn own() -> Duration {
    cpu_time(ClockId::ProcessCPUTime)
}

/// Of this thread.
pub fn of_thread() -> Duration {
    cpu_time(ClockId::ThreadCPUTime)
}

fn cpu_time(clock: ClockId) -> Duration {
    let now = clock_gettime(clock);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// Of all programs, as far as the kernel has counted it. The walk runs in our own time.
pub fn of_probes(stats: &[ProgramStats]) -> Duration {
    let walks = ["look", "earlier_programs"];
    let each = stats.iter().filter(|program| !walks.contains(&program.name.as_str()));
    Duration::from_nanos(each.map(|program| program.run_time_ns).sum())
}

/// Resident memory of this process, bytes.
pub fn resident() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = pages.split(' ').nth(1).and_then(|text| text.parse().ok()).unwrap_or(0);
    pages * rustix::param::page_size() as u64
}

/// Connections opened since boot and established now, of this network namespace:
/// /proc/net/snmp, ActiveOpens + PassiveOpens and CurrEstab.
pub fn opened_and_established(file: &mut Option<File>) -> (u64, u64) {
    use std::io::{Read, Seek, SeekFrom};
    let Some(file) = file else { return (0, 0) };
    let mut text = String::new();
    if file.seek(SeekFrom::Start(0)).and_then(|_| file.read_to_string(&mut text)).is_err() {
        return (0, 0);
    }
    let mut lines = text.lines().filter(|line| line.starts_with("Tcp:"));
    let (Some(names), Some(values)) = (lines.next(), lines.next()) else { return (0, 0) };
    let value = |wanted: &str| -> u64 {
        let at = names.split(' ').position(|name| name == wanted);
        at.and_then(|at| values.split(' ').nth(at)?.parse().ok()).unwrap_or(0)
    };
    (value("ActiveOpens") + value("PassiveOpens"), value("CurrEstab"))
}
