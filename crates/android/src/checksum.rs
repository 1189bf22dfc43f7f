//! SHA-256 of files, as `sha256sum` prints it.

use std::io::{Read, Write};
use std::path::Path;

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

pub fn of_file(path: &Path) -> Result<(u64, String)> {
    let reading = || format!("cannot read {}", path.display());
    let mut file = std::fs::File::open(path).with_context(reading)?;
    let mut summed = Summed::new(std::io::sink());
    std::io::copy(&mut file, &mut summed).with_context(reading)?;
    Ok(summed.finish())
}

/// Passes on what is written, and sums it.
pub struct Summed<W> {
    sink: W,
    sum: Sha256,
    length: u64,
}

impl<W: Write> Summed<W> {
    pub fn new(sink: W) -> Summed<W> {
        Summed { sink, sum: Sha256::new(), length: 0 }
    }

    /// How much was written, and its sum.
    pub fn finish(self) -> (u64, String) {
        let digits = self.sum.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        (self.length, digits)
    }

    pub fn length(&self) -> u64 {
        self.length
    }
}

impl<W: Write> Write for Summed<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let taken = self.sink.write(bytes)?;
        self.sum.update(&bytes[..taken]);
        self.length += taken as u64;
        Ok(taken)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.sink.flush()
    }
}

/// Copies all of it and says how much came, and its sum.
pub fn copy(from: &mut impl Read, to: &mut impl Write) -> std::io::Result<(u64, String)> {
    let mut summed = Summed::new(to);
    std::io::copy(from, &mut summed)?;
    Ok(summed.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_is_that_of_fips_180() {
        let mut copied = Vec::new();
        let (length, sum) = copy(&mut "abc".as_bytes(), &mut copied).unwrap();
        assert_eq!((length, copied.as_slice()), (3, "abc".as_bytes()));
        assert_eq!(sum, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
