//! Small pieces that wait for an acknowledgement, as Nagle's algorithm (RFC 896) makes them.

use std::ops::Range;

use transom_event::Kind;

use crate::Limit;
use crate::evidence::Evidence;
use crate::track::Step;

/// Time in which less than a segment was written and not sent, because what had left before it was
/// not acknowledged, ns.
pub(crate) fn held_back_ns(evidence: &Evidence) -> u64 {
    let waits = waits(evidence.steps);
    evidence.common_ns(&[Limit::Application], waits.iter().cloned())
}

/// The waits that an acknowledgement ended, and that held such a piece back (`tcp_nagle_test`).
fn waits(steps: &[Step]) -> Vec<Range<u64>> {
    let holds = |pair: &&[Step]| {
        let (from, to) = (pair[0].settled(), pair[1].state());
        // An ACK that is reported on the way out shows first in what it let leave.
        let ended_by_ack = match pair[1].kind() {
            Kind::Ack => !pair[1].is_after(),
            Kind::Send => to.snd_una != from.snd_una,
            _ => false,
        };
        let is_small = (1..u32::from(to.mss)).contains(&to.unsent);
        ended_by_ack && is_small && from.outstanding() > 0
    };
    let held = steps.windows(2).filter(holds);
    held.map(|pair| pair[0].time_ns()..pair[1].time_ns()).collect()
}
