//! Between a station's kernel and its radio: the driver's queue, and the processor that does it all.
//!
//! The processor does one thing at a time. What the kernel sends it takes at once. Receiving and
//! transferring take turns of [`TURN`] packets: a radio holds few packets in each direction, and
//! the driver's one thread serves both. So a kernel that sends more than fits into the queue costs
//! the time that transferring would have needed.

use std::collections::VecDeque;

use crate::packet::{Nanos, Packet};
use crate::plan::{Processor, SendingQueue, Station};

/// Packets of one direction before it is the other's turn: what a radio with two buffers for each
/// holds, as TI's WL1251 has them.
const TURN: u32 = 2;

#[derive(Clone, Debug)]
pub(crate) struct Driver {
    costs: Processor,
    nanos_per_byte: f64,
    most_packets: usize,
    sent: VecDeque<Packet>,
    received: VecDeque<Packet>,
    queue: VecDeque<Packet>,
    /// Received since transferring had its turn, and transferred since receiving had.
    turn: (u32, u32),
    busy: bool,
    pub drops: u64,
}

/// What the processor does with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// From the kernel to the sending queue.
    Send,
    /// From the sending queue to the radio.
    Transfer,
    /// From the radio to the kernel.
    Receive,
}

impl Driver {
    /// None: the station has neither a sending queue nor a processor.
    pub fn new(station: &Station) -> Option<Driver> {
        let (queue, processor) = (station.sending_queue, station.processor);
        if queue.is_none() && processor.is_none() {
            return None;
        }
        let rate = queue.and_then(|SendingQueue { rate_mbit, .. }| rate_mbit);
        Some(Driver {
            costs: processor.unwrap_or_default(),
            nanos_per_byte: rate.map_or(0.0, |mbit| 8_000.0 / mbit),
            most_packets: queue.map_or(usize::MAX, |queue| queue.packets as usize),
            sent: VecDeque::new(),
            received: VecDeque::new(),
            queue: VecDeque::new(),
            turn: (0, 0),
            busy: false,
            drops: 0,
        })
    }

    pub fn take_from_kernel(&mut self, packet: Packet) {
        self.sent.push_back(packet);
    }

    pub fn take_from_radio(&mut self, packet: Packet) {
        self.received.push_back(packet);
    }

    /// What the processor does next and how long, unless it is busy; it is from now on.
    /// `room`: the radio takes a packet.
    pub fn begin(&mut self, room: bool) -> Option<(Step, Packet, Nanos)> {
        if self.busy {
            return None;
        }
        let step = self.next(room)?;
        let packet = match step {
            Step::Send => self.sent.pop_front(),
            Step::Transfer => self.queue.pop_front(),
            Step::Receive => self.received.pop_front(),
        }?;
        self.turn = match (step, self.turn) {
            (Step::Send, turn) => turn,
            (Step::Transfer, (_, transferred)) => (0, transferred + 1),
            (Step::Receive, (received, _)) => (received + 1, 0),
        };
        self.busy = true;
        let lasts = self.lasts(step, packet.frame.ip_bytes());
        Some((step, packet, lasts))
    }

    /// What [`Driver::begin`] gave is done.
    pub fn end(&mut self) {
        self.busy = false;
    }

    /// False: the queue was full, and the packet is lost without a word to the kernel.
    pub fn enqueue(&mut self, packet: Packet) -> bool {
        if self.queue.len() >= self.most_packets {
            self.drops += 1;
            return false;
        }
        self.queue.push_back(packet);
        true
    }

    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    fn next(&self, room: bool) -> Option<Step> {
        let (received, transferred) = self.turn;
        let transfer = room && !self.queue.is_empty();
        match (self.received.is_empty(), transfer) {
            _ if !self.sent.is_empty() => Some(Step::Send),
            (true, false) => None,
            (true, true) => Some(Step::Transfer),
            (false, false) => Some(Step::Receive),
            // Both want: who has begun its turn ends it.
            (false, true) if received > 0 && received < TURN => Some(Step::Receive),
            (false, true) if received >= TURN || transferred < TURN => Some(Step::Transfer),
            (false, true) => Some(Step::Receive),
        }
    }

    fn lasts(&self, step: Step, bytes: usize) -> Nanos {
        let us = match step {
            Step::Send => self.costs.send_us,
            Step::Transfer => self.costs.transfer_us + bytes as f64 * self.nanos_per_byte / 1e3,
            Step::Receive => self.costs.receive_us,
        };
        (us * 1e3).round() as Nanos
    }
}
