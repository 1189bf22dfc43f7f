//! `transom whatif`: what other settings would have done to a recorded connection.

mod chosen;
mod engine;
mod lever;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;
use transom_control::{Parameters, Policy};
use transom_output::{Output, Replace, note};
use transom_predict::{
    Change, Effort, Lift, Model, Steady, WhatIf, change_between, policy, text, usual, verify,
    whatif,
};

use crate::chosen::ChosenArgs;

pub use chosen::Chosen;
pub use engine::Engine;
pub use lever::add_lever;

/// Fits a path to a recorded connection, replays the connection over it with Linux's own TCP in
/// virtual time, and if that is what was recorded, tries other settings of the sender.
///
/// Values of one option are alternatives; different options are combined. Without any, what one
/// would usually try is tried.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  transom whatif upload.parquet
  transom whatif upload.parquet --connection :5201 --cc bbr --cc reno
  transom whatif upload.parquet --cc bbr --initial-window 30 --write-policy faster.toml
  transom whatif upload.parquet --policy faster.toml
  transom whatif --verify before.parquet after.parquet")]
pub struct Args {
    /// Trace file of the sender, as `transom record` writes it; with --verify another one after it
    #[arg(required = true, num_args = 1..=2, value_name = "TRACE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    chosen: ChosenArgs,
    /// Another congestion control algorithm
    #[arg(long, visible_alias = "algorithm", value_name = "NAME", value_delimiter = ',')]
    cc: Vec<String>,
    /// Another initial window, segments
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=255))]
    initial_window: Vec<u32>,
    /// An upper limit of the congestion window, segments
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(2..=1_000_000))]
    cap: Vec<u32>,
    /// A sysctl of the sender, without the leading net. (ipv4.tcp_slow_start_after_idle=0)
    #[arg(long, value_name = "NAME=VALUE", value_parser = assignment)]
    sysctl: Vec<(String, String)>,
    /// What the first rule of a policy of `transom tune` that fits the connection would do
    #[arg(long, value_name = "POLICY.toml")]
    policy: Option<PathBuf>,
    /// A list of alternatives; the default when no other option names one
    #[arg(long = "try", value_name = "LIST", value_enum)]
    list: Option<List>,
    /// Write the best setting as a policy for `transom tune apply`
    #[arg(long, value_name = "POLICY.toml")]
    write_policy: Option<PathBuf>,
    /// Compare a prediction from the first trace with what the second one recorded
    #[arg(long)]
    verify: bool,
    /// One JSON object, for programs
    #[arg(long)]
    json: bool,
    /// Simulate for this long at most
    #[arg(long, default_value = "9s", value_name = "TIME", value_parser = crate::filters::duration, allow_hyphen_values = true)]
    budget: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum List {
    /// Other algorithms and initial windows, a cap, and each limit that is not TCP's lifted
    Usual,
}

fn assignment(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write it as NAME=VALUE")?;
    let name = name.trim().trim_start_matches("net.");
    Ok((name.to_owned(), value.trim().to_owned()))
}

pub fn run(args: Args) -> Result<ExitCode> {
    ensure!(
        (args.files.len() == 2) == args.verify,
        "one trace, or with --verify two: the one before the change and the one after it"
    );
    let chosen = Chosen::read(&args.files[0], &args.chosen)?;
    let (models, recorded) = (chosen.fit()?, chosen.measured()?);
    let after = args.files.get(1).map(|file| Chosen::read(file, &args.chosen)).transpose()?;
    let changes = match &after {
        Some(after) => vec![change_made(&args, &chosen, after)?],
        None => changes(&args, &chosen, &models[0])?,
    };
    let engine = Engine::find()?;
    engine.takes(&models[0], &changes)?;
    let effort = Effort { budget: args.budget, ..Effort::default() };
    let result = whatif(&models, &recorded, &changes, &engine, &engine, effort)?;
    let model = &result.model;
    let verified = match (&after, result.predictions.first()) {
        (Some(after), Some(prediction)) => Some(verify(prediction, &after.measured()?)),
        _ => None,
    };
    let mut out = transom_output::standard_output();
    if args.json {
        let all = json!({ "result": result, "verified": verified });
        serde_json::to_writer(&mut out, &all).map_err(std::io::Error::from)?;
        writeln!(out)?;
    } else {
        out.write_all(text::model(model).as_bytes())?;
        out.write_all(text::whatif(model, &chosen.analysis, &result).as_bytes())?;
        if let Some(verified) = &verified {
            out.write_all(text::verified(&changes[0].label(), verified).as_bytes())?;
        }
    }
    out.flush()?;
    if result.predictions.is_empty() {
        return Ok(ExitCode::from(3));
    }
    if let Some(file) = &args.write_policy {
        write_best(file, &chosen, &result)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What was set differently in the second recording: as named, or as the two traces show it.
fn change_made(args: &Args, before: &Chosen, after: &Chosen) -> Result<Change> {
    let (old, new) = (before.fit()?, after.fit().unwrap_or_default());
    let named = named(args, before)?;
    let mut change = match &named[..] {
        [] => change_between(before.connection()?, after.connection()?),
        [one] => one.clone(),
        more => bail!("--verify is about one change, and {} are named", more.len()),
    };
    if change.is_none() {
        let stays = |lift: &Lift| new.iter().any(|model| Lift::of(model).contains(lift));
        let gone = old.first().filter(|_| !new.is_empty()).map(Lift::of).unwrap_or_default();
        change.lift = gone.into_iter().find(|lift| !stays(lift));
    }
    let (a, b) = (before.file.display(), after.file.display());
    ensure!(
        !change.is_none(),
        "{a} and {b}: no setting of the sender differs (algorithm, initial window, cap), and no \
         limit is gone (buffers); name what was changed, such as --sysctl NAME=VALUE"
    );
    let has = after.connection()?.algorithm();
    if let Some(wanted) = change.algorithm.as_ref().filter(|it| !has.is_empty() && **it != has) {
        note!(
            "transom: {b}: at its end the connection has {has}, not {wanted}: the setting was not in \
             force, or the guard or the program has taken it back (`transom tune status`)"
        );
    }
    // The setting is to be judged, not that the program had less or more to send this time.
    change.program = new.into_iter().next().map(|it| (it.program, it.seconds));
    Ok(change)
}

/// What was named, or what one would try.
fn changes(args: &Args, chosen: &Chosen, model: &Model) -> Result<Vec<Change>> {
    let mut all = named(args, chosen)?;
    if all.is_empty() || args.list == Some(List::Usual) {
        all.extend(usual(model));
    }
    Ok(all)
}

/// Every combination of what was named.
fn named(args: &Args, chosen: &Chosen) -> Result<Vec<Change>> {
    fn each<T: Clone>(all: Vec<Change>, values: &[T], set: impl Fn(&mut Change, T)) -> Vec<Change> {
        if values.is_empty() {
            return all;
        }
        let with = |change: &Change| {
            let changed = values.iter().map(|value| {
                let mut change = change.clone();
                set(&mut change, value.clone());
                change
            });
            changed.collect::<Vec<_>>()
        };
        all.iter().flat_map(with).collect()
    }
    let mut base = Change { sysctl: args.sysctl.iter().cloned().collect(), ..Change::default() };
    if let Some(file) = &args.policy {
        base = Change { sysctl: base.sysctl, ..of_policy(file, chosen)? };
    }
    let all = each(vec![base], &args.cc, |change, name| change.algorithm = Some(name));
    let all = each(all, &args.initial_window, |change, it| change.initial_window = Some(it));
    let mut all = each(all, &args.cap, |change, cap| change.cap = Some(cap));
    all.retain(|change| !change.is_none());
    Ok(all)
}

/// What the first rule of a policy does that fits the connection, or the first of all if none does.
fn of_policy(file: &Path, chosen: &Chosen) -> Result<Change> {
    let name = || file.display().to_string();
    let text = transom_output::text_of(file).with_context(name)?;
    let policy = Policy::parse_for_elsewhere(&text).map_err(|problems| {
        let all: Vec<String> = problems.iter().map(ToString::to_string).collect();
        anyhow::anyhow!("{}: {}", name(), all.join("\n  "))
    })?;
    let first = policy.rules.first().with_context(|| format!("{} has no rule", name()))?;
    let fitting = policy.rules.iter().position(|rule| chosen.may_match(&rule.matching));
    let rule = fitting.map_or(first, |at| &policy.rules[at]);
    match fitting {
        None => note!(
            "transom: {}: no rule is for this connection; what the first would do to it is tried",
            name()
        ),
        Some(at) if policy.rules.len() > 1 => note!(
            "transom: {}: rule {} is tried, the first that fits this connection",
            name(),
            at + 1
        ),
        Some(_) => {}
    }
    let treatment = &rule.treatment;
    let Parameters { target, cap, backoff, gain } = treatment.parameters;
    let is_steady = treatment.algorithm.as_deref() == Some(Steady::NAME);
    Ok(Change {
        algorithm: treatment.algorithm.clone(),
        steady: is_steady.then_some(Steady { target, cap, backoff, gain }),
        initial_window: Some(treatment.initial_window).filter(|&window| window > 0),
        cap: Some(cap).filter(|&cap| cap > 0 && !is_steady),
        ..Change::default()
    })
}

/// The best setting that `tune` can make, of those that help.
fn write_best(file: &Path, chosen: &Chosen, result: &WhatIf) -> Result<()> {
    let helpful = result.helpful();
    let best = helpful.iter().find(|it| it.change.is_policy()).or(helpful.first());
    let (trace, name) = (chosen.file.display().to_string(), file.display().to_string());
    let of = chosen.service(&trace, "transom whatif", &name)?;
    let text = best.and_then(|best| policy(&of, best, &result.model));
    write_policy(file, chosen, best.map(|best| best.label.as_str()), text.as_deref())
}

/// Writes the policy of what helps best.
///
/// # Errors
/// If nothing helps, `tune` cannot set it, or the file is there or cannot be written.
pub fn write_policy(
    file: &Path,
    chosen: &Chosen,
    best: Option<&str>,
    policy: Option<&str>,
) -> Result<()> {
    let best = best.context("no policy was written: no lever helps")?;
    let text =
        policy.with_context(|| format!("no policy was written: `tune` cannot set {best}"))?;
    Output::write_all_to(file, &[&chosen.file], Replace::Never, text.as_bytes())?;
    note!("transom: {} written; `transom tune apply` puts it in force", file.display());
    Ok(())
}
