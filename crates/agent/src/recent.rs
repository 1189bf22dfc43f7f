//! The last decisions of a connection as its row has them: a line of text, oldest first.

use std::collections::HashMap;

use transom_spool::Decided;

use crate::assemble::{decided, state};
use crate::raw::{LAST, RECENT_SHIFT, RawRecent, RawRecents};

/// More wait for their row only if rows were lost.
const MOST: usize = 65_536;

/// What has come and waits for the row that it belongs to.
#[derive(Default)]
pub struct Recents(HashMap<u64, RawRecents>);

impl Recents {
    pub fn note(&mut self, raw: &RawRecents) {
        if self.0.len() >= MOST {
            self.0.clear();
        }
        self.0.insert(raw.cookie, *raw);
    }

    /// What led to this connection's next row.
    pub fn take(&mut self, cookie: u64, now_ns: u64) -> Option<String> {
        if self.0.is_empty() {
            return None;
        }
        self.0.remove(&cookie).map(|raw| text(&raw, now_ns))
    }
}

fn text(raw: &RawRecents, now_ns: u64) -> String {
    let number = raw.number as usize;
    let kept = number.min(LAST);
    let oldest_first = (number - kept..number).map(|n| &raw.last[n % LAST]);
    let each: Vec<String> = oldest_first.map(|one| words(one, now_ns)).collect();
    each.join("; ")
}

/// `-1.25 s open>recovery 34`: how long before the row, what, and its value.
fn words(one: &RawRecent, now_ns: u64) -> String {
    let ago = ((now_ns >> RECENT_SHIFT) as u32).wrapping_sub(one.time);
    let seconds = f64::from(ago) * f64::from(1u32 << RECENT_SHIFT) / 1e9;
    let (before, now) = (state(one.states & 15), state(one.states >> 4));
    let decided = decided(one.decision);
    let what = match decided {
        Decided::State => format!("{}>{} {}", before.name(), now.name(), one.value),
        Decided::Timeout | Decided::Syn | Decided::Window | Decided::Clamp | Decided::Tuned => {
            format!("{} {}", decided.name(), one.value)
        }
        _ => decided.name().to_owned(),
    };
    format!("-{seconds:.3} s {what}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytemuck::Zeroable;

    const SECOND: u64 = 1_000_000_000;

    fn recents(number: u32, of: impl Fn(u32) -> RawRecent) -> RawRecents {
        let mut raw = RawRecents { number, cookie: 7, ..RawRecents::zeroed() };
        for n in number.saturating_sub(LAST as u32)..number {
            raw.last[n as usize % LAST] = of(n);
        }
        raw
    }

    fn at(seconds: u64, decision: u8, states: u8, value: u16) -> RawRecent {
        RawRecent { time: ((seconds * SECOND) >> RECENT_SHIFT) as u32, decision, states, value }
    }

    #[test]
    fn the_oldest_comes_first_with_its_distance_from_the_row() {
        let raw = recents(2, |n| [at(10, 1, 3 << 4, 34), at(12, 4, 4 << 4 | 3, 2)][n as usize]);
        assert_eq!(text(&raw, 13 * SECOND), "-3.000 s open>recovery 34; -0.999 s timeout 2");
    }

    #[test]
    fn of_more_than_sixteen_the_last_are_there() {
        let raw = recents(40, |n| at(n.into(), 4, 0, n as u16));
        let text = text(&raw, 40 * SECOND);
        let values: Vec<&str> =
            text.split("; ").filter_map(|one| one.split(' ').next_back()).collect();
        assert_eq!(values.len(), LAST);
        assert_eq!((values[0], values[LAST - 1]), ("24", "39"));
    }

    #[test]
    fn a_clock_that_wrapped_changes_no_distance() {
        let wrap_ns = u64::from(u32::MAX) << RECENT_SHIFT;
        let raw = recents(1, |_| RawRecent { time: u32::MAX, decision: 2, states: 0, value: 0 });
        assert!(text(&raw, wrap_ns + 2 * SECOND).starts_with("-2."));
    }

    #[test]
    fn each_connection_has_its_own_once() {
        let mut recents_of = Recents::default();
        recents_of.note(&recents(1, |_| at(1, 2, 0, 0)));
        assert_eq!(recents_of.take(8, SECOND), None);
        assert_eq!(recents_of.take(7, SECOND).as_deref(), Some("-0.000 s probe"));
        assert_eq!(recents_of.take(7, SECOND), None);
    }
}
