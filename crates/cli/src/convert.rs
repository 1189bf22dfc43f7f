use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::ValueEnum;
use transom_event::text::PAPER_CAPACITY;
use transom_output::{Replace, note};
use transom_trace::{Reader, Target, convert};

/// Turn a trace file into another format.
///
/// The format of IN is found out by looking at it: Parquet, or the Arrow
/// stream that a recording is until it ends. A stream that was cut (the
/// recorder was killed, the disk was full) is read up to its last whole batch.
#[derive(clap::Args)]
pub struct Args {
    /// Trace file to read
    #[arg(value_name = "IN")]
    input: PathBuf,

    /// File to write; - is the standard output
    #[arg(value_name = "OUT")]
    output: PathBuf,

    /// Format of OUT [default: by its ending: .parquet, .arrow, .csv, .jsonl, .paper]
    #[arg(long, value_name = "FORMAT")]
    to: Option<Format>,

    /// Replace OUT if it exists
    #[arg(long)]
    force: bool,

    /// Entries of the bounded log whose positions the paper format prints
    #[arg(long, value_name = "N", default_value_t = PAPER_CAPACITY,
          value_parser = clap::value_parser!(u64).range(1..))]
    capacity: u64,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    /// Parquet, for pandas, polars, DuckDB
    Parquet,
    /// Arrow IPC stream, compressed
    Arrow,
    /// Comma-separated values with a header
    Csv,
    /// One JSON object per line
    Jsonl,
    /// The log line of DICOMO 2011, figure 4
    Paper,
}

fn by_ending(path: &Path) -> Result<Format> {
    let ending = path.extension().and_then(OsStr::to_str).unwrap_or_default();
    Ok(match ending.to_ascii_lowercase().as_str() {
        "parquet" | "pq" => Format::Parquet,
        "arrow" | "arrows" | "ipc" => Format::Arrow,
        "csv" => Format::Csv,
        "jsonl" | "ndjson" | "json" => Format::Jsonl,
        "paper" => Format::Paper,
        _ => bail!(
            "cannot tell the format from the name {}; say it with --to parquet|arrow|csv|jsonl|paper",
            path.display()
        ),
    })
}

pub fn run(args: Args) -> Result<ExitCode> {
    let format = args.to.map_or_else(|| by_ending(&args.output), Ok)?;
    let target = match format {
        Format::Parquet => Target::Parquet,
        Format::Arrow => Target::Arrow,
        Format::Csv => Target::Csv,
        Format::Jsonl => Target::JsonLines,
        Format::Paper => Target::Paper { capacity: args.capacity },
    };
    let mut input = Reader::open(&args.input)?;
    let replace = if args.force { Replace::Always } else { Replace::Never };
    let done = convert::write_file(&mut input, target, &args.output, replace)?;
    let mut summary = format!("{} events", done.events);
    if done.left_out > 0 {
        summary += &format!(", {} of them have no such line", done.left_out);
    }
    if done.cut {
        summary +=
            "; the recording is cut: it did not come to its end, these are its whole batches";
    }
    note!("transom: {}: {}, {summary}", args.input.display(), input.format());
    Ok(ExitCode::SUCCESS)
}
