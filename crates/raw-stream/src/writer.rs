//! Writing: records are copied into a block, and a full block goes to the file in one call.

use std::io::Write;

use anyhow::{Context, Result, ensure};
use transom_event::{RAW_LEN, Raw};
use zstd::bulk::Compressor;

use crate::delta;
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
    /// Room for the frame, then the records of the block.
    block: Vec<u8>,
    full: usize,
    coding: Coding,
    compressor: Option<Compressor<'static>>,
    /// Room for the frame, then the encoded block.
    encoded: Vec<u8>,
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
        let full = FRAME_LEN + options.block_records.clamp(1, MOST_DECODED / RAW_LEN) * RAW_LEN;
        let compressor = match options.coding {
            Coding::Plain | Coding::Delta => None,
            Coding::Zstd(level) => Some(Compressor::new(level).context("preparing zstd")?),
        };
        let mut writer = Writer {
            to,
            block: Vec::with_capacity(full),
            full,
            coding: options.coding,
            compressor,
            encoded: Vec::new(),
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
        self.block.extend_from_slice(raw.as_bytes());
        if self.block.len() >= self.full { self.flush() } else { Ok(()) }
    }

    /// Ends the current block, so that all pushed records survive the death of this process.
    ///
    /// # Errors
    /// If it cannot be written: the file ends with the block before, and takes no more.
    pub fn flush(&mut self) -> Result<()> {
        let decoded = self.block.len() - FRAME_LEN;
        if decoded == 0 {
            return Ok(());
        }
        let mut block = std::mem::take(&mut self.block);
        let written = self.put_block(&mut block, decoded);
        block.truncate(FRAME_LEN);
        self.block = block;
        written?;
        self.events += (decoded / RAW_LEN) as u64;
        Ok(())
    }

    fn put_block(&mut self, block: &mut [u8], decoded: usize) -> Result<()> {
        if self.coding == Coding::Plain {
            return self.put_framed(block, Coding::Plain, decoded);
        }
        let mut encoded = std::mem::take(&mut self.encoded);
        let written = self
            .encode(&block[FRAME_LEN..], &mut encoded)
            .and_then(|length| self.put_framed(&mut encoded[..length], self.coding, decoded));
        self.encoded = encoded;
        written
    }

    /// Leaves room for the frame; returns the length of both.
    fn encode(&mut self, records: &[u8], to: &mut Vec<u8>) -> Result<usize> {
        let Some(compressor) = &mut self.compressor else {
            to.resize(FRAME_LEN + delta::bound(records.len()), 0);
            return Ok(FRAME_LEN + delta::encode(records, &mut to[FRAME_LEN..]));
        };
        to.resize(FRAME_LEN + zstd::zstd_safe::compress_bound(records.len()), 0);
        let length = compressor
            .compress_to_buffer(records, &mut to[FRAME_LEN..])
            .context("compressing a block")?;
        Ok(FRAME_LEN + length)
    }

    /// Writes the frame in front of a body that has left room for it.
    fn put_framed(&mut self, framed: &mut [u8], coding: Coding, decoded: usize) -> Result<()> {
        let frame = Frame::new(Form::Records, coding, &framed[FRAME_LEN..], decoded);
        framed[..FRAME_LEN].copy_from_slice(&frame.bytes());
        self.write(framed)
    }

    /// Records pushed.
    pub fn events(&self) -> u64 {
        self.events + ((self.block.len() - FRAME_LEN) / RAW_LEN) as u64
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
