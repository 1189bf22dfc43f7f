//! `lab sweep`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use transom_lab::catalogue;
use transom_lab::page::{self, Results};
use transom_lab::progress::clock;
use transom_lab::run::{Order, campaign};
use transom_lab::simulated::derived;
use transom_machine::signals::Signals;
use transom_output::{note, say_plain};

use super::command_line;
use super::run::{positive, simulated, transom_path};

/// Folder of results.
const RESULTS: &str = "sweep-virtual";

#[derive(clap::Args)]
pub struct Args {
    /// A name of `lab list`, or the path of a file
    name: String,
    /// Dotted keys of the experiment and the values each takes: all combinations are run
    #[arg(required = true, value_name = "KEY=VALUES")]
    keys: Vec<String>,
    /// A value of a key that the experiment itself sweeps, instead of its first
    #[arg(long, value_name = "KEY=VALUE")]
    point: Vec<String>,
    /// Folder for results, with one folder per experiment
    #[arg(short, long, value_name = "DIR", default_value = RESULTS)]
    output: PathBuf,
    /// Instead of the experiment's repeats
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    repeats: Option<u32>,
    /// Instead of the experiment's first seed
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Runs side by side [default: one per CPU]
    #[arg(long, value_name = "N", value_parser = positive)]
    jobs: Option<usize>,
}

pub fn run(args: &Args) -> Result<ExitCode> {
    let loaded = catalogue::find(&args.name)?;
    let mut keys = args.keys.iter().map(|it| derived::values(it)).collect::<Result<Vec<_>>>()?;
    keys.extend(args.point.iter().map(|it| derived::one_value(it)).collect::<Result<Vec<_>>>()?);
    let loaded = derived::swept(&loaded, &keys)?;
    let (transom, means) = (transom_path()?, simulated(args.jobs)?);
    let order = Order {
        makers: campaign::makers(&loaded, &transom, &means)?,
        loaded: &loaded,
        quick: false,
        directory: args.output.join(&loaded.name),
        seed: args.seed,
        repeats: args.repeats,
        precision: None,
        means,
        fresh: false,
        command: command_line(),
        transom,
    };
    campaign::check(&order)?;
    for reason in order.left_out() {
        note!("{}: not all of it is virtual: {reason}", loaded.name);
    }
    let signals = Signals::catch_all()?;
    campaign::try_out(&order, &|| signals.came())?;
    note!("{}: about {}", loaded.name, clock(order.seconds()));
    let summary = campaign::run(&order, &|| signals.came())?;
    if summary.finished > 0 {
        say_plain(&page::points(&Results::read(&order.directory)?))?;
        note!("{}: {}", loaded.name, order.directory.join(page::FILE).display());
    }
    if summary.interrupted {
        bail!("interrupted: the same command goes on where it stopped");
    }
    Ok(if summary.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
