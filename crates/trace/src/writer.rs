//! Recording: an Arrow IPC stream while it runs, a Parquet file once it ends well.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{IpcWriteOptions, StreamWriter};
use arrow_schema::Schema;
use transom_event::Raw;

use crate::columns::Columns;
use crate::meta::{Footer, Meta};
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
pub struct Options {
    pub compression: Compression,
    /// Rows of a full batch: 64 to 65,536.
    pub batch_rows: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options { compression: Compression::default(), batch_rows: 8_192 }
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
    schema: Arc<Schema>,
    columns: Columns,
    stream: StreamWriter<BufWriter<Counted>>,
    bytes: Arc<AtomicU64>,
    events: u64,
    /// A batch was written in part: nothing may follow it.
    broken: bool,
}

impl Writer {
    /// Creates FILE, or replaces the one that is there.
    ///
    /// # Errors
    /// If it cannot be created or written, or is a device or a pipe.
    pub fn create(path: impl AsRef<Path>, meta: &Meta, options: Options) -> Result<Writer> {
        let path = path.as_ref().to_owned();
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .open(&path)
            .with_context(|| format!("cannot create the trace file {}", path.display()))?;
        // What is not a file cannot be replaced by a Parquet file in the end, and must not be.
        ensure!(file.metadata()?.is_file(), "{} is not a regular file", path.display());
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
        Ok(Writer { path, schema, columns, stream, bytes, events: 0, broken: false })
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

    /// Ends the stream and replaces it by a Parquet file of the same name.
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
        let ended = self.stream.finish();
        let stream_bytes = self.bytes_written();
        ended
            .map_err(anyhow::Error::from)
            .and_then(|()| parquet_file::replace_stream(&self.path, &footer))
            .with_context(|| {
                format!(
                    "cannot turn {path} into Parquet; it stays an Arrow stream with all its \
                     {events} events, `transom convert --to parquet {path} OUT` can try again",
                    path = self.path.display(),
                    events = self.events,
                )
            })?;
        let bytes = fs::metadata(&self.path)?.len();
        let (path, events) = (self.path, self.events);
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
