//! What stands around each block of the file.

use anyhow::{Result, bail, ensure};
use transom_event::RAW_LEN;

use crate::delta;

/// A file begins with it. The last byte is the version of the frames.
pub const MAGIC: [u8; 8] = *b"TXRAWST\x01";

pub(crate) const FRAME_LEN: usize = 20;
/// The place of the end's frame, and [`MAGIC`] backwards.
pub(crate) const TRAILER_LEN: u64 = 16;

/// Bytes of a block once it is decoded: what a reader must have memory for.
pub(crate) const MOST_DECODED: usize = 8 << 20;

/// How the body of a block is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    Plain,
    /// What changed since the last record of the same connection: cheap enough for a recording
    /// that runs.
    Delta,
    /// At this level of zstd; negative ones are faster.
    Zstd(i32),
}

const PLAIN: u8 = 0;
const ZSTD: u8 = 1;
const DELTA: u8 = 2;

impl Coding {
    pub(crate) fn number(self) -> u8 {
        match self {
            Coding::Plain => PLAIN,
            Coding::Zstd(_) => ZSTD,
            Coding::Delta => DELTA,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Header = 1,
    Records,
    End,
}

/// `TXF`, then the form: a frame is recognized where it begins.
const MARK: [u8; 3] = *b"TXF";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub form: Form,
    coding: u8,
    /// Bytes that follow the frame.
    pub stored: u32,
    /// Bytes of the body once it is decoded.
    pub decoded: u32,
    checksum: u32,
}

impl Frame {
    pub fn new(form: Form, coding: Coding, body: &[u8], decoded: usize) -> Frame {
        let mut frame = Frame {
            form,
            coding: coding.number(),
            stored: body.len() as u32,
            decoded: decoded as u32,
            checksum: 0,
        };
        frame.checksum = frame.checksum_with(body);
        frame
    }

    pub fn bytes(&self) -> [u8; FRAME_LEN] {
        let mut bytes = [0; FRAME_LEN];
        bytes[..3].copy_from_slice(&MARK);
        bytes[3] = self.form as u8;
        bytes[4] = self.coding;
        bytes[8..12].copy_from_slice(&self.stored.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.decoded.to_le_bytes());
        bytes[16..].copy_from_slice(&self.checksum.to_le_bytes());
        bytes
    }

    /// # Errors
    /// The bytes are no frame, or claim sizes that none has.
    pub fn of(bytes: &[u8; FRAME_LEN]) -> Result<Frame> {
        ensure!(bytes[..3] == MARK, "a block does not begin as one");
        let number = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let form = match bytes[3] {
            1 => Form::Header,
            2 => Form::Records,
            3 => Form::End,
            other => bail!("a block of the unknown form {other}; use a newer transom"),
        };
        let frame = Frame {
            form,
            coding: bytes[4],
            stored: number(8),
            decoded: number(12),
            checksum: number(16),
        };
        let (stored, decoded) = (frame.stored as usize, frame.decoded as usize);
        ensure!(decoded <= MOST_DECODED, "a block claims {decoded} bytes");
        // No coding makes much more of it.
        ensure!(stored <= MOST_DECODED + MOST_DECODED / 8, "a block claims {stored} bytes on disk");
        ensure!(
            form != Form::Records || decoded.is_multiple_of(RAW_LEN),
            "a block claims {decoded} bytes, which are no whole records"
        );
        Ok(frame)
    }

    pub fn is_intact(&self, body: &[u8]) -> bool {
        self.checksum == self.checksum_with(body)
    }

    fn checksum_with(&self, body: &[u8]) -> u32 {
        let mut of = crc32fast::Hasher::new();
        of.update(&self.bytes()[..16]);
        of.update(body);
        of.finalize()
    }

    /// Writes the decoded body over `to`.
    ///
    /// # Errors
    /// It is not what the frame says.
    pub fn decode(&self, body: &[u8], to: &mut Vec<u8>) -> Result<()> {
        let length = self.decoded as usize;
        to.clear();
        match self.coding {
            PLAIN => to.extend_from_slice(body),
            ZSTD => {
                to.resize(length, 0);
                let written = zstd::bulk::decompress_to_buffer(body, &mut to[..])?;
                to.truncate(written);
            }
            DELTA => {
                to.resize(length, 0);
                delta::decode(body, to)?;
            }
            other => bail!("a block of the unknown coding {other}; use a newer transom"),
        }
        ensure!(to.len() == length, "a block has {} bytes instead of {length}", to.len());
        Ok(())
    }
}
