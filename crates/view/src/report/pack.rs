//! Numbers as few bytes: differences, as variable-length integers, in base64.
//!
//! The page's own script (`assets/page/unpack.js`) is the other half.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// A sequence of numbers and columns, read back in the order of writing.
#[derive(Default)]
pub struct Packer {
    bytes: Vec<u8>,
}

impl Packer {
    /// One number: seven bits a byte, the lowest first.
    pub fn number(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    /// A column: each value as its difference to the one before (zigzag, so that
    /// small negative ones stay small), and a run of equal values as 0 and its length.
    ///
    /// A value that is not set is 0, every other one is one more than itself.
    pub fn column(&mut self, values: impl Iterator<Item = Option<u64>>) {
        let (mut before, mut run) = (0u64, 0u64);
        for value in values {
            let value = value.map_or(0, |v| v.saturating_add(1));
            if value == before {
                run += 1;
                continue;
            }
            self.end_run(&mut run);
            let step = value.wrapping_sub(before) as i64;
            self.number((step << 1 ^ step >> 63) as u64);
            before = value;
        }
        self.end_run(&mut run);
    }

    fn end_run(&mut self, run: &mut u64) {
        if *run > 0 {
            self.number(0);
            self.number(std::mem::take(run));
        }
    }

    pub fn base64(&self) -> String {
        STANDARD.encode(&self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(values: &[Option<u64>]) -> Vec<u8> {
        let mut packer = Packer::default();
        packer.column(values.iter().copied());
        packer.bytes
    }

    #[test]
    fn a_column_is_differences_in_zigzag() {
        assert_eq!(bytes(&[Some(0), Some(2), Some(1)]), [2, 4, 1]);
    }

    #[test]
    fn a_run_of_equal_values_is_zero_and_its_length() {
        assert_eq!(bytes(&[Some(9); 300]), [20, 0, 0xab, 0x02]);
    }

    #[test]
    fn a_value_that_is_not_set_is_zero() {
        assert_eq!(bytes(&[None, None, Some(0), None]), [0, 2, 2, 1]);
    }
}
