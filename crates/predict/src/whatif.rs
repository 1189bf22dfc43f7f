//! Replays what was recorded, and if that is what it was, tries other settings.

use std::collections::VecDeque;
use std::time::Duration;

use anyhow::{Result, bail};
use serde::Serialize;

use crate::bounds::Bounds;
use crate::change::Change;
use crate::check::{Mismatch, mismatches, unexplained};
use crate::interval::{FEW, Interval, REPLAYS};
use crate::measure::Measured;
use crate::model::{Model, Program};
use crate::runner::{Done, Job, Question, Ran, Runner};
use crate::scene::Scene;
use crate::simulator::Simulator;

/// How much is simulated.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Replays of what was recorded, each of another model that agrees with the trace.
    pub replays: u32,
    /// Runs of each change at most; twice as many where chance has a part.
    pub runs: u32,
    /// Runs of each change beside a CUBIC flow.
    pub competing: u32,
    /// At the same time.
    pub jobs: usize,
    /// What would not end within so long is left out.
    pub budget: Duration,
}

impl Default for Effort {
    fn default() -> Effort {
        let jobs = std::thread::available_parallelism().map_or(2, usize::from);
        Effort {
            replays: REPLAYS as u32,
            runs: 6,
            competing: 1,
            jobs,
            budget: Duration::from_secs(9),
        }
    }
}

/// Who watches a prediction being made.
pub trait Watch: Sync {
    /// So many of so many simulations are done.
    fn progress(&self, done: usize, of: usize);
    /// Whether to end with what is done.
    fn stops(&self) -> bool;
}

/// Models that agree with the trace and differ by so much predict nothing.
const OPEN: f64 = 3.0;

/// A path without a queue or a limit that was met is not known to carry so many times what it did.
const BEYOND: f64 = 1.25;

/// `model`: with the change, as far as it lifts a limit.
fn is_open(model: &Model, recorded: &Measured, measured: &[&Measured], gain: &Interval) -> bool {
    let goodput = || measured.iter().map(|it| it.goodput_mbit);
    let most = goodput().fold(0.0, f64::max);
    let least = goodput().fold(f64::INFINITY, f64::min);
    let carried = recorded.parts.iter().copied().fold(recorded.goodput_mbit, f64::max);
    // Runs that chance alone sets apart may differ by any factor.
    (most > OPEN * least && !model.is_random())
        || gain.tells_nothing()
        || (model.path.is_open() && model.sender.device.is_none() && most > BEYOND * carried)
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

/// Goodput that changes by less than this share is no gain.
pub(crate) const GAIN: f64 = 0.05;

impl Prediction {
    /// Whether it surely gains, and by more than this share. Settings of TCP must be known to; a
    /// limit that is lifted may help by more than is known.
    pub(crate) fn helps(&self, least_gain: f64) -> bool {
        let least = 1.0 + least_gain;
        match (self.is_open, self.change.lift) {
            (true, None) => false,
            (true, Some(_)) => self.gain.low > least,
            (false, _) => self.gain.value > least && self.gain.low > 1.0,
        }
    }

    /// Whether it may well gain by more than this share, and it is not known whether it does. Where the
    /// trace leaves much open, the median is no better than what else is possible.
    pub(crate) fn may_help(&self, least_gain: f64) -> bool {
        let most = if self.is_open { self.gain.high } else { self.gain.value };
        most > 1.0 + least_gain && !self.helps(least_gain)
    }

    /// As far as the same change reaches over another path that explains the recording as well; none:
    /// it was not simulated there.
    fn or(&mut self, other: Option<&Prediction>) {
        let Some(other) = other else {
            self.is_open = true;
            return;
        };
        let [one, two] = [self.gain.value, other.gain.value];
        for (own, its) in [
            (&mut self.gain, other.gain),
            (&mut self.goodput_mbit, other.goodput_mbit),
            (&mut self.seconds, other.seconds),
            (&mut self.rtt_p95_s, other.rtt_p95_s),
            (&mut self.retransmitted, other.retransmitted),
        ] {
            *own = own.or(its);
        }
        self.is_open |=
            other.is_open || one.max(two) > OPEN * one.min(two) || self.gain.tells_nothing();
    }

    /// Where nothing is left to chance, a replay that is off shows an error of the model, which a
    /// prediction has, too.
    fn off_by(mut self, error: f64, bounds: &Bounds) -> Prediction {
        self.gain = bounds.of_gain(self.gain.off_by(error));
        self.goodput_mbit = bounds.of_goodput(self.goodput_mbit.off_by(error));
        self.seconds = bounds.of_seconds(self.seconds.off_by(error));
        self.is_open |= self.gain.tells_nothing();
        self
    }

    /// Few runs do not show by how much they differ: as the replays do, then.
    fn no_surer_than(
        mut self,
        unchanged: &Prediction,
        bounds: &Bounds,
        runs: &[&Measured],
    ) -> Prediction {
        if self.runs < FEW {
            self.gain = bounds.of_gain(self.gain.as_wide_as(unchanged.gain));
            let goodput_mbit = self.goodput_mbit.as_wide_as(unchanged.goodput_mbit);
            self.goodput_mbit = bounds.of_goodput(goodput_mbit);
            self.seconds = bounds.of_seconds(self.seconds.as_wide_as(unchanged.seconds));
            self.rtt_p95_s = bounds.of_rtt(self.rtt_p95_s.as_wide_as(unchanged.rtt_p95_s));
            let retransmitted = self.retransmitted.as_wide_as_count(unchanged.retransmitted);
            self.retransmitted = bounds.of_retransmitted(retransmitted, runs);
            self.is_open |= self.gain.tells_nothing();
        }
        self
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Others {
    /// Of what both receive.
    pub share: f64,
    pub goodput_mbit: f64,
    pub rtt_median_s: f64,
}

impl Others {
    /// Means.
    fn of(all: &[Others]) -> Option<Others> {
        let mean = |of: fn(&Others) -> f64| all.iter().map(of).sum::<f64>() / all.len() as f64;
        (!all.is_empty()).then(|| Others {
            share: mean(|it| it.share),
            goodput_mbit: mean(|it| it.goodput_mbit),
            rtt_median_s: mean(|it| it.rtt_median_s),
        })
    }
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
    /// Changes of which no simulation was finished.
    pub skipped: usize,
    /// Of which change a simulation failed first, and why: it is not among the runs.
    pub failure: Option<String>,
    pub simulations: usize,
}

impl WhatIf {
    fn nothing_yet(model: &Model, recorded: &Measured, changes: &[Change]) -> WhatIf {
        WhatIf {
            model: model.clone(),
            recorded: recorded.clone(),
            replayed: None,
            mismatches: Vec::new(),
            unchanged: None,
            predictions: Vec::new(),
            complete: true,
            skipped: changes.len(),
            failure: None,
            simulations: 0,
        }
    }

    /// Another model explains the recording as well, if its replay matches: nobody knows which it was,
    /// and a prediction reaches from one to the other.
    fn or(&mut self, other: &WhatIf) {
        self.simulations += other.simulations;
        self.complete &= other.complete;
        if !other.mismatches.is_empty() || other.predictions.is_empty() {
            return;
        }
        for prediction in &mut self.predictions {
            let same = other.predictions.iter().find(|it| it.change == prediction.change);
            prediction.or(same);
        }
        self.predictions.sort_by(|a, b| b.gain.value.total_cmp(&a.gain.value));
        self.model.notes.push(format!(
            "{} would have been recorded as well: what is predicted reaches over both.",
            other.model.apart_from(&self.model)
        ));
    }

    pub(crate) fn of_tcp(&self) -> impl Iterator<Item = &Prediction> {
        self.predictions.iter().filter(|it| it.change.lift.is_none())
    }

    /// Settings of TCP that surely make it faster, the best first.
    pub fn helpful(&self) -> Vec<&Prediction> {
        self.of_tcp().filter(|it| it.helps(GAIN)).collect()
    }

    /// Settings of TCP of which it is not known whether they make it faster, though they well may.
    pub(crate) fn undecided(&self, least_gain: f64) -> Vec<&Prediction> {
        self.of_tcp().filter(|it| it.may_help(least_gain)).collect()
    }
}

/// A replay of a model that is so many bounds off, of what chance leaves open, is no more looked at,
/// unless few are nearer.
const FAR_OFF: f64 = 3.0;

/// A kernel of another version fits another number of bytes into the same send buffer, and a
/// receiver does not always offer all of its window.
fn other_buffer(model: &Model, recorded: &Measured, replayed: &[&Measured]) -> Option<Model> {
    // In flight, as a queue on the path may be what shows how much the buffer lets out.
    let flight = |it: &Measured| it.goodput_mbit * it.rtt_median_s;
    let is = Interval::of(replayed.iter().map(|it| flight(it)).collect()).value;
    let share = flight(recorded) / is.max(1e-9);
    let mut other = model.clone();
    match (&mut other.sender.send_buffer, &mut other.receiver.window) {
        (Some(buffer), _) => *buffer = (f64::from(*buffer) * share) as u32,
        (None, Some(window)) => *window = window.scaled(share),
        (None, None) => return None,
    }
    Some(other)
}

/// Between the seeds of one variant's runs: further apart than variants are.
const RESEED: u64 = 1000;

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
    let mut question = Question::new(recorded, simulator, watch, effort);
    let Some(first) = models.first() else { bail!("there is no model to replay") };
    let mut result = WhatIf::nothing_yet(first, recorded, changes);
    let mut rest: VecDeque<Model> = models.iter().cloned().collect();
    answer(&question, &mut rest, changes, &mut result)?;
    // A limit without which all is explained is not assumed.
    let is_paced = result.model.sender.pacing.is_some();
    rest.retain(|model| is_paced || model.sender.pacing.is_none());
    // What else explains the recording would have done something else, perhaps.
    question.effort.competing = 0;
    while let Some(model) = rest.pop_front().filter(|_| !result.predictions.is_empty()) {
        if question.is_over() {
            result.complete = false;
            break;
        }
        let mut other = WhatIf::nothing_yet(&model, recorded, changes);
        match answer(&question, &mut VecDeque::from([model]), changes, &mut other) {
            Ok(()) => result.or(&other),
            Err(error) if watch.stops() => return Err(error),
            Err(_) => {}
        }
    }
    Ok(result)
}

/// Of the first of these models whose replay matches: it and those before it are taken out.
fn answer(
    question: &Question,
    models: &mut VecDeque<Model>,
    changes: &[Change],
    result: &mut WhatIf,
) -> Result<()> {
    let (recorded, effort) = (question.recorded, question.effort);
    let competing = effort.competing as usize;
    let runs = changes.len() * (effort.runs as usize + competing) + competing;
    let mut replayed = replay(question, models, runs, result)?;
    result.replayed = by_distance(recorded, &replayed).first().map(|it| it.1.measured.clone());
    if replayed.is_empty() || !result.mismatches.is_empty() {
        return Ok(());
    }
    if near(recorded, &replayed).1 < FEW {
        more_replays(question, runs, result, &mut replayed)?;
    }
    let (matching, _) = near(recorded, &replayed);
    // Others that are far off may have had it between them.
    let measured: Vec<&Measured> = matching.iter().map(|done| &done.measured).collect();
    result.mismatches = mismatches(recorded, &measured);
    if !result.mismatches.is_empty() {
        return Ok(());
    }
    let before = result.simulations;
    let runner = Runner { question, model: result.model.clone(), before, of: before + runs };
    predict(&runner, changes, &matching, result)
}

/// The nearest first, with how far off each is.
fn by_distance<'a>(recorded: &Measured, replayed: &'a [Done]) -> Vec<(f64, &'a Done)> {
    let apart = |done: &Done| worst(&mismatches(recorded, &[&done.measured]));
    let mut all: Vec<(f64, &Done)> = replayed.iter().map(|it| (apart(it), it)).collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    all
}

/// The replays that are near to the recording, a few at least; and how many are.
fn near<'a>(recorded: &Measured, replayed: &'a [Done]) -> (Vec<&'a Done>, usize) {
    let all = by_distance(recorded, replayed);
    let near = all.partition_point(|it| it.0 <= FAR_OFF);
    (all.into_iter().take(near.max(FEW)).map(|it| it.1).collect(), near)
}

/// Where few of the models are near, as many others may be: those that are far off say nothing of
/// what was recorded.
fn more_replays(
    question: &Question,
    runs: usize,
    result: &mut WhatIf,
    replayed: &mut Vec<Done>,
) -> Result<()> {
    let (before, replays) = (result.simulations, question.effort.replays);
    let of = before + replays as usize + runs;
    let ran = Runner { question, model: result.model.clone(), before, of }
        .replay(replays..2 * replays)?;
    result.simulations += ran.done.len();
    replayed.extend(ran.done);
    Ok(())
}

/// The replays of the model that is nearest to what was recorded, which is then the result's: of the
/// first that matches, if any does. None: no simulation was finished.
fn replay(
    question: &Question,
    left: &mut VecDeque<Model>,
    runs: usize,
    result: &mut WhatIf,
) -> Result<Vec<Done>> {
    let mut nearest: Option<(f64, Vec<Done>)> = None;
    let mut failed = None;
    while let Some(model) = left.pop_front() {
        let before = result.simulations;
        let of = before + question.effort.replays as usize + runs;
        let ran = Runner { question, model: model.clone(), before, of }
            .replay(0..question.effort.replays)?;
        result.simulations += ran.done.len();
        result.complete &= ran.complete;
        failed = failed.or(ran.failed);
        if ran.done.is_empty() {
            continue;
        }
        let measured: Vec<&Measured> = ran.done.iter().map(|done| &done.measured).collect();
        let mut off = mismatches(question.recorded, &measured);
        off.extend(unexplained(&model));
        off.sort_by(|a, b| b.excess.total_cmp(&a.excess));
        if nearest.is_none() && !off.is_empty() {
            left.extend(other_buffer(&model, question.recorded, &measured));
        }
        if nearest.as_ref().is_none_or(|nearest| worst(&off) < nearest.0) {
            nearest = Some((worst(&off), ran.done));
            (result.model, result.mismatches) = (model, off);
        }
        if result.mismatches.is_empty() {
            break;
        }
    }
    match (nearest, failed) {
        (Some((_, replayed)), _) => Ok(replayed),
        (None, Some((_, error))) => Err(error),
        (None, None) => Ok(Vec::new()),
    }
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
    // Where chance has a part, each run has another seed; where it has none, that changes nothing.
    let replayed = matching.len();
    let most = runner.question.effort.runs as usize;
    let is_random = runner.model.is_random();
    let runs = if is_random { 2 * most } else { replayed.min(most) };
    let run = |at: usize, change: usize| Job {
        change,
        variant: matching[at % replayed].job.variant,
        seed: matching[at % replayed].job.seed + (at / replayed) as u64 * RESEED,
        scene: Scene::Alone,
    };
    // Depth first over runs, so that an early end leaves every change with some; and what a CUBIC flow
    // gets is known before the intervals are as narrow as they can be.
    let alone = |at: usize| (1..all.len()).map(move |change| run(at, change));
    let competing = |at: usize| {
        (0..all.len()).map(move |change| Job { scene: Scene::Competing, ..run(at, change) })
    };
    let first = runs.min(FEW);
    let mut jobs: Vec<Job> = (0..first).flat_map(alone).collect();
    jobs.extend((0..runner.question.effort.competing as usize).flat_map(competing));
    jobs.extend((first..runs).flat_map(alone));
    let Ran { done, complete, failed } = runner.run(&all, &jobs)?;
    result.simulations += done.len();
    result.complete &= complete;
    let own: Vec<&Measured> = matching.iter().map(|done| &done.measured).collect();
    let unchanged = prediction(&all[0], 0, &own, &done, runner, &result.recorded, 1.0);
    let was = result.recorded.goodput_mbit;
    let Interval { low, high, .. } = unchanged.goodput_mbit;
    // What lies between the replays differs from them by chance alone.
    let drift = if is_random { 1.0 } else { was / was.clamp(low, high.max(low)).max(1e-9) };
    let error = match is_random {
        true => 0.0,
        false => (was.max(1e-9) / unchanged.goodput_mbit.value.max(1e-9)).ln().abs(),
    };
    result.predictions = (1..all.len())
        .filter_map(|i| {
            let measured: Vec<&Measured> = done
                .iter()
                .filter(|it| it.job.change == i && it.job.scene == Scene::Alone)
                .map(|it| &it.measured)
                .collect();
            let bounds = Bounds::of(&runner.model, &all[i], &result.recorded);
            (!measured.is_empty()).then(|| {
                prediction(&all[i], i, &measured, &done, runner, &result.recorded, drift)
                    .off_by(error, &bounds)
                    .no_surer_than(&unchanged, &bounds, &measured)
            })
        })
        .collect();
    result.predictions.sort_by(|a, b| b.gain.value.total_cmp(&a.gain.value));
    result.skipped = changes.len() - result.predictions.len();
    result.failure = match failed {
        Some((_, error)) if result.predictions.is_empty() => return Err(error),
        Some((change, error)) => Some(format!("{}: {error:#}", all[change].label())),
        None => None,
    };
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
    let retransmitted: Vec<f64> = measured.iter().map(|it| it.retransmitted as f64).collect();
    let bounds = Bounds::of(&runner.model, change, recorded);
    let goodput_mbit = bounds.of_goodput(of(|it| it.goodput_mbit).scaled(drift));
    let gain = goodput_mbit.scaled(1.0 / recorded.goodput_mbit.max(1e-9));
    let others: Vec<Others> =
        done.iter().filter(|it| it.job.change == number).filter_map(|it| it.others).collect();
    let ends = matches!(runner.model.program, Program::Bytes { .. } | Program::Requests { .. });
    let seconds = of(|it| it.seconds).scaled(if ends { 1.0 / drift } else { 1.0 });
    Prediction {
        change: change.clone(),
        label: change.label(),
        gain,
        goodput_mbit,
        seconds: bounds.of_seconds(seconds),
        rtt_p95_s: bounds.of_rtt(of(|it| it.rtt_p95_s)),
        retransmitted: bounds.of_retransmitted(Interval::of_counts(&retransmitted), measured),
        others: Others::of(&others),
        runs: measured.len(),
        is_open: is_open(&change.lifted(&runner.model), recorded, measured, &gain),
    }
}
