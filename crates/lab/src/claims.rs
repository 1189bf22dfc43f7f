//! Whether what was measured is what the paper says.

use std::collections::BTreeMap;

use serde::Serialize;
use toml::Value;

use crate::experiment::{Claim, Pick, Test};
use crate::measure::{median, spearman};
use crate::result::Measured;
use crate::sweep::{canonical, same};

/// Values of a key below which a trend is no trend.
const LEAST_OF_TREND: usize = 3;

/// What became of a claim.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    pub text: String,
    pub outcome: Outcome,
    /// The number that decides; of all repeats together.
    pub number: Option<f64>,
    /// The least and the greatest of that number, each repeat by itself; none of one repeat, and
    /// of shares of the repeats.
    pub spread: Option<(f64, f64)>,
    pub at_least: Option<f64>,
    pub at_most: Option<f64>,
    pub published: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "outcome")]
pub enum Outcome {
    Reproduced,
    /// By how much the number lies outside: below 0, under `at_least`; above, over `at_most`.
    NotReproduced {
        by: f64,
    },
    /// What is missing.
    NotRun {
        why: String,
    },
}

/// Decides a claim by the runs that there are.
pub fn judge(claim: &Claim, runs: &[Measured]) -> Verdict {
    let all: Vec<&Measured> = runs.iter().collect();
    let decided = number(claim, &all);
    let outcome = match &decided {
        Ok(number) => match beyond(claim, *number) {
            0.0 => Outcome::Reproduced,
            by => Outcome::NotReproduced { by },
        },
        Err(why) => Outcome::NotRun { why: why.clone() },
    };
    Verdict {
        text: claim.text.clone(),
        outcome,
        number: decided.ok(),
        spread: spread(claim, runs),
        at_least: claim.at_least,
        at_most: claim.at_most,
        published: claim.published,
    }
}

/// How far outside of its bounds a number lies; 0 inside.
fn beyond(claim: &Claim, number: f64) -> f64 {
    let below = claim.at_least.map_or(0.0, |least| (number - least).min(0.0));
    let above = claim.at_most.map_or(0.0, |most| (number - most).max(0.0));
    if below < 0.0 { below } else { above }
}

fn spread(claim: &Claim, runs: &[Measured]) -> Option<(f64, f64)> {
    if matches!(claim.test, Test::Outcomes { .. }) {
        return None;
    }
    let mut repeats: BTreeMap<u32, Vec<&Measured>> = BTreeMap::new();
    for run in runs {
        repeats.entry(run.repeat).or_default().push(run);
    }
    let each = repeats.values().filter_map(|runs| number(claim, runs).ok());
    let ends = |ends: Option<(f64, f64)>, n: f64| {
        Some(ends.map_or((n, n), |(low, high)| (low.min(n), high.max(n))))
    };
    if repeats.len() > 1 { each.fold(None, ends) } else { None }
}

fn number(claim: &Claim, runs: &[&Measured]) -> Result<f64, String> {
    match &claim.test {
        Test::Value { of } => middle(of, runs),
        Test::Ratio { of, over, plus } => {
            let plus = plus.as_ref().map_or(Ok(0.0), |plus| middle(plus, runs))?;
            divide(middle(of, runs)?, middle(over, runs)? + plus)
        }
        Test::Trend { of, along } => {
            let places = along_key(of, along, runs)?;
            if places.len() < LEAST_OF_TREND {
                return Err(format!("{} values of {along} make no trend", places.len()));
            }
            let (x, y): (Vec<f64>, Vec<f64>) =
                places.iter().map(|place| (place.at, place.value)).unzip();
            spearman(&x, &y).ok_or_else(|| format!("{} does not vary", of.metric))
        }
        Test::RatioEverywhere { of, over, along } => {
            let (of, over) = (along_key(of, along, runs)?, along_key(over, along, runs)?);
            let pairs = of
                .iter()
                .filter_map(|a| Some((a.value, over.iter().find(|b| same(&a.key, &b.key))?.value)));
            let ratios = pairs.map(|(a, b)| divide(a, b)).collect::<Result<Vec<f64>, _>>()?;
            worst(claim, &ratios).ok_or_else(|| format!("no value of {along} has both"))
        }
        Test::Outcomes { of, from, to } => {
            let values = values(of, runs)?;
            let inside = values.iter().filter(|value| (*from..=*to).contains(value)).count();
            Ok(inside as f64 / values.len() as f64)
        }
    }
}

/// Of ratios that must all lie inside the bounds, the one that is farthest from it.
fn worst(claim: &Claim, ratios: &[f64]) -> Option<f64> {
    let least = ratios.iter().copied().reduce(f64::min)?;
    let greatest = ratios.iter().copied().reduce(f64::max)?;
    let above = beyond(claim, greatest) > 0.0 && beyond(claim, least) == 0.0;
    Some(if claim.at_least.is_none() || above { greatest } else { least })
}

fn divide(a: f64, b: f64) -> Result<f64, String> {
    if b == 0.0 { Err("a division by zero".to_owned()) } else { Ok(a / b) }
}

/// The picked metric of every run that is meant.
pub fn values(pick: &Pick, runs: &[&Measured]) -> Result<Vec<f64>, String> {
    let meant = |run: &&&Measured| {
        pick.at.iter().all(|(key, value)| run.point.get(key).is_some_and(|at| same(at, value)))
    };
    let meant: Vec<&&Measured> = runs.iter().filter(meant).collect();
    if meant.is_empty() {
        let place = pick.at.iter().map(|(key, value)| format!("{key} = {}", canonical(value)));
        let place = place.collect::<Vec<_>>().join(", ");
        return Err(if place.is_empty() {
            "no run".to_owned()
        } else {
            format!("no run at {place}")
        });
    }
    let numbers: Vec<f64> = meant.iter().filter_map(|run| metric(pick, run)).collect();
    if numbers.is_empty() {
        return Err(format!("no run has a number for {}", pick.metric));
    }
    Ok(numbers)
}

fn metric(pick: &Pick, run: &Measured) -> Option<f64> {
    let numbers = match &pick.flow {
        Some(flow) => run.flows.get(flow)?,
        None => &run.run,
    };
    numbers.get(&pick.metric).copied().filter(|number| number.is_finite())
}

fn middle(pick: &Pick, runs: &[&Measured]) -> Result<f64, String> {
    let values = values(pick, runs)?;
    Ok(median(&values).expect("values are never none"))
}

/// A metric at one value of a swept key.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    pub key: Value,
    /// The key's value as a number; of words, their place in the order they are run.
    pub at: f64,
    /// Median over the runs there.
    pub value: f64,
    pub low: f64,
    pub high: f64,
}

/// The picked metric at each value of a key, in the order of the values.
///
/// # Errors
/// If nothing was measured there.
pub fn along_key(pick: &Pick, along: &str, runs: &[&Measured]) -> Result<Vec<Place>, String> {
    let mut keys: Vec<&Value> = Vec::new();
    for value in runs.iter().filter_map(|run| run.point.get(along)) {
        if !keys.iter().any(|key| same(key, value)) {
            keys.push(value);
        }
    }
    let mut places = Vec::new();
    for (n, key) in keys.into_iter().enumerate() {
        let mut here = pick.clone();
        let other = here.at.insert(along.to_owned(), key.clone());
        if other.is_some_and(|other| !same(&other, key)) {
            continue;
        }
        let Ok(values) = values(&here, runs) else { continue };
        let at = as_number(key).unwrap_or(n as f64);
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let value = median(&values).expect("values are never none");
        places.push(Place { key: key.clone(), at, value, low, high });
    }
    places.sort_by(|a, b| a.at.total_cmp(&b.at));
    if places.is_empty() {
        Err(format!("no run has a number for {}", pick.metric))
    } else {
        Ok(places)
    }
}

/// A number of the file as `f64`.
pub fn as_number(value: &Value) -> Option<f64> {
    value.as_float().or_else(|| Some(value.as_integer()? as f64))
}

#[cfg(test)]
mod tests;
