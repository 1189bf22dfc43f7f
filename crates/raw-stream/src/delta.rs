//! What changed since the last record of the same connection and kind: most of a record stays.
//!
//! ```text
//! record = slot (1 byte), mask (4 bytes), the 4-byte words whose bit is set in the mask
//! ```
//!
//! The prediction of a slot is the last record that was written in it in this block, at first zeros.

use anyhow::{Context, Result, ensure};
use transom_event::{RAW_LEN, Raw};

const WORD: usize = 4;
const WORDS: usize = RAW_LEN / WORD;
const SLOTS: usize = 64;
/// Of a record, before its words.
const HEAD: usize = 5;
/// The most that a record can take.
const MOST: usize = HEAD + RAW_LEN;

type Words = [u32; WORDS];

fn slot_of(raw: &Raw) -> usize {
    let mixed =
        (raw.head.cookie ^ u64::from(raw.head.kind) << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 58) as usize % SLOTS
}

/// Encodes the records of a block as they come: each is read once, while it is in the processor's cache.
pub struct Encoder {
    last: Box<[Words; SLOTS]>,
}

impl Encoder {
    pub fn new() -> Encoder {
        Encoder { last: Box::new([[0; WORDS]; SLOTS]) }
    }

    /// The next record is the first of a block.
    pub fn start(&mut self) {
        self.last.fill([0; WORDS]);
    }

    /// Appends the record to `block`.
    #[inline]
    pub fn push(&mut self, raw: &Raw, block: &mut Vec<u8>) {
        let slot = slot_of(raw);
        let words: &Words = bytemuck::cast_ref(raw);
        let last = &mut self.last[slot];
        let mask = difference(words, last);
        let mut record = [0; MOST];
        record[0] = slot as u8;
        record[1..HEAD].copy_from_slice(&mask.to_le_bytes());
        let changed = gather(words, mask);
        record[HEAD..].copy_from_slice(bytemuck::bytes_of(&changed));
        // As many bytes for each record are copied faster than as many as it takes.
        let end = block.len() + HEAD + WORD * mask.count_ones() as usize;
        block.extend_from_slice(&record);
        block.truncate(end);
        *last = *words;
    }
}

/// The words whose bit is set come first.
fn gather(words: &Words, mask: u32) -> Words {
    let (mut rest, mut count, mut gathered) = (mask, 0, [0; WORDS]);
    while rest != 0 {
        gathered[count % WORDS] = words[rest.trailing_zeros() as usize % WORDS].to_le();
        count += 1;
        rest &= rest - 1;
    }
    gathered
}

/// Bit n is set where word n differs. Written so that compilers use the vector unit: all are compared at once,
/// and a multiplication gathers eight flags of one byte each in its highest byte.
fn difference(words: &Words, last: &Words) -> u32 {
    let flags: [u8; WORDS] = std::array::from_fn(|n| u8::from(words[n] != last[n]));
    flags.as_chunks::<8>().0.iter().rev().fold(0, |mask, &eight| {
        let gathered = u64::from_le_bytes(eight).wrapping_mul(0x0102_0408_1020_4080) >> 56;
        mask << 8 | gathered as u32
    })
}

/// Decodes into `to` until it is full.
///
/// # Errors
/// The bytes are not the encoding of so many records.
pub fn decode(mut from: &[u8], to: &mut [u8]) -> Result<()> {
    let mut last: [Words; SLOTS] = [[0; WORDS]; SLOTS];
    for record in to.chunks_exact_mut(RAW_LEN) {
        let (head, rest) = from.split_first_chunk::<HEAD>().context("a record is cut")?;
        let [slot, mask @ ..] = *head;
        let words = last.get_mut(usize::from(slot)).context("a record is of no slot")?;
        let mask = u32::from_le_bytes(mask);
        let length = WORD * mask.count_ones() as usize;
        let (changed, rest) = rest.split_at_checked(length).context("a record is cut")?;
        let mut changed = changed.chunks_exact(WORD);
        for (n, word) in words.iter_mut().enumerate() {
            if mask >> n & 1 == 1
                && let Some(&[a, b, c, d]) = changed.next()
            {
                *word = u32::from_le_bytes([a, b, c, d]);
            }
        }
        // Words are numbers here, and were bytes of this machine's order there.
        record.copy_from_slice(bytemuck::bytes_of(words));
        from = rest;
    }
    ensure!(from.is_empty(), "{} bytes follow the last record", from.len());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn there_and_back(records: &[u8]) -> (Vec<u8>, usize) {
        let (mut encoder, mut encoded) = (Encoder::new(), Vec::new());
        for record in records.chunks_exact(RAW_LEN) {
            encoder.push(&Raw::from_bytes(record).unwrap(), &mut encoded);
        }
        let mut decoded = vec![0; records.len()];
        decode(&encoded, &mut decoded).unwrap();
        (decoded, encoded.len())
    }

    #[test]
    fn a_record_that_repeats_the_last_one_takes_its_head() {
        let records = [7; 3 * RAW_LEN];
        let (decoded, used) = there_and_back(&records);
        assert_eq!(decoded, records);
        assert_eq!(used, MOST + 2 * HEAD);
    }

    #[test]
    fn each_word_that_differs_has_its_bit() {
        assert_eq!(difference(&[5; WORDS], &[5; WORDS]), 0);
        for n in 0..WORDS {
            let mut words = [5; WORDS];
            words[n] ^= 1 << (n % 32);
            assert_eq!(difference(&words, &[5; WORDS]), 1 << n);
        }
        assert_eq!(difference(&[5; WORDS], &[0; WORDS]), u32::MAX);
    }

    proptest! {
        #[test]
        fn whatever_the_records_are_they_come_back(seed: Vec<u8>, records in 0_usize..40) {
            let bytes: Vec<u8> =
                (0..records * RAW_LEN).map(|n| *seed.get(n % 977).unwrap_or(&(n as u8 / 3))).collect();
            prop_assert_eq!(&there_and_back(&bytes).0, &bytes);
        }

        #[test]
        fn noise_is_no_panic(noise: Vec<u8>, records in 0_usize..20) {
            let _ = decode(&noise, &mut vec![0; records * RAW_LEN]);
        }
    }
}
