//! Multipath TCP (RFC 8684): the subflows of one connection, together.

use serde::Serialize;
use transom_event::Token;

use crate::Analysis;

/// What the subflows of one connection did in all. Bytes are those of the subflows: what was
/// retransmitted on another one counts for both.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Multipath {
    pub token: Token,
    /// Of its first subflow; empty and 0 when not known.
    pub program: String,
    pub tgid: u32,
    pub subflows: usize,
    /// From the first event of any subflow to the last one of any.
    pub start_ns: u64,
    pub duration_ns: u64,
    pub acked: u64,
    pub received: u64,
    /// Mean over the whole duration, bit/s.
    pub goodput_up: f64,
    pub goodput_down: f64,
    /// Segments.
    pub retransmitted: u64,
    pub timeouts: u64,
}

impl Multipath {
    /// The sum of `subflows`; `None` if they are none of one connection.
    pub fn of(subflows: &[Analysis]) -> Option<Multipath> {
        let token = subflows.first()?.mptcp?;
        if subflows.iter().any(|subflow| subflow.mptcp != Some(token)) {
            return None;
        }
        let start_ns = subflows.iter().map(|s| s.start_ns).min()?;
        let end_ns = subflows.iter().map(|s| s.start_ns + s.summary.duration_ns).max()?;
        let duration_ns = end_ns - start_ns;
        let sum = |of: fn(&Analysis) -> u64| subflows.iter().map(of).sum::<u64>();
        let (acked, received) = (sum(|s| s.summary.acked), sum(|s| s.summary.received));
        let per_second = |bytes: u64| bytes as f64 * 8.0e9 / duration_ns.max(1) as f64;
        Some(Multipath {
            token,
            program: subflows[0].program.clone(),
            tgid: subflows[0].tgid,
            subflows: subflows.len(),
            start_ns,
            duration_ns,
            acked,
            received,
            goodput_up: per_second(acked),
            goodput_down: per_second(received),
            retransmitted: sum(|s| s.summary.retransmitted.total()),
            timeouts: sum(|s| s.summary.timeouts),
        })
    }

    /// Bytes of both directions.
    pub fn bytes(&self) -> u64 {
        self.acked + self.received
    }
}
