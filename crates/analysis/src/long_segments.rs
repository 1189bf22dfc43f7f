//! Segments of full length that are lost while shorter ones come through: a path whose MTU is smaller
//! than TCP knows, and that does not say so.

use std::ops::Range;

use transom_event::{Kind, fields};

use crate::evidence::Evidence;
use crate::track::Step;

/// Whether what was answered was shorter than a segment, each time, and the first that is not answered
/// is a whole one. Of many short ones that are lost the path says nothing of their length.
pub(crate) fn never_came_through(evidence: &Evidence) -> bool {
    let (summary, steps) = (evidence.summary, evidence.steps);
    let mss = u64::from(summary.mss);
    let is_short = |pair: &[Step]| pair[1].acked - pair[0].acked < mss;
    let came = summary.acked > 0 || summary.received > 0;
    // Where the recording began later, longer ones may have been answered before.
    summary.coverage.begun
        && came
        && mss > 0
        && first_unanswered(evidence) >= mss
        && steps.windows(2).all(is_short)
}

/// How much of the first data that was not answered left at once, bytes; 0 where it was not seen.
pub(crate) fn first_unanswered(evidence: &Evidence) -> u64 {
    let acked = evidence.steps.last().map_or(0, |step| step.acked);
    let mut sends = evidence.steps.iter().filter(|step| step.kind() == Kind::Send);
    let unanswered = |step: &Step| u64::from(fields::sent(step.point.aux).0).min(step.sent - acked);
    sends.find(|step| step.sent > acked).map_or(0, unanswered)
}

/// Whether a full segment is the first that was not acknowledged, and of those behind it the other side
/// has short ones (SACK) and no full one.
pub(crate) fn no_longer_come_through(evidence: &Evidence) -> bool {
    let Some(last) = evidence.steps.last().map(Step::settled) else { return false };
    let ahead = |sequence: u32| i64::from(sequence.wrapping_sub(last.snd_una) as i32);
    let mss = i64::from(evidence.summary.mss.max(1));
    let blocks = evidence.sacks.iter().flat_map(|mark| {
        let blocks = mark.sack().map_or(&[][..], |sack| &sack.blocks);
        blocks.iter().take(fields::sack_blocks(mark.aux))
    });
    let blocks: Vec<Range<i64>> = blocks
        .map(|[left, right]| ahead(*left)..ahead(*right))
        .filter(|block| block.start > 0)
        .collect();
    let has_come = |segment: &Range<i64>| {
        blocks.iter().any(|block| block.start <= segment.start && segment.end <= block.end)
    };
    let (mut is_first_full, mut short_ones) = (false, false);
    for step in evidence.steps.iter().rev().filter(|step| step.kind() == Kind::Send) {
        let (end, (bytes, _)) = (ahead(step.settled().snd_nxt), fields::sent(step.point.aux));
        if end <= 0 {
            break;
        }
        let start = end - i64::from(bytes);
        for from in (start..end).step_by(mss as usize) {
            let segment = from..end.min(from + mss);
            match segment.end - segment.start == mss {
                true if has_come(&segment) => return false,
                true => is_first_full |= segment.start == 0,
                false => short_ones |= has_come(&segment),
            }
        }
    }
    is_first_full && short_ones
}
