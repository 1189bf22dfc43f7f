//! `lab compare`.

use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Result, bail};
use transom_lab::suite::{self, CASES, Case, Comparison, Order, Row, Side};
use transom_machine::signals::Signals;
use transom_output::{note, say};

use super::run::{engine_and_jobs, positive};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  transom lab compare --kernel 6.1 --kernel 6.12
  transom lab compare shallow policer --kernel 6.12 --kernel 6.12,cc=bbr
  transom lab compare --kernel 6.12 --kernel \"6.12,ipv4.tcp_rmem=4096 131072 33554432\"

What the cases and numbers are: docs/compare.md")]
pub struct Args {
    /// Cases; default: all of them
    #[arg(value_name = "CASE")]
    cases: Vec<String>,
    /// A side, given twice: a series of Linux and settings, as `6.1`, `6.12,cc=bbr` or
    /// `6.12,ipv4.tcp_recovery=0`
    #[arg(long = "kernel", value_name = "SERIES[,KEY=VALUE]…")]
    kernels: Vec<Side>,
    /// Seeds for each case
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(2..))]
    repeats: u32,
    /// The first seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Runs side by side [default: one per CPU]
    #[arg(long, value_name = "N", value_parser = positive)]
    jobs: Option<usize>,
    /// List the cases and what they show
    #[arg(long)]
    list: bool,
    /// Print rows as JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> Result<ExitCode> {
    if args.list {
        for Case { name, about, .. } in CASES {
            say!("{name:<18} {about}")?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let [first, second] = args.kernels.as_slice() else {
        bail!("two sides are compared: give --kernel twice, as --kernel 6.1 --kernel 6.12");
    };
    let (engine, jobs) = engine_and_jobs(args.jobs)?;
    let order = Order {
        engine: &engine,
        sides: [first.clone(), second.clone()],
        cases: chosen(&args.cases)?,
        seed: args.seed,
        repeats: args.repeats,
        jobs,
    };
    let signals = Signals::catch_all()?;
    let began = Instant::now();
    let tenth = |done: usize, all: usize| {
        if done * 10 / all != (done - 1) * 10 / all {
            let left = began.elapsed().as_secs_f64() * (all - done) as f64 / done as f64;
            note!("{done} of {all} runs, {left:.0} s left");
        }
    };
    let comparison = suite::compare(&order, &|| signals.came(), &tenth)?;
    if args.json {
        say!("{}", serde_json::to_string_pretty(&comparison)?)?;
    } else {
        show(&order, &comparison)?;
    }
    for failure in &comparison.failures {
        note!("transom: {failure}");
    }
    if comparison.interrupted {
        bail!("interrupted: the rows are of the runs that had ended");
    }
    Ok(if comparison.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn chosen(names: &[String]) -> Result<Vec<&'static Case>> {
    if names.is_empty() {
        return Ok(CASES.iter().collect());
    }
    let find = |name: &String| match CASES.iter().find(|case| case.name == name) {
        Some(case) => Ok(case),
        None => bail!("there is no case '{name}': `transom lab compare --list` lists them"),
    };
    names.iter().map(find).collect()
}

fn show(order: &Order<'_>, comparison: &Comparison) -> Result<()> {
    let [a, b] = order.sides.each_ref().map(|side| side.label.as_str());
    let [wide_a, wide_b] = [a, b].map(|label| label.len().max(9));
    say!("{:<18} {:<37} {a:>wide_a$}  {b:>wide_b$}   difference (95 %)", "case", "")?;
    for Row { case, measure, means, difference, differs, .. } in &comparison.rows {
        let mark = if *differs { "  differs" } else { "" };
        let [first, second] = means.map(number);
        let (low, high) = difference;
        let interval = match low.is_finite() {
            true => format!("{} to {}", number(*low), number(*high)),
            false => "not known from one run".to_owned(),
        };
        say!("{case:<18} {measure:<37} {first:>wide_a$}  {second:>wide_b$}   {interval}{mark}")?;
    }
    let differ = comparison.rows.iter().filter(|row| row.differs).count();
    say!("{differ} of {} numbers differ, by 2 % or more and surely", comparison.rows.len())?;
    Ok(())
}

/// Three digits that mean something.
fn number(value: f64) -> String {
    let digits = match value.abs() {
        v if v >= 100.0 || v == 0.0 => 0,
        v if v >= 10.0 => 1,
        v if v >= 1.0 => 2,
        _ => 3,
    };
    let text = format!("{value:.digits$}");
    if text.trim_matches(['-', '0', '.']).is_empty() { "0".to_owned() } else { text }
}
