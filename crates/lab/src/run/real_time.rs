//! Runs on this machine's kernel: one after the other, each again while the machine is too busy.

use std::time::Instant;

use anyhow::Result;

use super::campaign::{Order, Run};
use super::ledger::Ledger;
use super::once::{self, Report, Task};
use crate::hosts::{Backend, Wish};
use crate::metrics::Measured;
use crate::progress::Progress;

/// Attempts a run gets while the machine is too busy.
const ATTEMPTS: u32 = 3;

/// Runs all of them, until the user stops it.
pub(super) fn all(
    order: &Order<'_>,
    (backend, pcap): (Backend, bool),
    left: &[&Run],
    ledger: &mut Ledger<'_>,
    stop: &dyn Fn() -> bool,
) -> Result<()> {
    let mut progress = Progress::new(left.iter().map(|run| run.seconds()).sum(), left.len() as u32);
    for run in left {
        if stop() {
            ledger.summary.interrupted = true;
            break;
        }
        let wish = order.wish(&run.point.experiment, backend, pcap);
        match attempts(order, wish, run, &mut progress, stop) {
            Ok(Some(report)) => ledger.finished(report.disturbed().is_some())?,
            Ok(None) => ledger.summary.interrupted = true,
            Err(error) => {
                let name = run.name();
                progress.say(&format!("  {name}: failed: {error:#}"));
                ledger.failed(format!("{name}: {error:#}"))?;
            }
        }
    }
    Ok(())
}

/// Runs it again while the machine is too busy, and measures the last. None: the user stopped.
fn attempts(
    order: &Order<'_>,
    wish: Wish<'_>,
    run: &Run,
    progress: &mut Progress,
    stop: &dyn Fn() -> bool,
) -> Result<Option<Report>> {
    let name = run.name();
    for attempt in 1..=ATTEMPTS {
        let began = Instant::now();
        let task =
            Task { wish, seed: run.seed, transom: &order.transom, directory: &run.directory };
        progress.show(&name, 0.0);
        let report = once::run(&task, &mut |seconds| {
            progress.show(&name, seconds);
            !stop()
        })?;
        let Some(mut report) = report else { return Ok(None) };
        report.attempt = attempt;
        report.fingerprint = run.fingerprint.clone();
        report.write(&run.directory)?;
        if !report.failures.is_empty() {
            anyhow::bail!("{}", report.failures.join("; "));
        }
        let disturbed = report.disturbed().filter(|_| attempt < ATTEMPTS);
        let again = disturbed.is_some();
        match disturbed {
            Some(why) => progress.say(&format!("  {name}: rejected, {why}: once more")),
            None => say(progress, &name, &report, &run.measure()?),
        }
        progress.ran(began.elapsed(), run.seconds(), !again);
        if !again {
            return Ok(Some(report));
        }
    }
    Ok(None)
}

fn say(progress: &Progress, name: &str, report: &Report, measured: &Measured) {
    let kept =
        report.disturbed().map(|why| format!("kept after {ATTEMPTS} attempts, though {why}"));
    let sum = measured.run.get("sum_mbit").map(|mbit| format!("{mbit:.2} Mbit/s"));
    // netem has none.
    let lateness = measured.run.get("lateness_p99_ms");
    let lateness = lateness.map(|ms| format!("lateness p99 {ms:.3} ms"));
    let wait = measured.run.get("cpu_wait");
    let wait = wait.map(|share| format!("waited for a CPU {:.1} %", 100.0 * share));
    let words: Vec<String> = [sum, lateness, wait, kept].into_iter().flatten().collect();
    progress.say(&format!("  {name}: {}", words.join(", ")));
}
