//! A queue with a discipline in front of something that serves at a rate.
//!
//! What leaves is decided when service begins, so packets that wait need an event each: until then
//! nobody knows when, or whether, they leave. A packet that finds neither queue nor service leaves
//! at once, by way of the discipline all the same. Cross traffic needs no events: what it did is
//! made up for, in the order of time, before anything else happens.

use crate::cross::Cross;
use crate::packet::{Nanos, Packet};
use crate::queue::{Counts, Discipline, Waiting};
use crate::rate::Rate;

#[derive(Clone, Debug)]
pub(crate) struct Managed {
    discipline: Discipline,
    rate: Rate,
    cross: Option<Cross>,
    /// Of each packet, on top, for the rate.
    overhead_bytes: u64,
    free_at: Nanos,
    /// When the queue began to hold packets.
    waiting_since: Nanos,
    /// An event was asked for.
    asked: bool,
    entered: u64,
    served: u64,
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
    pub fn new(
        discipline: Discipline,
        rate: Rate,
        cross: Option<Cross>,
        overhead_bytes: u64,
    ) -> Managed {
        Managed {
            discipline,
            rate,
            cross,
            overhead_bytes,
            free_at: 0,
            waiting_since: 0,
            asked: false,
            entered: 0,
            served: 0,
            counts: Counts::default(),
        }
    }

    /// To be called when everything until now was served.
    pub fn enter(&mut self, now: Nanos, packet: Packet) {
        self.entered += 1;
        self.enqueue(now, Waiting::new(now, packet));
    }

    /// The next packet whose service begins by now; to be called until there is none.
    pub fn serve(&mut self, now: Nanos) -> Option<Served> {
        loop {
            let cross = self.cross.as_ref().map_or(Nanos::MAX, Cross::next);
            if let Some(begins) = self.next_service().filter(|begins| *begins <= now.min(cross)) {
                if let Some(served) = self.dequeue(begins) {
                    return Some(served);
                }
            } else if let Some(coming) = &mut self.cross
                && cross <= now
            {
                let bytes = coming.bytes;
                coming.step();
                self.counts.cross.packets += 1;
                self.counts.cross.bytes += bytes;
                self.enqueue(cross, Waiting { since: cross, bytes, packet: None });
            } else {
                return None;
            }
        }
    }

    /// When to call [`Managed::serve`] next, once for each time.
    pub fn ask(&mut self) -> Option<Nanos> {
        let gone = self.served + self.counts.aqm_drops + self.counts.full_drops;
        if self.asked || self.entered == gone {
            return None;
        }
        self.asked = true;
        self.next_service()
    }

    /// The event that was asked for is here.
    pub fn woken(&mut self) {
        self.asked = false;
    }

    pub fn length(&self) -> usize {
        self.discipline.len()
    }

    fn enqueue(&mut self, now: Nanos, waiting: Waiting) {
        let mut is_idle = false;
        if self.discipline.len() == 0 {
            self.waiting_since = now;
            is_idle = self.rate.begins(self.free_at.max(now)) == now;
        }
        self.discipline.enqueue(now, waiting, is_idle, &mut self.counts);
    }

    fn dequeue(&mut self, now: Nanos) -> Option<Served> {
        let Waiting { since, bytes, packet } = self.discipline.dequeue(now, &mut self.counts)?;
        self.free_at = self.rate.ends(now, bytes + self.overhead_bytes);
        let packet = packet?;
        self.served += 1;
        Some(Served { packet, waited: now - since, ends: self.free_at })
    }

    /// None: nothing waits.
    fn next_service(&self) -> Option<Nanos> {
        let waits = self.discipline.len() > 0;
        waits.then(|| self.rate.begins(self.free_at.max(self.waiting_since)))
    }
}
