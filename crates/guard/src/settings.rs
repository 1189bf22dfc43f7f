//! From which values on there is harm, and for how long it must last.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How often connections are looked at: the walk over all of them takes time, and no verdict comes
/// faster than a few looks.
pub const EACH: Duration = Duration::from_millis(100);
/// For so many round trips harm must last; the verdict then comes within ten.
pub const ROUND_TRIPS: u32 = 6;
/// Loss must last for so many times `after`: a weak moment of a radio link lasts up to half a second.
pub const LOSS_TIMES: u32 = 4;
/// A round trip that grew by a factor, but by less than this, did no harm: where the path itself
/// takes a millisecond, a handful of segments is several times as long.
pub const LEAST_QUEUE: Duration = Duration::from_millis(15);
/// So many segments of a connection in the queue are no harm: with a smaller window it could not
/// tell a loss by duplicate ACKs (RFC 5681, section 3.2).
pub const LEAST_WINDOW: u32 = 4;

/// When an aggressive window is withdrawn.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GuardSettings {
    pub on: bool,
    /// Share of the segments that were retransmissions.
    pub loss: f64,
    /// Round trip ÷ least round trip.
    pub inflation: f64,
    /// Round trip beyond the least one; a quarter of the least one is always allowed.
    pub delay: Duration,
    /// Others that have data waiting get less than this share of what ours get; 0 = not asked.
    pub share: f64,
    /// For how long it must hurt, at least.
    pub after: Duration,
    /// When it is tried again; doubled at each withdrawal.
    pub retry: Duration,
}

impl Default for GuardSettings {
    fn default() -> GuardSettings {
        GuardSettings {
            on: true,
            loss: 0.05,
            inflation: 3.0,
            delay: Duration::from_millis(30),
            share: 1.0 / 3.0,
            after: Duration::from_millis(500),
            retry: Duration::from_secs(30),
        }
    }
}

impl GuardSettings {
    /// From which standing queue on there is harm, µs, where the least round trip is `least_us` and
    /// a connection brings over a segment each `segment_us`.
    pub fn queue_us(&self, least_us: f64, segment_us: f64) -> f64 {
        let factor = ((self.inflation - 1.0) * least_us).max(LEAST_QUEUE.as_secs_f64() * 1e6);
        let bound = factor.min(self.delay.as_secs_f64() * 1e6);
        bound.max(least_us / 4.0).max(f64::from(LEAST_WINDOW) * segment_us)
    }

    /// For how long a queue must stand where a round trip takes so long.
    pub fn queue_lasts(&self, rtt: Duration) -> Duration {
        self.after.max(ROUND_TRIPS * rtt)
    }

    /// For how long loss must last.
    pub fn loss_lasts(&self, rtt: Duration) -> Duration {
        (LOSS_TIMES * self.after).max(ROUND_TRIPS * rtt)
    }

    /// With half the bounds: a window does not come back to what hurts.
    pub(crate) fn halved(self) -> GuardSettings {
        GuardSettings {
            loss: self.loss / 2.0,
            inflation: 1.0 + (self.inflation - 1.0) / 2.0,
            delay: self.delay / 2,
            ..self
        }
    }
}
