//! A queue with a discipline in front of something that serves at a rate.
//!
//! What leaves is decided when service begins, so packets that wait need an event each: until then
//! nobody knows when, or whether, they leave. A packet that finds neither queue nor service leaves
//! at once, by way of the discipline all the same.

use crate::packet::{Nanos, Packet};
use crate::queue::{Counts, Discipline, Waiting};
use crate::rate::Rate;

#[derive(Clone, Debug)]
pub(crate) struct Managed {
    discipline: Discipline,
    rate: Rate,
    free_at: Nanos,
    /// An event was asked for.
    asked: bool,
    pub counts: Counts,
}

/// A packet whose service began.
#[derive(Debug)]
pub(crate) struct Served {
    pub packet: Packet,
    pub waited: Nanos,
    /// When its last bit has left.
    pub ends: Nanos,
}

impl Managed {
    pub fn new(discipline: Discipline, rate: Rate) -> Managed {
        Managed { discipline, rate, free_at: 0, asked: false, counts: Counts::default() }
    }

    pub fn enter(&mut self, now: Nanos, packet: Packet) {
        self.discipline.enqueue(now, Waiting::new(now, packet), &mut self.counts);
    }

    /// The next packet whose service begins by now; to be called until there is none.
    pub fn serve(&mut self, now: Nanos) -> Option<Served> {
        if self.discipline.len() == 0 || self.begins(now) > now {
            return None;
        }
        let Waiting { since, bytes, packet } = self.discipline.dequeue(now, &mut self.counts)?;
        self.free_at = self.rate.ends(now, bytes);
        Some(Served { packet, waited: now - since, ends: self.free_at })
    }

    /// When to call [`Managed::serve`] next, once for each time.
    pub fn ask(&mut self, now: Nanos) -> Option<Nanos> {
        if self.asked || self.discipline.len() == 0 {
            return None;
        }
        self.asked = true;
        Some(self.begins(now))
    }

    /// The event that was asked for is here.
    pub fn woken(&mut self) {
        self.asked = false;
    }

    pub fn length(&self) -> usize {
        self.discipline.len()
    }

    fn begins(&mut self, now: Nanos) -> Nanos {
        self.rate.begins(self.free_at.max(now))
    }
}
