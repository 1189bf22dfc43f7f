//! `transom explain`: what held each connection of a trace file back.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use transom_analysis::{Pattern, analyse, text};

use crate::load::load;

/// Reads a trace file and says, for each connection, what limited it and for
/// how long, what happened to it, and what to do about it.
#[derive(clap::Args)]
pub struct Args {
    /// Trace file, as `transom record` writes it
    file: PathBuf,
    /// One JSON array of everything found, for programs
    #[arg(long)]
    json: bool,
    /// Only these: a cookie, an MPTCP token, an address or port (:5201), or LOCAL-REMOTE
    #[arg(long, value_name = "CONNECTION")]
    connection: Option<String>,
    /// Also connections of a few bytes, which otherwise share one line
    #[arg(long)]
    all: bool,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut analyses = analyse(&load(&args.file)?.recording);
    if let Some(wanted) = &args.connection {
        let pattern = Pattern::from(wanted.as_str());
        analyses.retain(|analysis| pattern.matches(analysis));
        anyhow::ensure!(
            !analyses.is_empty(),
            "no connection in {} matches {wanted:?}; `transom explain --all` lists them all",
            args.file.display()
        );
    }
    let mut out = std::io::stdout().lock();
    if args.json {
        serde_json::to_writer(&mut out, &analyses).map_err(std::io::Error::from)?;
        writeln!(out)?;
    } else {
        let all = args.all || args.connection.is_some();
        out.write_all(text::explain(&analyses, all).as_bytes())?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
