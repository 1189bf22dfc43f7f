//! How fast a link sends.

use crate::packet::Nanos;

#[derive(Clone, Debug)]
pub(crate) enum Rate {
    Constant { nanos_per_byte: f64 },
}

impl Rate {
    pub fn constant(mbit: f64) -> Rate {
        Rate::Constant { nanos_per_byte: 8_000.0 / mbit }
    }

    /// The first moment from `now` on at which a packet can begin. Times of calls never go back.
    pub fn begins(&mut self, now: Nanos) -> Nanos {
        match self {
            Rate::Constant { .. } => now,
        }
    }

    /// When the last bit of a packet that begins at `from`, as [`Rate::begins`] allows, has left.
    pub fn ends(&mut self, from: Nanos, bytes: u64) -> Nanos {
        match self {
            Rate::Constant { nanos_per_byte } => {
                from + (bytes as f64 * *nanos_per_byte).round() as Nanos
            }
        }
    }
}
