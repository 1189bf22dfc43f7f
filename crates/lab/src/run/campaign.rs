//! All runs of an experiment: each point of its sweep, as often as it is repeated.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use transom_output::{Output, Replace};

use super::begun::Begun;
use super::companions;
use super::fingerprint::{Makers, fingerprint};
use super::ledger::Ledger;
use super::once::Report;
use super::precision;
use super::{real_time, virtual_time};
use crate::experiment::{Experiment, Loaded, Tool};
use crate::flows;
use crate::hosts::{self, Backend, Wish};
use crate::manifest::{self, Machine, Manifest};
use crate::metrics::Measured;
use crate::page::{self, Results};
use crate::progress::FIRST_GUESS;
use crate::simulated::{self, engine};
use crate::sweep::{CONTROLS, Point, points};

const MEASURED: &str = "measured.json";

/// What the user ordered.
pub struct Order<'a> {
    pub loaded: &'a Loaded,
    pub quick: bool,
    /// Folder of this experiment's results.
    pub directory: PathBuf,
    /// Instead of the experiment's first seed.
    pub seed: Option<u64>,
    /// Instead of the experiment's repeats.
    pub repeats: Option<u32>,
    /// Instead of the precision of the experiment and of its claims.
    pub precision: Option<f64>,
    pub means: Means,
    /// Run again what is finished already.
    pub fresh: bool,
    pub command: String,
    /// The program `transom`, for recording.
    pub transom: PathBuf,
    /// What runs are made by.
    pub makers: Makers,
}

/// How runs are made.
#[derive(Clone, Debug)]
pub enum Means {
    /// By this machine's kernel and programs.
    Real { backend: Backend, pcap: bool },
    /// By this engine, in virtual time, so many at once; `quiet`: without a line for each run.
    Virtual { engine: PathBuf, jobs: usize, quiet: bool },
}

/// What stands for virtual time in fingerprints and manifests.
pub const VIRTUAL: &str = "virtual";

impl Means {
    /// As the manifest has it.
    pub fn name(&self) -> &'static str {
        match self {
            Means::Real { backend, .. } => backend.name(),
            Means::Virtual { .. } => VIRTUAL,
        }
    }

    pub fn is_virtual(&self) -> bool {
        matches!(self, Means::Virtual { .. })
    }
}

/// How it went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    pub runs: u32,
    /// Now and before.
    pub finished: u32,
    /// Finished before, and so skipped.
    pub skipped: u32,
    /// Finished, though the machine was too busy each time.
    pub late: u32,
    /// One sentence each.
    pub failures: Vec<String>,
    /// What of the experiment cannot be run in virtual time, one sentence for each reason.
    pub left_out: Vec<String>,
    pub interrupted: bool,
}

/// One run of the campaign.
pub(super) struct Run {
    pub point: Point,
    pub repeat: u32,
    pub seed: u64,
    pub directory: PathBuf,
    pub fingerprint: String,
}

impl Order<'_> {
    /// All runs, each point once before any is repeated, so that a campaign cut short has seen
    /// the whole sweep.
    pub(super) fn runs(&self, points: &[Point]) -> Result<Vec<Run>> {
        let most = points.iter().map(|point| point.experiment.repeats).max().unwrap_or(0);
        let mut runs = Vec::new();
        for repeat in 1..=most {
            for point in points.iter().filter(|point| repeat <= point.experiment.repeats) {
                let seed = point.seed(repeat);
                let directory = self.directory.join(point.folder()).join(repeat.to_string());
                let fingerprint = self.fingerprint(point, repeat)?;
                runs.push(Run { point: point.clone(), repeat, seed, directory, fingerprint });
            }
        }
        Ok(runs)
    }

    fn fingerprint(&self, point: &Point, repeat: u32) -> Result<String> {
        fingerprint(&point.experiment, self.means.name(), point.seed(repeat), &self.makers)
    }

    /// The points of the sweep that can be run, with what the user wants instead.
    pub(super) fn points(&self) -> Vec<Point> {
        let mut points = points(self.loaded, self.quick).to_vec();
        points.retain(|point| self.obstacles(point).is_empty());
        for Point { experiment, control, .. } in &mut points {
            experiment.seed = self.seed.unwrap_or(experiment.seed);
            experiment.repeats = match (self.repeats, control) {
                (None, _) => experiment.repeats,
                (Some(wanted), None) => wanted,
                // A control may do with fewer.
                (Some(wanted), Some(_)) => wanted.min(experiment.repeats),
            };
        }
        points
    }

    fn obstacles(&self, point: &Point) -> Vec<String> {
        match self.means {
            Means::Real { .. } => Vec::new(),
            Means::Virtual { .. } => simulated::obstacles(&point.experiment),
        }
    }

    /// Whether any of it can be run.
    pub fn is_possible(&self) -> bool {
        points(self.loaded, self.quick).iter().any(|point| self.obstacles(point).is_empty())
    }

    /// What of the experiment cannot be run: each reason, and of how many points it is one.
    pub fn left_out(&self) -> Vec<String> {
        let all = points(self.loaded, self.quick);
        let mut reasons: Vec<(String, usize)> = Vec::new();
        for reason in all.iter().flat_map(|point| self.obstacles(point)) {
            match reasons.iter_mut().find(|(other, _)| *other == reason) {
                Some((_, count)) => *count += 1,
                None => reasons.push((reason, 1)),
            }
        }
        let told = |(reason, count): (String, usize)| match all.len() {
            points if points == count => reason,
            points => format!("{reason} (in {count} of {points} points)"),
        };
        reasons.into_iter().map(told).collect()
    }

    /// What a run of this, a point's experiment, puts up.
    pub(super) fn wish<'a>(
        &'a self,
        experiment: &'a Experiment,
        backend: Backend,
        pcap: bool,
    ) -> Wish<'a> {
        let (lab, command) = (self.loaded.name.as_str(), self.command.as_str());
        Wish { lab, command, experiment, backend, pcap }
    }

    /// Seconds that all runs take, about.
    pub fn seconds(&self) -> f64 {
        let points = self.points();
        match self.means {
            Means::Real { .. } => cost_of(&points).1,
            Means::Virtual { jobs, .. } => virtual_time::seconds(&points) / jobs as f64,
        }
    }

    fn manifest(&self) -> Manifest {
        let others = match self.means {
            Means::Real { .. } => tools(&self.loaded.experiment),
            Means::Virtual { .. } => Vec::new(),
        };
        Manifest {
            experiment: self.loaded.name.clone(),
            command: self.command.clone(),
            quick: self.quick,
            seed: self.seed.unwrap_or(self.loaded.experiment.seed),
            backend: self.means.name().to_owned(),
            started: manifest::now(),
            machine: Machine::this(),
            programs: manifest::programs(&others),
            ..Manifest::default()
        }
    }
}

/// The programs of others that make the traffic.
fn tools(experiment: &Experiment) -> Vec<&'static str> {
    let uses = |tool: Tool| experiment.flows.values().any(|flow| flow.tool == tool);
    let all = [(Tool::Iperf, "iperf"), (Tool::Iperf3, "iperf3")];
    all.into_iter().filter(|(tool, _)| uses(*tool)).map(|(_, name)| name).collect()
}

/// What runs of an experiment are made by.
///
/// # Errors
/// If a program of ours cannot be read.
pub fn makers(loaded: &Loaded, transom: &Path, means: &Means) -> Result<Makers> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    if let Means::Virtual { engine, .. } = means {
        let lab = companions::find(companions::LAB, transom, &path);
        return Makers::of_virtual(&lab.into_iter().chain([engine.clone()]).collect::<Vec<_>>());
    }
    let experiments = points(loaded, false).iter().map(|point| &point.experiment);
    let own = companions::own(transom, &path, experiments);
    Makers::of(&own, manifest::programs(&tools(&loaded.experiment)))
}

/// How many runs an experiment has, and the seconds that they take, about.
pub fn cost(loaded: &Loaded, quick: bool) -> (u32, f64) {
    cost_of(points(loaded, quick))
}

fn cost_of(points: &[Point]) -> (u32, f64) {
    points.iter().fold((0, 0.0), |(runs, seconds), point| {
        let repeats = point.experiment.repeats;
        let each = flows::last_end(&point.experiment) + FIRST_GUESS;
        (runs + repeats, seconds + f64::from(repeats) * each)
    })
}

impl Run {
    fn measured(&self) -> PathBuf {
        self.directory.join(MEASURED)
    }

    pub(super) fn name(&self) -> String {
        match self.point.label() {
            label if label.is_empty() => format!("repeat {}", self.repeat),
            label => format!("{label}, repeat {}", self.repeat),
        }
    }

    /// The report of this very run, if it is finished.
    pub(super) fn finished(&self) -> Option<Report> {
        let report = Report::read(&self.directory)?;
        (self.measured().exists() && report.fingerprint == self.fingerprint).then_some(report)
    }

    /// Writes the numbers of what its folder holds.
    pub(super) fn measure(&self) -> Result<Measured> {
        let mut measured = crate::measure::measure(&self.directory, &self.point.experiment)?;
        measured.point = self.point.values.clone();
        measured.repeat = self.repeat;
        measured.seed = self.seed;
        // Written beside first: a file that is there is whole.
        let (fresh, path) = (self.directory.join("measured.new"), self.measured());
        fs::write(&fresh, serde_json::to_vec_pretty(&measured)?)
            .and_then(|()| fs::rename(&fresh, &path))
            .with_context(|| format!("writing {}", path.display()))?;
        Ok(measured)
    }

    pub(super) fn seconds(&self) -> f64 {
        flows::last_end(&self.point.experiment)
    }
}

/// Whether what runs of this need is there.
///
/// # Errors
/// The first thing that is missing, with the remedy.
pub fn check(order: &Order<'_>) -> Result<()> {
    let Means::Real { backend, pcap } = order.means else {
        ensure!(order.is_possible(), "it cannot be virtual: {}", order.left_out().join("; "));
        return separate(order);
    };
    hosts::check(&order.wish(&order.loaded.experiment, backend, pcap))?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    hosts::accepted::check(order.loaded)?;
    let points = order.points();
    companions::check(&order.transom, &path, points.iter().map(|point| &point.experiment))?;
    separate(order)
}

/// Whether the simulator's kernels take what the runs set: a name that they lack would fail each run
/// by itself.
///
/// # Errors
/// What they refuse, and at which point.
pub fn try_out(order: &Order<'_>, stop: &dyn Fn() -> bool) -> Result<()> {
    let Means::Virtual { engine, jobs, .. } = &order.means else { return Ok(()) };
    let points = order.points();
    let scenarios = points.iter().map(|point| {
        let seed = point.seed(1);
        Ok((point.label(), simulated::scenario(&order.loaded.name, &point.experiment, seed)?))
    });
    engine::check_all(engine, *jobs, scenarios.collect::<Result<Vec<_>>>()?, stop)
}

/// Real and virtual runs do not share a folder: their numbers would stand in one mean. Nor do the
/// short form and the whole, which have points in common: the one would take the other's place.
pub(super) fn separate(order: &Order<'_>) -> Result<()> {
    let Some(before) = Manifest::read(&order.directory)? else { return Ok(()) };
    let time = |is_virtual| if is_virtual { "virtual time" } else { "real time" };
    let form = |quick| if quick { "the short form (--quick)" } else { "the whole experiment" };
    let was_virtual = before.backend == VIRTUAL;
    for (there, now) in [
        (time(was_virtual), time(order.means.is_virtual())),
        (form(before.quick), form(order.quick)),
    ] {
        ensure!(
            there == now,
            "{} holds results of {there}: give those of {now} another folder (-o DIR)",
            order.directory.display()
        );
    }
    Ok(())
}

/// Runs what is not finished yet. A run that fails is noted and the others go on.
///
/// # Errors
/// If the machine lacks what every run needs, or results cannot be written.
pub fn run(order: &Order<'_>, stop: &dyn Fn() -> bool) -> Result<Summary> {
    check(order)?;
    let mut points = order.points();
    let mut begun = Begun::of(&order.directory);
    prepare(order, &points)?;
    let mut ledger = Ledger {
        manifest: order.manifest(),
        summary: Summary { left_out: order.left_out(), ..Summary::default() },
        directory: &order.directory,
    };
    let mut tried = BTreeSet::new();
    loop {
        let runs = order.runs(&points)?;
        let is_new = |run: &&Run| run.finished().is_none() && !tried.contains(&run.directory);
        let left: Vec<&Run> = runs.iter().filter(is_new).collect();
        count(&mut ledger, &runs, tried.is_empty())?;
        if !left.is_empty() {
            ledger.keep()?;
            begun.stays();
            execute(order, &left, &mut ledger, stop)?;
            tried.extend(left.iter().map(|run| run.directory.clone()));
        }
        let is_done = ledger.summary.interrupted || !order.means.is_virtual();
        if is_done || ledger.summary.finished == 0 || !precision::more(order, &mut points)? {
            break;
        }
    }
    if tried.is_empty() {
        // Nothing ran, so the folder goes on telling of the command that did.
        page::write(&Results::read(&order.directory)?)?;
        return Ok(ledger.summary);
    }
    ledger.manifest.ended = Some(manifest::now());
    if order.means.is_virtual() {
        ledger.manifest.virtual_time = Some(virtual_time::sum(&order.runs(&points)?));
    }
    ledger.keep()?;
    if ledger.summary.finished > 0 {
        page::write(&Results::read(&order.directory)?)?;
    }
    Ok(ledger.summary)
}

fn execute(
    order: &Order<'_>,
    left: &[&Run],
    ledger: &mut Ledger<'_>,
    stop: &dyn Fn() -> bool,
) -> Result<()> {
    match &order.means {
        Means::Real { backend, pcap } => {
            real_time::all(order, (*backend, *pcap), left, ledger, stop)
        }
        Means::Virtual { engine, jobs, quiet } => {
            virtual_time::all(order, (engine, *jobs, *quiet), left, ledger, stop)
        }
    }
}

/// Counts what is finished already; what was so before this command is skipped.
fn count(ledger: &mut Ledger<'_>, runs: &[Run], is_first: bool) -> Result<()> {
    let done: Vec<Report> = runs.iter().filter_map(Run::finished).collect();
    let summary = &mut ledger.summary;
    let of_this_command = summary.finished - summary.skipped;
    summary.runs = runs.len() as u32;
    summary.finished = done.len() as u32;
    summary.skipped = summary.finished - of_this_command;
    summary.late = done.iter().filter_map(Report::disturbed).count() as u32;
    if is_first
        && summary.skipped > 0
        && let Some(before) = Manifest::read(ledger.directory)?
    {
        ledger.manifest.started = before.started;
    }
    Ok(())
}

/// The folder, with a copy of the experiment; points that it no longer has are set aside.
fn prepare(order: &Order<'_>, points: &[Point]) -> Result<()> {
    let directory = &order.directory;
    let make = |path: &Path| {
        fs::create_dir_all(path).with_context(|| format!("creating {}", path.display()))
    };
    make(&directory.join("runs"))?;
    let copy = directory.join("experiment.toml");
    Output::write_all_to(&copy, &[], Replace::Always, order.loaded.text.as_bytes())?;
    let all = crate::sweep::points(order.loaded, false);
    let folders: Vec<PathBuf> = all.iter().map(Point::folder).collect();
    for folder in left_of_points(directory) {
        if folders.contains(&folder) {
            continue;
        }
        let old = directory.join("old").join(&folder);
        let _ = fs::remove_dir_all(&old);
        make(old.parent().unwrap_or(directory))?;
        fs::rename(directory.join(&folder), &old)
            .with_context(|| format!("setting {} aside", directory.join(&folder).display()))?;
    }
    for point in points {
        forget_others(order, point)?;
    }
    Ok(())
}

/// Folders of points, of this state of the file or of an earlier one, below the folder of results.
fn left_of_points(directory: &Path) -> Vec<PathBuf> {
    let inside = |folder: &Path| {
        let entries = fs::read_dir(directory.join(folder)).into_iter().flatten().flatten();
        entries.map(|entry| folder.join(entry.file_name())).collect::<Vec<_>>()
    };
    let controls = inside(Path::new(CONTROLS));
    let of_controls = controls.iter().flat_map(|control| inside(control));
    inside(Path::new("runs")).into_iter().chain(of_controls).collect()
}

/// Numbers of runs of this point that were of something else, an earlier state of the file, would
/// stand beside the new ones in the page.
fn forget_others(order: &Order<'_>, point: &Point) -> Result<()> {
    let folder = order.directory.join(point.folder());
    for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
        let repeat = entry.file_name().to_string_lossy().parse::<u32>();
        let same = |repeat: u32| {
            let wanted = order.fingerprint(point, repeat);
            let report = Report::read(&entry.path());
            report.is_some_and(|report| wanted.is_ok_and(|wanted| report.fingerprint == wanted))
        };
        let measured = entry.path().join(MEASURED);
        if measured.exists() && (order.fresh || !repeat.is_ok_and(same)) {
            fs::remove_file(&measured)
                .with_context(|| format!("removing {}", measured.display()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
