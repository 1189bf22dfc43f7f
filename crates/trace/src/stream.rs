//! An Arrow IPC stream, read message by message up to its last whole one.
//!
//! The messages are framed here and not by arrow's own reader, because a
//! recording may be cut anywhere, and because a corrupt length must not decide
//! how much memory is asked for.

use std::fs::File;
use std::io::{BufReader, Read};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail, ensure};
use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::reader::StreamDecoder;
use arrow_ipc::{Message, root_as_message};
use arrow_schema::SchemaRef;

use crate::guarded;

/// Every message begins with this and the length of its header.
pub(crate) const CONTINUATION: [u8; 4] = [0xff; 4];

const MAX_HEADER: usize = 1 << 20;
const MAX_BODY: usize = 256 << 20;
/// Rows of a batch; ours have at most 65,536.
const MAX_ROWS: i64 = 1 << 20;
/// Of one buffer, and of all the buffers of a batch, once uncompressed.
const MAX_BUFFER: i64 = 16 << 20;
const MAX_BATCH: i64 = 256 << 20;

pub(crate) struct Stream {
    file: BufReader<File>,
    decoder: StreamDecoder,
    end: End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    NotYet,
    /// The end-of-stream marker was there.
    Marked,
    Cut,
}

impl Stream {
    /// Reads up to the schema.
    pub fn open(file: File) -> Result<(Stream, SchemaRef)> {
        let mut stream = Stream {
            file: BufReader::with_capacity(1 << 16, file),
            decoder: StreamDecoder::new(),
            end: End::NotYet,
        };
        let Some(message) = stream.message()? else {
            bail!("it ends before its schema");
        };
        let schema = guarded::call(|| {
            let header = header(&message[8..])?;
            let schema = header.header_as_schema().context("it does not begin with a schema")?;
            Ok(Arc::new(arrow_ipc::convert::try_fb_to_schema(schema)?))
        })?;
        stream.decode(message)?;
        Ok((stream, schema))
    }

    /// Whether the stream stopped without its end marker. Known once it was read through.
    pub fn is_cut(&self) -> bool {
        self.end == End::Cut
    }

    pub fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        while let Some(message) = self.message()? {
            if let Some(batch) = self.decode(message)? {
                return Ok(Some(batch));
            }
        }
        Ok(None)
    }

    fn decode(&mut self, message: Vec<u8>) -> Result<Option<RecordBatch>> {
        let mut buffer = Buffer::from_vec(message);
        let decoder = &mut self.decoder;
        guarded::call(|| {
            let mut batch = None;
            while batch.is_none() && !buffer.is_empty() {
                batch = decoder.decode(&mut buffer)?;
            }
            Ok(batch)
        })
    }

    /// One whole message with its frame; `None` at the end, marked or not.
    fn message(&mut self) -> Result<Option<Vec<u8>>> {
        if self.end != End::NotYet {
            return Ok(None);
        }
        let mut message = Vec::new();
        if !self.take(&mut message, 8)? {
            return Ok(None);
        }
        // A machine that lost power may leave a tail of zeros behind.
        if message == [0; 8] {
            self.end = End::Cut;
            return Ok(None);
        }
        ensure!(message[..4] == CONTINUATION, "a message does not begin as one");
        let length = u32::from_le_bytes(message[4..8].try_into().expect("four bytes")) as usize;
        if length == 0 {
            self.end = End::Marked;
            return Ok(None);
        }
        ensure!(length <= MAX_HEADER, "a message header claims {length} bytes");
        if !self.take(&mut message, length)? {
            return Ok(None);
        }
        let header = header(&message[8..])?;
        let body = usize::try_from(header.bodyLength()).unwrap_or(usize::MAX);
        ensure!(body <= MAX_BODY, "a message claims a body of {body} bytes");
        if !self.take(&mut message, body)? {
            return Ok(None);
        }
        check_sizes(&message, length)?;
        Ok(Some(message))
    }

    /// Appends `length` bytes; false if the file ends before, which is noted.
    fn take(&mut self, to: &mut Vec<u8>, length: usize) -> Result<bool> {
        let before = to.len();
        let limit = u64::try_from(length)?;
        to.reserve(length.min(1 << 22));
        (&mut self.file).take(limit).read_to_end(to).context("reading failed")?;
        if to.len() - before < length {
            self.end = End::Cut;
            return Ok(false);
        }
        Ok(true)
    }
}

fn header(bytes: &[u8]) -> Result<Message<'_>> {
    root_as_message(bytes).map_err(|error| anyhow!("a message header is not readable: {error}"))
}

/// Refuses sizes that no trace has before anything is allocated for them.
fn check_sizes(message: &[u8], header_length: usize) -> Result<()> {
    let (header, body) = message[8..].split_at(header_length);
    let message = self::header(header)?;
    let batch = message
        .header_as_record_batch()
        .or_else(|| message.header_as_dictionary_batch().and_then(|d| d.data()));
    let Some(batch) = batch else { return Ok(()) };
    let rows = batch.length();
    ensure!((0..=MAX_ROWS).contains(&rows), "a batch claims {rows} rows");
    for node in batch.nodes().iter().flatten() {
        ensure!(
            (0..=MAX_BUFFER).contains(&node.length()),
            "a column claims {} rows",
            node.length()
        );
    }
    let compressed = batch.compression().is_some();
    let mut total = 0_i64;
    for buffer in batch.buffers().iter().flatten() {
        let start =
            usize::try_from(buffer.offset()).context("a buffer starts before its message")?;
        let length = usize::try_from(buffer.length()).context("a buffer has a negative length")?;
        let end = start.checked_add(length).filter(|&end| end <= body.len());
        let end = end.context("a buffer ends after its message")?;
        if !compressed || length == 0 {
            continue;
        }
        let size = body[start..end].first_chunk().context("a buffer has no length")?;
        let size = i64::from_le_bytes(*size);
        ensure!((-1..=MAX_BUFFER).contains(&size), "a buffer claims {size} bytes");
        total += size.max(0);
    }
    ensure!(total <= MAX_BATCH, "a batch claims {total} bytes");
    Ok(())
}
