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

/// Room for the encoding of this many bytes of records.
pub fn bound(decoded: usize) -> usize {
    decoded / RAW_LEN * MOST
}

fn slot_of(raw: &Raw) -> usize {
    let mixed =
        (raw.head.cookie ^ u64::from(raw.head.kind) << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 58) as usize % SLOTS
}

/// Encodes whole records into `to`, which has [`bound`] bytes; returns how many were used.
pub fn encode(records: &[u8], to: &mut [u8]) -> usize {
    let mut last: [Words; SLOTS] = [[0; WORDS]; SLOTS];
    let mut used = 0;
    for record in records.chunks_exact(RAW_LEN) {
        let slot = slot_of(&bytemuck::pod_read_unaligned(record));
        let words: Words = bytemuck::pod_read_unaligned(record);
        used += encode_one(&words, &last[slot], slot as u8, &mut to[used..used + MOST]);
        last[slot] = words;
    }
    used
}

/// Each word is written, and stays where it differs: no branch that a processor guesses wrong.
fn encode_one(words: &Words, last: &Words, slot: u8, to: &mut [u8]) -> usize {
    let (mut mask, mut at) = (0_u32, HEAD);
    for n in 0..WORDS {
        let differs = u32::from(words[n] != last[n]);
        to[at..at + WORD].copy_from_slice(&words[n].to_le_bytes());
        at += WORD * differs as usize;
        mask |= differs << n;
    }
    to[0] = slot;
    to[1..HEAD].copy_from_slice(&mask.to_le_bytes());
    at
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
        let mut encoded = vec![0; bound(records.len())];
        let used = encode(records, &mut encoded);
        let mut decoded = vec![0; records.len()];
        decode(&encoded[..used], &mut decoded).unwrap();
        (decoded, used)
    }

    #[test]
    fn a_record_that_repeats_the_last_one_takes_its_head() {
        let records = [7; 3 * RAW_LEN];
        let (decoded, used) = there_and_back(&records);
        assert_eq!(decoded, records);
        assert_eq!(used, MOST + 2 * HEAD);
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
