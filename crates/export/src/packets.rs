//! Numbers for the segments of a TCP connection.
//!
//! qlog comes from QUIC, where every packet has a number of its own and acknowledgements and losses
//! name numbers. TCP names bytes. So the segments that the recording saw leave are numbered, a
//! retransmission anew, and ranges of bytes become the numbers of the segments that they cover.

use std::collections::VecDeque;
use std::ops::Range;

/// A segment that was sent and that no ACK has covered yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Segment {
    number: u64,
    start: u64,
    end: u64,
    /// A SACK block has covered it.
    sacked: bool,
}

/// The segments of one direction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Packets {
    next: u64,
    /// The sequence number last sent or acknowledged, unwrapped; the others are near it.
    near: Option<u64>,
    unacknowledged: VecDeque<Segment>,
}

/// A segment that left: its number and its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    pub number: u64,
    pub bytes: u32,
}

impl Packets {
    /// The sequence number in 64 bits.
    fn unwrap(&self, seq: u32) -> u64 {
        // The first is far from 0, so that others may lie before it.
        let near = self.near.unwrap_or(1 << 32 | u64::from(seq));
        let ahead = seq.wrapping_sub(near as u32).cast_signed();
        near.saturating_add_signed(ahead.into())
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    /// New data from `seq` on, handed over at once: its segments.
    pub fn send(&mut self, seq: u32, bytes: u32, segments: u32, mss: u32) -> Vec<Sent> {
        let start = self.unwrap(seq);
        self.near = Some(start);
        // All are full but the last, or nothing is known of how they were cut.
        let is_cut_by_mss = mss > 0 && bytes.div_ceil(mss) == segments;
        let piece = if is_cut_by_mss { mss } else { bytes };
        let mut sent = Vec::new();
        let mut from = 0;
        while from < bytes {
            let bytes = piece.min(bytes - from);
            let number = self.number();
            let start = start + u64::from(from);
            let end = start + u64::from(bytes);
            let segment = Segment { number, start, end, sacked: false };
            // Events of two processors may come in the other order.
            let at = self.unacknowledged.partition_point(|other| other.start <= start);
            self.unacknowledged.insert(at, segment);
            sent.push(Sent { number, bytes });
            from += bytes;
        }
        sent
    }

    /// Segments from `seq` on are sent again: of each the number that it had, where it was seen to
    /// leave, and the one that it has now.
    pub fn resend(&mut self, seq: u32, segments: u32) -> Vec<(Option<u64>, u64)> {
        let start = self.unwrap(seq);
        let first = self.unacknowledged.partition_point(|segment| segment.end <= start);
        let mut again = Vec::new();
        for at in 0..segments as usize {
            let number = self.number();
            let segment = self.unacknowledged.get_mut(first + at);
            // Only if it is one of those, and no hole in what was seen.
            let segment = segment.filter(|s| at > 0 || s.start <= start);
            again.push((segment.as_ref().map(|segment| segment.number), number));
            if let Some(segment) = segment {
                segment.number = number;
            }
        }
        again
    }

    /// Everything before `una` is acknowledged: the numbers that this acknowledges first.
    pub fn acknowledge(&mut self, una: u32) -> Vec<u64> {
        let una = self.unwrap(una);
        self.near = Some(una);
        let mut numbers = Vec::new();
        while let Some(segment) = self.unacknowledged.front().filter(|s| s.end <= una) {
            if !segment.sacked {
                numbers.push(segment.number);
            }
            self.unacknowledged.pop_front();
        }
        numbers
    }

    /// A SACK block: the numbers that it covers first.
    pub fn acknowledge_block(&mut self, block: [u32; 2]) -> Vec<u64> {
        let [left, right] = block.map(|edge| self.unwrap(edge));
        let first = self.unacknowledged.partition_point(|segment| segment.start < left);
        let covered = self.unacknowledged.range_mut(first..).take_while(|s| s.end <= right);
        let mut fresh = Vec::new();
        for segment in covered {
            if !std::mem::replace(&mut segment.sacked, true) {
                fresh.push(segment.number);
            }
        }
        fresh
    }
}

/// Numbers as ranges without gaps, in order.
pub(crate) fn ranges(mut numbers: Vec<u64>) -> Vec<Range<u64>> {
    numbers.sort_unstable();
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some(last) if last.end == number => last.end += 1,
            _ => ranges.push(number..number + 1),
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MSS: u32 = 1000;

    fn numbers(sent: &[Sent]) -> Vec<u64> {
        sent.iter().map(|sent| sent.number).collect()
    }

    #[test]
    fn data_is_cut_into_full_segments_and_the_rest() {
        let mut packets = Packets::default();
        let sent = packets.send(u32::MAX - 999, 2_500, 3, MSS);
        assert_eq!(numbers(&sent), [0, 1, 2]);
        assert_eq!(sent.iter().map(|s| s.bytes).collect::<Vec<_>>(), [1000, 1000, 500]);
        let whole = packets.send(1_500, 2_500, 2, MSS);
        assert_eq!(whole, [Sent { number: 3, bytes: 2_500 }], "not cut by this MSS");
    }

    #[test]
    fn an_ack_covers_whole_segments_also_where_the_numbers_wrap() {
        let mut packets = Packets::default();
        packets.send(u32::MAX - 999, 3_000, 3, MSS);
        assert_eq!(packets.acknowledge(500), [0], "the second only in part");
        assert_eq!(packets.acknowledge(1_000), [1]);
        assert_eq!(packets.acknowledge(1_000), [0; 0]);
        assert_eq!(packets.acknowledge(2_000), [2]);
    }

    #[test]
    fn what_sack_reported_is_not_acknowledged_twice() {
        let mut packets = Packets::default();
        packets.send(0, 5_000, 5, MSS);
        assert_eq!(packets.acknowledge_block([2_000, 4_000]), [2, 3]);
        assert_eq!(packets.acknowledge_block([2_000, 5_000]), [4]);
        assert_eq!(packets.acknowledge(5_000), [0, 1]);
    }

    #[test]
    fn a_retransmission_has_a_number_of_its_own_which_is_then_acknowledged() {
        let mut packets = Packets::default();
        packets.send(7_000, 3_000, 3, MSS);
        assert_eq!(packets.resend(8_000, 2), [(Some(1), 3), (Some(2), 4)]);
        assert_eq!(packets.resend(8_000, 1), [(Some(3), 5)]);
        assert_eq!(packets.acknowledge(10_000), [0, 5, 4]);
    }

    #[test]
    fn what_left_before_the_recording_has_no_number() {
        let mut packets = Packets::default();
        assert_eq!(packets.acknowledge(5_000), [0; 0]);
        assert_eq!(packets.resend(5_000, 1), [(None, 0)]);
        packets.send(9_000, 1_000, 1, MSS);
        assert_eq!(packets.resend(7_000, 1), [(None, 2)]);
    }

    proptest! {
        #[test]
        fn every_segment_is_acknowledged_once_in_whatever_order(
            start: u32, acks in proptest::collection::vec((0_u32..40, 0_u32..40, any::<bool>()), 0..40),
        ) {
            let mut packets = Packets::default();
            packets.send(start, 40 * MSS, 40, MSS);
            let edge = |n: u32| start.wrapping_add(n * MSS);
            let mut seen: Vec<u64> = Vec::new();
            for (from, to, is_block) in acks {
                seen.extend(match is_block {
                    true => packets.acknowledge_block([edge(from), edge(to.max(from))]),
                    false => packets.acknowledge(edge(from)),
                });
            }
            seen.extend(packets.acknowledge(edge(40)));
            seen.sort_unstable();
            prop_assert_eq!(seen, (0..40).collect::<Vec<u64>>());
        }

        #[test]
        fn ranges_hold_exactly_the_numbers(numbers: std::collections::BTreeSet<u8>) {
            let numbers: Vec<u64> = numbers.into_iter().map(u64::from).collect();
            let ranges = ranges(numbers.clone());
            prop_assert!(ranges.windows(2).all(|pair| pair[0].end < pair[1].start));
            prop_assert_eq!(ranges.into_iter().flatten().collect::<Vec<_>>(), numbers);
        }
    }
}
