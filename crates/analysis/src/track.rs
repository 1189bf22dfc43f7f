//! The points of a connection in order, with 32-bit sequence numbers unwrapped
//! and with the effect of each event kept apart from the state it met.

use transom_event::{CaState, Direction, Kind, Origin, RtoCause, State, fields, flags};

use crate::progress::Progress;
pub(crate) use crate::progress::is_synchronized;
use crate::{Connection, Point, ResendCause};

/// One point and what is known after it.
#[derive(Clone, Copy, Debug)]
pub struct Step<'a> {
    pub point: &'a Point,
    /// Bytes sent, acknowledged and received in order since the first event, after this one.
    pub sent: u64,
    pub acked: u64,
    pub received: u64,
    /// ACKs arrived between the point before and this one that were not recorded.
    pub unseen: bool,
    /// Bytes are missing above: more passed since the point before than sequence numbers tell.
    pub uncounted: bool,
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

    /// Whether the retransmission timer expired.
    pub fn is_timeout(&self) -> bool {
        self.kind() == Kind::Rto && is_timeout(self.point.aux)
    }

    /// Whether it is a window of zero that this side received or sent.
    pub fn is_zero_window(&self, direction: Direction) -> bool {
        self.kind() == Kind::ZeroWindow && fields::direction(self.point.aux) == Some(direction)
    }

    /// The state the event left behind, as far as its numbers tell.
    pub fn settled(&self) -> State {
        let mut state = *self.state();
        let aux = self.point.aux;
        match self.kind() {
            Kind::Ack if !self.is_after() => {
                let acked = newly_acked(self.point);
                state.snd_una = state.snd_una.wrapping_add(acked);
                let segments = acked.div_ceil(u32::from(state.mss).max(1));
                state.packets_out = state.packets_out.saturating_sub(segments);
            }
            Kind::Send if !self.is_after() => {
                let (bytes, segments) = fields::sent(aux);
                state.snd_nxt = state.snd_nxt.wrapping_add(bytes);
                state.unsent = state.unsent.saturating_sub(bytes);
                state.packets_out = state.packets_out.saturating_add(segments);
            }
            Kind::CaState => {
                state.ca_state = fields::ca_states(aux)[1].map_or(u8::MAX, |s| s as u8)
            }
            Kind::State => {
                state.tcp_state = fields::tcp_states(aux)[1].map_or(u8::MAX, |s| s as u8)
            }
            _ => {}
        }
        state
    }

    /// Whether data left between the step before and this one without an event.
    pub fn follows_unseen_data(&self, before: &Step) -> bool {
        self.unseen_data(before) != 0
    }

    /// Whether so much left meanwhile that it was no burst of which few events are recorded: data
    /// left all the time, and its events are missing.
    pub fn follows_missing_events(&self, before: &Step) -> bool {
        let cwnd = before.state().cwnd.max(self.state().cwnd);
        let windows = 2 * u64::from(cwnd) * u64::from(self.state().mss);
        // Numbers that went back are no data.
        let unseen = self.unseen_data(before);
        unseen <= u32::MAX / 2 && u64::from(unseen) > windows
    }

    fn unseen_data(&self, before: &Step) -> u32 {
        let is_own = self.is_after() && self.kind() == Kind::Send;
        let own = if is_own { fields::sent(self.point.aux).0 } else { 0 };
        self.state().snd_nxt.wrapping_sub(own).wrapping_sub(before.settled().snd_nxt)
    }

    /// Congestion state after the event.
    pub fn ca(&self) -> Option<CaState> {
        match self.kind() {
            Kind::CaState => fields::ca_states(self.point.aux)[1],
            _ => self.state().ca(),
        }
    }
}

/// Whether of a [`Kind::Rto`] the retransmission timer expired.
pub fn is_timeout(aux: [u32; 2]) -> bool {
    resend_cause(aux).is_none()
}

/// Why a [`Kind::Rto`] counts what is in flight as lost, if its timer did not expire. What the other
/// side takes back ends the first wait early; from the second in a row on it is the timer as ever.
pub(crate) fn resend_cause(aux: [u32; 2]) -> Option<ResendCause> {
    match fields::rto_cause(aux)? {
        RtoCause::Pmtu => Some(ResendCause::PathMtu),
        RtoCause::Reneging if fields::in_a_row(aux) <= 1 => Some(ResendCause::Reneging),
        RtoCause::Reneging | RtoCause::Timer => None,
    }
}

/// Bytes the ACK newly acknowledged; 0 for anything it cannot have acknowledged.
fn newly_acked(point: &Point) -> u32 {
    let acked = fields::acked_bytes(point.aux);
    if acked <= point.state.outstanding() { acked } else { 0 }
}

/// Follows a connection point by point.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tracker {
    progress: Progress,
    expected_una: Option<u32>,
    /// Reported on the way out, an ACK comes after what it made the kernel do: what was
    /// acknowledged before, as the step met it that showed the effect first.
    early: Option<u32>,
}

impl Tracker {
    /// Of a connection that began so, with so many bytes before its first event.
    pub fn begun(origin: Option<Origin>, early_bytes: u32) -> Tracker {
        Tracker { progress: Progress::begun(origin, early_bytes), ..Tracker::default() }
    }

    /// The step of this point, and whether it explains the unseen ACK of the step before it that
    /// was marked so last.
    pub fn step<'a>(&mut self, point: &'a Point) -> (Step<'a>, bool) {
        let mut step =
            Step { point, sent: 0, acked: 0, received: 0, unseen: false, uncounted: false };
        let mut explains = false;
        let after = step.settled();
        // The last segment of a handshake may bring data, and has no event of its own.
        let begins = point.kind == Kind::State && is_synchronized(&after);
        if is_synchronized(&point.state) || begins {
            if point.kind == Kind::Ack && step.is_after() {
                let met = point.state.snd_una.wrapping_sub(fields::acked_bytes(point.aux));
                match self.early.take() {
                    Some(una) if una == met => explains = true,
                    _ => step.unseen = self.expected_una.is_some_and(|una| una != met),
                }
            } else if let Some(una) = self.expected_una.filter(|&una| una != point.state.snd_una) {
                step.unseen = true;
                self.early = Some(una);
            }
            self.expected_una = Some(after.snd_una);
            step.uncounted = self.progress.follow(point.time_ns, &point.state, &after);
        }
        (step.sent, step.acked, step.received) = self.progress.bytes();
        (step, explains)
    }
}

/// All points of a connection as steps, in the order of time.
pub fn steps(connection: &Connection) -> Vec<Step<'_>> {
    let mut points: Vec<&Point> = connection.points.iter().collect();
    if !points.is_sorted_by_key(|p| p.time_ns) {
        points.sort_by_key(|p| p.time_ns);
    }
    let mut tracker = Tracker::begun(connection.origin, connection.early_bytes);
    let mut steps: Vec<Step> = Vec::with_capacity(points.len());
    let mut early = 0;
    for point in points {
        let (step, explains) = tracker.step(point);
        if explains {
            steps[early].unseen = false;
        } else if step.unseen && !(step.kind() == Kind::Ack && step.is_after()) {
            early = steps.len();
        }
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

/// Whether every state was polled, none came with an event: the poll tells an end itself.
pub(crate) fn is_sampled_only(steps: &[Step]) -> bool {
    let mut kinds = steps.iter().map(Step::kind);
    kinds.clone().any(|kind| kind == Kind::Sample)
        && kinds.all(|kind| matches!(kind, Kind::Sample | Kind::Open | Kind::Close))
}
