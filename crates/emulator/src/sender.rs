//! One that contends for the air: its queues, and its backoff (IEEE 802.11-2012, 9.3.3 and
//! 9.3.4; EDCA: IEEE 802.11-2016, 10.22.2).

use crate::log::SenderLog;
use crate::packet::{Nanos, Packet};
use crate::phy;
use crate::random::Stream;
use crate::window::{Sent, Window};

#[derive(Clone, Debug)]
pub(crate) struct Sender {
    /// One; of the access point, one per station and one for group frames, served in turn.
    queues: Vec<Window>,
    most_packets: usize,
    spacing: Spacing,
    /// Queue whose first frames are sent or contended for.
    serving: usize,
    /// Since when there is something to send.
    ready_at: Nanos,
    /// Slots left to count down, valid since the air became idle last. After each attempt there
    /// is a backoff, also if nothing waits (9.3.4.3).
    slots: u32,
    window: u32,
    random: Stream,
    pub log: SenderLog,
}

/// How long a sender lets the air be idle before it counts slots down.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spacing {
    /// DIFS, AIFS, or PIFS in round robin.
    pub gap: Nanos,
    /// EDCA counts at the beginning of each slot, so also the one in which another sender begins;
    /// DCF counts at the end of each idle slot.
    pub counts_taken_slot: bool,
}

impl Sender {
    pub fn new(
        name: &str,
        queues: usize,
        most_packets: u32,
        spacing: Spacing,
        random: Stream,
    ) -> Sender {
        Sender {
            queues: vec![Window::default(); queues],
            most_packets: most_packets as usize,
            spacing,
            serving: 0,
            ready_at: 0,
            slots: 0,
            window: phy::LEAST_WINDOW,
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
        self.queues[queue].push(packet);
        if idle {
            self.serving = queue;
            self.ready_at = now;
            // A sender that finds the air busy must back off, unless the last backoff still runs.
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
        self.queues.iter().all(Window::is_empty)
    }

    pub fn queue_length(&self, queue: usize) -> usize {
        self.queues[queue].len()
    }

    /// The queue that it serves next, and what waits there.
    pub fn serving(&self) -> Option<(usize, &Window)> {
        let window = &self.queues[self.serving];
        (!window.is_empty()).then_some((self.serving, window))
    }

    /// When it sends, if nobody does before.
    pub fn sends_at(&self, air: &Contention) -> Option<Nanos> {
        self.serving()?;
        let slots = Nanos::from(self.slots) * air.slot;
        Some((air.idle_since + self.spacing.gap + slots).max(self.ready_at))
    }

    /// Somebody else took the air at `now`: what was counted down stays so.
    pub fn freeze(&mut self, now: Nanos, air: &Contention) {
        let counts_from = air.idle_since + self.spacing.gap;
        let mut counted = now.saturating_sub(counts_from) / air.slot;
        counted += Nanos::from(self.spacing.counts_taken_slot && now >= counts_from);
        self.slots = self.slots.saturating_sub(u32::try_from(counted).unwrap_or(u32::MAX));
    }

    /// The first frames of the queue that it serves were sent, and `decoded` says which reached the
    /// receiver. Gives how many were given up; what the receiver hands on is added to `released`.
    pub fn sent(
        &mut self,
        decoded: &[bool],
        most_attempts: u32,
        air: &Contention,
        released: &mut Vec<Packet>,
    ) -> u64 {
        let log = &mut self.log;
        let queue = &mut self.queues[self.serving];
        log.transmissions += 1;
        log.frames += decoded.len() as u64;
        log.retries += queue.retries(decoded.len()) as u64;
        let (mut received, mut given_up) = (0, 0);
        let each = |sent| match sent {
            Sent::Received { bytes } => {
                received += 1;
                log.arrived_bytes += bytes as u64;
            }
            Sent::GivenUp => given_up += 1,
            Sent::ToBeRetried => {}
        };
        queue.conclude(decoded, most_attempts, each, released);
        log.arrived += received;
        log.retry_drops += given_up;
        if received == 0 && given_up == 0 {
            self.window = (2 * self.window + 1).min(phy::LARGEST_WINDOW);
            self.back_off(air);
            return 0;
        }
        self.window = phy::LEAST_WINDOW;
        self.back_off(air);
        self.turn_to_next_queue();
        given_up
    }

    pub fn log(&self) -> SenderLog {
        let transmissions = self.log.transmissions.max(1);
        let mean = self.log.frames as f64 / transmissions as f64;
        SenderLog { mean_frames_per_transmission: mean, ..self.log.clone() }
    }

    fn turn_to_next_queue(&mut self) {
        let number = self.queues.len();
        self.serving = (1..=number)
            .map(|step| (self.serving + step) % number)
            .find(|queue| !self.queues[*queue].is_empty())
            .unwrap_or(0);
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
    /// Since when, or from when on, the air is idle.
    pub idle_since: Nanos,
}
