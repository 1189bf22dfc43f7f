//! The finished trace: Parquet, with an encoding chosen for each column.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use arrow_array::RecordBatch;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::metadata::{KeyValue, ParquetMetaData};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::schema::types::ColumnPath;
use transom_output::unfinished;
use transom_raw_stream::{Footer, Meta};

use crate::checksum::{self, Summed};
use crate::columns::Columns;
use crate::order::by_connection;
use crate::schema;
use crate::table::Table;

/// What the names of files end in that are not whole yet.
const UNFINISHED: &str = ".tmp";

pub(crate) const MAGIC: [u8; 4] = *b"PAR1";

/// Rows of a row group, whose pages are held in memory until it ends.
const ROW_GROUP: usize = 1 << 17;

/// Rows that are sorted by connection at once.
pub(crate) const BATCH_ROWS: usize = 8_192;

/// Rows of a row group that a reader accepts.
const MAX_ROWS: i64 = 1 << 20;

/// Columns that mostly move on from their last value of the same connection.
const MOVING: [&str; 12] = [
    "time_utc",
    "time_ns",
    "snd_una",
    "snd_nxt",
    "rcv_nxt",
    "packets_out",
    "srtt_us",
    "mdev_us",
    "send_queue",
    "recv_queue",
    "unsent",
    "delivered",
];

/// A column whose values rarely repeat nor lie close to each other.
const SCATTERED: &str = "pacing_rate";

/// A dictionary that grows beyond this does not pay: the rest of the row group is written as differences.
const DICTIONARY_BYTES: usize = 8 << 10;

/// What our files name as their writer, before its version. A file that another program has made of
/// one of ours names that, though it may have our metadata.
const WRITER: &str = "transom ";

/// The encodings; measured by `examples/measure_trace.rs`, see docs/trace-format.md.
fn properties() -> Result<WriterProperties> {
    let mut properties = WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_2_0)
        .set_created_by([WRITER, env!("CARGO_PKG_VERSION")].concat())
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(1)?))
        .set_max_row_group_row_count(Some(ROW_GROUP))
        .set_dictionary_page_size_limit(DICTIONARY_BYTES)
        .set_statistics_enabled(EnabledStatistics::Chunk);
    for (name, encoding) in MOVING
        .map(|name| (name, Encoding::DELTA_BINARY_PACKED))
        .into_iter()
        .chain([(SCATTERED, Encoding::PLAIN)])
    {
        let column = ColumnPath::from(name);
        properties = properties
            .set_column_dictionary_enabled(column.clone(), false)
            .set_column_encoding(column, encoding);
    }
    Ok(properties.build())
}

fn units() -> (String, String) {
    ("transom.units".to_owned(), schema::units())
}

/// Writes batches of a recording as the table, in Parquet.
pub(crate) struct ParquetSink<W: Write + Send> {
    writer: ArrowWriter<Summed<W>>,
    table: Table,
}

impl<W: Write + Send> ParquetSink<W> {
    pub fn new(to: W, meta: &Meta) -> Result<ParquetSink<W>> {
        let schema = schema::schema([units()]);
        let table = Table::new(schema.clone(), meta);
        let writer = ArrowWriter::try_new(Summed::new(to), schema, Some(properties()?))?;
        Ok(ParquetSink { writer, table })
    }

    pub fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let rows = self.table.of(&by_connection(batch)?)?;
        Ok(self.writer.write(&rows)?)
    }

    /// Ends the file with these pairs as its metadata.
    pub fn finish(mut self, pairs: impl IntoIterator<Item = (String, String)>) -> Result<W> {
        // For those that do not look into the schema of Arrow.
        for (key, value) in pairs.into_iter().chain([units()]) {
            self.writer.append_key_value_metadata(KeyValue::new(key, value));
        }
        self.writer.append_key_value_metadata(checksum::pair());
        self.writer.flush()?;
        self.writer.sync()?;
        self.writer.inner_mut().begin_footer();
        self.writer.into_inner()?.finish()
    }
}

/// Puts a Parquet file of the same events in the place of a whole raw stream.
pub(crate) fn replace_stream(path: &Path, footer: &Footer) -> Result<()> {
    let directory = folder(path);
    let temporary = beside(path)?;
    let result = convert(path, &temporary, footer);
    if result.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    result?;
    // The rename itself must survive a power cut; where a directory cannot be synced, the file still is.
    let _ = File::open(directory).and_then(|directory| directory.sync_all());
    Ok(())
}

fn convert(path: &Path, temporary: &Path, footer: &Footer) -> Result<()> {
    let file = File::open(path)?;
    let permissions = file.metadata()?.permissions();
    let (out, _) = unfinished::begin(|| Ok((File::create_new(temporary)?, temporary)))
        .with_context(|| format!("cannot create {}", temporary.display()))?;
    let mut stream = transom_raw_stream::Reader::open(file)?;
    let (sink, events) = copied(&mut stream, BufWriter::with_capacity(1 << 18, out))?;
    ensure!(
        events == footer.events && !stream.is_cut(),
        "the stream holds {events} events of {}",
        footer.events
    );
    let pairs = stream.meta().pairs().into_iter().chain(footer.pairs());
    let out = sink.finish(pairs)?.into_inner().map_err(|error| error.into_error())?;
    out.set_permissions(permissions)?;
    out.sync_all()?;
    fs::rename(temporary, path)?;
    Ok(())
}

/// All events of a raw stream, and how many.
fn copied<W: Write + Send>(
    stream: &mut transom_raw_stream::Reader,
    to: W,
) -> Result<(ParquetSink<W>, u64)> {
    let schema = schema::raw_schema([]);
    let mut columns = Columns::new(BATCH_ROWS);
    let mut sink = ParquetSink::new(to, stream.meta())?;
    let mut events = 0;
    while let Some(block) = stream.next_block()? {
        for raw in block {
            columns.push(&raw)?;
            events += 1;
            if columns.is_full() {
                sink.write(&columns.batch(&schema)?)?;
            }
        }
    }
    if columns.len() > 0 {
        sink.write(&columns.batch(&schema)?)?;
    }
    Ok((sink, events))
}

/// A raw stream as a Parquet file, with `pairs` among its metadata; the same stream always makes the
/// same bytes. Of one that is cut, what was written of it.
///
/// # Errors
/// It is no raw stream, is damaged, or of a newer format.
pub fn table_of_stream(
    file: File,
    pairs: impl IntoIterator<Item = (String, String)>,
) -> Result<(Vec<u8>, Meta)> {
    let mut stream = transom_raw_stream::Reader::open(file)?;
    let (sink, _) = copied(&mut stream, Vec::new())?;
    let meta = stream.meta().clone();
    let own = meta.pairs().into_iter().chain(stream.footer().into_iter().flat_map(Footer::pairs));
    Ok((sink.finish(own.chain(pairs))?, meta))
}

/// A name for a file that is not whole yet.
fn beside(path: &Path) -> Result<PathBuf> {
    let mut name = path.file_name().context("a file name is missing")?.to_owned();
    name.push(format!(".{}{UNFINISHED}", std::process::id()));
    Ok(path.with_file_name(name))
}

pub(crate) fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// What conversions to this file left that were killed.
pub(crate) fn remove_left_of(path: &Path) {
    let Some(name) = path.file_name() else { return };
    remove_left(folder(path), |of| of == name.as_encoded_bytes());
}

/// Removes from a folder what conversions to files of such names left that were killed.
pub fn remove_left(folder: &Path, is_ours: impl Fn(&[u8]) -> bool) {
    unfinished::remove_left(folder, |name| becomes(name).is_some_and(&is_ours));
}

/// Of the name that [`beside`] gives, that of the file itself.
fn becomes(name: &[u8]) -> Option<&[u8]> {
    let name = name.strip_suffix(UNFINISHED.as_bytes())?;
    let dot = name.iter().rposition(|&byte| byte == b'.')?;
    let pid = &name[dot + 1..];
    (!pid.is_empty() && pid.iter().all(u8::is_ascii_digit)).then(|| &name[..dot])
}

/// Refuses a file of ours whose bytes have changed since it was written.
pub(crate) fn check_bytes(metadata: &ParquetMetaData, file: &File, file_bytes: u64) -> Result<()> {
    let writer = metadata.file_metadata().created_by().unwrap_or_default();
    if writer.starts_with(WRITER) { checksum::check(file, file_bytes) } else { Ok(()) }
}

/// Refuses sizes that no trace has before anything is allocated for them.
pub(crate) fn check_sizes(metadata: &ParquetMetaData, file_bytes: u64) -> Result<()> {
    for (i, group) in metadata.row_groups().iter().enumerate() {
        let rows = group.num_rows();
        ensure!((0..=MAX_ROWS).contains(&rows), "row group {i} claims {rows} rows");
        for chunk in group.columns() {
            let (start, length) = (chunk.data_page_offset(), chunk.compressed_size());
            let start = chunk.dictionary_page_offset().unwrap_or(start);
            let end = start.checked_add(length).and_then(|end| u64::try_from(end).ok());
            ensure!(
                start >= 0 && length >= 0 && end.is_some_and(|end| end <= file_bytes),
                "column {} of row group {i} lies outside of the file",
                chunk.column_path()
            );
        }
    }
    Ok(())
}
