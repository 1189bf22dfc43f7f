//! What is worth decrypting. Whoever can reach the network can send anything, as fast as it
//! carries; the cheapest check comes first, and no stranger's message takes the place of a member's.

use std::collections::HashMap;
use std::time::Duration;

use crate::group::{Counters, EXPIRY};
use crate::seal::Seal;
use crate::wire::Session;

/// Messages of one session within a second at most. An honest one says at most five
/// ([`crate::Pace`]).
const MOST_A_SECOND: u32 = 16;
/// Sessions that are remembered at most. Only holders of the key can make one.
const MOST_SESSIONS: usize = 4096;

/// Why a message is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dropped {
    /// It does not bear the mark of this group and access point.
    Foreign,
    /// It, or a later one of its session, has come before.
    Replayed,
    /// Its session says more than an honest one does, or there are too many sessions.
    Flood,
}

struct Seen {
    counter: u32,
    heard: Duration,
    second: u64,
    in_second: u32,
}

/// Sifts what comes over the network, before it is handed on.
pub struct Sieve {
    seal: Seal,
    seen: HashMap<Session, Seen>,
    dropped: Counters,
}

impl Sieve {
    pub fn new(seal: Seal) -> Sieve {
        Sieve { seal, seen: HashMap::new(), dropped: Counters::default() }
    }

    /// Whether a message shall be handed on to [`crate::Group::hear`].
    ///
    /// # Errors
    /// Why not.
    pub fn sift(&mut self, now: Duration, sealed: &[u8]) -> Result<(), Dropped> {
        let sifted = self.judge(now, sealed);
        match sifted {
            Ok(()) => {}
            Err(Dropped::Foreign) => self.dropped.foreign += 1,
            Err(Dropped::Replayed) => self.dropped.replayed += 1,
            Err(Dropped::Flood) => self.dropped.flood += 1,
        }
        sifted
    }

    /// What the group heard, and what was dropped before.
    pub fn counters(&self, heard: Counters) -> Counters {
        Counters {
            foreign: heard.foreign + self.dropped.foreign,
            replayed: heard.replayed + self.dropped.replayed,
            flood: heard.flood + self.dropped.flood,
            ..heard
        }
    }

    fn judge(&mut self, now: Duration, sealed: &[u8]) -> Result<(), Dropped> {
        let (session, counter) = self.seal.named(sealed).ok_or(Dropped::Foreign)?;
        let second = now.as_secs();
        if let Some(seen) = self.seen.get_mut(&session) {
            if counter <= seen.counter {
                return Err(Dropped::Replayed);
            }
            if seen.second != second {
                (seen.second, seen.in_second) = (second, 0);
            }
            if seen.in_second >= MOST_A_SECOND {
                return Err(Dropped::Flood);
            }
            (seen.counter, seen.heard, seen.in_second) = (counter, now, seen.in_second + 1);
            return Ok(());
        }
        if self.seen.len() >= MOST_SESSIONS {
            self.seen.retain(|_, seen| seen.heard + EXPIRY > now);
        }
        if self.seen.len() >= MOST_SESSIONS {
            return Err(Dropped::Flood);
        }
        self.seen.insert(session, Seen { counter, heard: now, second, in_second: 1 });
        Ok(())
    }
}
