//! Replays what was recorded, and if that is what it was, tries other settings.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use serde::Serialize;

use crate::change::Change;
use crate::check::{Mismatch, mismatches, unexplained};
use crate::measure::{Measured, of_recording};
use crate::model::{Model, Program};
use crate::scene::{COMPETITOR, FLOW, Scene, most_seconds, scenario};
use crate::simulator::Simulator;

/// How much is simulated.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Replays of what was recorded, each of another model that agrees with the trace.
    pub replays: u32,
    /// Runs of each change at most.
    pub runs: u32,
    /// At the same time.
    pub jobs: usize,
    /// What is not begun after so long is left out.
    pub budget: Duration,
}

impl Default for Effort {
    fn default() -> Effort {
        let jobs = std::thread::available_parallelism().map_or(2, usize::from);
        Effort { replays: 6, runs: 6, jobs, budget: Duration::from_secs(9) }
    }
}

/// Who watches a prediction being made.
pub trait Watch: Sync {
    /// So many of so many simulations are done.
    fn progress(&self, done: usize, of: usize);
    /// Whether to end with what is done.
    fn stops(&self) -> bool;
}

/// A number with the interval in which the simulations found it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Interval {
    pub value: f64,
    pub low: f64,
    pub high: f64,
}

impl Interval {
    /// Median; and where one more value lies with 95 %, if their logarithms are normal.
    pub(crate) fn of(mut values: Vec<f64>) -> Interval {
        values.sort_by(f64::total_cmp);
        let (Some(&low), Some(&high)) = (values.first(), values.last()) else {
            return Interval::default();
        };
        let middle = values.len() / 2;
        let value = match values.len() % 2 {
            1 => values[middle],
            _ => f64::midpoint(values[middle - 1], values[middle]),
        };
        let n = values.len() as f64;
        if low <= 0.0 {
            return Interval { value, low, high };
        }
        if n < 2.0 {
            return Interval { value, low: value / MODEL.exp(), high: value * MODEL.exp() };
        }
        let mean = values.iter().map(|it| it.ln()).sum::<f64>() / n;
        let variance = values.iter().map(|it| (it.ln() - mean).powi(2)).sum::<f64>() / (n - 1.0);
        let chance = student(values.len()) * (variance * (1.0 + 1.0 / n)).sqrt();
        let width = chance.hypot(MODEL).exp();
        Interval { value, low: value / width, high: value * width }
    }

    /// At least as wide as the other one, relatively.
    fn as_wide_as(self, other: Interval) -> Interval {
        let Interval { value, low, high } = self;
        let [below, above] = [other.low, other.high].map(|end| end / other.value.max(1e-9));
        Interval { value, low: low.min(value * below), high: high.max(value * above) }
    }

    fn scaled(self, by: f64) -> Interval {
        Interval { value: self.value * by, low: self.low * by, high: self.high * by }
    }
}

/// What replays differ from recordings even where nothing is left to chance, relatively.
const MODEL: f64 = 0.02;

/// 97.5 % of Student's distribution for a mean of so many values.
fn student(values: usize) -> f64 {
    const OF: [f64; 9] = [12.7, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26];
    OF.get(values.saturating_sub(2)).copied().unwrap_or(2.1)
}

/// Models that agree with the trace and differ by so much predict nothing.
const OPEN: f64 = 3.0;

/// And an interval of this width does, too.
const WIDE: f64 = 6.0;

fn is_open(measured: &[&Measured], gain: &Interval) -> bool {
    let goodput = || measured.iter().map(|it| it.goodput_mbit);
    goodput().fold(0.0, f64::max) > OPEN * goodput().fold(f64::INFINITY, f64::min)
        || gain.high > WIDE * gain.low
}

/// What a change would have done.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Prediction {
    pub change: Change,
    pub label: String,
    /// Times what was recorded; of a transfer that ends by itself the inverse of its time.
    pub gain: Interval,
    pub goodput_mbit: Interval,
    pub seconds: Interval,
    pub rtt_p95_s: Interval,
    pub retransmitted: Interval,
    /// Beside a CUBIC flow: what that gets of both, and the round trip they stand in, s.
    pub others: Option<Others>,
    pub runs: usize,
    /// The trace leaves too much open for it.
    pub is_open: bool,
}

/// Of so many runs the spread is no more than a guess.
const FEW: usize = 3;

impl Prediction {
    /// Few runs do not show by how much they differ: as the replays do, then.
    fn no_surer_than(mut self, unchanged: &Prediction) -> Prediction {
        if self.runs < FEW {
            self.gain = self.gain.as_wide_as(unchanged.gain);
            self.goodput_mbit = self.goodput_mbit.as_wide_as(unchanged.goodput_mbit);
            self.seconds = self.seconds.as_wide_as(unchanged.seconds);
        }
        self
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Others {
    pub share: f64,
    pub rtt_median_s: f64,
}

/// All that came of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WhatIf {
    /// The one that is nearest to what was recorded.
    pub model: Model,
    pub recorded: Measured,
    /// Of the replay that is nearest to what was recorded.
    pub replayed: Option<Measured>,
    /// Why there is no prediction, the worst first; empty: the replay matches.
    pub mismatches: Vec<Mismatch>,
    /// As it was recorded: the costs of others to compare with.
    pub unchanged: Option<Prediction>,
    /// The best first.
    pub predictions: Vec<Prediction>,
    /// Whether all that was asked for was run.
    pub complete: bool,
    pub simulations: usize,
}

/// One simulation.
#[derive(Clone, Copy, Debug)]
struct Job {
    /// Index of its change.
    change: usize,
    variant: u32,
    scene: Scene,
}

struct Done {
    job: Job,
    measured: Measured,
    others: Option<Others>,
}

struct Runner<'a> {
    model: Model,
    recorded_s: f64,
    simulator: &'a dyn Simulator,
    watch: &'a dyn Watch,
    effort: Effort,
    began: Instant,
    /// Simulations of earlier phases, and of all.
    before: usize,
    of: usize,
}

/// A replay of a model that is so many bounds off, of what chance leaves open, is no more looked at.
const FAR_OFF: f64 = 3.0;

/// A kernel of another version fits another number of bytes into the same send buffer.
fn other_buffer(model: &Model, recorded: &Measured, replayed: &[&Measured]) -> Option<Model> {
    let buffer = f64::from(model.sender.send_buffer?);
    let is = Interval::of(replayed.iter().map(|it| it.goodput_mbit).collect()).value;
    let mut other = model.clone();
    other.sender.send_buffer = Some((buffer * recorded.goodput_mbit / is.max(1e-9)) as u32);
    Some(other)
}

/// How far the worst of these is beyond its bound.
fn worst(all: &[Mismatch]) -> f64 {
    all.first().map_or(0.0, |it| it.excess)
}

/// # Errors
/// If the simulator could not be run.
pub fn whatif(
    models: &[Model],
    recorded: &Measured,
    changes: &[Change],
    simulator: &dyn Simulator,
    watch: &dyn Watch,
    effort: Effort,
) -> Result<WhatIf> {
    let began = Instant::now();
    let Some(first) = models.first() else { bail!("there is no model to replay") };
    let mut result = WhatIf {
        model: first.clone(),
        recorded: recorded.clone(),
        replayed: None,
        mismatches: Vec::new(),
        unchanged: None,
        predictions: Vec::new(),
        complete: true,
        simulations: 0,
    };
    let runs = changes.len() * (effort.runs as usize + 1) + 1;
    let mut best: Option<(f64, Runner, Vec<Done>)> = None;
    let mut left: VecDeque<Model> = models.iter().cloned().collect();
    while let Some(model) = left.pop_front() {
        let runner = Runner {
            model: model.clone(),
            recorded_s: recorded.seconds,
            simulator,
            watch,
            effort,
            began,
            before: result.simulations,
            of: result.simulations + effort.replays as usize + runs,
        };
        let replays: Vec<Job> = (0..effort.replays)
            .map(|variant| Job { change: 0, variant, scene: Scene::Alone })
            .collect();
        let (replayed, complete) = runner.run(&[Change::default()], &replays)?;
        result.simulations += replayed.len();
        result.complete &= complete;
        if replayed.is_empty() {
            continue;
        }
        let measured: Vec<&Measured> = replayed.iter().map(|done| &done.measured).collect();
        let mut off = mismatches(recorded, &measured);
        off.extend(unexplained(&model));
        off.sort_by(|a, b| b.excess.total_cmp(&a.excess));
        if best.is_none() {
            left.extend(other_buffer(&model, recorded, &measured));
        }
        if best.as_ref().is_none_or(|best| worst(&off) < best.0) {
            (result.model, result.mismatches) = (model, off.clone());
            best = Some((worst(&off), runner, replayed));
        }
        if off.is_empty() {
            break;
        }
    }
    let Some((_, mut runner, replayed)) = best else { return Ok(result) };
    let apart = |done: &Done| worst(&mismatches(recorded, &[&done.measured]));
    let nearest = replayed.iter().min_by(|a, b| apart(a).total_cmp(&apart(b)));
    result.replayed = nearest.map(|done| done.measured.clone());
    if !result.mismatches.is_empty() {
        return Ok(result);
    }
    let least = nearest.map_or(0.0, &apart);
    let matching: Vec<&Done> =
        replayed.iter().filter(|done| apart(done) <= least.max(FAR_OFF)).collect();
    runner.before = result.simulations;
    runner.of = result.simulations + runs;
    predict(&runner, changes, &matching, &mut result)?;
    Ok(result)
}

/// Each change over the models whose replay matches.
fn predict(
    runner: &Runner,
    changes: &[Change],
    matching: &[&Done],
    result: &mut WhatIf,
) -> Result<()> {
    let mut all = vec![Change::default()];
    all.extend_from_slice(changes);
    let variants: Vec<u32> = matching.iter().map(|done| done.job.variant).collect();
    let alone = |change: usize| {
        variants.iter().take(runner.effort.runs as usize).map(move |&variant| Job {
            change,
            variant,
            scene: Scene::Alone,
        })
    };
    let competing = (0..all.len()).map(|change| {
        let variant = variants[0];
        Job { change, variant, scene: Scene::Competing }
    });
    // Depth first over variants, so that an early end leaves every change with some.
    let mut jobs: Vec<Job> = (1..all.len()).flat_map(alone).collect();
    jobs.sort_by_key(|job| variants.iter().position(|it| *it == job.variant));
    jobs.extend(competing);
    let (done, complete) = runner.run(&all, &jobs)?;
    result.simulations += done.len();
    result.complete &= complete;
    let own: Vec<&Measured> = matching.iter().map(|done| &done.measured).collect();
    let unchanged = prediction(&all[0], 0, &own, &done, runner, &result.recorded, 1.0);
    let was = result.recorded.goodput_mbit;
    let Interval { low, high, .. } = unchanged.goodput_mbit;
    // What lies between the replays differs from them by chance alone.
    let drift = was / was.clamp(low, high.max(low)).max(1e-9);
    result.predictions = (1..all.len())
        .filter_map(|i| {
            let measured: Vec<&Measured> = done
                .iter()
                .filter(|it| it.job.change == i && it.job.scene == Scene::Alone)
                .map(|it| &it.measured)
                .collect();
            let some = !measured.is_empty();
            some.then(|| prediction(&all[i], i, &measured, &done, runner, &result.recorded, drift))
        })
        .map(|it| it.no_surer_than(&unchanged))
        .collect();
    result.predictions.sort_by(|a, b| b.gain.value.total_cmp(&a.gain.value));
    result.unchanged = Some(unchanged);
    Ok(())
}

/// `drift`: what was recorded, times what its replay gave; a prediction is off by the same.
fn prediction(
    change: &Change,
    number: usize,
    measured: &[&Measured],
    done: &[Done],
    runner: &Runner,
    recorded: &Measured,
    drift: f64,
) -> Prediction {
    let of =
        |value: fn(&Measured) -> f64| Interval::of(measured.iter().map(|it| value(it)).collect());
    let goodput_mbit = of(|it| it.goodput_mbit).scaled(drift);
    let gain = goodput_mbit.scaled(1.0 / recorded.goodput_mbit.max(1e-9));
    let others = done.iter().find(|it| it.job.change == number && it.others.is_some());
    let ends = matches!(runner.model.program, Program::Bytes { .. } | Program::Requests { .. });
    Prediction {
        change: change.clone(),
        label: change.label(),
        gain,
        goodput_mbit,
        seconds: of(|it| it.seconds).scaled(if ends { 1.0 / drift } else { 1.0 }),
        rtt_p95_s: of(|it| it.rtt_p95_s),
        retransmitted: of(|it| it.retransmitted as f64),
        others: others.and_then(|it| it.others),
        runs: measured.len(),
        is_open: is_open(measured, &gain),
    }
}

impl Runner<'_> {
    /// Runs all, as many at once as allowed; whether none was left out.
    fn run(&self, changes: &[Change], jobs: &[Job]) -> Result<(Vec<Done>, bool)> {
        let (next, count) = (AtomicUsize::new(0), AtomicUsize::new(self.before));
        let done = Mutex::new(Vec::new());
        let work = || -> Result<()> {
            while !self.is_over() {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(&job) = jobs.get(at) else { break };
                let result = self.simulate(&changes[job.change], job)?;
                let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
                done.extend(result.map(|result| (at, result)));
                let count = count.fetch_add(1, Ordering::Relaxed) + 1;
                self.watch.progress(count, self.of.max(count));
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..self.effort.jobs.max(1)).map(|_| scope.spawn(work)).collect();
            workers.into_iter().try_for_each(|worker| match worker.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            })
        })?;
        let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
        let complete = next.load(Ordering::Relaxed) >= jobs.len();
        done.sort_by_key(|(at, _)| *at);
        Ok((done.into_iter().map(|(_, done)| done).collect(), complete))
    }

    fn is_over(&self) -> bool {
        self.watch.stops() || self.began.elapsed() > self.effort.budget
    }

    fn simulate(&self, change: &Change, job: Job) -> Result<Option<Done>> {
        let model = self.model.variant(job.variant);
        let scenario = scenario(&model, change, job.scene, u64::from(job.variant) + 1);
        let (outcome, recording) = self.simulator.run(&scenario)?;
        let lifted = change.lifted(&model);
        let within_s = match lifted.program {
            Program::Bytes { .. } | Program::Requests { .. } => most_seconds(&lifted, job.scene),
            _ => self.recorded_s,
        };
        let measured = of_recording(&recording, within_s, self.recorded_s);
        let Some(measured) = measured else { return Ok(None) };
        let received = |flow: &str| outcome.flows.get(flow).map_or(0, |it| it.received) as f64;
        let others = (job.scene == Scene::Competing).then(|| Others {
            share: received(COMPETITOR) / (received(COMPETITOR) + received(FLOW)).max(1.0),
            rtt_median_s: measured.rtt_median_s,
        });
        Ok(Some(Done { job, measured, others }))
    }
}
