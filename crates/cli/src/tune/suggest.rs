//! `transom tune suggest`: the lever that would have helped a recorded connection most.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::json;
use transom_control::{available_algorithms, loadable_algorithms, send_memory};
use transom_predict::{Effort, Machine, Suggestion, WhatIf, levers, suggest, text, whatif};

use crate::chosen::ChosenArgs;
use crate::filters::duration;
use crate::whatif::{Chosen, Engine, write_policy};

pub const EXAMPLES: &str = "Examples:
  transom tune suggest upload.parquet
  transom tune suggest upload.parquet --connection :5201 --budget 2min
  transom tune suggest upload.parquet -o faster.toml    and then `transom tune apply faster.toml`
  transom tune suggest upload.parquet --json | jq '.suggestion.levers[0].commands'";

/// What a policy is called that is not written yet.
const POLICY: &str = "POLICY.toml";

#[derive(clap::Args)]
pub struct Args {
    /// Trace file of the sender, as `transom record` writes it
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
    #[command(flatten)]
    chosen: ChosenArgs,
    /// Write the best setting as a policy for `transom tune apply`
    #[arg(short, long, value_name = "POLICY.toml")]
    output: Option<PathBuf>,
    /// Suggest nothing that gains less than this, percent of the recorded goodput
    #[arg(long, value_name = "PERCENT", default_value = "5", value_parser = percent, allow_hyphen_values = true)]
    min_gain: f64,
    /// One JSON object, for programs
    #[arg(long)]
    json: bool,
    /// Simulate for this long at most
    #[arg(long, default_value = "30s", value_name = "TIME", value_parser = duration, allow_hyphen_values = true)]
    budget: Duration,
}

fn percent(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('%').trim().parse::<f64>() {
        Ok(percent) if (0.0..=1000.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err("give a percentage from 0 to 1000".to_owned()),
    }
}

pub fn run(args: &Args) -> Result<ExitCode> {
    if let Some(file) = &args.output {
        ensure!(!file.exists(), "{} exists: give another name with -o", file.display());
    }
    let chosen = Chosen::read(&args.trace, &args.chosen)?;
    let (models, recorded) = (chosen.fit()?, chosen.measured()?);
    let engine = Engine::find()?;
    let effort = Effort { budget: args.budget, competing: 3, ..Effort::default() };
    let all = levers(&models[0]);
    let result = whatif(&models, &recorded, &all, &engine, &engine, effort)?;
    let trace = args.trace.display().to_string();
    let file = args.output.as_ref().map_or(POLICY.to_owned(), |file| file.display().to_string());
    let of = chosen.service(&trace, "transom tune suggest", &file)?;
    let refused = result.predictions.is_empty();
    let suggestion = (!refused).then(|| suggest(&of, &machine(), &result, args.min_gain));
    let mut out = transom_output::standard_output();
    if args.json {
        let all = json!({ "suggestion": suggestion, "result": result });
        serde_json::to_writer(&mut out, &all).map_err(std::io::Error::from)?;
        writeln!(out)?;
    } else {
        out.write_all(words(&chosen, &result, suggestion.as_ref()).as_bytes())?;
    }
    out.flush()?;
    drop(out);
    if let (Some(file), Some(suggestion)) = (&args.output, &suggestion)
        && !suggestion.is_too_short()
    {
        let best = suggestion.levers.first();
        let policy = best.and_then(|best| best.policy.as_deref());
        write_policy(file, &chosen, best.map(|best| best.label.as_str()), policy)?;
    }
    let is_answered = suggestion.is_some_and(|it| !it.is_too_short());
    Ok(if is_answered { ExitCode::SUCCESS } else { ExitCode::from(3) })
}

fn machine() -> Machine {
    Machine {
        algorithms: available_algorithms(),
        modules: loadable_algorithms(),
        send_memory: send_memory(),
    }
}

fn words(chosen: &Chosen, result: &WhatIf, suggestion: Option<&Suggestion>) -> String {
    let analysis = &chosen.analysis;
    match suggestion {
        None => text::whatif(&result.model, analysis, result),
        Some(suggestion) => {
            let (local, remote, program) = (&analysis.local, &analysis.remote, &analysis.program);
            let replay = text::replayed(result);
            let ends = format!("{local} > {remote} {program}");
            format!("{}\n{replay}\n{}", ends.trim_end(), text::suggestion(suggestion))
        }
    }
}
