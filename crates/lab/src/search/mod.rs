//! Looking for the settings with which an experiment does best, in virtual time.
//!
//! Candidates are compared with the experiment as it is, on the same seeds. The best of many owes
//! part of its lead to chance, so what counts is a comparison on seeds that the search never saw.

mod campaigns;
mod expression;
mod space;

use std::time::Duration;

use anyhow::{Result, ensure};
use serde::Serialize;

use crate::claims::interval;
use crate::measure::mean;

pub use campaigns::Campaigns;
pub use expression::Expression;
pub use space::{Domain, Parameter, Settings, Space};

/// Candidates that are run side by side, before the next are proposed.
const AT_ONCE: usize = 4;
/// Candidates that are anywhere, before the optimiser has something to learn from: at most so many,
/// and at most this share of all.
const BLIND: usize = 12;
const BLIND_SHARE: f64 = 0.4;
/// The best of the search and the experiment as it is are run with so many times the seeds, and the
/// best candidate is chosen.
const FINALISTS: usize = 4;
const FINAL_SEEDS: u32 = 4;

/// How much is run.
#[derive(Clone, Debug)]
pub struct Budget {
    /// In all.
    pub runs: u32,
    /// Of each candidate.
    pub seeds: u32,
    /// Of the comparison.
    pub held_out: u32,
    pub time: Option<Duration>,
}

impl Budget {
    /// Candidates besides the experiment as it is.
    ///
    /// # Errors
    /// If there are runs for none.
    pub fn candidates(&self) -> Result<usize> {
        let least = self.afterwards() + 2 * self.seeds;
        ensure!(
            self.runs >= least,
            "{} runs are too few: with {} seeds for each candidate and {} held-out seeds the least \
             is {least}",
            self.runs,
            self.seeds,
            self.held_out
        );
        Ok(((self.runs - self.afterwards()) / self.seeds - 1) as usize)
    }

    /// Runs after the search itself.
    fn afterwards(&self) -> u32 {
        (FINALISTS as u32 + 1) * FINAL_SEEDS * self.seeds + 2 * self.held_out
    }
}

/// What seeds runs have. Those of one kind are the same for all candidates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seeds {
    Search,
    HeldOut,
}

/// Candidates that are run together.
#[derive(Clone, Debug)]
pub struct Stage {
    /// Of its folder.
    pub name: String,
    pub seeds: Seeds,
    /// Seeds of each candidate.
    pub repeats: u32,
}

/// The value for each seed, or why there is none.
pub type Worth = Result<Vec<f64>, String>;

/// What runs candidates.
pub trait Lab {
    /// One for each candidate; none: the user stopped it.
    ///
    /// # Errors
    /// If nothing can be run at all.
    fn run(&mut self, stage: &Stage, candidates: &[Settings]) -> Result<Option<Vec<Worth>>>;

    /// Time since the search began.
    fn elapsed(&self) -> Duration;
}

/// A candidate and what it was worth on the seeds of the search.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tried {
    pub settings: Settings,
    pub worth: Worth,
}

impl Tried {
    /// The mean over the seeds.
    pub fn mean(&self) -> Option<f64> {
        self.worth.as_ref().ok().and_then(|values| mean(values))
    }
}

/// What has been found so far.
#[derive(Clone, Debug, Serialize)]
pub struct Found {
    /// The experiment as it is.
    pub default: Tried,
    /// In the order in which they were tried.
    pub tried: Vec<Tried>,
    /// The best, with the seeds of the finalists once they have run.
    pub best: Option<Tried>,
    /// None: the search was stopped before.
    pub held_out: Option<Comparison>,
    /// Why fewer candidates were tried than the runs allow.
    pub cut_short: Option<String>,
}

/// The best and the experiment as it is, on seeds that the search never saw.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    pub seeds: usize,
    pub default: Estimate,
    pub best: Estimate,
    /// Of both on the same seed.
    pub difference: Estimate,
}

/// A mean, with its 95 % confidence interval if there are several values.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    pub mean: f64,
    pub interval: Option<(f64, f64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Better,
    Worse,
    NoDifference,
}

impl Estimate {
    pub fn of(values: &[f64]) -> Estimate {
        let mean = mean(values).unwrap_or(f64::NAN);
        Estimate { mean, interval: interval::of_mean(values) }
    }
}

impl Comparison {
    fn of(default: &[f64], best: &[f64]) -> Comparison {
        let differences: Vec<f64> = best.iter().zip(default).map(|(a, b)| a - b).collect();
        Comparison {
            seeds: differences.len(),
            default: Estimate::of(default),
            best: Estimate::of(best),
            difference: Estimate::of(&differences),
        }
    }

    pub fn outcome(&self) -> Outcome {
        match self.difference.interval {
            Some((low, _)) if low > 0.0 => Outcome::Better,
            Some((_, high)) if high < 0.0 => Outcome::Worse,
            _ => Outcome::NoDifference,
        }
    }
}

/// Searches until the budget is used up or the user stops it; `report` hears of each step.
///
/// # Errors
/// If the experiment as it is cannot be run, or no candidate can.
pub fn search(
    space: &mut Space,
    budget: &Budget,
    lab: &mut dyn Lab,
    report: &mut dyn FnMut(&Found, &str),
) -> Result<Option<Found>> {
    let wanted = budget.candidates()?;
    let stage = |name: String, seeds, repeats| Stage { name, seeds, repeats };
    let first = stage("default".to_owned(), Seeds::Search, budget.seeds);
    let Some(worths) = lab.run(&first, &[Settings::new()])? else { return Ok(None) };
    let default = Tried { settings: Settings::new(), worth: one(worths) };
    if let Err(why) = &default.worth {
        anyhow::bail!("the experiment as it is: {why}");
    }
    let mut found =
        Found { default, tried: Vec::new(), best: None, held_out: None, cut_short: None };
    let blind = BLIND.min((wanted as f64 * BLIND_SHARE).ceil() as usize);
    let mut runs = budget.seeds;
    for generation in 1.. {
        let left = wanted - found.tried.len();
        if left == 0 {
            break;
        }
        let is_blind = found.tried.len() < blind;
        let next: Vec<Settings> =
            std::iter::from_fn(|| space.propose(is_blind)).take(AT_ONCE.min(left)).collect();
        if next.is_empty() {
            found.cut_short = Some("there is hardly a candidate that was not tried".to_owned());
            break;
        }
        let to_come = next.len() as u32 * budget.seeds + budget.afterwards();
        let a_run = lab.elapsed() / runs;
        if budget.time.is_some_and(|time| lab.elapsed() + a_run * to_come > time) {
            found.cut_short = Some("the time is used up".to_owned());
            break;
        }
        let of_search = stage(format!("search-{generation}"), Seeds::Search, budget.seeds);
        let Some(worths) = lab.run(&of_search, &next)? else { return Ok(Some(found)) };
        runs += next.len() as u32 * budget.seeds;
        for (settings, worth) in next.into_iter().zip(worths) {
            let tried = Tried { settings, worth };
            space.learn(&tried.settings, tried.mean());
            found.tried.push(tried);
        }
        found.best = best(&found.tried).into_iter().next();
        let left =
            a_run * ((wanted - found.tried.len()) as u32 * budget.seeds + budget.afterwards());
        report(&found, &format!("{} of {wanted} candidates, {}", found.tried.len(), until(left)));
    }
    conclude(found, budget, lab, report)
}

/// The finalists, then the comparison.
fn conclude(
    mut found: Found,
    budget: &Budget,
    lab: &mut dyn Lab,
    report: &mut dyn FnMut(&Found, &str),
) -> Result<Option<Found>> {
    let finalists: Vec<Settings> =
        best(&found.tried).into_iter().take(FINALISTS).map(|tried| tried.settings).collect();
    let Some(first) = found.tried.first() else {
        anyhow::bail!("no candidate could be tried: {}", found.cut_short.unwrap_or_default());
    };
    if finalists.is_empty() {
        let why = first.worth.as_ref().err().cloned().unwrap_or_default();
        anyhow::bail!("none of {} candidates could be run; the first: {why}", found.tried.len());
    }
    let repeats = FINAL_SEEDS * budget.seeds;
    let last = Stage { name: "finalists".to_owned(), seeds: Seeds::Search, repeats };
    let all: Vec<Settings> = std::iter::once(Settings::new()).chain(finalists).collect();
    let Some(worths) = lab.run(&last, &all)? else { return Ok(Some(found)) };
    let mut all: Vec<Tried> =
        all.into_iter().zip(worths).map(|(settings, worth)| Tried { settings, worth }).collect();
    let default = all.remove(0);
    let Some(winner) = best(&all).into_iter().next() else { return Ok(Some(found)) };
    if default.worth.is_ok() {
        found.default = default;
    }
    let pair = [Settings::new(), winner.settings.clone()];
    found.best = Some(winner);
    report(&found, "held-out seeds");
    let held_out =
        Stage { name: "held-out".to_owned(), seeds: Seeds::HeldOut, repeats: budget.held_out };
    let Some(worths) = lab.run(&held_out, &pair)? else { return Ok(Some(found)) };
    match worths.as_slice() {
        [Ok(default), Ok(best)] => found.held_out = Some(Comparison::of(default, best)),
        other => {
            let why = other.iter().find_map(|worth| worth.as_ref().err());
            anyhow::bail!("the held-out seeds: {}", why.map_or("no result", String::as_str));
        }
    }
    Ok(Some(found))
}

fn one(worths: Vec<Worth>) -> Worth {
    worths.into_iter().next().unwrap_or_else(|| Err("no result".to_owned()))
}

/// Those with a value, the best first.
fn best(tried: &[Tried]) -> Vec<Tried> {
    let mut all: Vec<Tried> = tried.iter().filter(|it| it.mean().is_some()).cloned().collect();
    let mean = |tried: &Tried| tried.mean().unwrap_or(f64::NEG_INFINITY);
    // Stable: of equal ones the first that was tried.
    all.sort_by(|a, b| mean(b).total_cmp(&mean(a)));
    all
}

fn until(left: Duration) -> String {
    format!("about {} left", crate::progress::clock(left.as_secs_f64()))
}

#[cfg(test)]
mod tests;
