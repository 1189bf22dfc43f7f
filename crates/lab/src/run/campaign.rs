//! All runs of an experiment: each point of its sweep, as often as it is repeated.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result};

use super::companions;
use super::fingerprint::{Makers, fingerprint};
use super::once::{self, Report, Task};
use crate::experiment::{Experiment, Loaded, Tool};
use crate::flows;
use crate::hosts::{self, Backend, Wish};
use crate::manifest::{self, Machine, Manifest};
use crate::metrics::Measured;
use crate::page::{self, Results};
use crate::progress::{FIRST_GUESS, Progress};
use crate::sweep::{CONTROLS, Point, points};

const MEASURED: &str = "measured.json";
/// Attempts a run gets while the machine is too busy.
const ATTEMPTS: u32 = 3;

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
    pub pcap: bool,
    pub backend: Backend,
    /// Run again what is finished already.
    pub fresh: bool,
    pub command: String,
    /// The program `transom`, for recording.
    pub transom: PathBuf,
    /// What runs are made by.
    pub makers: Makers,
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
    pub interrupted: bool,
}

/// One run of the campaign.
struct Run {
    point: Point,
    repeat: u32,
    seed: u64,
    directory: PathBuf,
    fingerprint: String,
}

impl Order<'_> {
    /// All runs, each point once before any is repeated, so that a campaign cut short has seen
    /// the whole sweep.
    fn runs(&self) -> Result<Vec<Run>> {
        let points = self.points();
        let most = points.iter().map(|point| point.experiment.repeats).max().unwrap_or(0);
        let mut runs = Vec::new();
        for repeat in 1..=most {
            for point in points.iter().filter(|point| repeat <= point.experiment.repeats) {
                let seed = point.seed(repeat);
                let directory = self.directory.join(point.folder()).join(repeat.to_string());
                let fingerprint = fingerprint(&point.experiment, self.backend, seed, &self.makers)?;
                runs.push(Run { point: point.clone(), repeat, seed, directory, fingerprint });
            }
        }
        Ok(runs)
    }

    /// The points of the sweep, with what the user wants instead.
    fn points(&self) -> Vec<Point> {
        let mut points = points(self.loaded, self.quick).to_vec();
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

    /// What a run of this, a point's experiment, puts up.
    pub fn wish<'a>(&'a self, experiment: &'a Experiment) -> Wish<'a> {
        let (lab, command) = (self.loaded.name.as_str(), self.command.as_str());
        Wish { lab, command, experiment, backend: self.backend, pcap: self.pcap }
    }

    /// Seconds that all runs take, about.
    pub fn seconds(&self) -> f64 {
        cost_of(&self.points()).1
    }

    fn manifest(&self, runs: u32) -> Manifest {
        Manifest {
            experiment: self.loaded.name.clone(),
            command: self.command.clone(),
            quick: self.quick,
            seed: self.seed.unwrap_or(self.loaded.experiment.seed),
            backend: self.backend.name().to_owned(),
            started: manifest::now(),
            machine: Machine::this(),
            programs: manifest::programs(&tools(&self.loaded.experiment)),
            runs,
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
pub fn makers(loaded: &Loaded, transom: &Path) -> Result<Makers> {
    let path = std::env::var_os("PATH").unwrap_or_default();
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

    fn name(&self) -> String {
        match self.point.label() {
            label if label.is_empty() => format!("repeat {}", self.repeat),
            label => format!("{label}, repeat {}", self.repeat),
        }
    }

    /// The report of this very run, if it is finished.
    fn finished(&self) -> Option<Report> {
        let report = Report::read(&self.directory)?;
        (self.measured().exists() && report.fingerprint == self.fingerprint).then_some(report)
    }

    fn seconds(&self) -> f64 {
        flows::last_end(&self.point.experiment)
    }
}

/// Whether the programs that runs of this need besides the lab's own are there.
///
/// # Errors
/// The first that is missing, with the remedy.
pub fn check(order: &Order<'_>) -> Result<()> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    hosts::accepted::check(order.loaded)?;
    let points = order.points();
    companions::check(&order.transom, &path, points.iter().map(|point| &point.experiment))
}

/// Runs what is not finished yet. A run that fails is noted and the others go on.
///
/// # Errors
/// If the machine lacks what every run needs, or results cannot be written.
pub fn run(order: &Order<'_>, stop: &dyn Fn() -> bool) -> Result<Summary> {
    check(order)?;
    let runs = order.runs()?;
    prepare(order)?;
    let mut manifest = order.manifest(runs.len() as u32);
    let mut summary = Summary { runs: runs.len() as u32, ..Summary::default() };
    let (done, left): (Vec<&Run>, Vec<&Run>) =
        runs.iter().partition(|run| run.finished().is_some());
    summary.skipped = done.len() as u32;
    summary.finished = summary.skipped;
    summary.late = done.iter().filter_map(|run| run.finished()?.disturbed()).count() as u32;
    if left.is_empty() {
        // Nothing runs, so the folder goes on telling of the command that did.
        page::write(&Results::read(&order.directory)?)?;
        return Ok(summary);
    }
    if summary.skipped > 0
        && let Some(before) = Manifest::read(&order.directory)?
    {
        manifest.started = before.started;
    }
    manifest.write(&order.directory)?;
    let mut progress = Progress::new(left.iter().map(|run| run.seconds()).sum(), left.len() as u32);
    for run in left {
        if stop() {
            summary.interrupted = true;
            break;
        }
        match attempts(order, run, &mut progress, stop) {
            Ok(Some(report)) => {
                summary.finished += 1;
                summary.late += u32::from(report.disturbed().is_some());
            }
            Ok(None) => summary.interrupted = true,
            Err(error) => {
                summary.failures.push(failed(&progress, run, &format!("{error:#}")));
            }
        }
        keep(&mut manifest, &summary, &order.directory)?;
    }
    drop(progress);
    manifest.ended = Some(manifest::now());
    keep(&mut manifest, &summary, &order.directory)?;
    if summary.finished > 0 {
        page::write(&Results::read(&order.directory)?)?;
    }
    Ok(summary)
}

fn failed(progress: &Progress, run: &Run, why: &str) -> String {
    progress.say(&format!("  {}: failed: {why}", run.name()));
    format!("{}: {why}", run.name())
}

fn keep(manifest: &mut Manifest, summary: &Summary, directory: &Path) -> Result<()> {
    manifest.finished = summary.finished;
    manifest.late = summary.late;
    manifest.failures = summary.failures.clone();
    manifest.write(directory)
}

/// The folder, with a copy of the experiment; points that it no longer has are set aside.
fn prepare(order: &Order<'_>) -> Result<()> {
    let directory = &order.directory;
    let make = |path: &Path| {
        fs::create_dir_all(path).with_context(|| format!("creating {}", path.display()))
    };
    make(&directory.join("runs"))?;
    let copy = directory.join("experiment.toml");
    fs::write(&copy, &order.loaded.text).with_context(|| format!("writing {}", copy.display()))?;
    let folders: Vec<PathBuf> = points(order.loaded, false).iter().map(Point::folder).collect();
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
    for point in order.points() {
        forget_others(order, &point)?;
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
            let wanted =
                fingerprint(&point.experiment, order.backend, point.seed(repeat), &order.makers);
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

/// Runs it again while the machine is too busy, and measures the last. None: the user stopped.
fn attempts(
    order: &Order<'_>,
    run: &Run,
    progress: &mut Progress,
    stop: &dyn Fn() -> bool,
) -> Result<Option<Report>> {
    let name = run.name();
    for attempt in 1..=ATTEMPTS {
        let began = Instant::now();
        let task = Task {
            wish: order.wish(&run.point.experiment),
            seed: run.seed,
            transom: &order.transom,
            directory: &run.directory,
        };
        progress.show(&name, 0.0);
        let report = once::run(&task, &mut |seconds| {
            progress.show(&name, seconds);
            !stop()
        })?;
        let Some(mut report) = report else { return Ok(None) };
        report.attempt = attempt;
        report.fingerprint = run.fingerprint.clone();
        report.write(&run.directory)?;
        if !report.failures.is_empty() {
            anyhow::bail!("{}", report.failures.join("; "));
        }
        let disturbed = report.disturbed().filter(|_| attempt < ATTEMPTS);
        let again = disturbed.is_some();
        match disturbed {
            Some(why) => progress.say(&format!("  {name}: rejected, {why}: once more")),
            None => say(progress, &name, &report, &measure(run)?),
        }
        progress.ran(began.elapsed(), run.seconds(), !again);
        if !again {
            return Ok(Some(report));
        }
    }
    Ok(None)
}

fn measure(run: &Run) -> Result<Measured> {
    let mut measured = crate::measure::measure(&run.directory, &run.point.experiment)?;
    measured.point = run.point.values.clone();
    measured.repeat = run.repeat;
    measured.seed = run.seed;
    // Written beside first: a file that is there is whole.
    let (fresh, path) = (run.directory.join("measured.new"), run.measured());
    fs::write(&fresh, serde_json::to_vec_pretty(&measured)?)
        .and_then(|()| fs::rename(&fresh, &path))
        .with_context(|| format!("writing {}", path.display()))?;
    Ok(measured)
}

fn say(progress: &Progress, name: &str, report: &Report, measured: &Measured) {
    let kept =
        report.disturbed().map(|why| format!("kept after {ATTEMPTS} attempts, though {why}"));
    let sum = measured.run.get("sum_mbit").map(|mbit| format!("{mbit:.2} Mbit/s"));
    // netem has none.
    let lateness = measured.run.get("lateness_p99_ms");
    let lateness = lateness.map(|ms| format!("lateness p99 {ms:.3} ms"));
    let wait = measured.run.get("cpu_wait");
    let wait = wait.map(|share| format!("waited for a CPU {:.1} %", 100.0 * share));
    let words: Vec<String> = [sum, lateness, wait, kept].into_iter().flatten().collect();
    progress.say(&format!("  {name}: {}", words.join(", ")));
}

#[cfg(test)]
mod tests;
