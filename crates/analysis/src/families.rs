//! The subflows of one Multipath TCP connection (RFC 8684) stay together, whatever they are sorted by.

use std::cmp::Reverse;
use std::collections::HashMap;

use transom_event::Token;

/// What is shown together: the subflows of one Multipath TCP connection, or one connection of
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
