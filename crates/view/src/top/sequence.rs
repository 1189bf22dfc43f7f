//! Bytes carried, from 32-bit sequence numbers that wrap every 4 GiB (RFC 9293 section 3.4).

/// Half of the sequence space: a larger step is one backwards.
const HALF: u32 = 1 << 31;

/// After this long a step backwards is a new start, not an event out of order.
const STALE_NS: u64 = 1_000_000_000;

/// Follows one sequence number and counts how far it has gone.
#[derive(Clone, Copy, Debug, Default)]
pub struct Advance {
    last: Option<u32>,
    last_ns: u64,
    /// Bytes since the first call.
    pub total: u64,
}

impl Advance {
    /// Bytes gained at this event. Events of several CPUs may come a little out of order: a step
    /// backwards counts nothing.
    pub fn step(&mut self, time_ns: u64, sequence: u32) -> u64 {
        let Some(last) = self.last else {
            (self.last, self.last_ns) = (Some(sequence), time_ns);
            return 0;
        };
        let gained = sequence.wrapping_sub(last);
        if gained < HALF {
            (self.last, self.last_ns) = (Some(sequence), time_ns);
            self.total = self.total.saturating_add(gained.into());
            return gained.into();
        }
        if time_ns.saturating_sub(self.last_ns) > STALE_NS {
            (self.last, self.last_ns) = (Some(sequence), time_ns);
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_across_the_wrap() {
        let mut una = Advance::default();
        assert_eq!(una.step(0, u32::MAX - 99), 0);
        assert_eq!(una.step(1, 100), 200);
        assert_eq!(una.total, 200);
    }

    #[test]
    fn an_event_out_of_order_counts_nothing_twice() {
        let mut una = Advance::default();
        una.step(0, 1000);
        una.step(1, 3000);
        assert_eq!(una.step(2, 2000), 0);
        assert_eq!(una.step(3, 3500), 500);
        assert_eq!(una.total, 2500);
    }

    #[test]
    fn a_new_start_is_followed_after_a_second() {
        let mut una = Advance::default();
        una.step(0, 3_000_000_000);
        assert_eq!(una.step(2 * STALE_NS, 500), 1_294_967_796, "less than half: forward");
        assert_eq!(una.step(2 * STALE_NS + 1, 3_000_000_000), 0);
        assert_eq!(una.step(4 * STALE_NS, 3_000_000_000), 0);
        assert_eq!(una.step(4 * STALE_NS + 1, 3_000_000_007), 7);
    }
}
