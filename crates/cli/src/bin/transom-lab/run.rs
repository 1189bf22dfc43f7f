//! `lab run` and `lab report`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use transom_lab::experiment::Loaded;
use transom_lab::hosts::Backend;
use transom_lab::page::{self, Results};
use transom_lab::progress::clock;
use transom_lab::run::{Means, Order, Summary, campaign};
use transom_lab::simulated::engine;
use transom_lab::{beside, catalogue, compare};
use transom_machine::signals::Signals;

use super::command_line;
use transom_output::{Output, Replace, note, say_plain};

/// Folders of results, of short forms, and of both in virtual time: none takes another's place.
pub const RESULTS: [&str; 4] =
    ["results", "results-quick", "results-virtual", "results-virtual-quick"];

#[derive(clap::Args)]
pub struct Args {
    /// Experiments: names of `lab list`, or paths of files
    #[arg(required_unless_present = "all", value_name = "NAME")]
    names: Vec<String>,
    /// Every experiment of `lab list`
    #[arg(long, conflicts_with = "names")]
    all: bool,
    /// The short form that each experiment gives, without controls: one repeat decides nothing
    #[arg(long)]
    quick: bool,
    /// Run in virtual time, by `transom-simulate`: needs neither root nor real time
    #[arg(long = "virtual", conflicts_with_all = ["pcap", "backend"])]
    is_virtual: bool,
    /// Runs in virtual time side by side [default: one per CPU]
    #[arg(long, value_name = "N", requires = "is_virtual", value_parser = positive)]
    jobs: Option<usize>,
    /// In virtual time, repeat until half of the 95 % interval of each claim's number is at most
    /// this share of it
    #[arg(long, value_name = "SHARE", requires = "is_virtual", value_parser = precision)]
    precision: Option<f64>,
    /// Folder for results, with one folder per experiment [default: results, results-quick,
    /// results-virtual, or results-virtual-quick]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Instead of the experiment's first seed
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Instead of the experiment's repeats; more of them make the intervals narrower
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    repeats: Option<u32>,
    /// Also capture what tcpdump sees in every host
    #[arg(long)]
    pcap: bool,
    /// What carries the packets: `emulator`, or `netem`, which the kernel must have and which knows
    /// no air
    #[arg(long, value_parser = backend, default_value = "emulator", value_name = "WHICH")]
    backend: Backend,
    /// Run again what is finished already
    #[arg(long)]
    fresh: bool,
}

fn backend(text: &str) -> Result<Backend> {
    match text {
        "emulator" => Ok(Backend::Emulator),
        "netem" => Ok(Backend::Netem),
        _ => bail!("'{text}' is no backend: use emulator or netem"),
    }
}

pub(super) fn positive(text: &str) -> Result<usize> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.with_context(|| format!("'{text}' is no number of runs: give 1 or more"))
}

fn precision(text: &str) -> Result<f64> {
    let share = text.parse().ok().filter(|share| (0.0001..=1.0).contains(share));
    share.with_context(|| format!("'{text}' is no precision: give a share from 0.0001 to 1"))
}

#[derive(clap::Args)]
pub struct ReportArgs {
    /// Folders of results: one is drawn again, several are compared
    #[arg(required = true, value_name = "DIR")]
    directories: Vec<PathBuf>,
    /// The page that compares several
    #[arg(short, long, value_name = "FILE", default_value = "comparison.html")]
    output: PathBuf,
    /// Write all of them as one Markdown document instead, pictures beside it
    #[arg(long, value_name = "FILE", conflicts_with = "output")]
    markdown: Option<PathBuf>,
    /// Two folders, of real and of virtual time, of one experiment or of many: the claims of both
    /// side by side, as Markdown
    #[arg(long)]
    beside: bool,
}

pub fn run(args: &Args) -> Result<ExitCode> {
    let names = match args.all {
        true => catalogue::all().into_keys().collect(),
        false => args.names.clone(),
    };
    if names.is_empty() {
        bail!(
            "there is no experiment: no folder 'experiments' here, and TRANSOM_EXPERIMENTS names none"
        );
    }
    // Everything is read and looked at before anything is made.
    let loaded: Vec<Loaded> =
        names.iter().map(|name| catalogue::find(name)).collect::<Result<_>>()?;
    let means = means(args)?;
    let mut orders: Vec<Order<'_>> =
        loaded.iter().map(|loaded| order(args, &means, loaded)).collect::<Result<_>>()?;
    let mut good = leave_out(&mut orders) || args.all;
    if orders.is_empty() {
        bail!("none of these experiments can be virtual");
    }
    for order in &orders {
        campaign::check(order).with_context(|| format!("experiment '{}'", order.loaded.name))?;
    }
    let signals = Signals::catch_all()?;
    let stop = || signals.came();
    for order in &orders {
        campaign::try_out(order, &stop)
            .with_context(|| format!("experiment '{}'", order.loaded.name))?;
    }
    if orders.len() > 1 {
        let seconds = orders.iter().map(Order::seconds).sum();
        note!("{} experiments, about {}", orders.len(), clock(seconds));
    }
    for order in &orders {
        let loaded = order.loaded;
        note!("{}: {} (about {})", loaded.name, loaded.experiment.title, clock(order.seconds()));
        let summary = campaign::run(order, &stop)?;
        sum_up(order, &summary)?;
        good &= summary.failures.is_empty();
        if summary.interrupted {
            let without = if args.fresh { ", without --fresh," } else { "" };
            bail!("interrupted: the same command{without} goes on where it stopped");
        }
    }
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn means(args: &Args) -> Result<Means> {
    if !args.is_virtual {
        return Ok(Means::Real { backend: args.backend, pcap: args.pcap });
    }
    simulated(args.jobs)
}

/// The engine, and so many runs at once.
pub(super) fn simulated(jobs: Option<usize>) -> Result<Means> {
    let (engine, jobs) = engine_and_jobs(jobs)?;
    Ok(Means::Virtual { engine, jobs, quiet: false })
}

/// The simulator, and how many of it run side by side.
pub(super) fn engine_and_jobs(jobs: Option<usize>) -> Result<(PathBuf, usize)> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let engine = engine::find(&transom_path()?, &path)?;
    let processors = || std::thread::available_parallelism().map_or(1, usize::from);
    Ok((engine, jobs.unwrap_or_else(processors)))
}

/// `transom` beside this program: it records, and other programs of ours lie beside it.
pub(super) fn transom_path() -> Result<PathBuf> {
    let own = std::env::current_exe().context("where is this program?")?;
    Ok(own.with_file_name("transom"))
}

/// Names experiments that cannot be virtual, with the reasons, and takes them out; whether there
/// was none.
fn leave_out(orders: &mut Vec<Order<'_>>) -> bool {
    let before = orders.len();
    orders.retain(|order| {
        let left_out = order.left_out();
        let possible = order.is_possible();
        let what = if possible { "not all of it is virtual" } else { "not virtual" };
        for reason in left_out {
            note!("{}: {what}: {reason}", order.loaded.name);
        }
        possible
    });
    orders.len() == before
}

fn order<'a>(args: &Args, means: &Means, loaded: &'a Loaded) -> Result<Order<'a>> {
    let default = RESULTS[usize::from(args.quick) + 2 * usize::from(args.is_virtual)];
    let folder = args.output.clone().unwrap_or_else(|| default.into());
    let transom = transom_path()?;
    let experiment = &loaded.experiment;
    let precise =
        experiment.precision.is_some() || experiment.claims.iter().any(|it| it.precision.is_some());
    if precise && !args.is_virtual {
        note!("{}: its `precision` is for virtual time; it has its repeats", loaded.name);
    }
    Ok(Order {
        makers: campaign::makers(loaded, &transom, means)?,
        loaded,
        quick: args.quick,
        directory: folder.join(&loaded.name),
        seed: args.seed,
        repeats: args.repeats,
        precision: args.precision,
        means: means.clone(),
        fresh: args.fresh,
        command: command_line(),
        transom,
    })
}

fn sum_up(order: &Order<'_>, summary: &Summary) -> Result<()> {
    let Summary { runs, finished, skipped, late, failures, .. } = summary;
    let mut words = vec![format!("{finished} of {runs} runs finished")];
    if *skipped > 0 {
        words.push(format!("{skipped} of them before"));
    }
    if *late > 0 {
        words.push(format!("{late} kept though the machine was too busy"));
    }
    if !failures.is_empty() {
        words.push(format!("{} failed", failures.len()));
    }
    note!("{}: {}", order.loaded.name, words.join(", "));
    if summary.finished > 0 {
        say_plain(&page::table(&Results::read(&order.directory)?))?;
        note!("{}: {}", order.loaded.name, order.directory.join(page::FILE).display());
    }
    Ok(())
}

pub fn report(args: &ReportArgs) -> Result<ExitCode> {
    let all: Vec<&Path> = args.directories.iter().map(PathBuf::as_path).collect();
    if args.beside {
        return side_by_side(&all, args.markdown.as_deref());
    }
    if let Some(document) = &args.markdown {
        page::markdown::write(&all, document)?;
        note!("transom: {}", document.display());
        return Ok(ExitCode::SUCCESS);
    }
    let path = match all.as_slice() {
        [directory] => {
            let results = Results::read(directory)?;
            say_plain(&page::table(&results))?;
            page::write(&results)?
        }
        all => {
            let html = compare::compare(all)?;
            Output::write_all_to(&args.output, &[], Replace::Always, html.as_bytes())?;
            args.output.clone()
        }
    };
    note!("transom: {}", path.display());
    Ok(ExitCode::SUCCESS)
}

fn side_by_side(folders: &[&Path], document: Option<&Path>) -> Result<ExitCode> {
    let &[real, simulated] = folders else {
        bail!("--beside takes two folders: the results of real time, then those of virtual time");
    };
    let text = beside::document(real, simulated)?;
    match document {
        Some(path) => {
            Output::write_all_to(path, &[], Replace::Always, text.as_bytes())?;
            note!("transom: {}", path.display());
        }
        None => say_plain(&text)?,
    }
    Ok(ExitCode::SUCCESS)
}
