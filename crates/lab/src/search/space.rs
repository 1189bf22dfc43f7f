//! The parameters of a search and the values that are proposed for them.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};
use toml::Value;
use tpe::density_estimation::DefaultEstimatorBuilder;
use tpe::{TpeOptimizer, TpeOptimizerBuilder};

use crate::simulated::derived;

/// Values of all parameters, by their keys; none: the experiment as it is.
pub type Settings = BTreeMap<String, Value>;

/// Share of the best candidates that proposals are drawn near to.
const GOOD: f64 = 0.2;
/// How often it is asked for a candidate that has not been tried.
const ASKS: u32 = 50;

/// A key and what it may be.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    pub key: String,
    pub domain: Domain,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Domain {
    /// Both ends included.
    Integer(i64, i64),
    Real(f64, f64),
    /// Of these, whose order means nothing.
    Choice(Vec<Value>),
}

impl Parameter {
    /// `KEY=LOW..HIGH`, of integers or of numbers with a decimal point; `KEY=A,B,C`.
    ///
    /// # Errors
    /// What is wrong with it, and what it should be.
    pub fn parse(text: &str) -> Result<Parameter> {
        let usage = "write KEY=LOW..HIGH, or KEY=A,B,C";
        let (key, range) = text.split_once('=').with_context(|| format!("'{text}': {usage}"))?;
        let (key, range) = (key.trim().to_owned(), range.trim());
        ensure!(!key.is_empty(), "'{text}' has no key: {usage}");
        let Some((low, high)) = range.split_once("..") else {
            let (key, values) = derived::values(text)?;
            ensure!(values.len() > 1, "'{text}' leaves no choice: {usage}");
            return Ok(Parameter { key, domain: Domain::Choice(values) });
        };
        let domain = match (low.trim().parse::<i64>(), high.trim().parse::<i64>()) {
            (Ok(low), Ok(high)) => Domain::Integer(low, high),
            _ => {
                let number =
                    |text: &str| text.trim().parse::<f64>().ok().filter(|it| it.is_finite());
                let ends = number(low).zip(number(high));
                let (low, high) = ends.with_context(|| {
                    format!("'{text}': '{range}' is no range of numbers: {usage}")
                })?;
                Domain::Real(low, high)
            }
        };
        let is_range = match &domain {
            Domain::Integer(low, high) => low < high,
            Domain::Real(low, high) => low < high,
            Domain::Choice(_) => true,
        };
        ensure!(is_range, "'{text}': the first end of a range must be the lower one");
        Ok(Parameter { key, domain })
    }

    /// The values that are checked before anything runs: the ends of a range, or all choices.
    pub fn extremes(&self) -> Vec<Value> {
        match &self.domain {
            Domain::Integer(low, high) => vec![(*low).into(), (*high).into()],
            Domain::Real(low, high) => vec![(*low).into(), (*high).into()],
            Domain::Choice(values) => values.clone(),
        }
    }

    /// As the optimiser has it: an interval, of integers and choices one unit for each.
    fn range(&self) -> (f64, f64) {
        match &self.domain {
            Domain::Integer(low, high) => (*low as f64, *high as f64 + 1.0),
            Domain::Real(low, high) => (*low, *high),
            Domain::Choice(values) => (0.0, values.len() as f64),
        }
    }

    fn value(&self, at: f64) -> Value {
        match &self.domain {
            Domain::Integer(low, high) => (at.floor() as i64).clamp(*low, *high).into(),
            // Four digits say all that an experiment can tell apart.
            Domain::Real(low, high) => {
                let step = 10f64.powf(((high - low).log10() - 4.0).floor());
                let rounded = (at / step).round() * step;
                let text = format!("{rounded:.*}", (-step.log10()).max(0.0).round() as usize);
                text.parse().unwrap_or(at).clamp(*low, *high).into()
            }
            Domain::Choice(values) => values[(at.max(0.0) as usize).min(values.len() - 1)].clone(),
        }
    }
}

/// Proposes candidates: the tree-structured Parzen estimator (Bergstra et al., NIPS 2011), each
/// parameter by itself.
pub struct Space {
    parameters: Vec<Parameter>,
    optimisers: Vec<TpeOptimizer<DefaultEstimatorBuilder>>,
    random: Pcg64Mcg,
    /// What was proposed, and where the optimisers see it.
    proposed: Vec<(Settings, Vec<f64>)>,
}

impl Space {
    /// # Errors
    /// If a key is given twice.
    pub fn new(parameters: Vec<Parameter>, seed: u64) -> Result<Space> {
        let mut optimisers = Vec::new();
        for (n, parameter) in parameters.iter().enumerate() {
            if parameters[..n].iter().any(|other| other.key == parameter.key) {
                bail!("{} is given twice", parameter.key);
            }
            let estimator = match parameter.domain {
                Domain::Choice(_) => tpe::histogram_estimator(),
                _ => tpe::parzen_estimator(),
            };
            let (low, high) = parameter.range();
            let mut builder = TpeOptimizerBuilder::new();
            optimisers.push(builder.gamma(GOOD).build(estimator, tpe::range(low, high)?)?);
        }
        let random = Pcg64Mcg::seed_from_u64(seed);
        Ok(Space { parameters, optimisers, random, proposed: Vec::new() })
    }

    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// A candidate that was not proposed before; none: there is hardly one left. `blind`: anywhere,
    /// with equal chance, as also when all are known where it is good.
    pub fn propose(&mut self, blind: bool) -> Option<Settings> {
        for ask in 0..2 * ASKS {
            let blind = blind || ask >= ASKS;
            let mut places = Vec::new();
            for (parameter, optimiser) in self.parameters.iter().zip(&mut self.optimisers) {
                let (low, high) = parameter.range();
                let share = (self.random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
                let anywhere = low + share * (high - low);
                let near = match blind {
                    true => anywhere,
                    false => optimiser.ask(&mut self.random).unwrap_or(anywhere),
                };
                places.push(near);
            }
            let named = self.parameters.iter().zip(&places);
            let settings: Settings =
                named.map(|(it, at)| (it.key.clone(), it.value(*at))).collect();
            if !self.proposed.iter().any(|(other, _)| *other == settings) {
                self.proposed.push((settings.clone(), places));
                return Some(settings);
            }
        }
        None
    }

    /// What a proposal was worth; none: it could not be run.
    pub fn learn(&mut self, settings: &Settings, worth: Option<f64>) {
        let Some((_, places)) = self.proposed.iter().find(|(it, _)| it == settings) else { return };
        // The optimiser looks for the least.
        let cost = worth.map_or(f64::INFINITY, |worth| -worth);
        for (optimiser, at) in self.optimisers.iter_mut().zip(places) {
            let _ = optimiser.tell(*at, cost);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn domain(text: &str) -> Domain {
        Parameter::parse(text).unwrap().domain
    }

    #[test]
    fn a_range_is_of_integers_or_of_numbers_and_words_are_choices() {
        assert_eq!(domain("a.b=3..9"), Domain::Integer(3, 9));
        assert_eq!(domain("a.b = 0..2.5"), Domain::Real(0.0, 2.5));
        assert_eq!(domain("a=-5..-1"), Domain::Integer(-5, -1));
        assert_eq!(domain("a=cubic,bbr"), Domain::Choice(vec!["cubic".into(), "bbr".into()]));
    }

    #[test]
    fn what_is_no_range_is_refused_with_the_remedy() {
        for (text, why) in [
            ("a.b", "write KEY=LOW..HIGH"),
            ("=1..2", "has no key"),
            ("a=9..3", "the lower one"),
            ("a=1..1", "the lower one"),
            ("a=1..x", "'1..x' is no range"),
            ("a=1..inf", "no range"),
            ("a=cubic", "leaves no choice"),
        ] {
            let error = format!("{:#}", Parameter::parse(text).unwrap_err());
            assert!(error.contains(why), "{text}: {error}");
        }
        let twice = ["a=1..2", "a=1..3"].map(|text| Parameter::parse(text).unwrap());
        assert!(Space::new(twice.into(), 1).is_err());
    }

    #[test]
    fn values_are_in_their_ranges_and_short() {
        let real = Parameter::parse("a=0..2.5").unwrap();
        assert_eq!(real.value(0.123_456_7), Value::Float(0.1235));
        assert_eq!(real.value(2.5), Value::Float(2.5));
        let integer = Parameter::parse("a=3..9").unwrap();
        assert_eq!([integer.value(3.0), integer.value(9.99)], [3.into(), 9.into()]);
    }

    #[test]
    fn a_small_space_is_exhausted_and_nothing_is_proposed_twice() {
        let parameters = ["a=1..2", "b=x,y,z"].map(|text| Parameter::parse(text).unwrap());
        let mut space = Space::new(parameters.into(), 1).unwrap();
        let all: Vec<Settings> = std::iter::from_fn(|| space.propose(true)).collect();
        assert_eq!(all.len(), 6);
    }

    #[test]
    fn proposals_gather_where_it_was_good() {
        let parameters = ["a=0..1000", "b=x,y,z,w"].map(|text| Parameter::parse(text).unwrap());
        let mut space = Space::new(parameters.into(), 1).unwrap();
        let worth = |it: &Settings| {
            let a = it["a"].as_integer().unwrap() as f64;
            let extra = if it["b"].as_str() == Some("z") { 300.0 } else { 0.0 };
            extra - (a - 700.0).abs()
        };
        let mut last = Vec::new();
        for n in 0..60 {
            let settings = space.propose(n < 10).unwrap();
            space.learn(&settings, Some(worth(&settings)));
            last.push(settings);
        }
        let late = &last[40..];
        let near = |it: &&Settings| worth(it) > 150.0;
        assert!(late.iter().filter(near).count() >= 10, "{late:?}");
        let early = last[..10].iter().filter(near).count();
        assert!(early <= 3, "the control: chance alone finds it seldom: {early}");
    }
}
