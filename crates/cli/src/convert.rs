use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use transom_event::text::PAPER_CAPACITY;
use transom_export::{BlackBox, Origin};
use transom_output::{Output, Replace, note};
use transom_trace::{Converted, Reader, Target, convert};

/// Convert a trace file to another format.
///
/// The format of IN is detected from its content: Parquet, or the Arrow stream that a recording is
/// until it ends. A stream that was cut (the recorder was killed, the disk was full) is read up to
/// its last whole batch.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  transom convert far.arrow far.parquet            pack a recording that was cut
  transom convert far.parquet far.csv
  transom convert --to jsonl far.parquet - | jq .  to the standard output
  transom convert far.parquet far.pcapng           events and state, for Wireshark:
  tshark -r far.pcapng -Y 'bblog.event_id == 3'      timeouts")]
pub struct Args {
    /// Trace file to read
    #[arg(value_name = "IN")]
    input: PathBuf,

    /// File to write; - is the standard output
    #[arg(value_name = "OUT")]
    output: PathBuf,

    /// Format of OUT [default: by its ending: .parquet, .arrow, .csv, .jsonl, .paper, .pcapng]
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
    /// pcapng as FreeBSD's TCP Black Box Log, for Wireshark
    Pcapng,
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
        "pcap" => bail!(
            "the older pcap format has no place for events: name {} instead",
            path.with_extension("pcapng").display()
        ),
        _ => bail!(
            "cannot tell the format from the name {}; say it with --to \
             parquet|arrow|csv|jsonl|paper|pcapng",
            path.display()
        ),
    })
}

pub fn run(args: Args) -> Result<ExitCode> {
    let format = args.to.map_or_else(|| by_ending(&args.output), Ok)?;
    let mut input = Reader::open(&args.input)?;
    let target = match format {
        Format::Parquet => Target::Parquet,
        Format::Arrow => Target::Arrow,
        Format::Csv => Target::Csv,
        Format::Jsonl => Target::JsonLines,
        Format::Paper => Target::Paper { capacity: args.capacity },
        Format::Pcapng => {
            let done = args.export(&mut input, black_box)?;
            return Ok(summarize(&args, &input, done));
        }
    };
    let done = convert::write_file(&mut input, target, &args.output, args.replace())?;
    Ok(summarize(&args, &input, done))
}

fn summarize(args: &Args, input: &Reader, done: Converted) -> ExitCode {
    let mut summary = format!("{} events", done.events);
    if done.left_out > 0 {
        summary += &format!(", {} of them have no such line", done.left_out);
    }
    if done.cut {
        summary +=
            "; the recording is cut: it did not come to its end, these are its whole batches";
    }
    note!("transom: {}: {}, {summary}", args.input.display(), input.format());
    ExitCode::SUCCESS
}

impl Args {
    fn replace(&self) -> Replace {
        if self.force { Replace::Always } else { Replace::Never }
    }

    /// Writes the format of another tool.
    fn export(
        &self,
        input: &mut Reader,
        write: impl FnOnce(&mut Reader, &Origin, &mut Output) -> Result<()>,
    ) -> Result<Converted> {
        let mut output = Output::open(&self.output, &[&self.input], self.replace())?;
        let origin = origin(input);
        write(input, &origin, &mut output)
            .with_context(|| format!("cannot write {}", self.output.display()))?;
        output.finish()?;
        Ok(Converted { events: input.events_read(), left_out: 0, cut: input.is_cut() })
    }
}

fn origin(input: &Reader) -> Origin {
    let meta = input.meta();
    Origin {
        program: format!("transom {}", env!("CARGO_PKG_VERSION")),
        kernel: meta.kernel.clone(),
        host: meta.host.clone(),
        boot_id: meta.boot_id.clone(),
        realtime_offset_ns: meta.realtime_offset_ns,
        command_line: meta.command_line.clone(),
        cut: input.is_cut(),
    }
}

fn black_box(input: &mut Reader, origin: &Origin, output: &mut Output) -> Result<()> {
    let mut file = BlackBox::new(output, origin)?;
    for event in input {
        file.push(&event?)?;
    }
    file.finish()?;
    Ok(())
}
