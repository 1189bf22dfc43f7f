//! The same bytes and limits while a connection is watched: event by event, in bounded memory.

use transom_event::{Event, Kind, fields};

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
    /// What held the sender back until the event before: what that one brought shows only now.
    pub span: Option<Span>,
}

/// An event that was taken, with the bytes after it.
#[derive(Clone, Copy, Debug)]
struct Taken {
    point: Point,
    /// Sent, acknowledged and received, each once.
    bytes: (u64, u64, u64),
    unseen: bool,
}

impl Taken {
    fn step(&self) -> Step<'_> {
        let (sent, acked, received) = self.bytes;
        let unseen = self.unseen;
        Step { point: &self.point, sent, acked, received, unseen, uncounted: false }
    }
}

/// One connection, as far as it was seen.
#[derive(Clone, Debug, Default)]
pub struct Live {
    tracker: Tracker,
    judge: Judge,
    /// The last event and the one before it, between which the judgement is still open.
    last: Option<Taken>,
    before: Option<Taken>,
}

impl Live {
    /// Takes an event; one that carries no state adds nothing.
    pub fn push(&mut self, event: &Event) -> Option<Gained> {
        let Event { time_ns, kind, place, aux, .. } = *event;
        if kind == Kind::Open && self.last.is_none() {
            self.tracker = Tracker::begun(fields::origin(aux), fields::early_bytes(aux));
        }
        // Events of several CPUs may come a little out of order.
        let time_ns = self.last.map_or(time_ns, |last| time_ns.max(last.point.time_ns));
        let point = Point { time_ns, kind, place, aux, state: *event.state()? };
        let (next, _) = self.tracker.step(&point);
        let mut judge = self.judge;
        let span = self.last_wait(&mut judge, Some(&next));
        let (acked, received) = (next.acked - self.acked(), next.received - self.received());
        let bytes = (next.sent, next.acked, next.received);
        let taken = Taken { point, bytes, unseen: next.unseen };
        (self.judge, self.before, self.last) = (judge, self.last, Some(taken));
        Some(Gained { acked, received, span })
    }

    /// What it waited for until the last event.
    fn last_wait(&self, judge: &mut Judge, next: Option<&Step>) -> Option<Span> {
        let (from, to) = (self.before.as_ref()?.step(), self.last.as_ref()?.step());
        let limit = judge.between(&from, &to, brings_data(&from, &to, next));
        let span = Span { start_ns: from.time_ns(), end_ns: to.time_ns(), limit };
        (span.start_ns < span.end_ns).then_some(span)
    }

    /// Bytes that the other side acknowledged since the first event.
    pub fn acked(&self) -> u64 {
        self.last.map_or(0, |last| last.bytes.1)
    }

    /// Bytes that arrived in order since the first event.
    pub fn received(&self) -> u64 {
        self.last.map_or(0, |last| last.bytes.2)
    }

    /// What it waited for until the last event, as far as that can be said before the next one.
    pub fn waited(&self) -> Option<Span> {
        let mut judge = self.judge;
        self.last_wait(&mut judge, None)
    }

    /// What the connection has been waiting for since its last event; `None` before the first.
    pub fn waiting(&self, now_ns: u64) -> Option<Span> {
        let last = self.last.as_ref()?;
        let (state, since_ns) = (last.step().settled(), last.point.time_ns);
        let silent = now_ns.saturating_sub(since_ns) >= IDLE_NS;
        let limit = match self.judge.of_state(&state) {
            Limit::Application if silent && state.outstanding() == 0 => Limit::Idle,
            limit => limit,
        };
        Some(Span { start_ns: since_ns, end_ns: now_ns.max(since_ns), limit })
    }

    /// Whether its states are polled, not reported by events.
    pub fn is_polled(&self) -> bool {
        self.last.is_some_and(|last| last.point.kind == Kind::Sample)
    }
}
