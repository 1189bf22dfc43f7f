//! One that contends for the air: its queues, and its backoff (IEEE 802.11-2012, 9.3.3 and
//! 9.3.4).

use std::collections::VecDeque;

use crate::log::SenderLog;
use crate::packet::{Nanos, Packet};
use crate::phy;
use crate::random::Stream;

#[derive(Clone, Debug)]
pub(crate) struct Sender {
    /// One; of the access point, one a station and one for group frames, served in turn.
    queues: Vec<VecDeque<Packet>>,
    most_packets: usize,
    /// Queue whose first packet is sent or contended for.
    serving: usize,
    /// Since when there is something to send.
    ready_at: Nanos,
    /// Slots left to count down, valid since the air became idle last. After each attempt there
    /// is a backoff, also if nothing waits (9.3.4.3).
    slots: u32,
    window: u32,
    attempts: u32,
    random: Stream,
    pub log: SenderLog,
}

impl Sender {
    pub fn new(name: &str, queues: usize, most_packets: u32, random: Stream) -> Sender {
        Sender {
            queues: vec![VecDeque::new(); queues],
            most_packets: most_packets as usize,
            serving: 0,
            ready_at: 0,
            slots: 0,
            window: phy::LEAST_WINDOW,
            attempts: 0,
            random,
            log: SenderLog { name: name.to_owned(), ..SenderLog::default() },
        }
    }

    /// False: that queue is full.
    pub fn push(&mut self, now: Nanos, queue: usize, packet: Packet, air: &Contention) -> bool {
        let idle = self.is_empty();
        if !self.has_room(queue) {
            self.log.queue_drops += 1;
            return false;
        }
        self.queues[queue].push_back(packet);
        if idle {
            self.serving = queue;
            self.ready_at = now;
            // Who finds the air busy must back off, unless the last backoff still runs.
            if air.contend && now < air.idle_since && self.slots == 0 {
                self.slots = self.random.within(self.window);
            }
        }
        true
    }

    pub fn has_room(&self, queue: usize) -> bool {
        self.queues[queue].len() < self.most_packets
    }

    pub fn is_empty(&self) -> bool {
        self.queues.iter().all(VecDeque::is_empty)
    }

    pub fn queue_length(&self, queue: usize) -> usize {
        self.queues[queue].len()
    }

    /// What it would send next, and from which queue.
    pub fn head(&self) -> Option<(usize, &Packet)> {
        self.queues[self.serving].front().map(|packet| (self.serving, packet))
    }

    /// When it sends, if nobody does before.
    pub fn sends_at(&self, air: &Contention) -> Option<Nanos> {
        self.head()?;
        let counted_down = air.idle_since + air.gap + Nanos::from(self.slots) * air.slot;
        Some(counted_down.max(self.ready_at))
    }

    /// Somebody else took the air at `now`: what was counted down stays so.
    pub fn freeze(&mut self, now: Nanos, air: &Contention) {
        let elapsed = now.saturating_sub(air.idle_since + air.gap) / air.slot;
        self.slots = self.slots.saturating_sub(u32::try_from(elapsed).unwrap_or(u32::MAX));
    }

    /// The attempt was good: gives the packet, and turns to the next queue.
    pub fn succeeded(&mut self, air: &Contention) -> Option<Packet> {
        self.end_of_frame(air)
    }

    /// The attempt was not: gives the packet if it was the last one.
    pub fn failed(&mut self, most_attempts: u32, air: &Contention) -> Option<Packet> {
        self.attempts += 1;
        if self.attempts >= most_attempts {
            self.log.retry_drops += 1;
            return self.end_of_frame(air);
        }
        self.window = (2 * self.window + 1).min(phy::LARGEST_WINDOW);
        self.back_off(air);
        None
    }

    /// Whether the attempt that begins now repeats an earlier one.
    pub fn is_retry(&self) -> bool {
        self.attempts > 0
    }

    fn end_of_frame(&mut self, air: &Contention) -> Option<Packet> {
        let packet = self.queues[self.serving].pop_front();
        self.attempts = 0;
        self.window = phy::LEAST_WINDOW;
        self.back_off(air);
        let number = self.queues.len();
        self.serving = (1..=number)
            .map(|step| (self.serving + step) % number)
            .find(|queue| !self.queues[*queue].is_empty())
            .unwrap_or(0);
        packet
    }

    fn back_off(&mut self, air: &Contention) {
        self.slots = if air.contend { self.random.within(self.window) } else { 0 };
    }
}

/// What all senders know of the air.
#[derive(Clone, Debug)]
pub(crate) struct Contention {
    /// False: round robin, nobody backs off.
    pub contend: bool,
    pub slot: Nanos,
    /// How long the air must be idle before slots are counted: DIFS, or PIFS in round robin.
    pub gap: Nanos,
    /// Since when, or from when on, the air is idle.
    pub idle_since: Nanos,
}
