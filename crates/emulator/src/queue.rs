//! Queues that decide at enqueueing and dequeueing which packets to drop or to mark.

mod codel;
mod fq_codel;
mod pie;

use std::collections::VecDeque;

use crate::ip::Flow;
use crate::log::CrossLog;
use crate::packet::{Nanos, Packet, nanos_of_ms};
use crate::plan;
use crate::plan::Kind;
use crate::random::Stream;
use codel::{Codel, Control};
use fq_codel::FqCodel;
use pie::Pie;

/// Linux's defaults: of tc-codel(8) and tc-pie(8), and of tc-fq_codel(8).
const DEFAULT_PACKETS: u32 = 1_000;
const DEFAULT_FQ_PACKETS: u32 = 10_240;

/// A packet in a queue.
#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    pub since: Nanos,
    /// From the IP header on.
    pub bytes: u64,
    /// None: of the cross traffic.
    pub packet: Option<Packet>,
}

/// All cross traffic of a stage is one flow.
const CROSS: Flow = Flow { source: u64::MAX, destination: u64::MAX, transport: u64::MAX };

impl Waiting {
    pub fn new(now: Nanos, packet: Packet) -> Waiting {
        Waiting { since: now, bytes: packet.frame.ip_bytes() as u64, packet: Some(packet) }
    }

    /// Marks it; false: its ends do not understand marks.
    fn mark(&mut self, counts: &mut Counts) -> bool {
        let marked = self.packet.as_mut().is_some_and(|packet| packet.frame.mark());
        counts.marks += u64::from(marked);
        marked
    }

    fn flow(&self) -> Flow {
        self.packet.as_ref().map_or(CROSS, |packet| packet.frame.flow())
    }
}

/// What a queue did to packets.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub marks: u64,
    /// Dropped by the algorithm.
    pub aqm_drops: u64,
    /// Dropped because the queue was full.
    pub full_drops: u64,
    pub cross: CrossLog,
}

impl Counts {
    fn drop_by_aqm(&mut self, waiting: &Waiting) {
        match waiting.packet {
            Some(_) => self.aqm_drops += 1,
            None => self.cross.dropped += 1,
        }
    }

    fn drop_as_full(&mut self, waiting: &Waiting) {
        match waiting.packet {
            Some(_) => self.full_drops += 1,
            None => self.cross.dropped += 1,
        }
    }
}

/// Packets in their order, and how many bytes they are.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fifo {
    packets: VecDeque<Waiting>,
    bytes: u64,
}

impl Fifo {
    fn push(&mut self, waiting: Waiting) {
        self.bytes += waiting.bytes;
        self.packets.push_back(waiting);
    }

    fn pop(&mut self) -> Option<Waiting> {
        let waiting = self.packets.pop_front()?;
        self.bytes -= waiting.bytes;
        Some(waiting)
    }

    fn len(&self) -> usize {
        self.packets.len()
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// How much may wait in all queues of a stage.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    pub packets: usize,
    pub bytes: u64,
}

impl Limit {
    fn of(plan: &plan::Direction, default_packets: u32) -> Limit {
        let default = plan.queue_bytes.map_or(default_packets, |_| u32::MAX);
        Limit {
            packets: plan.queue_packets.unwrap_or(default) as usize,
            bytes: plan.queue_bytes.unwrap_or(u64::MAX),
        }
    }

    fn holds(&self, packets: usize, bytes: u64) -> bool {
        packets <= self.packets && bytes <= self.bytes
    }

    /// Drop-tail. What finds the link idle does not wait, so there is always room for it.
    fn enqueue(&self, queue: &mut Fifo, waiting: Waiting, is_idle: bool, counts: &mut Counts) {
        if is_idle || self.holds(queue.len() + 1, queue.bytes() + waiting.bytes) {
            queue.push(waiting);
        } else {
            counts.drop_as_full(&waiting);
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Discipline {
    Codel(Codel),
    FqCodel(FqCodel),
    Pie(Pie),
}

impl Discipline {
    /// None: drop-tail, which needs no queue of this kind. `stream` makes random streams by name.
    pub fn new(plan: &plan::Direction, stream: impl Fn(&str) -> Stream) -> Option<Discipline> {
        let asked = plan.discipline.as_ref()?;
        let limit = |packets| Limit::of(plan, packets);
        Some(match asked.kind {
            Kind::DropTail => return None,
            Kind::Codel => Discipline::Codel(Codel::new(control(asked), limit(DEFAULT_PACKETS))),
            Kind::FqCodel => {
                let key = stream("fq-codel").key();
                let limit = limit(DEFAULT_FQ_PACKETS);
                Discipline::FqCodel(FqCodel::new(asked, control(asked), limit, key))
            }
            Kind::Pie => Discipline::Pie(Pie::new(asked, limit(DEFAULT_PACKETS), stream("pie"))),
        })
    }

    /// `is_idle`: nothing waits or is being sent, so that this packet is sent at once.
    pub fn enqueue(&mut self, now: Nanos, waiting: Waiting, is_idle: bool, counts: &mut Counts) {
        match self {
            Discipline::Codel(codel) => codel.enqueue(waiting, is_idle, counts),
            Discipline::FqCodel(fq) => fq.enqueue(waiting, is_idle, counts),
            Discipline::Pie(pie) => pie.enqueue(now, waiting, is_idle, counts),
        }
    }

    /// The packet to send now; none: nothing is left.
    pub fn dequeue(&mut self, now: Nanos, counts: &mut Counts) -> Option<Waiting> {
        match self {
            Discipline::Codel(codel) => codel.dequeue(now, counts),
            Discipline::FqCodel(fq) => fq.dequeue(now, counts),
            Discipline::Pie(pie) => pie.dequeue(now),
        }
    }

    pub fn len(&self) -> usize {
        match self {
            Discipline::Codel(codel) => codel.len(),
            Discipline::FqCodel(fq) => fq.len(),
            Discipline::Pie(pie) => pie.len(),
        }
    }
}

fn control(asked: &plan::Discipline) -> Control {
    Control {
        target: nanos_of_ms(asked.target_ms.unwrap_or(5.0)),
        interval: nanos_of_ms(asked.interval_ms.unwrap_or(100.0)),
        ecn: asked.marks(),
        ce_threshold: asked.ce_threshold_ms.map(nanos_of_ms),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Frame;

    /// 1500 bytes from the IP header on, of TCP from port `flow`.
    pub(super) fn packet(flow: u16, ecn: bool) -> Waiting {
        sized(flow, ecn, 1500)
    }

    pub(super) fn sized(flow: u16, ecn: bool, bytes: usize) -> Waiting {
        let mut frame = vec![0; 14];
        frame[12] = 8;
        frame.resize(14 + bytes, 0);
        frame[14..16].copy_from_slice(&[0x45, if ecn { 2 } else { 0 }]);
        frame[23] = 6;
        frame[34..36].copy_from_slice(&flow.to_be_bytes());
        Waiting::new(0, Packet { frame: Frame::new(frame), from: 0 })
    }

    /// The port that [`packet`] was given.
    pub(super) fn flow_of(waiting: &Waiting) -> u16 {
        let bytes = waiting.packet.as_ref().expect("no cross traffic").frame.bytes();
        u16::from_be_bytes([bytes[34], bytes[35]])
    }
}
