//! Candidates as the points of an experiment in virtual time.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use toml::{Table, Value};
use transom_scenario::Scenario;

use super::expression::Expression;
use super::{Lab, Parameter, Seeds, Settings, Stage, Worth};
use crate::experiment::{Links, Loaded, parse_with};
use crate::page::{Results, results};
use crate::run::{Means, Order, campaign};
use crate::simulated::{self, derived, engine};
use crate::sweep::{Point, points};

/// The key of the sweep whose values the candidates are.
const CANDIDATE: &str = "candidate";
/// Added to an experiment's seed for the seeds that the search does not see.
const HELD_OUT: u64 = 0x5eed_0123_4567;

/// Runs them with the engine, a folder for each stage.
pub struct Campaigns<'a> {
    loaded: &'a Loaded,
    /// Of the file's own sweep, the point at which the search takes place.
    fixed: Settings,
    expression: Expression,
    means: Means,
    pub transom: PathBuf,
    pub directory: PathBuf,
    pub command: String,
    pub seed: u64,
    stop: &'a dyn Fn() -> bool,
    began: Instant,
}

impl<'a> Campaigns<'a> {
    /// `point`: values of keys that the file sweeps, instead of the first of each.
    ///
    /// # Errors
    /// If the experiment cannot be virtual at that point, or the expression is wrong.
    pub fn new(
        loaded: &'a Loaded,
        point: &[(String, Vec<Value>)],
        expression: &str,
        means: Means,
        stop: &'a dyn Fn() -> bool,
    ) -> Result<Campaigns<'a>> {
        let experiment = &loaded.experiment;
        let fixed = derived::fixed(loaded, point)?;
        let expression =
            Expression::parse(expression, experiment).context("the expression to maximise")?;
        let campaigns = Campaigns {
            loaded,
            fixed,
            expression,
            means,
            transom: PathBuf::from("transom"),
            directory: PathBuf::new(),
            command: String::new(),
            seed: experiment.seed,
            stop,
            began: Instant::now(),
        };
        campaigns.is_possible(&Settings::new()).map_err(|why| anyhow!("{}: {why}", loaded.name))?;
        Ok(campaigns)
    }

    /// # Errors
    /// If the experiment is none at one end of a parameter, or with one of its choices.
    pub fn check(&self, parameters: &[Parameter]) -> Result<()> {
        for (name, settings) in ends(parameters) {
            self.is_possible(&settings).map_err(|why| anyhow!("{name}: {why}"))?;
        }
        Ok(())
    }

    /// The same of what the simulator's kernels take.
    ///
    /// # Errors
    /// What they refuse, and where.
    pub fn try_out(&self, parameters: &[Parameter]) -> Result<()> {
        let mut all = self.scenarios("", &Settings::new())?;
        for (name, settings) in ends(parameters) {
            all.extend(self.scenarios(&name, &settings)?);
        }
        let Means::Virtual { engine, jobs, .. } = &self.means else { return Ok(()) };
        engine::check_all(engine, *jobs, all, self.stop)
    }

    /// What is simulated of a candidate, by this name.
    fn scenarios(&self, name: &str, settings: &Settings) -> Result<Vec<(String, Scenario)>> {
        let made = self.generation(&[(0, settings)])?;
        let scenario =
            |point: &Point| simulated::scenario(&made.name, &point.experiment, self.seed);
        points(&made, false).iter().map(|it| Ok((name.to_owned(), scenario(it)?))).collect()
    }

    /// Seconds that a run takes, about, with all others at once.
    ///
    /// # Errors
    /// If it cannot be run.
    pub fn seconds_of_a_run(&self) -> Result<f64> {
        let stage = Stage { name: String::new(), seeds: Seeds::Search, repeats: 1 };
        let generation = self.generation(&[(0, &Settings::new())])?;
        Ok(self.order(&stage, &generation)?.seconds())
    }

    fn is_possible(&self, settings: &Settings) -> Result<(), String> {
        let made = self.generation(&[(0, settings)]).map_err(|error| format!("{error:#}"))?;
        let obstacles = points(&made, false)
            .iter()
            .flat_map(|point: &Point| simulated::obstacles(&point.experiment));
        match obstacles.reduce(|all, one| format!("{all}; {one}")) {
            None => Ok(()),
            Some(why) => Err(format!("it cannot be virtual: {why}")),
        }
    }

    /// The experiment with these candidates in the place of its sweep.
    fn generation(&self, candidates: &[(usize, &Settings)]) -> Result<Loaded> {
        let case = |(n, settings): &(usize, &Settings)| {
            let all = self.fixed.iter().chain(settings.iter());
            let set: Table = all.map(|(key, value)| (key.clone(), value.clone())).collect();
            Value::Table(Table::from_iter([
                ("name".to_owned(), Value::from(n.to_string())),
                ("set".to_owned(), set.into()),
            ]))
        };
        let cases: Vec<Value> = candidates.iter().map(case).collect();
        let mut tree = derived::bare(self.loaded)?;
        tree.insert(
            "sweep".to_owned(),
            Table::from_iter([(CANDIDATE.to_owned(), cases.into())]).into(),
        );
        tree.insert("paired".to_owned(), Value::Array(vec![CANDIDATE.into()]));
        let title = format!("{}: search", self.loaded.experiment.title);
        tree.insert("title".to_owned(), title.into());
        let path = format!("the search in {}", self.loaded.path.display());
        let links = Links::In(&self.loaded.folder);
        let mut made = parse_with(path.as_ref(), links, toml::to_string(&tree)?)?;
        made.name.clone_from(&self.loaded.name);
        Ok(made)
    }

    fn order<'b>(&self, stage: &Stage, generation: &'b Loaded) -> Result<Order<'b>> {
        let seed = match stage.seeds {
            Seeds::Search => self.seed,
            Seeds::HeldOut => self.seed.wrapping_add(HELD_OUT),
        };
        Ok(Order {
            makers: campaign::makers(generation, &self.transom, &self.means)?,
            loaded: generation,
            quick: false,
            directory: self.directory.join(&stage.name),
            seed: Some(seed),
            repeats: Some(stage.repeats),
            precision: None,
            means: self.means.clone(),
            fresh: false,
            command: self.command.clone(),
            transom: self.transom.clone(),
        })
    }

    /// Of one candidate that was run.
    fn worth(&self, name: usize, repeats: u32, results: &Results, failures: &[String]) -> Worth {
        let name = name.to_string();
        let is_it = |run: &&results::Run| {
            let point = run.measured.point.get(CANDIDATE).and_then(Value::as_str);
            point == Some(&name)
        };
        let runs: Vec<_> = results.runs.iter().filter(is_it).collect();
        if runs.len() < repeats as usize {
            let label = format!("{CANDIDATE} = {name},");
            let why = failures.iter().find(|failure| failure.starts_with(&label));
            return Err(why.cloned().unwrap_or_else(|| "a run is missing".to_owned()));
        }
        // Those of an earlier search with more seeds do not count.
        let runs = runs.iter().take(repeats as usize);
        runs.map(|run| self.expression.of(&run.measured).map_err(|error| format!("{error:#}")))
            .collect()
    }
}

/// Each end of a range and each choice by itself, with its name.
fn ends(parameters: &[Parameter]) -> impl Iterator<Item = (String, Settings)> {
    let of = |parameter: &Parameter| {
        let key = parameter.key.clone();
        let one = move |value| (format!("{key} = {value}"), Settings::from([(key.clone(), value)]));
        parameter.extremes().into_iter().map(one)
    };
    parameters.iter().flat_map(of)
}

impl Lab for Campaigns<'_> {
    fn run(&mut self, stage: &Stage, candidates: &[Settings]) -> Result<Option<Vec<Worth>>> {
        let mut worths: Vec<Worth> =
            candidates.iter().map(|it| self.is_possible(it).map(|()| Vec::new())).collect();
        let possible: Vec<(usize, &Settings)> =
            candidates.iter().enumerate().filter(|(n, _)| worths[*n].is_ok()).collect();
        if possible.is_empty() {
            return Ok(Some(worths));
        }
        let generation = self.generation(&possible)?;
        let order = self.order(stage, &generation)?;
        let summary = campaign::run(&order, self.stop)?;
        if summary.interrupted {
            return Ok(None);
        }
        let results =
            (summary.finished > 0).then(|| Results::read(&order.directory)).transpose()?;
        for (n, _) in possible {
            worths[n] = match &results {
                Some(results) => self.worth(n, stage.repeats, results, &summary.failures),
                None => Err(summary.failures.first().cloned().unwrap_or_default()),
            };
        }
        Ok(Some(worths))
    }

    fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }
}
