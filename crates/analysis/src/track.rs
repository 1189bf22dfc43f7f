//! The points of a connection in order, with 32-bit sequence numbers unwrapped
//! and with the effect of each event kept apart from the state it met.

use transom_event::{CaState, Kind, State, TcpState, flags};

use crate::{Connection, Point};

/// One point and what is known after it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step<'a> {
    pub point: &'a Point,
    /// Bytes sent, acknowledged and received in order since the first event, after this one.
    pub sent: u64,
    pub acked: u64,
    pub received: u64,
    /// ACKs arrived between the point before and this one that were not recorded.
    pub unseen: bool,
}

impl Step<'_> {
    pub fn time_ns(&self) -> u64 {
        self.point.time_ns
    }

    pub fn kind(&self) -> Kind {
        self.point.kind
    }

    pub fn state(&self) -> &State {
        &self.point.state
    }

    /// Whether the state is the one the kernel left, not the one the event met.
    ///
    /// `tcp_probe` and the hand-over to the device run before the kernel
    /// changes `tcp_sock`; `fexit` probes say so with [`flags::AFTER`].
    pub fn is_after(&self) -> bool {
        self.state().has(flags::AFTER)
    }

    /// The state the event left behind, as far as its numbers tell.
    pub fn settled(&self) -> State {
        let mut state = *self.state();
        let [a, b] = self.point.aux;
        match self.kind() {
            Kind::Ack if !self.is_after() => {
                let acked = newly_acked(self.point);
                state.snd_una = state.snd_una.wrapping_add(acked);
                let segments = acked.div_ceil(u32::from(state.mss).max(1));
                state.packets_out = state.packets_out.saturating_sub(segments);
            }
            Kind::Send if !self.is_after() => {
                state.snd_nxt = state.snd_nxt.wrapping_add(a);
                state.unsent = state.unsent.saturating_sub(a);
                state.packets_out = state.packets_out.saturating_add(b);
            }
            Kind::CaState => state.ca_state = b.min(255) as u8,
            Kind::State => state.tcp_state = b.min(255) as u8,
            _ => {}
        }
        state
    }

    /// Congestion state after the event.
    pub fn ca(&self) -> Option<CaState> {
        match self.kind() {
            Kind::CaState => CaState::from_number(self.point.aux[1]),
            _ => self.state().ca(),
        }
    }
}

/// Bytes the ACK newly acknowledged; 0 for anything it cannot have acknowledged.
fn newly_acked(point: &Point) -> u32 {
    let acked = point.aux[0];
    if acked <= point.state.outstanding() { acked } else { 0 }
}

/// Whether data can flow in this state, so that the sequence numbers count bytes.
pub(crate) fn is_synchronized(state: &State) -> bool {
    use TcpState::*;
    matches!(
        state.tcp(),
        Some(Established | FinWait1 | FinWait2 | CloseWait | Closing | LastAck | TimeWait)
    )
}

/// Bytes counted from a 32-bit sequence number that wraps.
#[derive(Clone, Copy, Debug, Default)]
struct Counter {
    last: Option<u32>,
    total: u64,
}

impl Counter {
    /// Follows the number; one that lies behind (an old event) changes nothing.
    fn follow(&mut self, number: u32) -> u64 {
        let Some(last) = self.last else {
            self.last = Some(number);
            return self.total;
        };
        let ahead = number.wrapping_sub(last);
        if (ahead as i32) > 0 {
            self.total += u64::from(ahead);
            self.last = Some(number);
        }
        self.total
    }
}

/// The SYN and the FIN take a sequence number each; these are the FIN's.
fn fin_bytes(state: &State, una: u32) -> (u32, u32, u32) {
    use TcpState::*;
    let sent = matches!(state.tcp(), Some(FinWait1 | FinWait2 | Closing | TimeWait | LastAck))
        && state.unsent == 0;
    let acked = sent && una == state.snd_nxt;
    let received = matches!(state.tcp(), Some(CloseWait | Closing | LastAck | TimeWait));
    (sent.into(), acked.into(), received.into())
}

/// All points of a connection as steps, in the order of time.
pub(crate) fn steps(connection: &Connection) -> Vec<Step<'_>> {
    let mut points: Vec<&Point> = connection.points.iter().collect();
    if !points.is_sorted_by_key(|p| p.time_ns) {
        points.sort_by_key(|p| p.time_ns);
    }
    let (mut sent, mut acked, mut received) =
        (Counter::default(), Counter::default(), Counter::default());
    let mut steps: Vec<Step> = Vec::with_capacity(points.len());
    let mut expected_una: Option<u32> = None;
    // Told on the way out, an ACK comes after what it made the kernel do: the step that met its
    // effect, and what was acknowledged before.
    let mut early: Option<(usize, u32)> = None;
    for point in points {
        let mut step = Step { point, sent: 0, acked: 0, received: 0, unseen: false };
        if is_synchronized(&point.state) {
            let after = step.settled();
            if point.kind == Kind::Ack && step.is_after() {
                let met = point.state.snd_una.wrapping_sub(point.aux[0]);
                match early.take() {
                    Some((index, una)) if una == met => steps[index].unseen = false,
                    _ => step.unseen = expected_una.is_some_and(|una| una != met),
                }
            } else if let Some(una) = expected_una.filter(|&una| una != point.state.snd_una) {
                step.unseen = true;
                early = Some((steps.len(), una));
            }
            expected_una = Some(after.snd_una);
            let (fin_sent, fin_acked, fin_received) = fin_bytes(&point.state, after.snd_una);
            // What was in flight when we came is not ours to count as acknowledged-but-never-sent.
            if sent.last.is_none() {
                sent.last = Some(point.state.snd_nxt.wrapping_sub(fin_sent));
                acked.last = Some(point.state.snd_una);
                received.last = Some(point.state.rcv_nxt.wrapping_sub(fin_received));
            }
            sent.follow(after.snd_nxt.wrapping_sub(fin_sent));
            acked.follow(after.snd_una.wrapping_sub(fin_acked));
            received.follow(after.rcv_nxt.wrapping_sub(fin_received));
        }
        (step.sent, step.acked, step.received) = (sent.total, acked.total, received.total);
        steps.push(step);
    }
    steps
}

/// Congestion states as stretches `from..to` of steps; `to` is the first step after.
pub(crate) fn ca_spells(steps: &[Step]) -> Vec<(Option<CaState>, std::ops::Range<usize>)> {
    let mut spells: Vec<(Option<CaState>, std::ops::Range<usize>)> = Vec::new();
    for (i, step) in steps.iter().enumerate() {
        match spells.last_mut() {
            Some((ca, range)) if *ca == step.ca() => range.end = i + 1,
            _ => spells.push((step.ca(), i..i + 1)),
        }
    }
    spells
}

/// The time of the step at this index, or of the last one.
pub(crate) fn time_at(steps: &[Step], index: usize) -> u64 {
    steps.get(index).or(steps.last()).map_or(0, Step::time_ns)
}

/// Whether every state was polled, none came with an event.
pub(crate) fn is_sampled_only(steps: &[Step]) -> bool {
    !steps.is_empty() && steps.iter().all(|step| step.kind() == Kind::Sample)
}
