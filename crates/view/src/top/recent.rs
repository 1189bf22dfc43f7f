//! Where the last seconds went, so that a table shows what prevails and does not flicker with
//! every ACK.

use transom_analysis::{Limit, Span};

const SECOND_NS: u64 = 1_000_000_000;
const LIMITS: usize = Limit::ALL.len();

/// Time spent under each limit in the running second and the one before it, ns.
#[derive(Clone, Copy, Debug, Default)]
pub struct Recent {
    /// When the running second ends.
    edge_ns: u64,
    running: [u32; LIMITS],
    before: [u32; LIMITS],
}

impl Recent {
    /// Adds a stretch; stretches come one after the other.
    pub fn add(&mut self, span: Span) {
        let Span { start_ns, end_ns, limit } = span;
        if end_ns <= start_ns {
            return;
        }
        if self.edge_ns == 0 {
            self.edge_ns = start_ns.saturating_add(SECOND_NS);
        }
        if end_ns < self.edge_ns {
            self.spend(limit, end_ns - start_ns);
        } else if end_ns - self.edge_ns < SECOND_NS {
            self.spend(limit, self.edge_ns.saturating_sub(start_ns));
            self.before = std::mem::take(&mut self.running);
            self.spend(limit, end_ns - self.edge_ns.max(start_ns));
            self.edge_ns = self.edge_ns.saturating_add(SECOND_NS);
        } else {
            *self = Recent { edge_ns: end_ns.saturating_add(SECOND_NS), ..Recent::default() };
            self.spend(limit, (end_ns - start_ns).min(SECOND_NS));
        }
    }

    fn spend(&mut self, limit: Limit, ns: u64) {
        let spent = &mut self.running[index(limit)];
        *spent = spent.saturating_add(ns.min(SECOND_NS) as u32);
    }

    /// Share of the last one to two seconds under each limit, 0 to 1; those that never held are
    /// left out. Empty before any time has passed.
    pub fn shares(&self) -> impl Iterator<Item = (Limit, f64)> {
        let spent = |i: usize| f64::from(self.running[i]) + f64::from(self.before[i]);
        let total: f64 = (0..LIMITS).map(spent).sum();
        let shares: Vec<(Limit, f64)> = (0..LIMITS)
            .map(|i| (Limit::ALL[i], spent(i) / total.max(1.0)))
            .filter(|&(_, share)| share > 0.0)
            .collect();
        shares.into_iter()
    }

    /// The limit that took the most time.
    pub fn prevailing(&self) -> Option<Limit> {
        self.shares().max_by(|a, b| a.1.total_cmp(&b.1)).map(|(limit, _)| limit)
    }
}

/// Place in [`Limit::ALL`].
pub fn index(limit: Limit) -> usize {
    Limit::ALL.iter().position(|&other| other == limit).unwrap_or(LIMITS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn spent(spans: &[(u64, u64, Limit)]) -> Recent {
        let mut recent = Recent::default();
        for &(start, end, limit) in spans {
            recent.add(Span { start_ns: start * MS, end_ns: end * MS, limit });
        }
        recent
    }

    #[test]
    fn the_limit_that_took_the_most_time_prevails() {
        let cwnd_then_app = [(1000, 1700, Limit::Cwnd), (1700, 1900, Limit::Application)];
        assert_eq!(spent(&cwnd_then_app).prevailing(), Some(Limit::Cwnd));
        let longer = [cwnd_then_app[0], (1700, 2400, Limit::Application)];
        let shares: Vec<_> = spent(&longer).shares().collect();
        assert_eq!(shares, [(Limit::Cwnd, 0.5), (Limit::Application, 0.5)]);
    }

    #[test]
    fn what_was_seconds_ago_is_forgotten() {
        let recent = spent(&[(1000, 1900, Limit::Cwnd), (1900, 9000, Limit::Idle)]);
        assert_eq!(recent.shares().collect::<Vec<_>>(), [(Limit::Idle, 1.0)]);
    }

    #[test]
    fn before_any_time_has_passed_nothing_prevails() {
        assert_eq!(Recent::default().prevailing(), None);
    }
}
