//! A trace file turned into another format.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use arrow_ipc::writer::StreamWriter;
use transom_event::text::{Context as About, LogPosition, json, paper};
use transom_event::{Directory, Event, Kind, Raw, fields};
use transom_output::{Output, Replace};
use transom_raw_stream::Footer;

use crate::columns::Columns;
use crate::live_arrow::stream_options;
use crate::parquet_file::{BATCH_ROWS, ParquetSink};
use crate::reader::Reader;
use crate::table::Table;
use crate::writer::Compression;
use crate::{csv, schema};

/// What a trace can be turned into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    Parquet,
    Arrow,
    Csv,
    JsonLines,
    /// The log line of DICOMO 2011, figure 4; `capacity` is that of the log it pretends to be.
    Paper {
        capacity: u64,
    },
}

/// What was converted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Converted {
    /// Events read.
    pub events: u64,
    /// Events that the target has no line for (only the paper's format leaves any out).
    pub left_out: u64,
    /// The input is the beginning of a recording that did not come to its end.
    pub cut: bool,
}

/// Writes the events of `input` to `to`.
///
/// # Errors
/// If the input cannot be read to its end or the output cannot be written.
pub fn write_to(input: &mut Reader, target: Target, to: impl Write + Send) -> Result<Converted> {
    let left_out = match target {
        Target::Parquet => to_parquet(input, to)?,
        Target::Arrow => to_stream(input, to)?,
        Target::Csv => lines(input, to, Some(csv::header()), csv::row)?,
        Target::JsonLines => {
            lines(input, to, None, |event, context, line| line.push_str(&json(event, context)))?
        }
        Target::Paper { capacity } => {
            let mut sequence = 0;
            lines(input, to, None, |event, _, line| {
                if let Some(text) = paper(event, LogPosition::of(sequence, capacity)) {
                    sequence += 1;
                    line.push_str(&text);
                }
            })?
        }
    };
    Ok(Converted { events: input.events_read(), left_out, cut: input.is_cut() })
}

/// Writes the events of `input` to `output`: a file that appears when it is whole, or a pipe or
/// device that is written into (`-` is the standard output).
///
/// # Errors
/// As [`write_to`]; if `output` is the input, or exists and is not to be replaced. No part of a
/// file is left behind.
pub fn write_file(
    input: &mut Reader,
    target: Target,
    output: &Path,
    replace: Replace,
) -> Result<Converted> {
    let from = input.path().to_owned();
    let mut sink = Output::open(output, &[&from], replace)?;
    let converted = write_to(input, target, &mut sink)
        .with_context(|| format!("cannot write {}", output.display()))?;
    sink.finish()?;
    Ok(converted)
}

/// One line per event; an empty line is left out and counted.
fn lines(
    input: &mut Reader,
    mut to: impl Write,
    header: Option<String>,
    mut format: impl FnMut(&Event, About<'_>, &mut String),
) -> Result<u64> {
    let mut left_out = 0;
    let mut directory = Directory::default();
    let realtime_offset_ns = Some(input.meta().realtime_offset_ns);
    if let Some(header) = header {
        writeln!(to, "{header}")?;
    }
    let mut line = String::new();
    for event in input {
        let event = event?;
        line.clear();
        directory.learn(&event);
        let context = About { connection: directory.get(event.cookie), realtime_offset_ns };
        format(&event, context, &mut line);
        if line.is_empty() {
            left_out += 1;
            continue;
        }
        line.push('\n');
        to.write_all(line.as_bytes())?;
    }
    to.flush()?;
    Ok(left_out)
}

/// The footer of the output: that of the input, or, for a whole stream that
/// was never turned into Parquet, what its events say.
fn footer(input: &Reader, seen: Footer) -> Option<Footer> {
    input.footer().cloned().or_else(|| (!input.is_cut()).then_some(seen))
}

fn see(footer: &mut Footer, event: &Event) {
    footer.events += 1;
    footer.end_ns = footer.end_ns.max(event.time_ns);
    if event.kind != Kind::Lost {
        return;
    }
    if let (Some(cause), number) = fields::lost(event.aux) {
        *footer.lost.entry(cause).or_default() += u64::from(number);
    }
}

fn to_parquet(input: &mut Reader, to: impl Write + Send) -> Result<u64> {
    let schema = schema::raw_schema([]);
    let mut columns = Columns::new(BATCH_ROWS);
    let mut sink = ParquetSink::new(to, input.meta())?;
    let mut seen = Footer { lost: BTreeMap::new(), ..Footer::default() };
    for event in input.by_ref() {
        let event = event?;
        see(&mut seen, &event);
        columns.push(&Raw::from(&event))?;
        if columns.is_full() {
            sink.write(&columns.batch(&schema)?)?;
        }
    }
    if columns.len() > 0 {
        sink.write(&columns.batch(&schema)?)?;
    }
    let footer = footer(input, seen);
    let pairs = input.meta().pairs().into_iter().chain(footer.iter().flat_map(Footer::pairs));
    sink.finish(pairs)?.flush()?;
    Ok(0)
}

fn to_stream(input: &mut Reader, to: impl Write) -> Result<u64> {
    let pairs = input.meta().pairs().into_iter();
    let pairs = pairs.chain(input.footer().into_iter().flat_map(Footer::pairs));
    let units = ("transom.units".to_owned(), schema::units());
    let (raw, schema) = (schema::raw_schema([]), schema::schema(pairs.chain([units])));
    let mut columns = Columns::new(BATCH_ROWS);
    let mut table = Table::new(schema.clone(), input.meta());
    let options = stream_options(Compression::Zstd)?;
    let mut stream = StreamWriter::try_new_with_options(to, &schema, options)?;
    for event in input.by_ref() {
        columns.push(&Raw::from(&event?))?;
        if columns.is_full() {
            stream.write(&table.of(&columns.batch(&raw)?)?)?;
        }
    }
    if columns.len() > 0 {
        stream.write(&table.of(&columns.batch(&raw)?)?)?;
    }
    // A cut trace stays one: its stream gets no end marker.
    if input.is_cut() {
        stream.flush()?;
    } else {
        stream.finish()?;
    }
    Ok(0)
}
