//! `transom whatif`: what other settings would have done to a recorded connection.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;
use transom_analysis::{Analysis, Connection, Recording, analyse, select};
use transom_control::{Policy, available_algorithms};
use transom_lab::simulated::engine;
use transom_machine::signals::Signals;
use transom_output::{Output, Replace, note};
use transom_predict::{
    Change, Effort, For, Measured, Model, SENDER, Simulator, Watch, WhatIf, change_between, fit,
    of_connection, policy, text, usual, verify, whatif,
};
use transom_scenario::{Outcome, Scenario, trace_file};
use transom_trace::Reader;

use crate::chosen::ChosenArgs;
use crate::load::{Loaded, load};

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
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
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
    /// What the first rule of a policy of `transom tune` that fits would do
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
    /// Simulate for so long at most
    #[arg(long, default_value = "9s", value_name = "TIME", value_parser = crate::filters::duration)]
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

/// A connection that was chosen, with all that was found in its trace.
struct Chosen {
    recording: Recording,
    analysis: Analysis,
    file: PathBuf,
}

impl Chosen {
    fn read(file: &Path, chosen: &ChosenArgs) -> Result<Chosen> {
        let Loaded { recording, .. } = load(file)?;
        let analyses = analyse(&recording);
        let name = || file.display().to_string();
        let selected = select(&analyses, &chosen.selectors()).with_context(name)?;
        let analysis = selected.first().with_context(|| format!("{}: no connection", name()))?;
        if selected.len() > 1 {
            let (local, remote) = (&analysis.local, &analysis.remote);
            note!("transom: {local} > {remote}, the one with the most bytes of {}", selected.len());
        }
        let analysis = (*analysis).clone();
        Ok(Chosen { recording, analysis, file: file.to_owned() })
    }

    fn connection(&self) -> Result<&Connection> {
        self.recording.connection(self.analysis.cookie).context("the recording has it")
    }

    fn fit(&self) -> Result<Vec<Model>> {
        let file = self.file.display();
        fit(self.connection()?, &self.analysis, &self.recording)
            .with_context(|| format!("{file}: no path can be fitted to this connection"))
    }

    fn measured(&self) -> Result<Measured> {
        let connection = self.connection()?;
        let length = connection.last_ns.saturating_sub(connection.first_ns);
        let seconds = length as f64 / 1e9;
        Ok(of_connection(connection, &self.analysis, seconds, seconds))
    }
}

/// `transom-simulate`, a folder for each run.
struct Engine {
    program: PathBuf,
    folder: tempfile::TempDir,
    signals: Signals,
}

impl Engine {
    fn find() -> Result<Engine> {
        let own = std::env::current_exe().context("where this program lies")?;
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folder = tempfile::tempdir().context("making a folder for the simulations")?;
        Ok(Engine { program: engine::find(&own, &path)?, folder, signals: Signals::catch()? })
    }
}

impl Simulator for Engine {
    fn run(&self, scenario: &Scenario) -> Result<(Outcome, Recording)> {
        let folder = tempfile::tempdir_in(&self.folder).context("making a folder for a run")?;
        let go_on = || !self.signals.came();
        let outcome = engine::simulate(&self.program, scenario, folder.path(), &go_on)?;
        let Some(outcome) = outcome else { bail!("interrupted") };
        if let Some(failure) = outcome.failures.first() {
            bail!("the simulation failed: {}", failure.what);
        }
        let mut recording = Recording::default();
        for event in Reader::open(folder.path().join(trace_file(SENDER)))? {
            recording.push(&event?);
        }
        Ok((outcome, recording))
    }
}

impl Watch for Engine {
    fn progress(&self, done: usize, of: usize) {
        if done.is_multiple_of(4) || done == of {
            note!("transom: {done} of {of} simulations");
        }
    }

    fn stops(&self) -> bool {
        self.signals.came()
    }
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
        Some(after) => vec![change_made(&chosen, after)?],
        None => changes(&args, &models[0])?,
    };
    let engine = Engine::find()?;
    let effort = Effort { budget: args.budget, ..Effort::default() };
    let result = whatif(&models, &recorded, &changes, &engine, &engine, effort)?;
    let model = &result.model;
    let verified = match (&after, result.predictions.first()) {
        (Some(after), Some(prediction)) => Some(verify(prediction, &after.measured()?)),
        _ => None,
    };
    let mut out = std::io::stdout().lock();
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
    if let Some(file) = &args.write_policy {
        write_policy(file, &chosen, &result)?;
    }
    let refused = result.replayed.is_none() || !result.mismatches.is_empty();
    Ok(if refused { ExitCode::from(3) } else { ExitCode::SUCCESS })
}

/// What was set differently in the second recording.
fn change_made(before: &Chosen, after: &Chosen) -> Result<Change> {
    let change = change_between(before.connection()?, after.connection()?);
    let (a, b) = (before.file.display(), after.file.display());
    ensure!(
        !change.is_none(),
        "{a} and {b}: no setting of the sender differs (algorithm, initial window, cap)"
    );
    Ok(change)
}

/// Every combination of what was named.
fn changes(args: &Args, model: &Model) -> Result<Vec<Change>> {
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
        base = Change { sysctl: base.sysctl, ..of_policy(file)? };
    }
    let all = each(vec![base], &args.cc, |change, name| change.algorithm = Some(name));
    let all = each(all, &args.initial_window, |change, it| change.initial_window = Some(it));
    let mut all = each(all, &args.cap, |change, cap| change.cap = Some(cap));
    all.retain(|change| !change.is_none());
    if all.is_empty() || args.list == Some(List::Usual) {
        all.extend(usual(model));
    }
    Ok(all)
}

/// What the first rule of a policy does.
fn of_policy(file: &Path) -> Result<Change> {
    let name = || file.display().to_string();
    let text = std::fs::read_to_string(file).with_context(name)?;
    let policy = Policy::parse(&text, &available_algorithms()).map_err(|problems| {
        let all: Vec<String> = problems.iter().map(ToString::to_string).collect();
        anyhow::anyhow!("{}: {}", name(), all.join("\n  "))
    })?;
    let rule = policy.rules.first().with_context(|| format!("{} has no rule", name()))?;
    if policy.rules.len() > 1 {
        note!("transom: {}: only the first rule is tried", name());
    }
    let treatment = &rule.treatment;
    Ok(Change {
        algorithm: treatment.algorithm.clone(),
        initial_window: Some(treatment.initial_window).filter(|&window| window > 0),
        cap: Some(treatment.parameters.cap).filter(|&cap| cap > 0),
        ..Change::default()
    })
}

fn write_policy(file: &Path, chosen: &Chosen, result: &WhatIf) -> Result<()> {
    let best = result.predictions.iter().find(|it| it.change.is_policy() && !it.is_open);
    let best = best.context("no policy was written: nothing that `tune` can set was predicted")?;
    let analysis = &chosen.analysis;
    let trace = chosen.file.display().to_string();
    let of = For {
        program: &analysis.program,
        ends: analysis.ends.context("the trace does not say which addresses it has")?,
        serves: analysis.serves,
        trace: &trace,
    };
    let text = policy(&of, best).context("`tune` cannot make that change")?;
    Output::write_all_to(file, &[&chosen.file], Replace::Never, text.as_bytes())?;
    note!("transom: {} written; `transom tune apply` puts it in force", file.display());
    Ok(())
}
