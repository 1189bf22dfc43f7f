//! `lab run` and `lab report`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use transom_lab::experiment::Loaded;
use transom_lab::hosts::Backend;
use transom_lab::page::{self, Results};
use transom_lab::progress::clock;
use transom_lab::run::{Order, Summary, campaign};
use transom_lab::{catalogue, compare, hosts};
use transom_machine::signals::Signals;

use super::command_line;
use transom_output::{Output, Replace, note, say};

/// Folder of results, and that of short forms: neither takes the other's place.
pub const RESULTS: &str = "results";
pub const QUICK_RESULTS: &str = "results-quick";

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
    /// Folder for results, with one folder per experiment [default: results, or results-quick]
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
    let orders: Vec<Order<'_>> =
        loaded.iter().map(|loaded| order(args, loaded)).collect::<Result<_>>()?;
    for order in &orders {
        hosts::check(&order.wish(&order.loaded.experiment))
            .and_then(|_| campaign::check(order))
            .with_context(|| format!("experiment '{}'", order.loaded.name))?;
    }
    let signals = Signals::catch_all()?;
    if orders.len() > 1 {
        let seconds = orders.iter().map(Order::seconds).sum();
        note!("{} experiments, about {}", orders.len(), clock(seconds));
    }
    let mut good = true;
    for order in &orders {
        let loaded = order.loaded;
        note!("{}: {} (about {})", loaded.name, loaded.experiment.title, clock(order.seconds()));
        let summary = campaign::run(order, &|| signals.came())?;
        sum_up(order, &summary)?;
        good &= summary.failures.is_empty();
        if summary.interrupted {
            let without = if args.fresh { ", without --fresh," } else { "" };
            bail!("interrupted: the same command{without} goes on where it stopped");
        }
    }
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn order<'a>(args: &Args, loaded: &'a Loaded) -> Result<Order<'a>> {
    let folder = match (&args.output, args.quick) {
        (Some(folder), _) => folder.clone(),
        (None, false) => RESULTS.into(),
        (None, true) => QUICK_RESULTS.into(),
    };
    let transom = std::env::current_exe().context("where is this program?")?;
    Ok(Order {
        makers: campaign::makers(loaded, &transom)?,
        loaded,
        quick: args.quick,
        directory: folder.join(&loaded.name),
        seed: args.seed,
        repeats: args.repeats,
        pcap: args.pcap,
        backend: args.backend,
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
        say!("{}", page::table(&Results::read(&order.directory)?).trim_end())?;
        note!("{}: {}", order.loaded.name, order.directory.join(page::FILE).display());
    }
    Ok(())
}

pub fn report(args: &ReportArgs) -> Result<ExitCode> {
    let all: Vec<&Path> = args.directories.iter().map(PathBuf::as_path).collect();
    if let Some(document) = &args.markdown {
        page::markdown::write(&all, document)?;
        note!("transom: {}", document.display());
        return Ok(ExitCode::SUCCESS);
    }
    let path = match all.as_slice() {
        [directory] => {
            let results = Results::read(directory)?;
            say!("{}", page::table(&results).trim_end())?;
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
