//! Whether what was measured is what the paper says.
//!
//! A claim is judged by the 95 % confidence interval of its number: it is reproduced if all of the
//! interval lies within the claim's bounds, not reproduced if all of it lies outside, and else
//! undecided with so many repeats. A repeat counts if it has every point of the sweep that the claim
//! picks, so that no claim is reproduced on less than it states.

use std::collections::BTreeMap;

use serde::Serialize;
use toml::Value;

use crate::experiment::{Claim, Pick, Test};
use crate::measure::{mean, median, spearman};
use crate::metrics::Measured;
use crate::sweep::{canonical, has, label, same};

pub(crate) mod interval;

/// Values of a key below which a trend is no trend.
pub const LEAST_OF_TREND: usize = 3;

/// Swept key → value of a point.
pub(crate) type Values = BTreeMap<String, Value>;

/// What became of a claim.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    pub text: String,
    #[serde(flatten)]
    pub judged: Judged,
    pub at_least: Option<f64>,
    pub at_most: Option<f64>,
    pub published: Option<f64>,
    /// Why it is no evidence: its number is an input.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calibrated: Option<String>,
    /// The same claim under each control that it must fail under.
    pub controls: Vec<Controlled>,
}

/// A number, how well it is known, and what that means for the claim.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Judged {
    #[serde(flatten)]
    pub outcome: Outcome,
    /// The mean of what the repeats gave, each by itself; of outcomes, their share.
    pub number: Option<f64>,
    /// The number's 95 % confidence interval; none of one repeat.
    pub interval: Option<(f64, f64)>,
    /// Repeats, or outcomes, behind it.
    pub repeats: usize,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "outcome")]
pub enum Outcome {
    Reproduced,
    /// By how much the number lies outside: below 0, under `at_least`; above, over `at_most`.
    NotReproduced {
        by: f64,
    },
    /// A bound lies within the interval, or there is no interval.
    Undecided {
        /// Whether the number itself lies within the bounds.
        inside: bool,
    },
    /// What is missing.
    NotRun {
        why: String,
    },
}

/// A claim under a control.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Controlled {
    pub control: String,
    #[serde(flatten)]
    pub judged: Judged,
}

impl Controlled {
    /// The claim holds without what it names.
    pub fn passes(&self) -> bool {
        self.judged.outcome == Outcome::Reproduced
    }

    /// The claim needs what it names, as far as this control shows.
    pub fn fails(&self) -> bool {
        matches!(self.judged.outcome, Outcome::NotReproduced { .. })
    }
}

impl Verdict {
    /// Reproduced, by a number that was not put in, where each control fails.
    pub fn is_evidence(&self) -> bool {
        self.judged.outcome == Outcome::Reproduced
            && self.calibrated.is_none()
            && self.controls.iter().all(Controlled::fails)
    }

    /// Whether a control passes the claim, too.
    pub fn is_passed_by_control(&self) -> bool {
        self.controls.iter().any(Controlled::passes)
    }
}

/// Decides a claim by the runs that there are of the points of the `sweep`; `controls`: the name
/// and the runs of each control that it must fail under.
pub fn judge(
    claim: &Claim,
    sweep: &[Values],
    runs: &[Measured],
    controls: &[(&str, Vec<Measured>)],
) -> Verdict {
    let controlled = controls.iter().map(|(name, runs)| Controlled {
        control: (*name).to_owned(),
        judged: judged(claim, sweep, runs),
    });
    Verdict {
        text: claim.text.clone(),
        judged: judged(claim, sweep, runs),
        at_least: claim.at_least,
        at_most: claim.at_most,
        published: claim.published,
        calibrated: claim.calibrated.clone(),
        controls: controlled.collect(),
    }
}

fn judged(claim: &Claim, sweep: &[Values], runs: &[Measured]) -> Judged {
    let decided = match &claim.test {
        Test::RatioEverywhere { of, over, along } => {
            everywhere(claim, (of, over), along, sweep, runs)
        }
        Test::Outcomes { of, from, to } => {
            share(of, (*from, *to), sweep, runs).map(|it| it.judge(claim))
        }
        test => Estimate::of(test, sweep, runs).map(|it| it.judge(claim)),
    };
    decided.unwrap_or_else(|why| Judged {
        outcome: Outcome::NotRun { why: why.in_words() },
        number: None,
        interval: None,
        repeats: 0,
    })
}

/// Why there is no number.
enum Nothing {
    /// Of these runs, though others may have it.
    NotMeasured(String),
    /// What was measured has no such number.
    Undefined(String),
}

impl Nothing {
    fn in_words(self) -> String {
        match self {
            Nothing::NotMeasured(why) | Nothing::Undefined(why) => why,
        }
    }
}

/// The runs of each repeat that has all points of the sweep that are picked.
fn whole_repeats<'a>(
    picks: &[&Pick],
    sweep: &[Values],
    runs: &'a [Measured],
) -> Result<Vec<Vec<&'a Measured>>, Nothing> {
    let mut repeats: BTreeMap<u32, Vec<&Measured>> = BTreeMap::new();
    for run in runs {
        repeats.entry(run.repeat).or_default().push(run);
    }
    let picked = sweep.iter().filter(|point| picks.iter().any(|pick| is_meant(pick, point)));
    let picked: Vec<&Values> = picked.collect();
    let is_whole = |runs: &Vec<&Measured>| {
        picked.iter().all(|point| runs.iter().any(|run| has(&run.point, point)))
    };
    let whole: Vec<Vec<&Measured>> = repeats.into_values().filter(is_whole).collect();
    if !whole.is_empty() {
        return Ok(whole);
    }
    let never = picked.iter().find(|point| !runs.iter().any(|run| has(&run.point, point)));
    Err(Nothing::NotMeasured(match never {
        Some(point) if !point.is_empty() => format!("no run at {}", label(point)),
        Some(_) => "no run".to_owned(),
        None => "no repeat has all runs of it".to_owned(),
    }))
}

/// A number with its interval.
struct Estimate {
    number: f64,
    interval: Option<(f64, f64)>,
    repeats: usize,
}

impl Estimate {
    /// Each repeat gives a number of its own.
    fn of(test: &Test, sweep: &[Values], runs: &[Measured]) -> Result<Estimate, Nothing> {
        let mut numbers = Vec::new();
        let mut missing = None;
        for runs in whole_repeats(&test.picks(), sweep, runs)? {
            match number(test, &runs) {
                Ok(number) => numbers.push(number),
                // Some repeats may lack what is picked, such as the time of a loss.
                Err(Nothing::NotMeasured(why)) => missing = Some(why),
                Err(undefined) => return Err(undefined),
            }
        }
        let Some(middle) = mean(&numbers) else {
            return Err(Nothing::NotMeasured(missing.unwrap_or_else(|| "no run".to_owned())));
        };
        let interval = interval::of_mean(&numbers);
        Ok(Estimate { number: middle, interval, repeats: numbers.len() })
    }

    fn judge(&self, claim: &Claim) -> Judged {
        let Estimate { number, interval, repeats } = *self;
        let by = beyond(claim, number);
        let undecided = Outcome::Undecided { inside: by == 0.0 };
        let outcome = match interval {
            None => undecided,
            Some((low, high)) if beyond(claim, low) == 0.0 && beyond(claim, high) == 0.0 => {
                Outcome::Reproduced
            }
            Some((low, high)) => {
                let under = claim.at_least.is_some_and(|least| high < least);
                let over = claim.at_most.is_some_and(|most| low > most);
                if under || over { Outcome::NotReproduced { by } } else { undecided }
            }
        };
        Judged { outcome, number: Some(number), interval, repeats }
    }
}

/// How far outside of its bounds a number lies; 0 inside.
fn beyond(claim: &Claim, number: f64) -> f64 {
    let below = claim.at_least.map_or(0.0, |least| (number - least).min(0.0));
    let above = claim.at_most.map_or(0.0, |most| (number - most).max(0.0));
    if below < 0.0 { below } else { above }
}

/// The ratio at each value of the key by itself; what is worst decides.
fn everywhere(
    claim: &Claim,
    (of, over): (&Pick, &Pick),
    along: &str,
    sweep: &[Values],
    runs: &[Measured],
) -> Result<Judged, Nothing> {
    let is_swept = |pick: &Pick| sweep.iter().any(|point| is_meant(pick, point));
    let mut all = Vec::new();
    for key in keys(along, sweep) {
        let (Some(of), Some(over)) = (narrowed(of, along, key), narrowed(over, along, key)) else {
            continue;
        };
        if is_swept(&of) && is_swept(&over) {
            let ratio = Estimate::of(&Test::Ratio { of, over, plus: None }, sweep, runs)?;
            all.push(ratio.judge(claim));
        }
    }
    let badness = |judged: &Judged| match judged.outcome {
        Outcome::NotReproduced { .. } => 2,
        Outcome::Undecided { .. } => 1,
        _ => 0,
    };
    // Of those that are equally bad, the one with least room to a bound.
    let room = |judged: &Judged| {
        let number = judged.number.unwrap_or(f64::NAN);
        let below = claim.at_least.map_or(f64::INFINITY, |least| number - least);
        let above = claim.at_most.map_or(f64::INFINITY, |most| most - number);
        below.min(above)
    };
    let worst = all
        .into_iter()
        .max_by(|a, b| badness(a).cmp(&badness(b)).then(room(b).total_cmp(&room(a))));
    worst.ok_or_else(|| Nothing::NotMeasured(format!("no value of {along} has both")))
}

fn share(
    of: &Pick,
    (from, to): (f64, f64),
    sweep: &[Values],
    runs: &[Measured],
) -> Result<Estimate, Nothing> {
    let values = values(of, &whole_repeats(&[of], sweep, runs)?.concat())?;
    let inside = values.iter().filter(|value| (from..=to).contains(*value)).count();
    Ok(Estimate {
        number: inside as f64 / values.len() as f64,
        interval: interval::of_share(inside, values.len()),
        repeats: values.len(),
    })
}

/// Of one repeat; tests that look at all of them together are not for here.
fn number(test: &Test, runs: &[&Measured]) -> Result<f64, Nothing> {
    match test {
        Test::Value { of } | Test::Outcomes { of, .. } => middle(of, runs),
        Test::Ratio { of, over, plus } => {
            let plus = plus.as_ref().map_or(Ok(0.0), |plus| middle(plus, runs))?;
            divide(middle(of, runs)?, middle(over, runs)? + plus)
        }
        Test::RatioEverywhere { of, over, .. } => divide(middle(of, runs)?, middle(over, runs)?),
        Test::Trend { of, along } => {
            let places = along_key(of, along, runs).map_err(Nothing::NotMeasured)?;
            if places.len() < LEAST_OF_TREND {
                let why = format!("{} values of {along} make no trend", places.len());
                return Err(Nothing::NotMeasured(why));
            }
            let (x, y): (Vec<f64>, Vec<f64>) =
                places.iter().map(|place| (place.at, place.value)).unzip();
            spearman(&x, &y)
                .ok_or_else(|| Nothing::Undefined(format!("{} does not vary", of.metric)))
        }
    }
}

fn divide(a: f64, b: f64) -> Result<f64, Nothing> {
    if b == 0.0 { Err(Nothing::Undefined("a division by zero".to_owned())) } else { Ok(a / b) }
}

/// Whether a point of the sweep is among those that are picked.
pub fn is_meant(pick: &Pick, point: &Values) -> bool {
    has(point, &pick.at)
}

/// The picked metric of every run that is meant.
fn values(pick: &Pick, runs: &[&Measured]) -> Result<Vec<f64>, Nothing> {
    let meant: Vec<&&Measured> = runs.iter().filter(|run| is_meant(pick, &run.point)).collect();
    if meant.is_empty() {
        let place = pick.at.iter().map(|(key, value)| format!("{key} = {}", canonical(value)));
        let place = place.collect::<Vec<_>>().join(", ");
        return Err(Nothing::NotMeasured(if place.is_empty() {
            "no run".to_owned()
        } else {
            format!("no run at {place}")
        }));
    }
    let numbers: Vec<f64> = meant.iter().filter_map(|run| metric(pick, run)).collect();
    if numbers.is_empty() {
        return Err(Nothing::NotMeasured(format!("no run has a number for {}", pick.metric)));
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

fn middle(pick: &Pick, runs: &[&Measured]) -> Result<f64, Nothing> {
    let values = values(pick, runs)?;
    Ok(median(&values).expect("values are never none"))
}

/// A metric at one value of a swept key.
#[derive(Clone, Debug, PartialEq)]
pub struct AtValue {
    pub key: Value,
    /// The key's value as a number; of words, their place in the order they are run.
    pub at: f64,
    /// Median over the runs there.
    pub value: f64,
    pub low: f64,
    pub high: f64,
}

/// The values of a swept key at these points, each once.
fn keys<'a>(along: &str, points: impl IntoIterator<Item = &'a Values>) -> Vec<&'a Value> {
    let mut keys: Vec<&Value> = Vec::new();
    for value in points.into_iter().filter_map(|point| point.get(along)) {
        if !keys.iter().any(|key| same(key, value)) {
            keys.push(value);
        }
    }
    keys
}

/// The pick at one value of a key; none if it asks for another one itself.
fn narrowed(pick: &Pick, along: &str, key: &Value) -> Option<Pick> {
    let mut here = pick.clone();
    let other = here.at.insert(along.to_owned(), key.clone());
    other.is_none_or(|other| same(&other, key)).then_some(here)
}

/// The picked metric at each value of a key, in the order of the values.
///
/// # Errors
/// If nothing was measured there.
pub fn along_key(pick: &Pick, along: &str, runs: &[&Measured]) -> Result<Vec<AtValue>, String> {
    let mut places = Vec::new();
    for (n, key) in keys(along, runs.iter().map(|run| &run.point)).into_iter().enumerate() {
        let Some(here) = narrowed(pick, along, key) else { continue };
        let Ok(values) = values(&here, runs) else { continue };
        let at = as_number(key).unwrap_or(n as f64);
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let value = median(&values).expect("values are never none");
        places.push(AtValue { key: key.clone(), at, value, low, high });
    }
    places.sort_by(|a, b| a.at.total_cmp(&b.at));
    if places.is_empty() {
        Err(format!("no run has a number for {}", pick.metric))
    } else {
        Ok(places)
    }
}

/// The runs that are meant, as bars show them: the median, the least and the greatest.
///
/// # Errors
/// If nothing was measured there.
pub fn pooled(pick: &Pick, runs: &[&Measured]) -> Result<Vec<f64>, String> {
    values(pick, runs).map_err(Nothing::in_words)
}

/// A number of the file as `f64`.
pub fn as_number(value: &Value) -> Option<f64> {
    value.as_float().or_else(|| Some(value.as_integer()? as f64))
}

#[cfg(test)]
mod tests;
