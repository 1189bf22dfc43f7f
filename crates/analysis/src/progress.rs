//! Bytes of the data stream, from 32-bit sequence numbers that wrap every 4 GiB.
//!
//! One definition for every command: a SYN and a FIN take a sequence number each (RFC 9293
//! section 3.4) and are no bytes; what was acknowledged or received before the first event is not
//! counted.

use transom_event::{Origin, State, TcpState};

/// After this long a step backwards is a new start, not an event out of order.
const STALE_NS: u64 = 1_000_000_000;

/// Whether data can flow in this state, so that the sequence numbers count bytes.
pub(crate) fn is_synchronized(state: &State) -> bool {
    use TcpState::*;
    matches!(
        state.tcp(),
        Some(Established | FinWait1 | FinWait2 | CloseWait | Closing | LastAck | TimeWait)
    )
}

/// Bytes counted from one sequence number.
#[derive(Clone, Copy, Debug, Default)]
struct Counter {
    last: Option<u32>,
    last_ns: u64,
    total: u64,
}

impl Counter {
    fn start(&mut self, time_ns: u64, number: u32) {
        (self.last, self.last_ns) = (Some(number), time_ns);
    }

    /// Follows the number; one that lies behind (events of several CPUs interleave) changes nothing.
    /// Returns whether it had to start anew: so much has passed that the number does not say how much.
    fn follow(&mut self, time_ns: u64, number: u32) -> bool {
        let ahead = number.wrapping_sub(self.last.unwrap_or(number));
        let behind = (ahead as i32) < 0;
        if behind && time_ns.saturating_sub(self.last_ns) <= STALE_NS {
            return false;
        }
        if !behind {
            self.total += u64::from(ahead);
        }
        self.start(time_ns, number);
        behind
    }
}

/// Bytes since the first event, each once.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Progress {
    sent: Counter,
    acked: Counter,
    received: Counter,
    /// Whether one side has closed it.
    closing: bool,
    /// Whether `rcv_nxt` counts the FIN of the other side.
    peer_fin: bool,
    /// Whether nothing was in flight before it was seen that is not its own.
    is_begun: bool,
}

impl Progress {
    /// Of a connection that began so, with so many bytes before its first event.
    pub fn begun(origin: Option<Origin>, early_bytes: u32) -> Progress {
        let mut progress = Progress::default();
        let bytes = u64::from(early_bytes);
        match origin {
            Some(Origin::Connect) => {
                (progress.sent.total, progress.acked.total) = (bytes, bytes);
            }
            Some(Origin::Accept) => progress.received.total = bytes,
            _ => return progress,
        }
        progress.is_begun = true;
        progress
    }

    /// Sent, acknowledged, received in order.
    pub fn bytes(&self) -> (u64, u64, u64) {
        (self.sent.total, self.acked.total, self.received.total)
    }

    /// Follows an event that met one state and left another one. Returns whether bytes are missing
    /// that passed since the event before.
    pub fn follow(&mut self, time_ns: u64, met: &State, left: &State) -> bool {
        // A connection that is being closed does not become established again: this is a later one
        // whose socket took the memory of this one's before the recorder had noticed.
        if self.closing && met.tcp() == Some(TcpState::Established) {
            return false;
        }
        self.closing |= left.tcp() != Some(TcpState::Established);
        let (sent, acked) = own_fin(met, left.snd_una);
        self.peer_fin |= self.has_peer_fin(met, left);
        let received = u32::from(self.peer_fin);
        // What was in flight when we came is not ours to count as acknowledged but never sent.
        if self.sent.last.is_none() {
            let from = if self.is_begun { met.snd_una } else { met.snd_nxt };
            self.sent.start(time_ns, from.wrapping_sub(sent));
            self.acked.start(time_ns, met.snd_una);
            self.received.start(time_ns, met.rcv_nxt.wrapping_sub(received));
        }
        self.sent.follow(time_ns, left.snd_nxt.wrapping_sub(sent))
            | self.acked.follow(time_ns, left.snd_una.wrapping_sub(acked))
            | self.received.follow(time_ns, left.rcv_nxt.wrapping_sub(received))
    }

    /// Whether the FIN of the other side has come, as far as this event shows.
    fn has_peer_fin(&self, met: &State, left: &State) -> bool {
        use TcpState::*;
        let after_fin =
            |state: &State| matches!(state.tcp(), Some(CloseWait | Closing | LastAck | TimeWait));
        // The kernel moves `rcv_nxt` over the FIN before it leaves the state that receives it, and
        // hands TIME-WAIT to a socket of its own: this one goes from FIN-WAIT to CLOSE. It does so
        // without any FIN when its program has closed it; then nothing has arrived.
        let moved = self.received.last.is_some_and(|last| last != met.rcv_nxt);
        let to_time_wait =
            matches!(met.tcp(), Some(FinWait1 | FinWait2)) && left.tcp() == Some(Close) && moved;
        after_fin(met) || after_fin(left) || to_time_wait
    }
}

/// Whether `snd_nxt` and `snd_una` count the FIN of this side.
fn own_fin(met: &State, una: u32) -> (u32, u32) {
    use TcpState::*;
    let sent = matches!(met.tcp(), Some(FinWait1 | FinWait2 | Closing | TimeWait | LastAck))
        && met.unsent == 0;
    (sent.into(), (sent && una == met.snd_nxt).into())
}
