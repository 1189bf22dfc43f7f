//! A recording cut to a stretch of its time.

use std::ops::RangeInclusive;

use transom_event::{Kind, Origin, TcpState};

use crate::track::steps;
use crate::{Connection, Point, Recording};

impl Recording {
    /// The same recording as if it had been made from the first to the last of these times (ns of
    /// CLOCK_BOOTTIME); `start_ns` stays, so that times are still told from where it began.
    ///
    /// Connections that were open but silent stay, with the state that they were in.
    pub fn between(mut self, times: RangeInclusive<u64>) -> Recording {
        let connections = std::mem::take(&mut self.connections);
        let kept = connections.into_iter().filter_map(|connection| connection.between(&times));
        self.connections = kept.collect();
        self.lost.retain(|(time_ns, _, _)| times.contains(time_ns));
        self.events = self.connections.iter().map(|connection| connection.events).sum();
        self.end_ns = self.end_ns.min(*times.end());
        self.from_ns = Some(self.start_ns.max(*times.start()));
        self.reindex();
        self
    }
}

impl Connection {
    fn between(mut self, times: &RangeInclusive<u64>) -> Option<Connection> {
        let (from, to) = (*times.start(), *times.end());
        let gone = self.closed && self.last_ns < from;
        if gone || self.first_ns > to || self.points.is_empty() && self.last_ns < from {
            return None;
        }
        let begun_before = self.begun_ns() < from;
        if !begun_before && self.last_ns <= to {
            return Some(self);
        }
        let carried = (self.first_ns < from).then(|| self.state_at(from)).flatten();
        let carries = usize::from(carried.is_some());
        self.points.retain(|point| times.contains(&point.time_ns));
        self.points.splice(0..0, carried);
        self.marks.retain(|mark| times.contains(&mark.time_ns));
        // Marks that carry state are points, too, and the state that was carried is no event.
        let is_stateless =
            |kind| matches!(kind, Kind::Sack | Kind::Open | Kind::Owner | Kind::Algorithm);
        let stateless = self.marks.iter().filter(|mark| is_stateless(mark.kind)).count();
        self.events = (self.points.len() - carries + stateless) as u64;
        if begun_before {
            self.origin = Some(Origin::Existing);
        }
        self.closed &= self.last_ns <= to;
        self.first_ns = self.first_ns.max(from);
        // What is silent may be open until the recording ends.
        self.last_ns = if self.closed { self.last_ns } else { self.last_ns.max(from).min(to) };
        Some(self)
    }

    /// The state that the last event before `from_ns` left, told then.
    fn state_at(&self, from_ns: u64) -> Option<Point> {
        let all = steps(self);
        let last = all.get(all.partition_point(|step| step.time_ns() < from_ns).checked_sub(1)?)?;
        let state = last.settled();
        let now = u32::from(state.tcp_state);
        let silent = state.tcp() != Some(TcpState::Close);
        silent.then_some(Point {
            time_ns: from_ns,
            kind: Kind::State,
            place: last.point.place,
            aux: [now, now],
            state,
        })
    }
}
