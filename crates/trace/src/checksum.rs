//! The checksum of a finished trace: CRC-32 of the whole file, in its footer.
//!
//! Parquet has one for each page, which the writer of the `parquet` crate does not write, and which
//! says nothing of headers and footer. Ours stands among the metadata as eight digits, and is that
//! of the file with eight zeros in their place.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};

use anyhow::{Context, Result, ensure};
use crc32fast::Hasher;
use parquet::file::metadata::KeyValue;

/// A program that writes the pairs of a trace into another file leaves this one out.
pub const KEY: &str = "transom.crc32";
const NONE: &str = "00000000";

/// Length of the footer (4 bytes) and magic.
const TAIL: u64 = 8;

/// As the footer has it until all bytes are known.
pub(crate) fn pair() -> KeyValue {
    KeyValue::new(KEY.to_owned(), NONE.to_owned())
}

/// Passes on what is written, up to the footer, which it keeps to complete it.
pub(crate) struct Summed<W> {
    to: W,
    sum: Hasher,
    footer: Option<Vec<u8>>,
}

impl<W: Write> Summed<W> {
    pub fn new(to: W) -> Summed<W> {
        Summed { to, sum: Hasher::new(), footer: None }
    }

    /// All that comes from now on is the footer.
    pub fn begin_footer(&mut self) {
        self.footer = Some(Vec::new());
    }

    pub fn finish(mut self) -> Result<W> {
        let mut footer = self.footer.take().unwrap_or_default();
        let place = place_in(&footer).context("the footer has no room for a checksum")?;
        self.sum.update(&footer);
        let digits = format!("{:08x}", self.sum.finalize());
        footer[place..place + NONE.len()].copy_from_slice(digits.as_bytes());
        self.to.write_all(&footer)?;
        Ok(self.to)
    }
}

impl<W: Write> Write for Summed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(footer) = &mut self.footer {
            return footer.write(bytes);
        }
        let written = self.to.write(bytes)?;
        self.sum.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// Where the digits are: behind the key, after the type and the length of a text in Thrift's compact
/// protocol. Our pair is the last.
fn place_in(footer: &[u8]) -> Option<usize> {
    let before = [KEY.as_bytes(), &[0x18, NONE.len() as u8]].concat();
    let at = footer.windows(before.len()).rposition(|window| window == before)? + before.len();
    (at + NONE.len() <= footer.len()).then_some(at)
}

/// Reads all bytes of a file whose footer is readable, and compares. A file without a checksum (of
/// an older version) passes.
///
/// # Errors
/// A byte has changed since it was written.
pub(crate) fn check(file: &File, bytes: u64) -> Result<()> {
    let mut file = file;
    let mut tail = [0; TAIL as usize];
    file.seek(SeekFrom::Start(bytes.saturating_sub(TAIL)))?;
    file.read_exact(&mut tail)?;
    let length = u32::from_le_bytes([tail[0], tail[1], tail[2], tail[3]]);
    let begin = bytes.saturating_sub(TAIL + u64::from(length));
    let mut footer = Vec::new();
    file.seek(SeekFrom::Start(begin))?;
    file.take(bytes - begin).read_to_end(&mut footer)?;
    let Some(place) = place_in(&footer) else { return Ok(()) };
    let digits = &mut footer[place..place + NONE.len()];
    let told = String::from_utf8_lossy(digits).into_owned();
    digits.copy_from_slice(NONE.as_bytes());
    let mut sum = of_first(file, begin)?;
    sum.update(&footer);
    let found = format!("{:08x}", sum.finalize());
    ensure!(
        told == found,
        "it is damaged: its bytes are not those that were written (CRC-32 {found}, not {told}); copy it \
         again from where it came"
    );
    Ok(())
}

/// Of the bytes of a file up to there.
fn of_first(mut file: &File, end: u64) -> Result<Hasher> {
    let mut sum = Hasher::new();
    let mut part = vec![0; 1 << 18];
    file.rewind()?;
    let mut rest = file.take(end);
    loop {
        match rest.read(&mut part)? {
            0 => return Ok(sum),
            read => sum.update(&part[..read]),
        }
    }
}
