//! The end of a transfer: all has left, and the path still carries it.

use std::ops::Range;

use transom_event::TcpState;

use crate::evidence::Evidence;
use crate::track::Step;
use crate::{Limit, Limits};

/// Share of the time with nothing more to send, from when the last data left until they were
/// acknowledged. A program that has written all that it will ever write keeps nobody waiting.
pub(crate) fn share(limits: &Limits, steps: &[Step], duration_ns: u64) -> f64 {
    let last = last_delivery(steps).into_iter();
    limits.common_ns(&[Limit::Application], last) as f64 / duration_ns.max(1) as f64
}

impl Evidence<'_> {
    /// Whether the delivery of the last data takes more time than that in which the path let no more leave.
    pub fn is_mostly_delivery(&self) -> bool {
        let held =
            [Limit::Cwnd, Limit::Repair, Limit::Pacing].map(|limit| self.limits.share(limit));
        self.delivery_share > held.iter().sum()
    }
}

/// From when the last data left to when all was acknowledged.
pub(crate) fn last_delivery(steps: &[Step]) -> Option<Range<u64>> {
    let last = 1 + steps.windows(2).rposition(|pair| pair[1].sent > pair[0].sent)?;
    // Of a side that was closed by the other and goes on, no ACK has an event.
    let is_over = |step: &&Step| {
        let state = step.settled();
        state.outstanding() == 0 || state.tcp() == Some(TcpState::CloseWait)
    };
    let end = steps[last..].iter().find(is_over).or(steps.last())?;
    Some(steps[last].time_ns()..end.time_ns())
}
