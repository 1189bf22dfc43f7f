//! Builds every situation, records it, and compares the verdicts with what was built.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, ensure};
use clap::Parser;
use transom_machine::signals::Signals;
use transom_situations::catalogue::{self, Part, Situation};
use transom_situations::run;
use transom_situations::score::{Said, Score, ask, matrix, shuffled};

/// Builds connections whose cause is known, over real kernels, and says how often the verdict
/// names it.
///
/// Examples:
///   situations                      all of them, traces in target/situations
///   situations --only policer       those whose name begins so
///   situations --score              of the traces that are there, run nothing
#[derive(Parser)]
#[command(verbatim_doc_comment)]
struct Args {
    /// Only those whose name begins with this
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Folder for the traces
    #[arg(short, long, default_value = "target/situations", value_name = "DIR")]
    output: PathBuf,
    /// The program under test [default: transom beside this program]
    #[arg(long, value_name = "PROGRAM")]
    transom: Option<PathBuf>,
    /// How many run at a time
    #[arg(long, default_value_t = 4, value_name = "N")]
    jobs: usize,
    /// Judge the traces that are there; run nothing
    #[arg(long)]
    score: bool,
    /// Only this part, e.g. while the rules are tuned
    #[arg(long, value_enum, default_value_t = Parts::All)]
    part: Parts,
    /// With the labels of other situations: the control, whose score must fall to chance
    #[arg(long)]
    shuffle: bool,
    /// Also what was said of those that are right
    #[arg(short, long)]
    verbose: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Parts {
    Tuned,
    Aside,
    Drawn,
    All,
}

fn main() -> Result<ExitCode> {
    let args = Args::parse();
    let transom = match &args.transom {
        Some(path) => path.clone(),
        None => std::env::current_exe()?.with_file_name("transom"),
    };
    ensure!(transom.exists(), "{} is not there: build it, or --transom", transom.display());
    let wanted = |s: &Situation| {
        let named = args.only.iter().any(|name| s.name.starts_with(name.as_str()));
        let of_part = match args.part {
            Parts::All => true,
            Parts::Tuned => s.part() == Part::Tuned,
            Parts::Aside => s.part() == Part::Aside,
            Parts::Drawn => s.part() == Part::Drawn,
        };
        of_part && (named || args.only.is_empty())
    };
    let situations: Vec<Situation> = catalogue::all()?.into_iter().filter(wanted).collect();
    ensure!(!situations.is_empty(), "no situation has such a name, or none in this part");
    if !args.score {
        std::fs::create_dir_all(&args.output)?;
        build(&situations, &transom, &args)?;
    }
    let asked = situations.iter().map(|s| ask(s, &transom, &trace(&args, s)));
    let said: Vec<Said> = asked.collect::<Result<_>>()?;
    let said = if args.shuffle { shuffled(&said) } else { said };
    tell(&said, args.verbose);
    Ok(ExitCode::SUCCESS)
}

fn trace(args: &Args, situation: &Situation) -> PathBuf {
    args.output.join(format!("{}.parquet", situation.name))
}

/// Runs all, `--jobs` at a time and heavy ones alone; the first error ends it.
fn build(situations: &[Situation], transom: &Path, args: &Args) -> Result<()> {
    let signals = Signals::catch_all()?;
    let (heavy, light): (Vec<_>, Vec<_>) = situations.iter().partition(|one| one.is_heavy());
    build_side_by_side(light, args.jobs, &signals, transom, args)?;
    build_side_by_side(heavy, 1, &signals, transom, args)?;
    ensure!(!signals.came(), "interrupted");
    Ok(())
}

fn build_side_by_side(
    situations: Vec<&Situation>,
    jobs: usize,
    signals: &Signals,
    transom: &Path,
    args: &Args,
) -> Result<()> {
    let waiting = Mutex::new(VecDeque::from(situations));
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    let work = || -> Result<()> {
        while let Some(situation) = next().filter(|_| !signals.came()) {
            let build = || run::run(situation, transom, &trace(args, situation));
            // A machine that is busy for a moment is no reason to end.
            let late = build().or_else(|error| {
                eprintln!("{:36} once more: {error:#}", situation.name);
                build().with_context(|| format!("situation {}", situation.name))
            })?;
            eprintln!("{:36} emulator late by {late:.2} ms (p99)", situation.name);
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| match worker.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    })
}

fn tell(said: &[Said], verbose: bool) {
    for one in said {
        let mark = if one.is_right() {
            "right"
        } else if one.is_not_told() {
            "undetermined"
        } else {
            "WRONG"
        };
        if verbose || !one.is_right() {
            println!(
                "{mark:9} {:36} {} said {}\n          {}",
                one.name, one.wanted[0], one.cause, one.text
            );
        }
    }
    let titles =
        [(Part::Tuned, "tuned on"), (Part::Aside, "kept aside"), (Part::Drawn, "drawn later")];
    for (which, title) in titles {
        let part: Vec<&Said> = said.iter().filter(|one| one.part == which).collect();
        if !part.is_empty() {
            let score = Score::of(part.iter().copied());
            println!("\n{} situations {title}: {score}\n\n{}", part.len(), matrix(&part));
        }
    }
}
