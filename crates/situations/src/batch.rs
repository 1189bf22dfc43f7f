//! Builds many situations, some side by side, each until the machine was not too busy for it.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use transom_machine::signals::Signals;

use crate::catalogue::Situation;
use crate::run;

/// The emulator's lateness above which the lab rejects a run, too: 99th percentile, ms.
const LATEST_MS: f64 = 1.0;
/// How long another attempt waits for a machine that is busy.
const RESPITE: Duration = Duration::from_secs(5);
/// How often a situation is built at most.
const ATTEMPTS: usize = 6;

/// Situations, and where the trace of each is written.
type Traced<'a> = (&'a Situation, PathBuf);

/// Builds and records all, `jobs` at a time and heavy ones alone; the first error ends it.
///
/// # Errors
/// If one cannot be built, or a signal came.
pub fn build(all: Vec<Traced>, transom: &Path, jobs: usize) -> Result<()> {
    let signals = Signals::catch_all()?;
    let (heavy, light): (Vec<_>, Vec<_>) = all.into_iter().partition(|(one, _)| one.is_heavy());
    side_by_side(light, jobs, &signals, transom)?;
    side_by_side(heavy, 1, &signals, transom)?;
    ensure!(!signals.came(), "interrupted");
    Ok(())
}

fn side_by_side(all: Vec<Traced>, jobs: usize, signals: &Signals, transom: &Path) -> Result<()> {
    let waiting = Mutex::new(VecDeque::from(all));
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    let work = || -> Result<()> {
        while let Some((situation, trace)) = next().filter(|_| !signals.came()) {
            in_time(situation, transom, &trace)
                .with_context(|| format!("situation {}", situation.name))?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| match worker.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    })
}

/// Builds it until the machine was not too busy for it; removes its trace if it always is.
fn in_time(situation: &Situation, transom: &Path, trace: &Path) -> Result<()> {
    for left in (0..ATTEMPTS).rev() {
        match run::run(situation, transom, trace) {
            Ok(late) if late <= LATEST_MS => {
                eprintln!("{:36} emulator late by {late:.2} ms (p99)", situation.name);
                return Ok(());
            }
            Ok(late) => {
                eprintln!("{:36} rejected: late by {late:.2} ms", situation.name);
                std::thread::sleep(RESPITE);
            }
            Err(error) if left == 0 => return Err(error),
            Err(error) => eprintln!("{:36} once more: {error:#}", situation.name),
        }
    }
    std::fs::remove_file(trace)?;
    Ok(())
}
