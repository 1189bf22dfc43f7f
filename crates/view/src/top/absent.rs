//! Connections that are not kept: who they are, for when they come back, and what they carry where
//! that is polled.

use std::collections::HashMap;

use transom_analysis::Live;
use transom_event::{Body, Event, Kind, Open};

use super::connection::Connection;

/// As many are remembered at least, those told of last, and twice as many at most.
const REMEMBERED: usize = 100_000;

/// What is known of one of them.
#[derive(Clone, Debug, Default)]
pub struct Known {
    pub open: Option<Open>,
    pub tgid: u32,
    /// Where it is polled: the first sample since the last [`Absent::go_on`], and the newest.
    pub samples: Vec<Event>,
}

impl Known {
    /// Bytes/s between the two samples, both directions.
    fn rate(&self) -> f64 {
        let [from, to] = self.samples.as_slice() else { return 0.0 };
        let mut live = Live::default();
        for sample in [from, to] {
            live.push(sample);
        }
        let ns = to.time_ns.saturating_sub(from.time_ns).max(1);
        (live.acked() + live.received()) as f64 * 1e9 / ns as f64
    }
}

/// All of them. Two maps: when the recent ones are many, they take the place of the older ones,
/// which are forgotten.
#[derive(Clone, Debug, Default)]
pub struct Absent {
    recent: HashMap<u64, Known>,
    older: HashMap<u64, Known>,
}

impl Absent {
    pub fn len(&self) -> usize {
        self.recent.len() + self.older.len()
    }

    fn known(&mut self, cookie: u64) -> &mut Known {
        if !self.recent.contains_key(&cookie) {
            let known = self.older.remove(&cookie).unwrap_or_default();
            if self.recent.len() >= REMEMBERED {
                self.older = std::mem::take(&mut self.recent);
            }
            self.recent.insert(cookie, known);
        }
        self.recent.entry(cookie).or_default()
    }

    /// It has to make room.
    pub fn add(&mut self, connection: &Connection) {
        let Connection { open, tgid, .. } = *connection;
        *self.known(connection.cookie) = Known { open, tgid, samples: Vec::new() };
    }

    /// What a poll tells of one that is not kept.
    pub fn polled(&mut self, event: &Event) {
        let known = self.known(event.cookie);
        known.tgid = event.tgid;
        match event.body {
            Body::Open(open) => (known.open, known.samples) = (Some(open), Vec::new()),
            _ if event.kind == Kind::Sample => {
                known.samples.truncate(1);
                known.samples.push(*event);
            }
            _ => {}
        }
    }

    /// Bytes/s and cookie of those that are polled, the most active first.
    pub fn most_active(&self) -> Vec<(f64, u64)> {
        let all = self.recent.iter().chain(&self.older);
        let polled = all.filter(|(_, known)| !known.samples.is_empty());
        let mut active: Vec<(f64, u64)> = polled.map(|(&c, known)| (known.rate(), c)).collect();
        active.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        active
    }

    /// From now on rates are those since the newest sample.
    pub fn go_on(&mut self) {
        for known in self.recent.values_mut().chain(self.older.values_mut()) {
            let newest = known.samples.len().saturating_sub(1);
            known.samples.drain(..newest);
        }
    }

    /// It is kept again, or has ended.
    pub fn take(&mut self, cookie: u64) -> Option<Known> {
        self.recent.remove(&cookie).or_else(|| self.older.remove(&cookie))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn those_told_of_last_are_remembered_and_no_more_than_twice_as_many() {
        let mut absent = Absent::default();
        let all = 3 * REMEMBERED as u64;
        for cookie in 0..all {
            absent.add(&Connection::new(cookie, 0, Arc::default()));
            assert!(absent.len() <= 2 * REMEMBERED);
        }
        assert!((all - REMEMBERED as u64..all).all(|cookie| absent.take(cookie).is_some()));
    }
}
