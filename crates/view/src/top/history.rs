//! What one connection did in the last minute, thinned into slots of a quarter of a second.

use std::collections::VecDeque;

/// Length of a slot, ns.
pub const SLOT_NS: u64 = 250_000_000;

/// Slots kept for a connection when memory allows: one minute.
pub const SLOTS: usize = 240;

/// A slot's most telling mark, the gravest last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tick {
    #[default]
    None,
    Retransmission,
    LocalCongestion,
    Timeout,
}

/// A quarter of a second. Extremes are kept, so that a dip shorter than the slot stays visible.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slot {
    /// Time divided by [`SLOT_NS`].
    pub number: u32,
    /// Segments; 0 in all three = no event of this slot told the window.
    pub cwnd_min: u32,
    pub cwnd_max: u32,
    pub cwnd_last: u32,
    /// Bytes the other side acknowledged, and bytes received in order.
    pub up: u32,
    pub down: u32,
    /// Segments retransmitted.
    pub retransmitted: u16,
    pub tick: Tick,
}

pub fn slot_number(time_ns: u64) -> u32 {
    (time_ns / SLOT_NS) as u32
}

/// Slots in the order of time; slots without events are left out.
#[derive(Clone, Debug, Default)]
pub struct History {
    slots: VecDeque<Slot>,
    /// The last window of the slots that are forgotten, and the number of its slot: it holds until
    /// another is told.
    before: Option<(u32, u32)>,
}

impl History {
    /// The slot of this moment. An event older than the newest slot (CPUs interleave) goes there.
    fn slot(&mut self, time_ns: u64) -> &mut Slot {
        let number = slot_number(time_ns);
        if self.slots.back().is_none_or(|last| last.number < number) {
            if self.slots.len() >= SLOTS {
                self.forget_oldest();
            }
            self.slots.push_back(Slot { number, ..Slot::default() });
        }
        let last = self.slots.len() - 1;
        &mut self.slots[last]
    }

    fn forget_oldest(&mut self) {
        if let Some(slot) = self.slots.pop_front().filter(|slot| slot.cwnd_last != 0) {
            self.before = Some((slot.number, slot.cwnd_last));
        }
    }

    pub fn cwnd(&mut self, time_ns: u64, cwnd: u32) {
        let slot = self.slot(time_ns);
        slot.cwnd_min = if slot.cwnd_last == 0 { cwnd } else { slot.cwnd_min.min(cwnd) };
        slot.cwnd_max = slot.cwnd_max.max(cwnd);
        slot.cwnd_last = cwnd;
    }

    pub fn carried(&mut self, time_ns: u64, up: u64, down: u64) {
        let slot = self.slot(time_ns);
        slot.up = slot.up.saturating_add(up.min(u32::MAX.into()) as u32);
        slot.down = slot.down.saturating_add(down.min(u32::MAX.into()) as u32);
    }

    /// Spreads what a poll found over the time since the poll before it.
    pub fn carried_since(&mut self, from_ns: u64, to_ns: u64, up: u64, down: u64) {
        let span = to_ns.saturating_sub(from_ns);
        if span <= SLOT_NS || span > SLOT_NS * SLOTS as u64 {
            return self.carried(to_ns, up, down);
        }
        let mut done = (0, 0);
        let mut edge = from_ns;
        while edge < to_ns {
            edge = (edge / SLOT_NS + 1).saturating_mul(SLOT_NS).min(to_ns);
            let part = |bytes: u64| {
                (u128::from(bytes) * u128::from(edge - from_ns) / u128::from(span)) as u64
            };
            let (up, down) = (part(up), part(down));
            self.carried(edge - 1, up - done.0, down - done.1);
            done = (up, down);
        }
    }

    pub fn retransmitted(&mut self, time_ns: u64, segments: u32) {
        let slot = self.slot(time_ns);
        let segments = segments.min(u16::MAX.into()) as u16;
        slot.retransmitted = slot.retransmitted.saturating_add(segments);
    }

    pub fn tick(&mut self, time_ns: u64, tick: Tick) {
        let slot = self.slot(time_ns);
        slot.tick = slot.tick.max(tick);
    }

    /// Forgets what is older than a minute, and the oldest beyond `most` slots.
    pub fn trim(&mut self, now_ns: u64, most: usize) {
        let oldest = slot_number(now_ns).saturating_sub(SLOTS as u32);
        while self.slots.len() > most || self.slots.front().is_some_and(|s| s.number < oldest) {
            self.forget_oldest();
        }
        if self.slots.capacity() > 2 * (self.slots.len() + 16) {
            self.slots.shrink_to(self.slots.len() + 16);
        }
    }

    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// The slots from `first` up to and including `last`, oldest first.
    pub fn between(&self, first: u32, last: u32) -> impl Iterator<Item = &Slot> + Clone {
        let start = self.slots.partition_point(|slot| slot.number < first);
        self.slots.range(start..).take_while(move |slot| slot.number <= last)
    }

    /// The congestion window in force before slot `number`, if any event told it.
    pub fn cwnd_before(&self, number: u32) -> Option<u32> {
        let end = self.slots.partition_point(|slot| slot.number < number);
        let kept = self.slots.range(..end).rev().find(|s| s.cwnd_last != 0).map(|s| s.cwnd_last);
        kept.or(self.before.filter(|&(last, _)| last < number).map(|(_, cwnd)| cwnd))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_slot_keeps_the_extremes_and_the_last_window() {
        let mut history = History::default();
        for (ms, cwnd) in [(0, 10), (10, 80), (20, 1), (30, 2)] {
            history.cwnd(ms * 1_000_000, cwnd);
        }
        let slot = *history.between(0, 0).next().unwrap();
        assert_eq!((slot.cwnd_min, slot.cwnd_max, slot.cwnd_last), (1, 80, 2));
        assert_eq!(history.cwnd_before(1), Some(2));
        assert_eq!(history.cwnd_before(0), None);
    }

    #[test]
    fn never_longer_than_a_minute() {
        let mut history = History::default();
        for second in 0..1000 {
            history.cwnd(second * SECOND, 10);
            history.cwnd(second * SECOND + SLOT_NS, 10);
        }
        assert!(history.len() <= SLOTS);
        history.trim(1000 * SECOND, SLOTS);
        assert!(history.between(0, u32::MAX).all(|s| s.number >= 4 * 940));
        history.trim(5000 * SECOND, SLOTS);
        assert_eq!(history.len(), 0);
    }

    #[test]
    fn the_window_of_a_connection_that_is_silent_for_minutes_still_holds() {
        let mut history = History::default();
        history.cwnd(SECOND, 7);
        history.cwnd(2 * SECOND, 42);
        history.carried(2 * SECOND + SLOT_NS, 1, 0);
        history.trim(500 * SECOND, SLOTS);
        assert_eq!(history.len(), 0);
        assert_eq!(history.cwnd_before(slot_number(440 * SECOND)), Some(42));
        assert_eq!(history.cwnd_before(slot_number(2 * SECOND)), None, "forgotten");
    }

    #[test]
    fn what_a_poll_finds_is_spread_over_the_time_it_covers() {
        let mut history = History::default();
        history.carried_since(0, SECOND, 1000, 10);
        let up: Vec<u32> = history.between(0, 9).map(|slot| slot.up).collect();
        assert_eq!(up, [250, 250, 250, 250]);
        assert_eq!(history.between(0, 9).map(|slot| slot.down).sum::<u32>(), 10);
    }
}
