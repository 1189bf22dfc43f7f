//! Frames in parts, as `writev` and `sendmsg` take them.

use std::io::IoSlice;

/// Parts that [`behind`] handles without allocating: a buffer of the kernel has its head and 17
/// fragments (MAX_SKB_FRAGS).
const PARTS: usize = 24;

/// Bytes of all parts.
pub fn length(parts: &[IoSlice<'_>]) -> usize {
    parts.iter().map(|part| part.len()).sum()
}

/// The first bytes of a frame, as many as there are and fit.
pub fn beginning<'a>(parts: &[IoSlice<'_>], into: &'a mut [u8]) -> &'a [u8] {
    let mut filled = 0;
    for part in parts {
        let taken = part.len().min(into.len() - filled);
        into[filled..filled + taken].copy_from_slice(&part[..taken]);
        filled += taken;
        if filled == into.len() {
            break;
        }
    }
    &into[..filled]
}

/// Calls `with` with the header's bytes, then the parts.
pub fn behind<T>(
    header: &[u8],
    parts: &[IoSlice<'_>],
    with: impl FnOnce(&[IoSlice<'_>]) -> T,
) -> T {
    if parts.len() < PARTS {
        let mut all = [IoSlice::new(&[]); PARTS];
        all[0] = IoSlice::new(header);
        all[1..=parts.len()].copy_from_slice(parts);
        return with(&all[..=parts.len()]);
    }
    let mut all = Vec::with_capacity(parts.len() + 1);
    all.push(IoSlice::new(header));
    all.extend_from_slice(parts);
    with(&all)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_frame_in_parts_is_the_frame(
            header in vec(any::<u8>(), 0..15),
            parts in vec(vec(any::<u8>(), 0..20), 0..2 * PARTS),
            room in 0usize..100,
        ) {
            let whole = parts.concat();
            let slices: Vec<_> = parts.iter().map(|part| IoSlice::new(part)).collect();
            prop_assert_eq!(length(&slices), whole.len());
            let mut into = vec![0; room];
            prop_assert_eq!(beginning(&slices, &mut into), &whole[..room.min(whole.len())]);
            let joined = behind(&header, &slices, |all| {
                all.iter().flat_map(|part| part.to_vec()).collect::<Vec<u8>>()
            });
            prop_assert_eq!(joined, [header, whole].concat());
        }
    }
}
