//! Reading a trace, whichever of the three formats it is in.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail, ensure};
use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampMicrosecondType};
use arrow_schema::{DataType, FieldRef, Fields, Schema};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder,
};
use transom_event::Event;
use transom_raw_stream::{Footer, Meta, are_ours};

use crate::decode::Rows;
use crate::guarded;
use crate::parquet_file::{self, check_bytes, check_sizes};
use crate::stream::{CONTINUATION, Stream};

/// The formats of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// As it is while it is being recorded.
    ArrowStream,
    /// As it is once the recording ended well.
    Parquet,
    /// As the agent leaves it in its spool.
    RawStream,
}

impl std::fmt::Display for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Format::ArrowStream => "Arrow stream",
            Format::Parquet => "Parquet",
            Format::RawStream => "raw stream",
        })
    }
}

/// The events of a trace file, one after the other.
///
/// A stream yields them as the ring buffer did; Parquet, which keeps them by
/// connection, yields each row group in the order of time.
pub struct Reader {
    path: PathBuf,
    meta: Meta,
    footer: Option<Footer>,
    source: Source,
    ready: std::vec::IntoIter<Event>,
    marked: bool,
    /// Its metadata is there, so what is missing in it says something.
    is_ours: bool,
    failed: bool,
    read: u64,
}

enum Source {
    Stream(Stream),
    Parquet { file: File, metadata: ArrowReaderMetadata, next: usize },
    Raw(Box<transom_raw_stream::Reader>),
}

impl Reader {
    /// Opens a trace file and reads what it says about itself.
    ///
    /// # Errors
    /// If it cannot be read, is not a trace, or is of a newer format.
    pub fn open(path: impl AsRef<Path>) -> Result<Reader> {
        let path = path.as_ref();
        guarded::opened(path);
        let open = || {
            let mut file = File::open(path).map_err(|why| unopened(path, why))?;
            let mut magic = [0; 8];
            let n = sniff(&mut file, &mut magic)?;
            // The last byte is the version, which its own reader judges.
            if magic[..7] == transom_raw_stream::MAGIC[..7] {
                return Reader::raw(path, file);
            }
            match magic[..4].try_into()? {
                CONTINUATION => Reader::stream(path, file),
                parquet_file::MAGIC => Reader::parquet(path, file),
                _ => bail!(foreign(&magic[..n])),
            }
        };
        open().with_context(|| format!("cannot read {} as a trace", path.display()))
    }

    fn stream(path: &Path, mut file: File) -> Result<Reader> {
        let marked = ends_with_marker(&mut file)?;
        let (stream, schema) = Stream::open(file)?;
        let source = Source::Stream(stream);
        let pairs: std::collections::BTreeMap<_, _> = schema.metadata().clone().into();
        ensure!(
            are_ours(&pairs),
            "it holds a table, but not a Transom trace (no key transom.format in its metadata)"
        );
        Reader::new(path, source, &pairs, marked)
    }

    fn parquet(path: &Path, file: File) -> Result<Reader> {
        let metadata = guarded::call(|| {
            ArrowReaderMetadata::load(&file, ArrowReaderOptions::new())
                .context("its footer is not readable: it is cut or corrupt")
                .and_then(without_empty_dictionaries)
        })?;
        let bytes = file.metadata()?.len();
        check_sizes(metadata.metadata(), bytes)?;
        check_bytes(metadata.metadata(), &file, bytes)?;
        let pairs = metadata.metadata().file_metadata().key_value_metadata();
        let pairs = pairs
            .into_iter()
            .flatten()
            .filter_map(|pair| Some((pair.key.clone(), pair.value.clone()?)))
            .collect();
        // What another program has saved of a trace may lack our metadata, but not these.
        let has = |name| metadata.schema().column_with_name(name).is_some();
        let is_trace = ["time_ns", "kind", "cookie", "snd_una"].into_iter().all(has);
        ensure!(
            are_ours(&pairs) || is_trace,
            "it holds a table, but not a Transom trace: it has no column time_ns, kind, cookie or \
             snd_una"
        );
        let offset_ns = if are_ours(&pairs) { None } else { wall_offset(&file, &metadata)? };
        let source = Source::Parquet { file, metadata, next: 0 };
        let mut reader = Reader::new(path, source, &pairs, false)?;
        if let Some(offset_ns) = offset_ns {
            reader.meta.realtime_offset_ns = offset_ns;
        }
        Ok(reader)
    }

    fn raw(path: &Path, file: File) -> Result<Reader> {
        let raw = transom_raw_stream::Reader::open(file)?;
        let (meta, footer) = (raw.meta().clone(), raw.footer().cloned());
        Ok(Reader::over(path, Source::Raw(Box::new(raw)), meta, footer))
    }

    fn new(
        path: &Path,
        source: Source,
        pairs: &std::collections::BTreeMap<String, String>,
        marked: bool,
    ) -> Result<Reader> {
        let reader =
            Reader::over(path, source, Meta::from_pairs(pairs)?, Footer::from_pairs(pairs));
        Ok(Reader { marked, is_ours: are_ours(pairs), ..reader })
    }

    fn over(path: &Path, source: Source, meta: Meta, footer: Option<Footer>) -> Reader {
        Reader {
            path: path.to_owned(),
            meta,
            footer,
            source,
            ready: Vec::new().into_iter(),
            marked: false,
            is_ours: true,
            failed: false,
            read: 0,
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// What was known at the end of the recording; `None` if it had none.
    pub fn footer(&self) -> Option<&Footer> {
        // A stream made by `convert` carries its footer in front: it says nothing if the end is missing.
        self.footer.as_ref().filter(|_| !self.is_cut())
    }

    pub fn format(&self) -> Format {
        match self.source {
            Source::Stream(_) => Format::ArrowStream,
            Source::Parquet { .. } => Format::Parquet,
            Source::Raw(_) => Format::RawStream,
        }
    }

    /// Whether the recording did not come to its end (it was killed, or the
    /// disk was full): the events after its last whole batch are missing.
    pub fn is_cut(&self) -> bool {
        match &self.source {
            Source::Stream(stream) => !self.marked || stream.is_cut(),
            Source::Parquet { .. } => self.footer.is_none() && self.is_ours,
            Source::Raw(raw) => raw.is_cut(),
        }
    }

    /// Events yielded so far.
    pub fn events_read(&self) -> u64 {
        self.read
    }

    /// The events of the next part, of which there may be none; `None` at the end.
    fn load(&mut self) -> Result<Option<Vec<Event>>> {
        match &mut self.source {
            Source::Stream(stream) => {
                let Some(batch) = stream.next_batch()? else { return Ok(None) };
                guarded::call(|| {
                    let rows = Rows::of(&batch)?;
                    (0..rows.len()).map(|row| rows.event(row)).collect::<Result<_>>().map(Some)
                })
            }
            Source::Parquet { file, metadata, next } => {
                if *next >= metadata.metadata().num_row_groups() {
                    return Ok(None);
                }
                let group = *next;
                *next += 1;
                guarded::call(|| row_group(file, metadata, group)).map(Some)
            }
            Source::Raw(raw) => {
                let Some(block) = raw.next_block()? else { return Ok(None) };
                block.map(|raw| Ok(Event::try_from(&raw)?)).collect::<Result<_>>().map(Some)
            }
        }
    }
}

impl Iterator for Reader {
    type Item = Result<Event>;

    #[inline]
    fn next(&mut self) -> Option<Result<Event>> {
        if let Some(event) = self.ready.next() {
            self.read += 1;
            return Some(Ok(event));
        }
        self.refill()
    }
}

impl Reader {
    fn refill(&mut self) -> Option<Result<Event>> {
        if self.failed {
            return None;
        }
        loop {
            match self.load() {
                Ok(None) => return None,
                // Other programs write parts without a row; they are not the end.
                Ok(Some(events)) if events.is_empty() => {}
                Ok(Some(events)) => {
                    self.ready = events.into_iter();
                    let event = self.ready.next()?;
                    self.read += 1;
                    return Some(Ok(event));
                }
                Err(error) => {
                    self.failed = true;
                    let place = format!("{} after {} events", self.path.display(), self.read);
                    return Some(Err(error.context(format!("cannot read {place}"))));
                }
            }
        }
    }
}

/// The same file, its dictionaries of nothing as columns of nothing: so pandas writes words of
/// which no row has any, and the decoder panics at them.
fn without_empty_dictionaries(metadata: ArrowReaderMetadata) -> Result<ArrowReaderMetadata> {
    let is_empty = |field: &FieldRef| match field.data_type() {
        DataType::Dictionary(_, words) => **words == DataType::Null,
        _ => false,
    };
    let schema = metadata.schema();
    if !schema.fields().iter().any(is_empty) {
        return Ok(metadata);
    }
    let fields = schema.fields().iter().map(|field| match is_empty(field) {
        true => Arc::new(field.as_ref().clone().with_data_type(DataType::Null)),
        false => field.clone(),
    });
    let schema = Schema::new_with_metadata(fields.collect::<Fields>(), schema.metadata().clone());
    let options = ArrowReaderOptions::new().with_schema(Arc::new(schema));
    Ok(ArrowReaderMetadata::try_new(metadata.metadata().clone(), options)?)
}

/// The events of a row group, in the order of time.
fn row_group(file: &File, metadata: &ArrowReaderMetadata, group: usize) -> Result<Vec<Event>> {
    let of_file = metadata.metadata().file_metadata().schema_descr();
    // What only other programs want.
    let names = metadata.schema().fields().iter().map(|field| field.name().as_str());
    let needed = ProjectionMask::columns(of_file, names.filter(|&name| name != "time_utc"));
    let batches =
        ParquetRecordBatchReaderBuilder::new_with_metadata(file.try_clone()?, metadata.clone())
            .with_projection(needed)
            .with_row_groups(vec![group])
            .with_batch_size(8_192)
            .build()?;
    let mut events = Vec::new();
    for batch in batches {
        let rows = Rows::of(&batch?)?;
        events.reserve(rows.len());
        for row in 0..rows.len() {
            events.push(rows.event(row)?);
        }
    }
    let claimed = metadata.metadata().row_group(group).num_rows();
    ensure!(i64::try_from(events.len()) == Ok(claimed), "row group {group} has not all its rows");
    events.sort_by_key(|event| event.time_ns);
    Ok(events)
}

/// Wall time minus boot time, ns, as the first row has both, where the metadata is missing.
fn wall_offset(file: &File, metadata: &ArrowReaderMetadata) -> Result<Option<i64>> {
    let of_file = metadata.metadata().file_metadata().schema_descr();
    let needed = ProjectionMask::columns(of_file, ["time_ns", "time_utc"]);
    guarded::call(|| {
        let mut batches =
            ParquetRecordBatchReaderBuilder::new_with_metadata(file.try_clone()?, metadata.clone())
                .with_projection(needed)
                .with_batch_size(1)
                .build()?;
        let Some(batch) = batches.next().transpose()? else { return Ok(None) };
        let wall = batch.column_by_name("time_utc");
        let wall = wall.and_then(|array| array.as_primitive_opt::<TimestampMicrosecondType>());
        let boot = batch.column_by_name("time_ns");
        let boot = boot.and_then(|array| array.as_primitive_opt::<Int64Type>());
        Ok(match (wall, boot) {
            (Some(wall), Some(boot)) if wall.is_valid(0) && boot.is_valid(0) => {
                Some(wall.value(0).saturating_mul(1000).saturating_sub(boot.value(0)))
            }
            _ => None,
        })
    })
}

/// Why there is no file of this name; `-`, as other programs name the standard input, is none.
fn unopened(path: &Path, why: std::io::Error) -> anyhow::Error {
    match path == Path::new("-") && why.kind() == std::io::ErrorKind::NotFound {
        true => anyhow!("a trace is not read from the standard input; copy it to a file first"),
        false => why.into(),
    }
}

/// Reads the first bytes and goes back to the start.
fn sniff(file: &mut File, magic: &mut [u8; 8]) -> Result<usize> {
    let kind = file.metadata()?.file_type();
    ensure!(!kind.is_dir(), "it is a directory; expected a file of `transom record`");
    ensure!(kind.is_file(), "it is not a regular file; copy it to one first");
    let mut n = 0;
    while n < magic.len() {
        match file.read(&mut magic[n..])? {
            0 => break,
            more => n += more,
        }
    }
    match file.rewind() {
        // A file that the kernel makes while it is read.
        Err(why) if why.kind() == std::io::ErrorKind::NotSeekable => bail!(
            "it can only be read from front to back, as the text of `transom journal` can: print that with \
             `cat`, or record the connections with `transom record`"
        ),
        done => done?,
    }
    Ok(n)
}

fn foreign(magic: &[u8]) -> String {
    let expected = "expected a Parquet file, Arrow IPC stream or raw stream of transom";
    if magic.is_empty() {
        return format!("it is empty; {expected}");
    }
    if magic.starts_with(b"ARROW1") {
        return format!("it is an Arrow IPC file (Feather); {expected}");
    }
    let start: String =
        magic.iter().flat_map(|&b| std::ascii::escape_default(b)).map(char::from).collect();
    format!("it begins with \"{start}\"; {expected}")
}

/// Whether the last eight bytes say that the stream was ended.
fn ends_with_marker(file: &mut File) -> Result<bool> {
    let mut tail = [0; 8];
    let ended = file.seek(SeekFrom::End(-8)).is_ok() && file.read_exact(&mut tail).is_ok();
    file.rewind()?;
    Ok(ended && tail == [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0])
}
