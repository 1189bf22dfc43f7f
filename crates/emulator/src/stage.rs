//! One stage of a direction: loss, duplication, policer, queue and rate, delay, reordering.

use crate::lateness::Histogram;
use crate::log::{DirectionLog, QueueDelay};
use crate::loss::Loss;
use crate::managed::{Managed, Served};
use crate::packet::{Nanos, Packet, nanos_of_ms};
use crate::plan;
use crate::policer::Policer;
use crate::queue::Discipline;
use crate::random::Stream;
use crate::rate::Rate;
use crate::server::Server;

#[derive(Clone, Debug)]
pub(crate) struct Stage {
    loss: Option<Loss>,
    duplicate: Option<(f64, Stream)>,
    policer: Option<Policer>,
    queue: Queue,
    delay: Nanos,
    reorder: Option<Reorder>,
    log: DirectionLog,
    waits: Histogram,
}

/// What waits for the rate, and where.
#[derive(Clone, Debug)]
enum Queue {
    /// There is no rate.
    None,
    Tail {
        server: Box<Server>,
        mark: Option<Threshold>,
    },
    Managed(Box<Managed>),
}

/// Marks a packet on whose arrival as many wait (RFC 8257, 3.1).
#[derive(Clone, Copy, Debug)]
struct Threshold {
    packets: usize,
    bytes: u64,
}

#[derive(Clone, Debug)]
struct Reorder {
    share: f64,
    hold: Nanos,
    random: Stream,
}

impl Queue {
    fn new(plan: &plan::Direction, stream: impl Fn(&str) -> Stream) -> Queue {
        let Some(rate) = plan.rate_mbit.map(Rate::constant) else { return Queue::None };
        if let Some(discipline) = Discipline::new(plan, stream) {
            return Queue::Managed(Box::new(Managed::new(discipline, rate)));
        }
        let server = Box::new(Server::new(rate, plan.queue_packets, plan.queue_bytes));
        Queue::Tail { server, mark: plan.discipline.as_ref().and_then(Threshold::new) }
    }
}

impl Threshold {
    fn new(asked: &plan::Discipline) -> Option<Threshold> {
        let (packets, bytes) = (asked.mark_packets, asked.mark_bytes);
        (packets.is_some() || bytes.is_some()).then(|| Threshold {
            packets: packets.map_or(usize::MAX, |packets| packets as usize),
            bytes: bytes.unwrap_or(u64::MAX),
        })
    }

    fn is_reached(self, (packets, bytes): (usize, u64)) -> bool {
        packets >= self.packets || bytes >= self.bytes
    }
}

impl Stage {
    /// `name` tells its random streams from those of other stages.
    pub fn new(plan: &plan::Direction, more_delay_ms: f64, seed: u64, name: &str) -> Stage {
        let stream = |element: &str| Stream::new(seed, &format!("path.{name}.{element}"));
        Stage {
            loss: (plan.loss > 0.0).then(|| Loss::new(plan.loss, plan.loss_burst, stream("loss"))),
            duplicate: (plan.duplicate > 0.0).then(|| (plan.duplicate, stream("duplicate"))),
            policer: plan
                .police_mbit
                .map(|rate| Policer::new(rate, plan.police_burst_bytes.unwrap_or(0))),
            queue: Queue::new(plan, stream),
            delay: nanos_of_ms(plan.delay_ms + more_delay_ms),
            reorder: (plan.reorder > 0.0).then(|| Reorder {
                share: plan.reorder,
                hold: nanos_of_ms(plan.reorder_ms),
                random: stream("reorder"),
            }),
            log: DirectionLog::default(),
            waits: Histogram::new(),
        }
    }

    /// Adds to `out` what comes out at the other end, and when, as far as that is known.
    pub fn enter(&mut self, now: Nanos, packet: Packet, out: &mut Vec<(Nanos, Packet)>) {
        self.log.packets += 1;
        self.log.bytes += packet.frame.ip_bytes() as u64;
        if self.loss.as_mut().is_some_and(Loss::strikes) {
            self.log.lost += 1;
            return;
        }
        if self.duplicate.as_mut().is_some_and(|(share, random)| random.chance(*share)) {
            self.log.duplicated += 1;
            self.queue(now, packet.clone(), out);
        }
        self.queue(now, packet, out);
    }

    /// The moment has come that [`Stage::next_service`] asked for.
    pub fn serve(&mut self, now: Nanos, out: &mut Vec<(Nanos, Packet)>) {
        if let Queue::Managed(managed) = &mut self.queue {
            managed.woken();
        }
        self.serve_waiting(now, out);
    }

    /// When [`Stage::serve`] is to be called; asks once for each time. To be looked at after each
    /// other call.
    pub fn next_service(&mut self, now: Nanos) -> Option<Nanos> {
        match &mut self.queue {
            Queue::Managed(managed) => managed.ask(now),
            _ => None,
        }
    }

    /// Packets that wait for the rate.
    pub fn queue_length(&mut self, now: Nanos) -> usize {
        match &mut self.queue {
            Queue::None => 0,
            Queue::Tail { server, .. } => server.waiting(now).0,
            Queue::Managed(managed) => managed.length(),
        }
    }

    pub fn log(&self) -> DirectionLog {
        DirectionLog { queue_delay: QueueDelay::of(&self.waits), ..self.counts() }
    }

    /// The log without the time that packets waited.
    pub fn counts(&self) -> DirectionLog {
        let mut log = self.log;
        if let Queue::Managed(managed) = &self.queue {
            log.marked += managed.counts.marks;
            log.aqm_drops += managed.counts.aqm_drops;
            log.queue_drops += managed.counts.full_drops;
        }
        log
    }

    fn queue(&mut self, now: Nanos, mut packet: Packet, out: &mut Vec<(Nanos, Packet)>) {
        let bytes = packet.frame.ip_bytes();
        if self.policer.as_mut().is_some_and(|policer| !policer.conforms(now, bytes)) {
            self.log.queue_drops += 1;
            self.log.policed += 1;
            return;
        }
        match &mut self.queue {
            Queue::None => self.leave(now, packet, out),
            Queue::Tail { server, mark } => {
                let marks = mark.is_some_and(|mark| mark.is_reached(server.waiting(now)));
                let Some(service) = server.enter(now, bytes) else {
                    self.log.queue_drops += 1;
                    return;
                };
                self.log.marked += u64::from(marks && packet.frame.mark());
                self.waits.add(service.begins - now);
                self.leave(service.ends, packet, out);
            }
            Queue::Managed(managed) => {
                managed.enter(now, packet);
                self.serve_waiting(now, out);
            }
        }
    }

    fn serve_waiting(&mut self, now: Nanos, out: &mut Vec<(Nanos, Packet)>) {
        while let Queue::Managed(managed) = &mut self.queue
            && let Some(Served { packet, waited, ends }) = managed.serve(now)
        {
            self.waits.add(waited);
            self.leave(ends, packet, out);
        }
    }

    /// The last bit of the packet has left the queue.
    fn leave(&mut self, sent: Nanos, packet: Packet, out: &mut Vec<(Nanos, Packet)>) {
        let mut at = sent + self.delay;
        if let Some(reorder) = &mut self.reorder
            && reorder.random.chance(reorder.share)
        {
            self.log.reordered += 1;
            at += reorder.hold;
        }
        self.log.passed += 1;
        self.log.passed_bytes += packet.frame.ip_bytes() as u64;
        out.push((at, packet));
    }
}
