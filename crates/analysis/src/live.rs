//! The same bytes and limits while a connection is watched: event by event, in bounded memory.

use transom_event::{Event, Kind};

use crate::limits::{IDLE_NS, Judge, brings_data};
use crate::track::{Step, Tracker};
use crate::{Limit, Point, Span};

/// What one event added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gained {
    /// Bytes acknowledged by the other side.
    pub acked: u64,
    /// Bytes received in order.
    pub received: u64,
    /// What held the sender back since the event before; `None` at the first one.
    pub span: Option<Span>,
}

/// One connection, as far as it was seen.
#[derive(Clone, Debug, Default)]
pub struct Live {
    tracker: Tracker,
    judge: Judge,
    last: Option<Point>,
    /// Bytes sent, acknowledged and received, each once.
    bytes: (u64, u64, u64),
    unseen: bool,
}

impl Live {
    /// Takes an event; one that carries no state adds nothing.
    pub fn push(&mut self, event: &Event) -> Option<Gained> {
        let Event { time_ns, kind, place, aux, .. } = *event;
        // Events of several CPUs may come a little out of order.
        let time_ns = self.last.map_or(time_ns, |last| time_ns.max(last.time_ns));
        let point = Point { time_ns, kind, place, aux, state: *event.state()? };
        let (to, _) = self.tracker.step(&point);
        let span = self.last.and_then(|last| {
            let from = self.step(&last);
            let limit = self.judge.between(&from, &to, brings_data(&from, &to, None));
            let span = Span { start_ns: from.time_ns(), end_ns: time_ns, limit };
            (span.start_ns < span.end_ns).then_some(span)
        });
        let (sent, acked, received) = (to.sent, to.acked, to.received);
        let gained =
            Gained { acked: acked - self.bytes.1, received: received - self.bytes.2, span };
        self.unseen = to.unseen;
        self.bytes = (sent, acked, received);
        self.last = Some(point);
        Some(gained)
    }

    fn step<'a>(&self, point: &'a Point) -> Step<'a> {
        let (sent, acked, received) = self.bytes;
        Step { point, sent, acked, received, unseen: self.unseen, uncounted: false }
    }

    /// Bytes that the other side acknowledged since the first event.
    pub fn acked(&self) -> u64 {
        self.bytes.1
    }

    /// Bytes that arrived in order since the first event.
    pub fn received(&self) -> u64 {
        self.bytes.2
    }

    /// What the connection has been waiting for since its last event; `None` before the first.
    pub fn waiting(&self, now_ns: u64) -> Option<Span> {
        let last = self.last.as_ref()?;
        let state = self.step(last).settled();
        let silent = now_ns.saturating_sub(last.time_ns) >= IDLE_NS;
        let limit = match self.judge.of_state(&state) {
            Limit::Application if silent && state.outstanding() == 0 => Limit::Idle,
            limit => limit,
        };
        Some(Span { start_ns: last.time_ns, end_ns: now_ns.max(last.time_ns), limit })
    }

    /// Whether its states are polled, not reported by events.
    pub fn is_polled(&self) -> bool {
        self.last.is_some_and(|last| last.kind == Kind::Sample)
    }
}
