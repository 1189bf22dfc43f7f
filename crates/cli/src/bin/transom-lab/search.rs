//! `lab search`.

use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use transom_lab::catalogue;
use transom_lab::page::short;
use transom_lab::progress::clock;
use transom_lab::run::Means;
use transom_lab::search::{
    Budget, Campaigns, Comparison, Estimate, Found, Outcome, Parameter, Settings, Space, Tried,
    search,
};
use transom_lab::simulated::derived;
use transom_machine::signals::Signals;
use transom_output::{Output, Replace, note, say_plain};

use super::command_line;
use super::run::{positive, simulated, transom_path};

/// Folder of results.
const RESULTS: &str = "search-virtual";
/// What was found, in it.
const FILE: &str = "search.json";

#[derive(clap::Args)]
#[command(after_help = "Example:
  transom lab search two-phones 'slow.goodput_mbit - 0.01 * slow.srtt_ms' \\
      hosts.slow.largest_window=10..200 flows.slow.algorithm=cubic,bbr,reno --point path.rtt_ms=256

Metrics and how seeds are used: docs/lab.md")]
pub struct Args {
    /// A name of `lab list`, or the path of a file
    name: String,
    /// What to maximise: numbers, FLOW.METRIC, METRIC of the run, + - * / ( ), min, max, log
    #[arg(allow_hyphen_values = true)]
    expression: String,
    /// Dotted keys of the experiment, and between what they may vary: KEY=LOW..HIGH, KEY=A,B,C
    #[arg(required = true, value_name = "KEY=RANGE")]
    parameters: Vec<String>,
    /// A value of a key that the experiment itself sweeps, instead of its first
    #[arg(long, value_name = "KEY=VALUE")]
    point: Vec<String>,
    /// Runs in all
    #[arg(long, value_name = "N", default_value_t = 400)]
    runs: u32,
    /// Seconds after which no more candidates are tried; the comparison still follows
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    time: Option<f64>,
    /// Seeds of each candidate
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1000))]
    seeds: u32,
    /// Seeds of the comparison, which the search never sees
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(2..=10000))]
    held_out: u32,
    /// Instead of the experiment's first seed
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(0..1 << 53))]
    seed: Option<u64>,
    /// Runs side by side [default: one per CPU]
    #[arg(long, value_name = "N", value_parser = positive)]
    jobs: Option<usize>,
    /// Folder for results, with one folder per experiment
    #[arg(short, long, value_name = "DIR", default_value = RESULTS)]
    output: PathBuf,
}

fn seconds(text: &str) -> Result<f64> {
    let seconds = text.parse().ok().filter(|seconds| (1.0..=1e7).contains(seconds));
    seconds.with_context(|| format!("'{text}' is no time: give seconds, 1 or more"))
}

pub fn run(args: &Args) -> Result<ExitCode> {
    let loaded = catalogue::find(&args.name)?;
    let parameters =
        args.parameters.iter().map(|it| Parameter::parse(it)).collect::<Result<Vec<_>>>()?;
    let point = args.point.iter().map(|it| derived::one_value(it)).collect::<Result<Vec<_>>>()?;
    let budget = Budget {
        runs: args.runs,
        seeds: args.seeds,
        held_out: args.held_out,
        time: args.time.map(Duration::from_secs_f64),
    };
    let candidates = budget.candidates()?;
    let Means::Virtual { engine, jobs, .. } = simulated(args.jobs)? else {
        bail!("a search takes place in virtual time");
    };
    let means = Means::Virtual { engine, jobs, quiet: true };
    let signals = Signals::catch_all()?;
    let stop = || signals.came();
    let mut lab = Campaigns::new(&loaded, &point, &args.expression, means, &stop)?;
    lab.directory = args.output.join(&loaded.name);
    lab.transom = transom_path()?;
    lab.command = command_line();
    lab.seed = args.seed.unwrap_or(loaded.experiment.seed);
    lab.check(&parameters)?;
    lab.try_out(&parameters)?;
    let mut space = Space::new(parameters, lab.seed)?;
    let whole = lab.seconds_of_a_run()? * f64::from(args.runs);
    let whole = args.time.map_or(whole, |time| whole.min(time));
    note!(
        "{}: up to {candidates} candidates with {} seeds each, the best with more, then {} \
         held-out seeds: about {}",
        loaded.name,
        args.seeds,
        args.held_out,
        clock(whole)
    );
    let found = search(&mut space, &budget, &mut lab, &mut |found, step| progress(found, step))?;
    let Some(found) = found else { bail!("interrupted before anything was found") };
    let path = lab.directory.join(FILE);
    let record = serde_json::json!({
        "expression": args.expression, "point": args.point, "command": command_line(),
        "found": &found,
    });
    Output::write_all_to(&path, &[], Replace::Always, &serde_json::to_vec_pretty(&record)?)?;
    say_plain(&told(&found, &args.expression))?;
    note!("{}: {}", loaded.name, path.display());
    if found.held_out.is_none() {
        bail!("interrupted: the same command goes on where it stopped");
    }
    Ok(ExitCode::SUCCESS)
}

fn progress(found: &Found, step: &str) {
    let best = found.best.as_ref().and_then(Tried::mean).map(short).unwrap_or_default();
    let default = found.default.mean().map(short).unwrap_or_default();
    note!("  {step}: best {best}, as it is {default}");
}

/// The result for a person.
fn told(found: &Found, expression: &str) -> String {
    let mut text = String::new();
    let failed = found.tried.iter().filter(|tried| tried.worth.is_err()).count();
    let _ = write!(text, "{} candidates tried", found.tried.len());
    if let Some(why) = &found.cut_short {
        let _ = write!(text, "; {why}");
    }
    text.push('\n');
    if let Some(why) = found.tried.iter().find_map(|tried| tried.worth.as_ref().err()) {
        let _ = writeln!(text, "{failed} of them could not be run; the first: {why}");
    }
    let Some(best) = &found.best else { return text };
    let _ = writeln!(text, "\nbest settings\n{}", settings(&best.settings));
    let _ = writeln!(text, "{expression}");
    let mut line = |name: &str, estimate: &str| {
        let _ = writeln!(text, "  {name:32}{estimate}");
    };
    let of = |tried: &Tried| match &tried.worth {
        Ok(values) => format!("{}, {} seeds", estimate(&Estimate::of(values)), values.len()),
        Err(why) => why.clone(),
    };
    line("seeds of the search: as it is", &of(&found.default));
    line("                     best", &of(best));
    let of = |it: &Estimate, held_out: &Comparison| {
        format!("{}, {} seeds", estimate(it), held_out.seeds)
    };
    let Some(held_out) = &found.held_out else {
        text.push_str("  not compared on held-out seeds: the lead may be chance\n");
        return text;
    };
    line("held-out seeds:      as it is", &of(&held_out.default, held_out));
    line("                     best", &of(&held_out.best, held_out));
    line("                     difference", &estimate(&held_out.difference));
    let _ = writeln!(text, "{}", verdict(held_out));
    text
}

fn settings(settings: &Settings) -> String {
    settings.iter().map(|(key, value)| format!("  {key} = {value}\n")).collect()
}

/// `8.21 (8.19 to 8.23)`.
fn estimate(estimate: &Estimate) -> String {
    let mean = short(estimate.mean);
    match estimate.interval {
        Some((low, high)) => format!("{mean} ({} to {})", short(low), short(high)),
        None => mean,
    }
}

fn verdict(held_out: &Comparison) -> String {
    let share = held_out.difference.mean / held_out.default.mean.abs();
    let share =
        if share.is_finite() { format!(", {:+.1} %", 100.0 * share) } else { String::new() };
    match held_out.outcome() {
        Outcome::Better => format!("Better than as it is{share}, on seeds that were not searched."),
        Outcome::Worse => format!("Worse than as it is{share}: keep the experiment's settings."),
        Outcome::NoDifference => {
            "No difference on held-out seeds: what the search found was chance.".to_owned()
        }
    }
}
