//! `lab grid`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use transom_lab::grid::{
    self, Algorithm, Grid, Half, Results, draw, guarded, guarded_table, judge, real, runs, table,
};
use transom_machine::signals::Signals;
use transom_output::{Output, Replace, note, say_plain};

use super::command_line;
use super::run::{engine_and_jobs, positive, transom_path};

/// Folders of results, of virtual time, and of both kinds of time.
const RESULTS: [&str; 2] = ["grid-virtual", "grid-real"];
/// In it, for each grid: every number, and the verdicts.
const NUMBERS: &str = "grid.json";
const VERDICTS: &str = "grid.md";
/// The same of the points in both kinds of time.
const AGREEMENT: [&str; 2] = ["real.json", "real.md"];

#[derive(clap::Args)]
#[command(after_help = "Examples:
  transom lab grid experiments/grid/senders.toml --half train
  transom lab grid experiments/grid/senders.toml --half train --points 60 --repeats 1
  transom lab grid experiments/grid/senders.toml --algorithm steady=steady,backoff=0 --half train \\
      --reuse grid-virtual/senders/grid.json -o other
  transom lab grid experiments/grid/senders.toml --point 17
  transom lab grid experiments/grid/guard.toml --half train
  sudo transom lab grid experiments/grid/senders.toml --real --repeats 2

What a grid file says, and how it is judged: docs/grid.md")]
pub struct Args {
    /// A grid file
    file: PathBuf,
    /// Only this half of the points
    #[arg(long, value_name = "train|report", value_parser = half)]
    half: Option<Half>,
    /// Draw this many points instead of the file's number; a larger number keeps those of a smaller one
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    points: Option<u32>,
    /// Only this point, and keep the scenario, the outcome and the traces of its runs
    #[arg(long, value_name = "N", conflicts_with = "half")]
    point: Vec<u32>,
    /// Instead of the file's repeats
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeats: Option<u32>,
    /// Add an algorithm, or replace one of the file: NAME=ALGORITHM and parameters of `steady` or
    /// sysctls, as mine=steady,backoff=0,target=70 or mine=steady,ipv4.tcp_steady_backoff=0
    #[arg(long, value_name = "NAME=ALGORITHM[,KEY=VALUE]…", value_parser = Algorithm::parse)]
    algorithm: Vec<(String, Algorithm)>,
    /// The algorithm to judge, instead of the file's
    #[arg(long, value_name = "NAME")]
    subject: Option<String>,
    /// Take the numbers of all algorithms but the subject from these results, where the point and
    /// the algorithm are the same: only the subject's own runs are left
    #[arg(long, value_name = "FILE")]
    reuse: Option<PathBuf>,
    /// Run the points that are marked for real kernels, a tenth of the reported half, by this
    /// machine's kernel and in virtual time, and compare the verdicts. Flows are bulk flows of iperf
    #[arg(long, conflicts_with_all = ["half", "point", "reuse"])]
    real: bool,
    /// With --real: leave out bottlenecks that are faster, Mbit/s
    #[arg(long, value_name = "MBIT", default_value_t = 100.0, requires = "real")]
    most_mbit: f64,
    /// Runs side by side [default: one per CPU]
    #[arg(long, value_name = "N", value_parser = positive)]
    jobs: Option<usize>,
    /// Also write the verdicts to this file, as a page with a title
    #[arg(long, value_name = "FILE", conflicts_with = "point")]
    markdown: Option<PathBuf>,
    /// Folder for results, with one folder per grid [default: grid-virtual, with --real grid-real]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
}

fn half(text: &str) -> Result<Half> {
    match text {
        "train" => Ok(Half::Train),
        "report" => Ok(Half::Report),
        _ => bail!("'{text}' is no half: use train or report"),
    }
}

pub fn run(args: &Args) -> Result<ExitCode> {
    let grid = asked(args)?;
    let points = chosen(args, &grid)?;
    let (engine, jobs) = engine_and_jobs(args.jobs)?;
    let folder = args.output.clone().unwrap_or_else(|| RESULTS[usize::from(args.real)].into());
    let folder = folder.join(args.file.file_stem().unwrap_or_default());
    if args.real {
        return both(args, &grid, points, (&engine, jobs), &folder);
    }
    let known = args.reuse.as_ref().map(|path| Results::read(path)).transpose()?;
    let others: Vec<String> =
        grid.algorithms.keys().filter(|name| **name != grid.judge.subject).cloned().collect();
    std::fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    let order = runs::Order {
        engine: &engine,
        grid: &grid,
        points,
        half: args.half,
        jobs,
        known: known.map(|results| (results, others)),
        keep: (!args.point.is_empty()).then(|| folder.join("points")),
        command: command_line(),
    };
    let signals = Signals::catch_all()?;
    let began = Instant::now();
    let twentieth = |done: usize, all: usize| {
        if done * 20 / all != (done - 1) * 20 / all {
            let left = began.elapsed().as_secs_f64() * (all - done) as f64 / done as f64;
            note!("{done} of {all} runs, {left:.0} s left");
        }
    };
    let results = runs::run(&order, &|| signals.came(), &twentieth)?;
    let markdown = match guarded::judge(&results) {
        Some(guarded) => guarded_table::markdown(&results, &guarded),
        None => table::markdown(&results, &judge::judge(&results)),
    };
    if args.point.is_empty() {
        write(&folder, NUMBERS, &serde_json::to_vec(&results)?)?;
        write(&folder, VERDICTS, markdown.as_bytes())?;
        page(args, &grid, &markdown)?;
        say_plain(&markdown)?;
    } else {
        say_plain(&table::runs(&results))?;
    }
    for failure in &results.failures {
        note!("transom: {failure}");
    }
    note!("{}", folder.display());
    if results.interrupted {
        bail!("interrupted: the numbers are of the runs that had ended");
    }
    Ok(if results.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn write(folder: &Path, name: &str, bytes: &[u8]) -> Result<()> {
    Output::write_all_to(&folder.join(name), &[], Replace::Always, bytes)
}

/// The verdicts as a page of their own.
fn page(args: &Args, grid: &Grid, verdicts: &str) -> Result<()> {
    let Some(path) = &args.markdown else { return Ok(()) };
    let text = format!(
        "# {}\n\n{}\n\nMade by `transom lab grid --markdown`; [grid](grid.md) explains the words.\n\n\
         {verdicts}",
        grid.title, grid.question
    );
    Output::write_all_to(path, &[], Replace::Always, text.as_bytes())
}

/// Points in real and in virtual time.
fn both(
    args: &Args,
    grid: &Grid,
    points: Vec<grid::Point>,
    (engine, jobs): (&Path, usize),
    folder: &Path,
) -> Result<ExitCode> {
    let (transom, command) = (transom_path()?, command_line());
    let order = real::Real {
        grid,
        points,
        transom: &transom,
        engine,
        jobs,
        most_mbit: args.most_mbit,
        folder,
        command: &command,
    };
    let signals = Signals::catch_all()?;
    let agreement = real::run(&order, &|| signals.came(), &|line| note!("{line}"))?;
    let text = real::markdown(grid, &agreement);
    write(folder, AGREEMENT[0], &serde_json::to_vec(&agreement)?)?;
    write(folder, AGREEMENT[1], text.as_bytes())?;
    page(args, grid, &text)?;
    say_plain(&text)?;
    note!("{}", folder.display());
    if agreement.interrupted {
        bail!("interrupted: the same command goes on where it stopped");
    }
    Ok(if agreement.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The file's grid with what the command line changes.
fn asked(args: &Args) -> Result<Grid> {
    let mut grid = Grid::load(&args.file)?;
    grid.points = args.points.unwrap_or(grid.points);
    grid.repeats = args.repeats.unwrap_or(grid.repeats);
    grid.algorithms.extend(args.algorithm.iter().cloned());
    let mut grid = grid.with_guards();
    if let Some(subject) = &args.subject {
        grid.judge.subject.clone_from(subject);
    }
    let problems = grid.problems();
    match problems.first() {
        Some(problem) => bail!("{problem}"),
        None => Ok(grid),
    }
}

fn chosen(args: &Args, grid: &Grid) -> Result<Vec<grid::Point>> {
    let most = args.point.iter().copied().max().unwrap_or(0).max(grid.points);
    let mut points = draw::points(grid, most);
    if args.real {
        points.retain(|point| point.real);
    } else if args.point.is_empty() {
        points.retain(|point| args.half.is_none_or(|half| point.half == half));
    } else {
        points.retain(|point| args.point.contains(&point.number));
        let missing = args.point.iter().find(|number| **number == 0);
        missing.map_or(Ok(()), |_| bail!("there is no point 0: they are counted from 1"))?;
    }
    points.first().context("no point is of this kind: draw more of them (--points)")?;
    Ok(points)
}
