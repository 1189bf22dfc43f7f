use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;
use transom_event::text::PAPER_CAPACITY;
use transom_output::{Replace, note};
use transom_trace::{Reader, Target, convert};

use crate::chosen::ChosenArgs;
use crate::handover::{self, Tool};

/// Convert a trace file to another format.
///
/// The format of IN is detected from its content: Parquet, the raw stream that a recording is until
/// it ends, or an Arrow stream. A stream that was cut (the recorder was killed, the disk was full) is
/// read up to its last whole block.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  transom convert cut.parquet whole.parquet        pack a recording that was cut
  transom convert far.parquet far.csv
  transom convert --to jsonl far.parquet - | jq .  to the standard output
  transom convert far.parquet far.pcapng           events and state, for Wireshark:
  tshark -r far.pcapng -Y 'bblog.event_id == 3'      timeouts
  transom convert far.parquet far.pftrace          for https://ui.perfetto.dev
  transom convert far.parquet far.qlog --connection :5201
                                                   for the congestion view of qvis")]
pub struct Args {
    /// Trace file to read
    #[arg(value_name = "IN")]
    input: PathBuf,

    /// File to write; - is the standard output
    #[arg(value_name = "OUT", required_unless_present = "output")]
    out: Option<PathBuf>,

    /// OUT as an option, as other commands have it
    #[arg(short, long, value_name = "OUT", conflicts_with = "out")]
    output: Option<PathBuf>,

    /// Format of OUT [default: by its ending: .parquet, .arrow, .csv, .jsonl, .paper,
    /// .pcapng, .pftrace, .qlog]
    #[arg(long, value_name = "FORMAT")]
    to: Option<Format>,

    /// Replace OUT if it exists
    #[arg(long)]
    force: bool,

    /// Entries of the bounded log whose positions the paper format prints
    #[arg(long, value_name = "N", default_value_t = PAPER_CAPACITY,
          value_parser = clap::value_parser!(u64).range(1..))]
    capacity: u64,

    #[command(flatten)]
    chosen: ChosenArgs,
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
    /// pcapng as FreeBSD's TCP Black Box Log, for Wireshark
    Pcapng,
    /// Track events, for Perfetto
    Perfetto,
    /// qlog 0.3, for qvis
    Qlog,
}

fn by_ending(path: &Path) -> Result<Format> {
    let ending = path.extension().and_then(OsStr::to_str).unwrap_or_default();
    Ok(match ending.to_ascii_lowercase().as_str() {
        "parquet" | "pq" => Format::Parquet,
        "arrow" | "arrows" | "ipc" => Format::Arrow,
        "csv" => Format::Csv,
        "jsonl" | "ndjson" | "json" => Format::Jsonl,
        "paper" => Format::Paper,
        "pcapng" => Format::Pcapng,
        "pftrace" | "perfetto-trace" | "perfetto" => Format::Perfetto,
        "qlog" => Format::Qlog,
        "pcap" => bail!(
            "the older pcap format has no place for events: name {} instead",
            path.with_extension("pcapng").display()
        ),
        _ => bail!(
            "cannot tell the format from the name {}; say it with --to \
             parquet|arrow|csv|jsonl|paper|pcapng|perfetto|qlog",
            path.display()
        ),
    })
}

/// The row formats of [`convert`] have every event; the formats of other tools can have a part.
fn target(format: Format, capacity: u64) -> Result<Target, Tool> {
    Ok(match format {
        Format::Parquet => Target::Parquet,
        Format::Arrow => Target::Arrow,
        Format::Csv => Target::Csv,
        Format::Jsonl => Target::JsonLines,
        Format::Paper => Target::Paper { capacity },
        Format::Pcapng => return Err(Tool::Wireshark),
        Format::Perfetto => return Err(Tool::Perfetto),
        Format::Qlog => return Err(Tool::Qvis),
    })
}

pub fn run(args: Args) -> Result<ExitCode> {
    let output = args.output.or(args.out).context("no OUT")?;
    let format = args.to.map_or_else(|| by_ending(&output), Ok)?;
    let replace = if args.force { Replace::Always } else { Replace::Never };
    let mut input = Reader::open(&args.input)?;
    let done = match target(format, args.capacity) {
        Ok(target) => {
            ensure!(
                !args.chosen.is_given(),
                "--connection is for pcapng, perfetto and qlog; the other formats have all events"
            );
            convert::write_file(&mut input, target, &output, replace)?
        }
        Err(tool) => handover::write(tool, &args.chosen, &mut input, &output, replace)?,
    };
    let mut summary = format!("{} events", done.events);
    if done.left_out > 0 {
        summary += &match format {
            Format::Qlog => format!(", {} connections without any state left out", done.left_out),
            _ => format!(", {} of them have no such line", done.left_out),
        };
    }
    if done.cut {
        summary +=
            "; the recording is cut: it did not come to its end, these are its whole batches";
    }
    note!("transom: {}: {}, {summary}", args.input.display(), input.format());
    Ok(ExitCode::SUCCESS)
}
