//! Multipath TCP (RFC 8684): the subflows of one connection, together.

use std::cmp::Reverse;
use std::collections::HashMap;

use serde::Serialize;
use transom_event::Token;

use crate::Analysis;

/// What the subflows of one connection did in all. Bytes are those of the subflows: what was
/// sent again on another one counts for both.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Multipath {
    pub token: Token,
    /// Of its first subflow; empty and 0 when not known.
    pub program: String,
    pub tgid: u32,
    pub subflows: usize,
    /// From the first event of any subflow to the last one of any.
    pub start_ns: u64,
    pub duration_ns: u64,
    pub acked: u64,
    pub received: u64,
    /// Mean over the whole duration, bit/s.
    pub goodput_up: f64,
    pub goodput_down: f64,
    /// Segments.
    pub retransmitted: u64,
    pub timeouts: u64,
}

impl Multipath {
    /// The sum of `subflows`; `None` if they are none of one connection.
    pub fn of(subflows: &[Analysis]) -> Option<Multipath> {
        let token = subflows.first()?.mptcp?;
        if subflows.iter().any(|subflow| subflow.mptcp != Some(token)) {
            return None;
        }
        let start_ns = subflows.iter().map(|s| s.start_ns).min()?;
        let end_ns = subflows.iter().map(|s| s.start_ns + s.summary.duration_ns).max()?;
        let duration_ns = end_ns - start_ns;
        let sum = |of: fn(&Analysis) -> u64| subflows.iter().map(of).sum::<u64>();
        let (acked, received) = (sum(|s| s.summary.acked), sum(|s| s.summary.received));
        let per_second = |bytes: u64| bytes as f64 * 8.0e9 / duration_ns.max(1) as f64;
        Some(Multipath {
            token,
            program: subflows[0].program.clone(),
            tgid: subflows[0].tgid,
            subflows: subflows.len(),
            start_ns,
            duration_ns,
            acked,
            received,
            goodput_up: per_second(acked),
            goodput_down: per_second(received),
            retransmitted: sum(|s| s.summary.retransmitted.total()),
            timeouts: sum(|s| s.summary.timeouts),
        })
    }

    /// Bytes of both directions.
    pub fn bytes(&self) -> u64 {
        self.acked + self.received
    }
}

/// What is told together: the subflows of one Multipath TCP connection, or one connection of
/// single-path TCP. The items must be in [`family_order`].
pub fn families<T>(items: &[T], token: impl Fn(&T) -> Option<Token>) -> impl Iterator<Item = &[T]> {
    items.chunk_by(move |a, b| token(a).is_some() && token(a) == token(b))
}

/// Sorts by weight, the greatest first. A connection weighs what its subflows weigh together,
/// and they stay together, in the order of their start.
pub fn family_order<T>(
    items: &mut [T],
    token: impl Fn(&T) -> Option<Token>,
    weight: impl Fn(&T) -> [u64; 2],
    start_ns: impl Fn(&T) -> u64,
) {
    let mut sums: HashMap<Token, [u64; 2]> = HashMap::new();
    for item in items.iter() {
        if let Some(token) = token(item) {
            let sum = sums.entry(token).or_default();
            for (sum, part) in sum.iter_mut().zip(weight(item)) {
                *sum += part;
            }
        }
    }
    items.sort_by_key(|item| match token(item) {
        Some(token) => (Reverse(sums[&token]), Some(token), start_ns(item)),
        None => (Reverse(weight(item)), None, 0),
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Token (0 = none), bytes, start.
    type Item = (u32, u64, u64);

    fn sorted(mut items: Vec<Item>) -> Vec<Item> {
        let token = |item: &Item| (item.0 != 0).then_some(Token(item.0));
        family_order(&mut items, token, |item| [item.1, 0], |item| item.2);
        items
    }

    #[test]
    fn two_subflows_outweigh_a_connection_that_outweighs_each() {
        let all = sorted(vec![(0, 80, 0), (7, 50, 9), (0, 10, 0), (7, 50, 3)]);
        assert_eq!(all, [(7, 50, 3), (7, 50, 9), (0, 80, 0), (0, 10, 0)]);
    }

    #[test]
    fn subflows_stay_together_whatever_weighs_the_same() {
        let all = sorted(vec![(7, 5, 1), (8, 5, 0), (0, 10, 0), (7, 5, 0), (8, 5, 2)]);
        let token = |item: &Item| (item.0 != 0).then_some(Token(item.0));
        let sizes: Vec<usize> = families(&all, token).map(<[Item]>::len).collect();
        assert_eq!(sizes, [1, 2, 2]);
    }

    #[test]
    fn connections_without_a_token_are_no_family() {
        let all = sorted(vec![(0, 1, 0), (0, 1, 0)]);
        assert_eq!(families(&all, |_| None).count(), 2);
    }
}
