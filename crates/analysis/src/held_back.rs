//! Small pieces that wait: for an acknowledgement, as Nagle's algorithm (RFC 896) makes them, or for the
//! timer that ends a cork.

use std::ops::Range;

use transom_event::{Kind, fields};

use crate::Limit;
use crate::evidence::Evidence;
use crate::track::Step;

/// Time in which less than a segment was written and not sent, because what had left before it was
/// not acknowledged, ns.
pub(crate) fn held_back_ns(evidence: &Evidence) -> u64 {
    let waits = waits(evidence.steps);
    evidence.limits.common_ns(&[Limit::Application], waits.iter().cloned())
}

/// How much later than asked a timer of the kernel expires: a tick of 100 Hz, ns.
const TICK_NS: u64 = 10_000_000;

/// Time that ended with less than a segment, one RTO after all had been acknowledged: so long a cork
/// holds back what was written at once then (`tcp_check_probe_timer`). A program may have such a timer
/// of its own.
pub(crate) fn corked_ns(evidence: &Evidence) -> u64 {
    let is_timer = |pair: &&[Step]| {
        let (from, to) = (pair[0].settled(), &pair[1]);
        let (bytes, _) = fields::sent(to.point.aux);
        let is_small = (1..u32::from(to.state().mss)).contains(&bytes);
        let late_ns = (to.time_ns() - pair[0].time_ns()).checked_sub(u64::from(from.rto_us) * 1000);
        to.kind() == Kind::Send
            && is_small
            && from.outstanding() == 0
            && from.rto_us > 0
            && late_ns.is_some_and(|late| late <= TICK_NS)
    };
    let waits = evidence.steps.windows(2).filter(is_timer);
    let waits = waits.map(|pair| pair[0].time_ns()..pair[1].time_ns());
    evidence.limits.common_ns(&[Limit::Application, Limit::Receiving, Limit::Idle], waits)
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
