//! How many messages a second are worth opening.

use std::time::Duration;

/// Of 256 terminals that all have news, twice.
const MOST_A_SECOND: u32 = 1000;

#[derive(Clone, Debug, Default)]
pub struct Flood {
    second: u64,
    seen: u32,
}

impl Flood {
    /// Whether one more may be opened now.
    pub fn admits(&mut self, now: Duration) -> bool {
        if now.as_secs() != self.second {
            (self.second, self.seen) = (now.as_secs(), 0);
        }
        self.seen = self.seen.saturating_add(1);
        self.seen <= MOST_A_SECOND
    }
}
