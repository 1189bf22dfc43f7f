//! The log line of DICOMO 2011, figure 4, field for field.

use crate::{Body, Event};

/// Entries in the log of the paper's phone.
pub const PAPER_CAPACITY: u64 = 50_000;

/// Where a line stands in a bounded log: `[log index/capacity/total]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogPosition {
    pub index: u64,
    pub capacity: u64,
    pub total: u64,
}

impl LogPosition {
    /// The position of entry `sequence` (from 0) in a log of `capacity` entries.
    pub fn of(sequence: u64, capacity: u64) -> LogPosition {
        LogPosition { index: sequence % capacity, capacity: capacity - 1, total: sequence }
    }
}

/// One line, without its newline. `Type` is the number of the kind; `rto` is
/// in the paper's jiffies of 10 ms (HZ = 100). Kinds that carry no state
/// (`open`, `lost`) have no such line.
pub fn paper(event: &Event, position: LogPosition) -> Option<String> {
    let (cwnd, ssthresh, rcv_nxt, snd_nxt, snd_una, ca_state, rto_us) = match &event.body {
        Body::State(s) => {
            (s.cwnd, s.ssthresh, s.rcv_nxt, s.snd_nxt, s.snd_una, s.ca_state, s.rto_us)
        }
        Body::Sack(s) => (s.cwnd, s.ssthresh, 0, s.snd_nxt, s.snd_una, s.ca_state, 0),
        Body::None | Body::Open(_) => return None,
    };
    Some(format!(
        "{} {:06} parm,Type={} ,PID={} ,cwnd={cwnd} ,send_ssthresh={ssthresh} ,rcv_nxt= {rcv_nxt} ,\
         snd_nxt= {snd_nxt} ,snd_una= {snd_una} ,ca_state= {ca_state} , rto={} [log {}/{}/{}]",
        event.time_ns,
        position.index,
        event.kind as u8,
        event.tgid,
        rto_us / 10_000,
        position.index,
        position.capacity,
        position.total,
    ))
}
