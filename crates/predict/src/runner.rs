//! Simulations of one question, several at once.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Error, Result};

use crate::change::Change;
use crate::measure::{Measured, of_recording};
use crate::model::{Model, Program};
use crate::scene::{COMPETITOR, FLOW, Scene, most_seconds, scenario};
use crate::simulator::Simulator;
use crate::whatif::{Effort, Others, Watch};

/// What all simulations of a question share.
pub struct Question<'a> {
    pub recorded: &'a Measured,
    pub effort: Effort,
    simulator: &'a dyn Simulator,
    watch: &'a dyn Watch,
    began: Instant,
    /// What the slowest of its simulations took, ms.
    slowest_ms: AtomicU64,
}

impl<'a> Question<'a> {
    /// From now on its time passes.
    pub fn new(
        recorded: &'a Measured,
        simulator: &'a dyn Simulator,
        watch: &'a dyn Watch,
        effort: Effort,
    ) -> Question<'a> {
        let (began, slowest_ms) = (Instant::now(), AtomicU64::new(0));
        Question { recorded, effort, simulator, watch, began, slowest_ms }
    }

    fn left(&self) -> Duration {
        self.effort.budget.saturating_sub(self.began.elapsed())
    }

    pub fn is_over(&self) -> bool {
        // One more has to end in time, too.
        let one_more = Duration::from_millis(self.slowest_ms.load(Ordering::Relaxed));
        let left = self.left();
        self.watch.stops() || left.is_zero() || left < one_more
    }
}

/// One simulation.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    /// Index of its change; 0: as recorded.
    pub change: usize,
    pub variant: u32,
    /// Of what is left to chance.
    pub seed: u64,
    pub scene: Scene,
}

impl Job {
    fn replay(variant: u32) -> Job {
        Job { change: 0, variant, seed: u64::from(variant) + 1, scene: Scene::Alone }
    }
}

pub struct Done {
    pub job: Job,
    pub measured: Measured,
    pub others: Option<Others>,
}

/// What came of some jobs, in their order.
pub struct Ran {
    pub done: Vec<Done>,
    /// Whether none was left out because the time was over.
    pub complete: bool,
    /// Why the first that could not be run was not, and of which change it is.
    pub failed: Option<(usize, Error)>,
}

/// Simulates one model.
pub struct Runner<'a> {
    pub question: &'a Question<'a>,
    pub model: Model,
    /// Simulations before those of this one, and of all.
    pub before: usize,
    pub of: usize,
}

/// Of what can still be simulated, replays may take this share.
const OF_REPLAYS: f64 = 1.0 / 3.0;
/// The first replay of so many segments takes seconds, and much memory: how long shows it alone.
const LONG: f64 = 100_000.0;

impl Runner<'_> {
    /// Replays these of its variants as recorded: all, or as many as there is time for.
    pub fn replay(&self, variants: Range<u32>) -> Result<Ran> {
        let Question { effort, recorded, .. } = self.question;
        let began = Instant::now();
        let wanted: Vec<Job> = variants.map(Job::replay).collect();
        let jobs = effort.jobs.max(1);
        let together = if recorded.segments < LONG { jobs } else { 1 };
        let (first, rest) = wanted.split_at(together.min(wanted.len()));
        let mut ran = self.run(&[Change::default()], first)?;
        let left = self.question.left().as_secs_f64();
        let share = OF_REPLAYS * left / began.elapsed().as_secs_f64().max(1e-6);
        let (rest, late) = rest.split_at(rest.len().min((share * jobs as f64) as usize));
        let more = self.run(&[Change::default()], rest)?;
        ran.done.extend(more.done);
        ran.complete &= more.complete && late.is_empty();
        ran.failed = ran.failed.or(more.failed);
        Ok(ran)
    }

    /// Runs all, as many at once as allowed; what cannot be simulated is left out.
    pub fn run(&self, changes: &[Change], jobs: &[Job]) -> Result<Ran> {
        let (next, count) = (AtomicUsize::new(0), AtomicUsize::new(self.before));
        let done = Mutex::new(Vec::new());
        let (failed, cut) = (Mutex::new(None), AtomicBool::new(false));
        let work = || -> Result<()> {
            while !self.question.is_over() {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(&job) = jobs.get(at) else { break };
                match self.simulate(&changes[job.change], job) {
                    Ok(Some(result)) => lock(&done).push((at, result)),
                    Ok(None) => {
                        cut.fetch_or(self.question.left().is_zero(), Ordering::Relaxed);
                    }
                    Err(error) if !self.question.watch.stops() => {
                        lock(&failed).get_or_insert((job.change, error));
                    }
                    Err(error) => {
                        next.store(jobs.len(), Ordering::Relaxed);
                        return Err(error);
                    }
                }
                let count = count.fetch_add(1, Ordering::Relaxed) + 1;
                self.question.watch.progress(count, self.of.max(count));
            }
            Ok(())
        };
        let workers = self.question.effort.jobs.max(1);
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
            workers.into_iter().try_for_each(|worker| match worker.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            })
        })?;
        let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
        done.sort_by_key(|(at, _)| *at);
        Ok(Ran {
            done: done.into_iter().map(|(_, done)| done).collect(),
            complete: next.load(Ordering::Relaxed) >= jobs.len() && !cut.into_inner(),
            failed: failed.into_inner().unwrap_or_else(PoisonError::into_inner),
        })
    }

    /// None: the time was over, or none was left for the connection to open.
    fn simulate(&self, change: &Change, job: Job) -> Result<Option<Done>> {
        let model = self.model.variant(job.variant);
        let scenario = scenario(&model, change, job.scene, job.seed);
        let began = Instant::now();
        let ran = self.question.simulator.run(&scenario, self.question.left())?;
        let Some((outcome, recording)) = ran else { return Ok(None) };
        let recorded_s = self.question.recorded.seconds;
        let lifted = change.lifted(&model);
        let within_s = match lifted.program {
            Program::Endless if change.program.is_none() => recorded_s,
            _ => most_seconds(&lifted, job.scene),
        };
        let measured = of_recording(&recording, within_s, recorded_s);
        let Some(measured) = measured else { return Ok(None) };
        let took_ms = began.elapsed().as_millis() as u64;
        self.question.slowest_ms.fetch_max(took_ms, Ordering::Relaxed);
        let received = |flow: &str| outcome.flows.get(flow).map_or(0, |it| it.received) as f64;
        let others = (job.scene == Scene::Competing).then(|| Others {
            share: received(COMPETITOR) / (received(COMPETITOR) + received(FLOW)).max(1.0),
            goodput_mbit: received(COMPETITOR) * 8e-6 / most_seconds(&model, job.scene),
            rtt_median_s: measured.rtt_median_s,
        });
        Ok(Some(Done { job, measured, others }))
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
