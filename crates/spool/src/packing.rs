//! Integers in few bits, as Parquet has them: differences of neighbours (DELTA_BINARY_PACKED), and
//! small numbers in runs (RLE).

/// Values of a block of differences, and of each of its parts, which have a width of their own.
const BLOCK: usize = 256;
const PART: usize = 64;
/// Values of a group that is packed whole, and the least run that is worth one.
const GROUP: usize = 8;

/// Bits that this number needs.
pub fn width_of(value: u64) -> u32 {
    u64::BITS - value.leading_zeros()
}

fn put_varint(to: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

fn put_zigzag(to: &mut Vec<u8>, value: i64) {
    put_varint(to, ((value << 1) ^ (value >> 63)) as u64);
}

/// Packs values of this width, the lowest bits first. As many as fill whole bytes: multiples of 8.
fn put_packed(to: &mut Vec<u8>, values: impl Iterator<Item = u64>, width: u32) {
    if width == 0 {
        return;
    }
    let (mut word, mut filled) = (0u64, 0);
    for value in values {
        word |= value << filled;
        filled += width;
        if filled >= u64::BITS {
            to.extend_from_slice(&word.to_le_bytes());
            filled -= u64::BITS;
            // What did not fit; a shift by all bits leaves nothing.
            word = value.checked_shr(width - filled).unwrap_or(0);
        }
    }
    to.extend_from_slice(&word.to_le_bytes()[..filled.div_ceil(8) as usize]);
}

/// DELTA_BINARY_PACKED.
pub fn put_differences(to: &mut Vec<u8>, values: &[i64]) {
    put_varint(to, BLOCK as u64);
    put_varint(to, (BLOCK / PART) as u64);
    put_varint(to, values.len() as u64);
    put_zigzag(to, values.first().copied().unwrap_or(0));
    let mut differences = [0; BLOCK];
    let Some(mut last) = values.first().copied() else { return };
    for block in values[1..].chunks(BLOCK) {
        for (difference, &value) in differences.iter_mut().zip(block) {
            *difference = value.wrapping_sub(last);
            last = value;
        }
        put_block(to, &mut differences[..block.len()]);
    }
}

fn put_block(to: &mut Vec<u8>, differences: &mut [i64]) {
    let least = differences.iter().copied().min().unwrap_or(0);
    put_zigzag(to, least);
    let widths = to.len();
    to.extend_from_slice(&[0; BLOCK / PART]);
    for (number, part) in differences.chunks(PART).enumerate() {
        let above = |difference: i64| difference.wrapping_sub(least) as u64;
        let width = width_of(part.iter().fold(0, |all, &difference| all | above(difference)));
        to[widths + number] = width as u8;
        let padded = part.iter().map(|&d| above(d)).chain(std::iter::repeat(0)).take(PART);
        put_packed(to, padded, width);
    }
}

/// RLE: runs of equal values as their length and the value, others packed, of this width.
pub fn put_runs<V: Copy + PartialEq + Into<u64>>(to: &mut Vec<u8>, values: &[V], width: u32) {
    let (mut at, mut packed_from) = (0, 0);
    while at < values.len() {
        let run = values[at..].iter().take_while(|&&value| value == values[at]).count();
        // What is packed before it takes the first ones, so that its groups are whole.
        let taken = (at - packed_from).next_multiple_of(GROUP) - (at - packed_from);
        if run >= taken + GROUP {
            put_groups(to, &values[packed_from..at + taken], width);
            put_run(to, run - taken, values[at].into(), width);
            packed_from = at + run;
        }
        at += run;
    }
    put_groups(to, &values[packed_from..], width);
}

/// One run of them all.
pub fn put_run(to: &mut Vec<u8>, length: usize, value: u64, width: u32) {
    put_varint(to, (length as u64) << 1);
    to.extend_from_slice(&value.to_le_bytes()[..width.div_ceil(8) as usize]);
}

fn put_groups<V: Copy + Into<u64>>(to: &mut Vec<u8>, values: &[V], width: u32) {
    if values.is_empty() {
        return;
    }
    let groups = values.len().div_ceil(GROUP);
    put_varint(to, (groups as u64) << 1 | 1);
    let padded = values.iter().map(|&v| v.into()).chain(std::iter::repeat(0));
    put_packed(to, padded.take(groups * GROUP), width);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_the_format_are_as_its_specification_has_them() {
        let mut packed = Vec::new();
        put_packed(&mut packed, 0..8, 3);
        assert_eq!(packed, [0b1000_1000, 0b1100_0110, 0b1111_1010]);
        let mut differences = Vec::new();
        put_differences(&mut differences, &[1, 2, 3, 4, 5]);
        // 256 a block of 4 parts, 5 values, the first is 1; each is 1 more than the one before.
        assert_eq!(differences, [0x80, 0x02, 4, 5, 2, 2, 0, 0, 0, 0]);
    }

    #[test]
    fn a_long_run_takes_two_bytes_and_what_is_packed_before_it_is_whole() {
        let mut runs = Vec::new();
        put_runs(&mut runs, &[1u8; 20], 1);
        assert_eq!(runs, [20 << 1, 1]);
        let mut mixed = Vec::new();
        put_runs(&mut mixed, &[[0, 1, 0].as_slice(), &[1u8; 20]].concat(), 1);
        assert_eq!(mixed, [1 << 1 | 1, 0b1111_1010, 15 << 1, 1]);
    }

    #[test]
    fn a_width_of_64_is_packed_too() {
        let mut packed = Vec::new();
        put_packed(&mut packed, [u64::MAX, 1].into_iter(), 64);
        assert_eq!(packed, [[0xff; 8], [1, 0, 0, 0, 0, 0, 0, 0]].concat());
    }
}
