//! Recording: a stream while it runs, a Parquet file once it ends well. The stream that becomes Parquet is the
//! raw one, which costs the recorder least; one that stays a stream is Arrow's.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use transom_event::{BadEvent, Kind, Place, Raw};
use transom_raw_stream::{Footer, Meta};

use crate::live_arrow::ArrowStream;
use crate::parquet_file;

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
    /// Of an Arrow stream; a raw one is not compressed.
    pub compression: Compression,
    /// Events of a full batch: 64 to 65,536. A block of a raw stream has at most 2,048.
    pub batch_rows: usize,
}

impl Default for WriterOptions {
    fn default() -> WriterOptions {
        WriterOptions { compression: Compression::default(), batch_rows: parquet_file::BATCH_ROWS }
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

/// Records of a full block of a raw stream: a cache still holds it when it is written.
const BLOCK_RECORDS: usize = 2_048;

/// The file while it is being recorded.
enum Live {
    Raw(transom_raw_stream::Writer<File>),
    Arrow(Box<ArrowStream>),
}

impl Live {
    fn raw(file: File, meta: &Meta, full: usize) -> Result<Live> {
        // `Writer::push` ends a block before this one is full.
        let options = transom_raw_stream::Options {
            block_records: full + 1,
            coding: transom_raw_stream::Coding::Delta,
        };
        Ok(Live::Raw(transom_raw_stream::Writer::new(file, meta, options)?))
    }

    #[inline]
    fn push(&mut self, raw: &Raw) -> Result<()> {
        match self {
            Live::Raw(stream) => stream.push(raw),
            Live::Arrow(stream) => Ok(stream.push(raw)?),
        }
    }

    fn flush(&mut self) -> Result<()> {
        match self {
            Live::Raw(stream) => stream.flush(),
            Live::Arrow(stream) => stream.flush(),
        }
    }

    fn bytes_written(&self) -> u64 {
        match self {
            Live::Raw(stream) => stream.bytes_written(),
            Live::Arrow(stream) => stream.bytes_written(),
        }
    }
}

/// Which kinds of event and places there are.
static KINDS: LazyLock<[bool; 256]> =
    LazyLock::new(|| std::array::from_fn(|n| Kind::from_number(n as u32).is_some()));
static PLACES: LazyLock<[bool; 256]> =
    LazyLock::new(|| std::array::from_fn(|n| Place::from_number(n as u32).is_some()));

#[inline]
fn check(raw: &Raw) -> Result<(), BadEvent> {
    if !KINDS[usize::from(raw.head.kind)] {
        return Err(BadEvent::Kind(raw.head.kind));
    }
    if !PLACES[usize::from(raw.head.place)] {
        return Err(BadEvent::Place(raw.head.place));
    }
    Ok(())
}

/// Writes a trace. Dropped without [`Writer::finish`], it leaves a readable stream that says it is cut.
pub struct Writer {
    path: PathBuf,
    live: Live,
    /// Events of a full batch or block.
    full: usize,
    events: u64,
    /// Those of them that are not in the file yet.
    pending: usize,
    /// A batch was written in part: nothing may follow it.
    broken: bool,
}

/// A file that is opened for a trace, and holds what it held before.
pub(crate) struct Opened {
    path: PathBuf,
    file: File,
    /// It is only written into, behind what it holds.
    is_stream_only: bool,
    form: Form,
}

impl Opened {
    /// FILE is opened by `open`, unless it is the standard output (`-`), a pipe or a device.
    ///
    /// # Errors
    /// If it cannot be opened, or its name is that of another format.
    pub fn new(path: &Path, open: impl FnOnce(&Path) -> io::Result<File>) -> Result<Opened> {
        let form = Form::of(path)?;
        let stream_only = transom_output::pipe_or_device(path, &[])?;
        let is_stream_only = stream_only.is_some();
        let file = match stream_only {
            Some(file) => file,
            None => open(path)
                .with_context(|| format!("cannot create the trace file {}", path.display()))?,
        };
        Ok(Opened { path: path.to_owned(), file, is_stream_only, form })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Begins the trace; nothing is left of what was there.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn begin(self, meta: &Meta, options: WriterOptions) -> Result<Writer> {
        let Opened { path, file, is_stream_only, form } = self;
        let becomes_parquet = form == Form::Parquet && !is_stream_only;
        let cannot_write = || format!("cannot write {}", path.display());
        if !is_stream_only {
            file.set_len(0).with_context(cannot_write)?;
        }
        if becomes_parquet {
            parquet_file::remove_left_of(&path);
        }
        let batch = options.batch_rows.clamp(64, 65_536);
        let full = if becomes_parquet { batch.min(BLOCK_RECORDS) } else { batch };
        let live = if becomes_parquet {
            Live::raw(file, meta, full)
        } else {
            ArrowStream::new(file, meta, options.compression, full)
                .map(|stream| Live::Arrow(Box::new(stream)))
        };
        let live = live.with_context(cannot_write)?;
        Ok(Writer { path, live, full, events: 0, pending: 0, broken: false })
    }
}

impl Writer {
    /// Creates FILE, or replaces the one that is there. What becomes of it in the end its name
    /// says: Parquet, or an Arrow stream if it ends in `.arrow`, `.arrows` or `.ipc`, or is
    /// the standard output (`-`), a pipe or a device.
    ///
    /// # Errors
    /// If it cannot be created or written, or its name is that of another format.
    pub fn create(path: impl AsRef<Path>, meta: &Meta, options: WriterOptions) -> Result<Writer> {
        Opened::new(path.as_ref(), |path| File::create(path))?.begin(meta, options)
    }

    /// Adds one event.
    ///
    /// # Errors
    /// If it is not of the contract (it is left out, the next may follow), or
    /// if a batch cannot be written (the file ends there).
    #[inline]
    pub fn push(&mut self, raw: &Raw) -> Result<()> {
        check(raw)?;
        self.live.push(raw)?;
        self.events += 1;
        self.pending += 1;
        if self.pending == self.full { self.flush() } else { Ok(()) }
    }

    /// Ends the current batch, so that all pushed events survive the death of this process.
    ///
    /// # Errors
    /// If it cannot be written, as on a full disk: the file stays readable up to the batch before.
    pub fn flush(&mut self) -> Result<()> {
        if self.pending == 0 {
            return Ok(());
        }
        if self.broken {
            bail!("{} cannot take more events after a failed write", self.path.display());
        }
        if let Err(error) = self.live.flush() {
            self.broken = true;
            self.events -= self.pending as u64;
            return Err(error).with_context(|| {
                format!(
                    "cannot write {}: the events up to here can be read from it",
                    self.path.display()
                )
            });
        }
        self.pending = 0;
        Ok(())
    }

    /// Bytes in the file so far; what was pushed since the last batch is not among them.
    pub fn bytes_written(&self) -> u64 {
        self.live.bytes_written()
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
    pub fn finish(self, footer: Footer) -> Result<Finished> {
        self.end(footer)?.pack()
    }

    /// Ends the stream, which takes no time.
    pub(crate) fn end(mut self, footer: Footer) -> Result<Ended> {
        self.flush()?;
        if self.broken {
            bail!("{} is cut after a failed write; it stays a stream", self.path.display());
        }
        let footer = Footer { events: self.events, ..footer };
        let (path, events) = (self.path, self.events);
        match self.live {
            Live::Raw(stream) => {
                let stream_bytes = stream.bytes_written();
                stream.finish(footer.clone()).with_context(|| stays(&path, events))?;
                Ok(Ended { path, events, stream_bytes, to_pack: Some(footer) })
            }
            Live::Arrow(stream) => {
                let stream_bytes =
                    stream.finish().with_context(|| format!("cannot write {}", path.display()))?;
                Ok(Ended { path, events, stream_bytes, to_pack: None })
            }
        }
    }
}

/// What is said of a stream that cannot become Parquet.
fn stays(path: &Path, events: u64) -> String {
    format!(
        "cannot turn {path} into Parquet; it stays a raw stream with all its {events} events, \
         `transom convert --to parquet {path} OUT` can try again",
        path = path.display(),
    )
}

/// A stream that has ended, with all its events.
pub(crate) struct Ended {
    path: PathBuf,
    events: u64,
    stream_bytes: u64,
    /// What its Parquet file says at its end, if it is to become one.
    to_pack: Option<Footer>,
}

impl Ended {
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Replaces it by a Parquet file of the same name, unless it is to stay a stream.
    pub fn pack(self) -> Result<Finished> {
        let start = Instant::now();
        let Ended { path, events, stream_bytes, to_pack } = self;
        let bytes = match to_pack {
            Some(footer) => {
                parquet_file::replace_stream(&path, &footer)
                    .with_context(|| stays(&path, events))?;
                fs::metadata(&path)?.len()
            }
            None => stream_bytes,
        };
        Ok(Finished { path, events, bytes, stream_bytes, took: start.elapsed() })
    }
}
