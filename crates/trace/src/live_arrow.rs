//! An Arrow IPC stream while it is being written: a recording that stays one.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Result;
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{IpcWriteOptions, StreamWriter};
use arrow_schema::Schema;
use transom_event::{BadEvent, Raw};
use transom_raw_stream::Meta;

use crate::columns::Columns;
use crate::schema;
use crate::writer::Compression;

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

pub(crate) struct ArrowStream {
    schema: Arc<Schema>,
    columns: Columns,
    stream: StreamWriter<BufWriter<Counted>>,
    bytes: Arc<AtomicU64>,
}

impl ArrowStream {
    /// Writes the schema.
    pub fn new(
        file: File,
        meta: &Meta,
        compression: Compression,
        batch_rows: usize,
    ) -> Result<ArrowStream> {
        let schema = schema::raw_schema(meta.pairs());
        let bytes = Arc::new(AtomicU64::new(0));
        let sink = BufWriter::with_capacity(1 << 18, Counted { file, bytes: bytes.clone() });
        let mut stream =
            StreamWriter::try_new_with_options(sink, &schema, stream_options(compression)?)?;
        stream.flush()?;
        Ok(ArrowStream { schema, columns: Columns::new(batch_rows), stream, bytes })
    }

    #[inline]
    pub fn push(&mut self, raw: &Raw) -> Result<(), BadEvent> {
        self.columns.push(raw)
    }

    /// Writes what was pushed as one batch.
    pub fn flush(&mut self) -> Result<()> {
        let batch = self.columns.batch(&self.schema)?;
        self.stream.write(&batch)?;
        Ok(self.stream.flush()?)
    }

    pub fn bytes_written(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Writes the end; how many bytes it has.
    pub fn finish(mut self) -> Result<u64> {
        self.stream.finish()?;
        Ok(self.bytes_written())
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
