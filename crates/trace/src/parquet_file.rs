//! The finished trace: Parquet, with an encoding chosen for each column.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use arrow_array::RecordBatch;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::schema::types::ColumnPath;

use crate::meta::Footer;
use crate::schema;
use crate::stream::Stream;

pub(crate) const MAGIC: [u8; 4] = *b"PAR1";

/// Rows of a row group; with its pages held until it ends, the writer stays below 20 MB.
const ROW_GROUP: usize = 1 << 18;

/// Columns whose next value is close to the last one.
const DELTA: [&str; 1] = ["time_ns"];

/// Columns of many different values, whose high bytes repeat.
const SPLIT: [&str; 0] = [];

fn properties() -> Result<WriterProperties> {
    let mut properties = WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_2_0)
        .set_created_by(concat!("transom ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(3)?))
        .set_max_row_group_row_count(Some(ROW_GROUP))
        .set_statistics_enabled(EnabledStatistics::Chunk);
    for (names, encoding) in
        [(&DELTA[..], Encoding::DELTA_BINARY_PACKED), (&SPLIT[..], Encoding::BYTE_STREAM_SPLIT)]
    {
        for name in names {
            let column = ColumnPath::from(*name);
            properties = properties
                .set_column_dictionary_enabled(column.clone(), false)
                .set_column_encoding(column, encoding);
        }
    }
    Ok(properties.build())
}

/// Writes batches of [`schema::columns`] as Parquet.
pub(crate) struct ParquetSink<W: Write + Send> {
    writer: ArrowWriter<W>,
}

impl<W: Write + Send> ParquetSink<W> {
    pub fn new(to: W) -> Result<ParquetSink<W>> {
        let writer = ArrowWriter::try_new(to, schema::schema([]), Some(properties()?))?;
        Ok(ParquetSink { writer })
    }

    pub fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        Ok(self.writer.write(batch)?)
    }

    /// Ends the file with these pairs as its metadata.
    pub fn finish(mut self, pairs: impl IntoIterator<Item = (String, String)>) -> Result<W> {
        for (key, value) in pairs {
            self.writer.append_key_value_metadata(KeyValue::new(key, value));
        }
        Ok(self.writer.into_inner()?)
    }
}

/// Puts a Parquet file of the same events in the place of a whole stream.
pub(crate) fn replace_stream(path: &Path, footer: &Footer) -> Result<()> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let mut name = path.file_name().context("the trace file has no name")?.to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = directory.join(name);
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
    let (mut stream, stream_schema) = Stream::open(file)?;
    let out = File::create_new(temporary)
        .with_context(|| format!("cannot create {}", temporary.display()))?;
    let mut sink = ParquetSink::new(BufWriter::with_capacity(1 << 18, out))?;
    let mut events = 0;
    while let Some(batch) = stream.next_batch()? {
        events += batch.num_rows() as u64;
        sink.write(&batch)?;
    }
    ensure!(
        events == footer.events && !stream.is_cut(),
        "the stream holds {events} events of {}",
        footer.events
    );
    let pairs = stream_schema.metadata().clone().into_iter().chain(footer.pairs());
    let out = sink.finish(pairs)?.into_inner().map_err(|error| error.into_error())?;
    out.set_permissions(permissions)?;
    out.sync_all()?;
    fs::rename(temporary, path)?;
    Ok(())
}
