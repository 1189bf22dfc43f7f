//! What is worth decrypting. Anyone on the network can send anything, as fast as the network
//! carries it; the cheapest check comes first, and no stranger's message displaces a member's.
//!
//! `bpf/sieve.bpf.c` makes the same checks in the kernel, where it can be loaded; a test of
//! `peer-daemon` compares the two.

use std::collections::HashMap;
use std::time::Duration;

use crate::group::EXPIRY;
use crate::seal::Seal;
use crate::wire::Session;

/// Messages of one session within a second at most. An honest one sends at most five
/// ([`crate::Pace`]).
pub const MOST_PER_SECOND: u32 = 16;
/// Sessions that are remembered at most. Only holders of the key can make one.
const MOST_SESSIONS: usize = 4096;

/// Why a message is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dropped {
    /// It does not bear the mark of this group and access point.
    Foreign,
    /// It, or a later one of its session, has come before.
    Replayed,
    /// Its session sends more than an honest one does, or there are too many sessions.
    Flood,
}

/// How many messages were dropped, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drops {
    pub foreign: u64,
    pub replayed: u64,
    pub flood: u64,
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
    drops: Drops,
}

impl Sieve {
    pub fn new(seal: Seal) -> Sieve {
        Sieve { seal, seen: HashMap::new(), drops: Drops::default() }
    }

    /// Whether a message shall be handed on to [`crate::Group::hear`].
    ///
    /// # Errors
    /// Why not.
    pub fn sift(&mut self, now: Duration, sealed: &[u8]) -> Result<(), Dropped> {
        let sifted = self.judge(now, sealed);
        match sifted {
            Ok(()) => {}
            Err(Dropped::Foreign) => self.drops.foreign += 1,
            Err(Dropped::Replayed) => self.drops.replayed += 1,
            Err(Dropped::Flood) => self.drops.flood += 1,
        }
        sifted
    }

    /// What was dropped so far.
    pub fn drops(&self) -> Drops {
        self.drops
    }

    /// The key of the marks that it checks.
    pub fn mark_key(&self) -> [u8; 16] {
        self.seal.mark_key()
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
            if seen.in_second >= MOST_PER_SECOND {
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
