//! `transom-fleet dashboard`: a dashboard for Grafana, and alert rules for Prometheus, for those who
//! have both. They are made of the definitions of what shippers and agents tell Prometheus.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use transom_output::{Output, Replace, say};

mod alerts;
mod panels;

/// Print a dashboard of the fleet for Grafana, or alert rules for Prometheus
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The alert rules of shippers and roll-outs, for Prometheus, instead of the dashboard
    #[arg(long)]
    rules: bool,
    /// Write it into this file
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace any file
    #[arg(long, requires = "output")]
    force: bool,
}

const EXAMPLES: &str = "\
Examples:
  transom-fleet dashboard -o transom-fleet.json
  transom-fleet dashboard --rules -o transom-fleet.rules.yml";

/// # Errors
/// The file cannot be written, or is somebody else's.
pub fn run(args: &Args) -> Result<ExitCode> {
    let text = if args.rules {
        alerts::rules()
    } else {
        serde_json::to_string_pretty(&panels::dashboard().json())?
    };
    let text = text.trim_end();
    match &args.output {
        Some(path) => {
            let replace = if args.force { Replace::Always } else { Replace::Never };
            Output::write_all_to(path, &[], replace, format!("{text}\n").as_bytes())?;
        }
        None => say!("{text}")?,
    }
    Ok(ExitCode::SUCCESS)
}
