//! Reading: block by block, up to the last whole one.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};

use anyhow::{Context, Result, bail, ensure};
use transom_event::{RAW_LEN, Raw};

use crate::frame::{FRAME_LEN, Form, Frame, MAGIC, TRAILER_LEN};
use crate::meta::{Footer, Meta};
use crate::pairs;
use crate::writer::reversed_magic;

/// The blocks of a raw stream, one after the other.
pub struct Reader {
    file: BufReader<File>,
    length: u64,
    at: u64,
    meta: Meta,
    footer: Option<Footer>,
    ended: bool,
    /// It stopped before the frame of the end.
    cut: bool,
    body: Vec<u8>,
    block: Vec<u8>,
}

/// What follows in the file.
enum Next {
    Frame(Frame),
    /// The file ends here, in the middle of a block or without its end.
    Cut,
}

impl Reader {
    /// Reads what the file says about itself, at its beginning and at its end.
    ///
    /// # Errors
    /// If it cannot be read, is no raw stream, or is of a newer version.
    pub fn open(mut file: File) -> Result<Reader> {
        let length = file.seek(SeekFrom::End(0))?;
        let footer = end_of(&mut file, length)?;
        file.rewind()?;
        let mut reader = Reader {
            file: BufReader::with_capacity(1 << 16, file),
            length,
            at: 0,
            meta: Meta::default(),
            cut: footer.is_none(),
            footer,
            ended: false,
            body: Vec::new(),
            block: Vec::new(),
        };
        let mut magic = [0; 8];
        ensure!(reader.fill(&mut magic)?, "it ends before its header");
        check_magic(magic)?;
        let Next::Frame(frame) = reader.frame()? else { bail!("it ends before its header") };
        ensure!(frame.form == Form::Header, "it does not begin with a header");
        reader.meta = Meta::from_pairs(&pairs::read(&reader.block)?)?;
        Ok(reader)
    }

    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// What was known at the end of the recording; `None` if it had none.
    pub fn footer(&self) -> Option<&Footer> {
        self.footer.as_ref().filter(|_| !self.cut)
    }

    /// Whether the recording did not come to its end: the records after the last whole block are missing.
    pub fn is_cut(&self) -> bool {
        self.cut
    }

    /// The records of the next block; none at the end.
    ///
    /// # Errors
    /// A block that others follow is damaged.
    pub fn next_block(&mut self) -> Result<Option<impl ExactSizeIterator<Item = Raw> + '_>> {
        while !self.ended {
            match self.frame()? {
                Next::Cut => (self.cut, self.ended) = (true, true),
                Next::Frame(frame) => match frame.form {
                    Form::End => self.ended = true,
                    Form::Header => bail!("a second header: two files were joined"),
                    Form::Records if self.block.is_empty() => {}
                    Form::Records => return Ok(Some(records(&self.block))),
                },
            }
        }
        Ok(None)
    }

    /// The next frame; its body is in `block`.
    fn frame(&mut self) -> Result<Next> {
        let mut bytes = [0; FRAME_LEN];
        // A machine that lost power may leave a tail of zeros behind.
        if !self.fill(&mut bytes)? || bytes == [0; FRAME_LEN] {
            return Ok(Next::Cut);
        }
        let frame = Frame::of(&bytes)?;
        let stored = frame.stored as usize;
        if (stored as u64) > self.length - self.at {
            return Ok(Next::Cut);
        }
        let mut body = std::mem::take(&mut self.body);
        body.resize(stored, 0);
        let whole = self.fill(&mut body)?;
        if whole && frame.is_intact(&body) {
            frame.decode(&body, &mut self.block)?;
            self.body = body;
            return Ok(Next::Frame(frame));
        }
        self.body = body;
        ensure!(!whole || self.at == self.length, "a block is damaged: its checksum is another");
        Ok(Next::Cut)
    }

    /// False if the file ends before.
    fn fill(&mut self, to: &mut [u8]) -> Result<bool> {
        let length = to.len() as u64;
        if length > self.length - self.at {
            return Ok(false);
        }
        self.file.read_exact(to).context("reading failed")?;
        self.at += length;
        Ok(true)
    }
}

fn records(block: &[u8]) -> impl ExactSizeIterator<Item = Raw> {
    block.chunks_exact(RAW_LEN).map(bytemuck::pod_read_unaligned)
}

fn check_magic(magic: [u8; 8]) -> Result<()> {
    ensure!(magic[..7] == MAGIC[..7], "it is no raw stream");
    ensure!(
        magic[7] == MAGIC[7],
        "its blocks are of version {}, this program reads version {}; use a newer transom",
        magic[7],
        MAGIC[7]
    );
    Ok(())
}

/// What the trailer leads to, if the recording came to its end.
fn end_of(file: &mut File, length: u64) -> Result<Option<Footer>> {
    let Some(trailer_at) = length.checked_sub(TRAILER_LEN) else { return Ok(None) };
    let mut trailer = [0; TRAILER_LEN as usize];
    file.seek(SeekFrom::Start(trailer_at))?;
    file.read_exact(&mut trailer)?;
    let (at, magic) = trailer.split_at(8);
    let at = u64::from_le_bytes(at.try_into()?);
    let body_at = at.checked_add(FRAME_LEN as u64).filter(|&body_at| body_at <= trailer_at);
    let (Some(body_at), true) = (body_at, magic == reversed_magic()) else { return Ok(None) };
    let mut frame = [0; FRAME_LEN];
    file.seek(SeekFrom::Start(at))?;
    file.read_exact(&mut frame)?;
    let Ok(frame) = Frame::of(&frame) else { return Ok(None) };
    if frame.form != Form::End || body_at + u64::from(frame.stored) != trailer_at {
        return Ok(None);
    }
    let mut body = vec![0; frame.stored as usize];
    file.read_exact(&mut body)?;
    let mut text = Vec::new();
    if !frame.is_intact(&body) || frame.decode(&body, &mut text).is_err() {
        return Ok(None);
    }
    let pairs: BTreeMap<String, String> = pairs::read(&text).unwrap_or_default();
    Ok(Footer::from_pairs(&pairs))
}
