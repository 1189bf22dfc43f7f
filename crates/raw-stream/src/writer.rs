//! Writing: records gather in a block, and a full block goes to the file in one call.

use std::io::Write;

use anyhow::{Context, Result, ensure};
use transom_event::{RAW_LEN, Raw};
use zstd::bulk::Compressor;

use crate::delta::Encoder;
use crate::frame::{Coding, FRAME_LEN, Form, Frame, MAGIC, MOST_DECODED};
use crate::meta::{Footer, Meta};
use crate::pairs;

#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub coding: Coding,
    /// Records of a full block: 1 to 65,536.
    pub block_records: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options { coding: Coding::Plain, block_records: 2_048 }
    }
}

/// Writes a raw stream. Dropped without [`Writer::finish`], it leaves a readable file that says it is cut.
pub struct Writer<W: Write> {
    to: W,
    /// Room for the frame, then the records of the block, encoded if the encoder is there.
    block: Vec<u8>,
    /// How many.
    records: usize,
    full: usize,
    coding: Coding,
    encoder: Option<Encoder>,
    compressor: Option<Compressor<'static>>,
    /// Room for the frame, then the compressed block.
    compressed: Vec<u8>,
    events: u64,
    bytes: u64,
    /// A block was written in part: nothing may follow it.
    broken: bool,
}

impl<W: Write> Writer<W> {
    /// Writes the header. `to` should not buffer: blocks are large.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn new(to: W, meta: &Meta, options: Options) -> Result<Writer<W>> {
        let compressor = match options.coding {
            Coding::Plain | Coding::Delta => None,
            Coding::Zstd(level) => Some(Compressor::new(level).context("preparing zstd")?),
        };
        let mut writer = Writer {
            to,
            block: Vec::new(),
            records: 0,
            full: options.block_records.clamp(1, MOST_DECODED / RAW_LEN),
            coding: options.coding,
            encoder: (options.coding == Coding::Delta).then(Encoder::new),
            compressor,
            compressed: Vec::new(),
            events: 0,
            bytes: 0,
            broken: false,
        };
        writer.block.resize(FRAME_LEN, 0);
        writer.write(&MAGIC)?;
        writer.put_pairs(Form::Header, &meta.pairs())?;
        Ok(writer)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        ensure!(!self.broken, "nothing can follow a write that failed");
        self.broken = true;
        self.to.write_all(bytes)?;
        self.broken = false;
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    fn put_pairs(&mut self, form: Form, of: &[(String, String)]) -> Result<()> {
        let text = pairs::text(of);
        ensure!(text.len() <= MOST_DECODED, "{} bytes about a recording are too many", text.len());
        let frame = Frame::new(form, Coding::Plain, text.as_bytes(), text.len());
        self.write(&[&frame.bytes(), text.as_bytes()].concat())
    }

    /// Adds one record.
    ///
    /// # Errors
    /// If a full block cannot be written: the file ends with the block before.
    #[inline]
    pub fn push(&mut self, raw: &Raw) -> Result<()> {
        match &mut self.encoder {
            Some(encoder) => encoder.push(raw, &mut self.block),
            None => self.block.extend_from_slice(raw.as_bytes()),
        }
        self.records += 1;
        if self.records >= self.full { self.flush() } else { Ok(()) }
    }

    /// Ends the current block, so that all pushed records survive the death of this process.
    ///
    /// # Errors
    /// If it cannot be written: the file ends with the block before, and takes no more.
    pub fn flush(&mut self) -> Result<()> {
        if self.records == 0 {
            return Ok(());
        }
        let mut block = std::mem::take(&mut self.block);
        let written = self.put_block(&mut block, self.records * RAW_LEN);
        block.truncate(FRAME_LEN);
        self.block = block;
        let records = std::mem::take(&mut self.records);
        if let Some(encoder) = &mut self.encoder {
            encoder.start();
        }
        written?;
        self.events += records as u64;
        Ok(())
    }

    fn put_block(&mut self, block: &mut [u8], decoded: usize) -> Result<()> {
        let Some(compressor) = &mut self.compressor else {
            return self.put_framed(block, self.coding, decoded);
        };
        let mut compressed = std::mem::take(&mut self.compressed);
        compressed.resize(FRAME_LEN + zstd::zstd_safe::compress_bound(decoded), 0);
        let written = compressor
            .compress_to_buffer(&block[FRAME_LEN..], &mut compressed[FRAME_LEN..])
            .context("compressing a block")
            .and_then(|length| {
                self.put_framed(&mut compressed[..FRAME_LEN + length], self.coding, decoded)
            });
        self.compressed = compressed;
        written
    }

    /// Writes the frame in front of a body that has left room for it.
    fn put_framed(&mut self, framed: &mut [u8], coding: Coding, decoded: usize) -> Result<()> {
        let frame = Frame::new(Form::Records, coding, &framed[FRAME_LEN..], decoded);
        framed[..FRAME_LEN].copy_from_slice(&frame.bytes());
        self.write(framed)
    }

    /// Records pushed.
    pub fn events(&self) -> u64 {
        self.events + self.records as u64
    }

    /// Bytes in the file so far; what was pushed since the last block is not among them.
    pub fn bytes_written(&self) -> u64 {
        self.bytes
    }

    pub fn get_ref(&self) -> &W {
        &self.to
    }

    /// Writes what is left and the end, and gives the file back.
    ///
    /// # Errors
    /// If it cannot be written: the file stays readable up to its last whole block.
    pub fn finish(mut self, footer: Footer) -> Result<W> {
        self.flush()?;
        let footer = Footer { events: self.events, ..footer };
        let at = self.bytes;
        self.put_pairs(Form::End, &footer.pairs())?;
        let mut trailer = [0; 16];
        trailer[..8].copy_from_slice(&at.to_le_bytes());
        trailer[8..].copy_from_slice(&reversed_magic());
        self.write(&trailer)?;
        self.to.flush()?;
        Ok(self.to)
    }
}

pub(crate) fn reversed_magic() -> [u8; 8] {
    let mut magic = MAGIC;
    magic.reverse();
    magic
}
