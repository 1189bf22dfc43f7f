//! Numbers of a set of connections, as far as they belong to a time. Pure.

use std::collections::HashMap;

use crate::connection::share;
use crate::{Cause, Connection, Direction, RowKind, Time};

/// A connection in a time: its last row there, and the last one before, whose counters are those of
/// earlier.
#[derive(Clone, Copy, Debug)]
pub struct Counted<'a> {
    pub row: &'a Connection,
    pub before: Option<&'a Connection>,
}

impl Counted<'_> {
    /// By how much a counter rose. One that is less than it was has begun anew: those of the agent do
    /// when it is started again.
    fn more(&self, of: fn(&Connection) -> u64) -> u64 {
        let (now, before) = (of(self.row), self.before.map_or(0, of));
        now.checked_sub(before).unwrap_or(now)
    }

    /// It began before the time, and nobody knows what its counters were then.
    pub fn is_whole_life(&self, from: Time) -> bool {
        let began = |us| self.row.time.0.saturating_sub_unsigned(us);
        let is_of_before = match self.row.duration_us {
            Some(us) => began(us) < from.0,
            None => self.row.direction == Direction::Existing,
        };
        self.before.is_none() && is_of_before
    }

    /// bit/s of the larger direction, where it carried enough to have a rate.
    fn rate(&self) -> Option<u64> {
        const ENOUGH: u64 = 100_000;
        let since = |before: &Connection| u64::try_from(self.row.time.0 - before.time.0).ok();
        let us = self.before.map_or(self.row.duration_us, since).filter(|&us| us > 0)?;
        let bytes = self.more(|row| row.bytes_acked).max(self.more(|row| row.bytes_received));
        (bytes >= ENOUGH).then(|| (bytes as f64 * 8e6 / us as f64) as u64)
    }
}

/// Counters are of the time alone; delays and verdicts are those of the connections' last rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    pub connections: u64,
    pub failed: u64,
    pub bytes_acked: u64,
    pub bytes_received: u64,
    /// Of data segments sent.
    pub retransmitted: f64,
    pub timeouts: u64,
    pub median_rtt_us: Option<u64>,
    pub least_rtt_us: Option<u64>,
    pub p99_handshake_us: Option<u64>,
    /// Median of bytes of the larger direction ÷ time, bit/s.
    pub median_rate: Option<u64>,
    /// Share of the connections, most frequent first.
    pub verdicts: Vec<(Cause, f64)>,
}

impl Summary {
    pub(crate) fn of<'a>(connections: impl IntoIterator<Item = &'a Counted<'a>>) -> Summary {
        let all: Vec<&Counted<'_>> = connections.into_iter().collect();
        let more = |of: fn(&Connection) -> u64| all.iter().map(|it| it.more(of)).sum::<u64>();
        let (retransmitted, sent) =
            (more(|row| row.retransmitted.into()), more(|row| row.data_segments_sent.into()));
        let each =
            |of: fn(&Connection) -> Option<u64>| all.iter().filter_map(|it| of(it.row)).collect();
        Summary {
            connections: all.len() as u64,
            failed: all.iter().filter(|it| it.row.kind == RowKind::Failed).count() as u64,
            bytes_acked: more(|row| row.bytes_acked),
            bytes_received: more(|row| row.bytes_received),
            retransmitted: share(retransmitted, sent),
            timeouts: more(|row| row.timeouts.unwrap_or(0).into()),
            median_rtt_us: quantile(each(|row| row.srtt_us.map(u64::from)), 0.5),
            least_rtt_us: quantile(each(|row| row.min_rtt_us.map(u64::from)), 0.0),
            p99_handshake_us: quantile(each(|row| row.handshake_us), 0.99),
            median_rate: quantile(all.iter().filter_map(|it| it.rate()).collect(), 0.5),
            verdicts: verdicts(&all),
        }
    }
}

fn verdicts(all: &[&Counted<'_>]) -> Vec<(Cause, f64)> {
    let mut counts: HashMap<Cause, u64> = HashMap::new();
    for it in all {
        *counts.entry(it.row.verdict).or_default() += 1;
    }
    let mut shares: Vec<(Cause, f64)> =
        counts.into_iter().map(|(cause, n)| (cause, share(n, all.len() as u64))).collect();
    shares.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.name().cmp(b.0.name())));
    shares
}

fn quantile(mut values: Vec<u64>, at: f64) -> Option<u64> {
    values.sort_unstable();
    let last = values.len().checked_sub(1)?;
    values.get((last as f64 * at).round() as usize).copied()
}
