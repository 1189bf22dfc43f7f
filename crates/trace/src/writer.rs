//! Recording: an Arrow IPC stream while it runs, a Parquet file once it ends well.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{IpcWriteOptions, StreamWriter};
use arrow_schema::Schema;
use transom_event::Raw;
use transom_raw_stream::{Footer, Meta};

use crate::columns::Columns;
use crate::{parquet_file, schema};

/// Compression of the stream's buffers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    None,
    /// The cheapest for the recorder; docs/trace-format.md has the measurement.
    #[default]
    Lz4,
    /// Level 1.
    Zstd,
}

#[derive(Clone, Copy, Debug)]
pub struct WriterOptions {
    pub compression: Compression,
    /// Rows of a full batch: 64 to 65,536.
    pub batch_rows: usize,
}

impl Default for WriterOptions {
    fn default() -> WriterOptions {
        WriterOptions { compression: Compression::default(), batch_rows: 8_192 }
    }
}

/// What a finished recording is.
#[derive(Clone, Debug)]
pub struct Finished {
    pub path: PathBuf,
    pub events: u64,
    /// Size of the Parquet file, bytes.
    pub bytes: u64,
    /// Size of the stream it was made from, bytes.
    pub stream_bytes: u64,
    /// Duration of the conversion.
    pub took: Duration,
}

/// What a recording is in the end.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Parquet,
    Stream,
}

impl Form {
    /// By the name's ending; one that names no format is Parquet.
    ///
    /// # Errors
    /// If it names a format that only `convert` writes.
    pub fn of(path: &Path) -> Result<Form> {
        let ending = path.extension().and_then(OsStr::to_str).unwrap_or_default();
        match ending.to_ascii_lowercase().as_str() {
            "arrow" | "arrows" | "ipc" => Ok(Form::Stream),
            "csv" | "tsv" | "txt" | "json" | "jsonl" | "ndjson" | "paper" | "html" | "pcap"
            | "pcapng" | "svg" | "png" => bail!(
                "{} would not be {ending}: a recording is Parquet (.parquet) or an Arrow stream \
                 (.arrow); `transom convert` and `transom report` make other files of it",
                path.display()
            ),
            _ => Ok(Form::Parquet),
        }
    }
}

/// Counts what has gone to the file.
struct Counted {
    file: File,
    bytes: Arc<AtomicU64>,
}

impl Write for Counted {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let n = self.file.write(buf)?;
        self.bytes.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes a trace. Dropped without [`Writer::finish`], it leaves a readable stream that says it is cut.
pub struct Writer {
    path: PathBuf,
    becomes_parquet: bool,
    schema: Arc<Schema>,
    columns: Columns,
    stream: StreamWriter<BufWriter<Counted>>,
    bytes: Arc<AtomicU64>,
    events: u64,
    /// A batch was written in part: nothing may follow it.
    broken: bool,
}

impl Writer {
    /// Creates FILE, or replaces the one that is there. What becomes of it in the end its name
    /// says: Parquet, or the stream itself if it ends in `.arrow`, `.arrows` or `.ipc`, or is
    /// the standard output (`-`), a pipe or a device.
    ///
    /// # Errors
    /// If it cannot be created or written, or its name is that of another format.
    pub fn create(path: impl AsRef<Path>, meta: &Meta, options: WriterOptions) -> Result<Writer> {
        let path = path.as_ref().to_owned();
        let form = Form::of(&path)?;
        let stream_only = transom_output::pipe_or_device(&path, &[])?;
        let becomes_parquet = form == Form::Parquet && stream_only.is_none();
        let file = match stream_only {
            Some(file) => file,
            None => File::create(&path)
                .with_context(|| format!("cannot create the trace file {}", path.display()))?,
        };
        let schema = schema::raw_schema(meta.pairs());
        let bytes = Arc::new(AtomicU64::new(0));
        let sink = BufWriter::with_capacity(1 << 18, Counted { file, bytes: bytes.clone() });
        let mut stream = StreamWriter::try_new_with_options(
            sink,
            &schema,
            stream_options(options.compression)?,
        )?;
        stream.flush().with_context(|| format!("cannot write {}", path.display()))?;
        let columns = Columns::new(options.batch_rows.clamp(64, 65_536));
        let events = 0;
        Ok(Writer { path, becomes_parquet, schema, columns, stream, bytes, events, broken: false })
    }

    /// Adds one event.
    ///
    /// # Errors
    /// If it is not of the contract (it is left out, the next may follow), or
    /// if a batch cannot be written (the file ends there).
    #[inline]
    pub fn push(&mut self, raw: &Raw) -> Result<()> {
        self.columns.push(raw)?;
        self.events += 1;
        if self.columns.is_full() {
            self.flush()?;
        }
        Ok(())
    }

    /// Ends the current batch, so that all pushed events survive the death of this process.
    ///
    /// # Errors
    /// If it cannot be written, as on a full disk: the file stays readable up to the batch before.
    pub fn flush(&mut self) -> Result<()> {
        if self.columns.len() == 0 {
            return Ok(());
        }
        if self.broken {
            bail!("{} cannot take more events after a failed write", self.path.display());
        }
        let rows = self.columns.len() as u64;
        let batch = self.columns.batch(&self.schema)?;
        let written = self.stream.write(&batch).and_then(|()| self.stream.flush());
        if let Err(error) = written {
            self.broken = true;
            self.events -= rows;
            return Err(error).with_context(|| {
                format!(
                    "cannot write {}: the events up to here can be read from it",
                    self.path.display()
                )
            });
        }
        Ok(())
    }

    /// Bytes in the file so far; what was pushed since the last batch is not among them.
    pub fn bytes_written(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Events pushed.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Ends the stream and, unless it is to stay one, replaces it by a Parquet file of the same
    /// name.
    ///
    /// # Errors
    /// If the disk is full or the like: the stream then stays as it is, with
    /// all its events, and the error says so.
    pub fn finish(mut self, footer: Footer) -> Result<Finished> {
        self.flush()?;
        if self.broken {
            bail!("{} is cut after a failed write; it stays an Arrow stream", self.path.display());
        }
        let start = Instant::now();
        let footer = Footer { events: self.events, ..footer };
        let ended = self.stream.finish().map_err(anyhow::Error::from);
        let stream_bytes = self.bytes_written();
        let (path, events) = (self.path, self.events);
        if !self.becomes_parquet {
            ended.with_context(|| format!("cannot write {}", path.display()))?;
            let took = start.elapsed();
            return Ok(Finished { path, events, bytes: stream_bytes, stream_bytes, took });
        }
        ended.and_then(|()| parquet_file::replace_stream(&path, &footer)).with_context(|| {
            format!(
                "cannot turn {path} into Parquet; it stays an Arrow stream with all its \
                     {events} events, `transom convert --to parquet {path} OUT` can try again",
                path = path.display(),
            )
        })?;
        let bytes = fs::metadata(&path)?.len();
        Ok(Finished { path, events, bytes, stream_bytes, took: start.elapsed() })
    }
}

pub(crate) fn stream_options(compression: Compression) -> Result<IpcWriteOptions> {
    let options = IpcWriteOptions::default();
    Ok(match compression {
        Compression::None => options,
        Compression::Lz4 => options.try_with_compression(Some(CompressionType::LZ4_FRAME))?,
        Compression::Zstd => options
            .try_with_compression(Some(CompressionType::ZSTD))?
            .try_with_compression_level(Some(1))?,
    })
}
