//! What a connection moved since its last row, so that long connections are counted while they
//! go on and not all at once when they end.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use transom_spool::{Connection, Direction, RowKind};

use crate::watch::Found;

/// Connections with interim rows whose last counters are kept, 136 bytes each. Further ones are
/// counted when they end.
const MOST: usize = 8192;

/// As long as there are so many, those whose last row was lost are looked for so often.
const ROLL_CALL_EVERY: Duration = Duration::from_secs(300);

/// Counters that rise with every row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    pub acknowledged: u64,
    pub received: u64,
    pub data_segments: u64,
    pub fast: u64,
    pub timeout: u64,
    pub tail_loss_probe: u64,
    pub unknown: u64,
    /// Of a connection that was never established, nothing else can have been retransmitted.
    pub syn: u64,
    pub timeouts: u64,
    pub spurious: u64,
    pub receive_window_us: u64,
    pub send_buffer_us: u64,
    pub otherwise_busy_us: u64,
}

impl Moved {
    fn of(row: &Connection) -> Moved {
        let failed = row.kind == RowKind::Failed;
        let by_cause = [
            row.retransmitted_by_recovery,
            row.retransmitted_by_timeout,
            row.retransmitted_by_probe,
        ];
        let [fast, timeout, tail_loss_probe] =
            by_cause.map(|n| n.filter(|_| !failed).unwrap_or(0).into());
        let others = u64::from(row.retransmitted).saturating_sub(fast + timeout + tail_loss_probe);
        let (unknown, syn) = if failed { (0, others) } else { (others, 0) };
        let limited_us = row.receive_window_limited_us + row.send_buffer_limited_us;
        Moved {
            acknowledged: row.bytes_acked,
            received: row.bytes_received,
            data_segments: row.data_segments_sent.into(),
            fast,
            timeout,
            tail_loss_probe,
            unknown,
            syn,
            timeouts: row.timeouts.unwrap_or(0).into(),
            spurious: row.spurious.into(),
            receive_window_us: row.receive_window_limited_us,
            send_buffer_us: row.send_buffer_limited_us,
            otherwise_busy_us: row.busy_us.saturating_sub(limited_us),
        }
    }

    fn since(&self, earlier: &Moved) -> Moved {
        let more = |of: fn(&Moved) -> u64| of(self).saturating_sub(of(earlier));
        Moved {
            acknowledged: more(|m| m.acknowledged),
            received: more(|m| m.received),
            data_segments: more(|m| m.data_segments),
            fast: more(|m| m.fast),
            timeout: more(|m| m.timeout),
            tail_loss_probe: more(|m| m.tail_loss_probe),
            unknown: more(|m| m.unknown),
            syn: more(|m| m.syn),
            timeouts: more(|m| m.timeouts),
            spurious: more(|m| m.spurious),
            receive_window_us: more(|m| m.receive_window_us),
            send_buffer_us: more(|m| m.send_buffer_us),
            otherwise_busy_us: more(|m| m.otherwise_busy_us),
        }
    }
}

/// The last row of a connection that goes on.
struct Last {
    moved: Moved,
    netns: u32,
    found: bool,
    /// The roll call before this one did not find it.
    missed: bool,
}

/// The last rows of connections that go on, by the socket's cookie.
#[derive(Default)]
pub struct LastRows {
    of: HashMap<u64, Last>,
    called: Option<Instant>,
    any_missed: bool,
}

impl LastRows {
    /// What this row adds. What a connection from before the agent moved until its first row is
    /// not counted: an earlier agent may have done so.
    pub fn more(&mut self, row: &Connection) -> Moved {
        let all = Moved::of(row);
        let goes_on = row.kind == RowKind::Interim;
        let earlier = match self.of.get(&row.cookie) {
            Some(earlier) => earlier.moved,
            None if goes_on && self.of.len() >= MOST => return Moved::default(),
            None if row.direction == Direction::Existing => all,
            None => Moved::default(),
        };
        if goes_on {
            let last = Last { moved: all, netns: row.netns, found: false, missed: false };
            self.of.insert(row.cookie, last);
        } else {
            self.of.remove(&row.cookie);
        }
        all.since(&earlier)
    }

    /// Whether the next look is to say whom it finds: when there is no room, and once more soon
    /// after some were missed.
    pub fn wants_roll_call(&mut self, now: Instant) -> bool {
        let is_due = |called: Instant| now.duration_since(called) >= ROLL_CALL_EVERY;
        let is_full = self.of.len() >= MOST && self.called.is_none_or(is_due);
        if is_full {
            self.called = Some(now);
        }
        is_full || self.any_missed
    }

    /// Connections that two roll calls in a row missed have ended, and their last rows are lost:
    /// after the first one they were still to be read.
    pub fn looked(&mut self, found: &Found) {
        for cookie in &found.cookies {
            if let Some(last) = self.of.get_mut(cookie) {
                last.found = true;
            }
        }
        self.any_missed = false;
        self.of.retain(|_, last| {
            let is_missed = !last.found && !found.not_entered.contains(&last.netns);
            let is_gone = is_missed && last.missed;
            self.any_missed |= is_missed && !is_gone;
            (last.found, last.missed) = (false, is_missed);
            !is_gone
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(kind: RowKind, cookie: u64, bytes_acked: u64) -> Connection {
        let direction = Direction::Connect;
        Connection { kind, cookie, bytes_acked, direction, ..Connection::default() }
    }

    #[test]
    fn rows_of_one_connection_add_up_to_its_last() {
        let mut last = LastRows::default();
        let interim = |bytes| row(RowKind::Interim, 1, bytes);
        assert_eq!(last.more(&interim(100)).acknowledged, 100);
        assert_eq!(last.more(&interim(250)).acknowledged, 150);
        assert_eq!(last.more(&row(RowKind::End, 2, 7)).acknowledged, 7, "another connection");
        assert_eq!(last.more(&row(RowKind::End, 1, 300)).acknowledged, 50);
        assert!(last.of.is_empty());
    }

    #[test]
    fn what_was_moved_before_the_agent_is_not_counted() {
        let mut last = LastRows::default();
        let existing = |mut row: Connection| {
            row.direction = Direction::Existing;
            row
        };
        assert_eq!(last.more(&existing(row(RowKind::Interim, 1, 1000))), Moved::default());
        assert_eq!(last.more(&existing(row(RowKind::End, 1, 1500))).acknowledged, 500);
        assert_eq!(last.more(&existing(row(RowKind::End, 2, 1500))), Moved::default());
    }

    #[test]
    fn the_memory_is_bounded_and_nothing_is_counted_twice() {
        let mut last = LastRows::default();
        let mut counted = 0;
        let many = 2 * MOST as u64;
        for kind in [RowKind::Interim, RowKind::Interim, RowKind::End] {
            for cookie in 0..many {
                counted += last.more(&row(kind, cookie, 10)).acknowledged;
                assert!(last.of.len() <= MOST);
            }
        }
        assert_eq!(counted, 10 * many);
    }

    /// Full of connections of namespace 1.
    fn full() -> LastRows {
        let mut last = LastRows::default();
        for cookie in 0..MOST as u64 {
            last.more(&Connection { netns: 1, ..row(RowKind::Interim, cookie, 10) });
        }
        last
    }

    fn found(cookies: &[u64], not_entered: &[u32]) -> Found {
        Found { cookies: cookies.into(), not_entered: not_entered.iter().copied().collect() }
    }

    #[test]
    fn connections_whose_last_row_was_lost_make_room() {
        let mut last = full();
        let next = row(RowKind::Interim, u64::MAX, 70);
        assert_eq!(last.more(&next), Moved::default(), "there is no room");
        let now = Instant::now();
        assert!(last.wants_roll_call(now) && !last.wants_roll_call(now), "once");
        last.looked(&found(&[5], &[0]));
        assert_eq!(last.more(&row(RowKind::End, 6, 17)).acknowledged, 7, "it was still to be read");
        last.more(&row(RowKind::Interim, MOST as u64, 1));
        assert_eq!(last.more(&next), Moved::default(), "its place is taken");
        assert!(last.wants_roll_call(now), "once more");
        last.looked(&found(&[5], &[0]));
        assert_eq!(last.more(&next).acknowledged, 70);
        assert_eq!(last.more(&row(RowKind::End, 5, 30)).acknowledged, 20, "it goes on");
        assert!(!last.wants_roll_call(now + ROLL_CALL_EVERY), "there is room");
    }

    #[test]
    fn what_a_look_did_not_get_to_is_not_forgotten() {
        let mut last = full();
        let now = Instant::now();
        for not_entered in [&[1][..], &[2], &[1]] {
            last.wants_roll_call(now);
            last.looked(&found(&[], not_entered));
        }
        assert!(!last.wants_roll_call(now), "not at each look");
        assert!(last.wants_roll_call(now + ROLL_CALL_EVERY));
        assert_eq!(last.more(&row(RowKind::End, 3, 30)).acknowledged, 20);
    }

    #[test]
    fn the_connections_of_a_namespace_that_has_gone_make_room() {
        let mut last = full();
        for _ in 0..2 {
            assert!(last.wants_roll_call(Instant::now()));
            last.looked(&Found::default());
        }
        assert_eq!(last.more(&row(RowKind::Interim, u64::MAX, 70)).acknowledged, 70);
    }

    #[test]
    fn a_retransmission_without_a_cause_is_of_an_unknown_type() {
        let mut row = row(RowKind::End, 1, 0);
        row.retransmitted = 9;
        assert_eq!(Moved::of(&row).unknown, 9);
        row.retransmitted_by_recovery = Some(5);
        row.retransmitted_by_timeout = Some(3);
        let moved = Moved::of(&row);
        assert_eq!((moved.fast, moved.timeout, moved.unknown), (5, 3, 1));
    }

    /// Shares are of data segments, of which it sent none.
    #[test]
    fn what_a_connection_retransmitted_that_was_never_established_are_syns() {
        let mut row = row(RowKind::Failed, 1, 0);
        row.retransmitted = 6;
        for by_timeout in [None, Some(6)] {
            row.retransmitted_by_timeout = by_timeout;
            assert_eq!(Moved::of(&row), Moved { syn: 6, ..Moved::default() });
        }
    }
}
