//! Runs pairs (path, change) for real and says how near `transom whatif` came to them.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, ensure};
use clap::Parser;
use transom_situations::batch;
use transom_situations::catalogue::Situation;
use transom_situations::pairs::trials;
use transom_situations::predicted::{Pair, ask, fits, fitted, report};

/// Records connections over real kernels with one setting and with another, asks `transom whatif`
/// about the first, and compares what it predicts with the second.
///
/// Examples:
///   predictions --seed 5                  run, ask, compare
///   predictions --seed 5 --score          of the traces that are there
#[derive(Parser)]
#[command(verbatim_doc_comment)]
struct Args {
    /// Of the paths and changes
    #[arg(long, value_name = "N")]
    seed: u64,
    /// Paths; each has two changes
    #[arg(long, default_value_t = 24, value_name = "N")]
    paths: usize,
    /// Record each change this often, and compare with the median
    #[arg(long, default_value_t = 3, value_name = "N")]
    repeats: usize,
    /// Folder for the traces
    #[arg(short, long, default_value = "target/predictions", value_name = "DIR")]
    output: PathBuf,
    /// The program under test [default: transom beside this program]
    #[arg(long, value_name = "PROGRAM")]
    transom: Option<PathBuf>,
    /// How many run at a time
    #[arg(long, default_value_t = 3, value_name = "N")]
    jobs: usize,
    /// Judge the traces that are there; run nothing
    #[arg(long)]
    score: bool,
    /// For the simulations of one answer, as `transom whatif` takes it
    #[arg(long, default_value = "9s", value_name = "TIME")]
    budget: String,
    /// Print what is drawn; run nothing
    #[arg(long)]
    list: bool,
}

fn main() -> Result<ExitCode> {
    let args = Args::parse();
    let transom = match &args.transom {
        Some(path) => path.clone(),
        None => std::env::current_exe()?.with_file_name("transom"),
    };
    ensure!(transom.exists(), "{} is not there: build it, or --transom", transom.display());
    let trace = |name: &str| args.output.join(format!("{name}.parquet"));
    let trials = trials(args.seed, args.paths)?;
    if args.list {
        trials.iter().for_each(|trial| print!("{}", trial.written));
        return Ok(ExitCode::SUCCESS);
    }
    if !args.score {
        std::fs::create_dir_all(&args.output)?;
        let all: Vec<Situation> =
            trials.iter().flat_map(|trial| trial.situations(args.repeats)).collect();
        let traced = all.iter().map(|one| (one, trace(&one.name)));
        let missing = traced.filter(|(_, trace)| !trace.exists()).collect();
        batch::build(missing, &transom, args.jobs)?;
    }
    let mut found = Vec::new();
    for trial in trials.iter().filter(|trial| trace(&trial.before.name).exists()) {
        found.extend(fitted(&trial.before, &trace(&trial.before.name))?);
    }
    println!("{}", fits(&found));
    let mut pairs: Vec<Pair> = Vec::new();
    for trial in &trials {
        for change in &trial.changes {
            let before = trace(&trial.before.name);
            let after = change.repeated(args.repeats).map(|it| trace(&it.name));
            let after: Vec<PathBuf> = after.filter(|file| file.exists()).collect();
            if before.exists() && !after.is_empty() {
                pairs.push(ask(&transom, &args.budget, &before, &after, &change.arguments)?);
            }
        }
    }
    print!("{}", report(&pairs));
    Ok(ExitCode::SUCCESS)
}
