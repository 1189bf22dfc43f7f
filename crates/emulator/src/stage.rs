//! One stage of a direction: loss, duplication, policer, queue and rate, delay, reordering.

use crate::cross::Cross;
use crate::delay::Delay;
use crate::lateness::Histogram;
use crate::log::{CrossLog, DirectionLog, QueueDelay};
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
    /// Beginnings and ends of times at which what comes is lost.
    outages: Vec<(Nanos, Nanos)>,
    queue: Queue,
    delay: Delay,
    reorder: Option<Reorder>,
    log: DirectionLog,
    waits: Histogram,
}

/// What waits for the rate, and where.
#[derive(Clone, Debug)]
enum Queue {
    /// There is no rate.
    None,
    Tail(Box<Tail>),
    Managed(Box<Managed>),
}

#[derive(Clone, Debug)]
struct Tail {
    server: Server,
    mark: Option<Threshold>,
    cross: Option<Cross>,
    cross_log: CrossLog,
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
        let Some(rate) = Rate::of(plan) else { return Queue::None };
        let cross = plan.cross.as_ref().map(|asked| Cross::new(asked, stream("cross")));
        if let Some(discipline) = Discipline::new(plan, stream) {
            let asked = plan.discipline.as_ref().and_then(|asked| asked.overhead_bytes);
            let overhead = asked.unwrap_or(0).into();
            return Queue::Managed(Box::new(Managed::new(discipline, rate, cross, overhead)));
        }
        let server = Server::new(rate, plan.queue_packets, plan.queue_bytes);
        let mark = plan.discipline.as_ref().and_then(Threshold::new);
        Queue::Tail(Box::new(Tail { server, mark, cross, cross_log: CrossLog::default() }))
    }
}

impl Tail {
    /// Makes up for the cross traffic until now.
    fn run(&mut self, now: Nanos) {
        while let Some(cross) = self.cross.as_mut().filter(|cross| cross.next() <= now) {
            let fits = self.server.enter(cross.next(), cross.bytes as usize).is_some();
            self.cross_log.packets += 1;
            self.cross_log.bytes += cross.bytes;
            self.cross_log.dropped += u64::from(!fits);
            cross.step();
        }
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
            outages: outages(plan),
            queue: Queue::new(plan, stream),
            delay: Delay::new(plan, more_delay_ms),
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
    pub fn next_service(&mut self) -> Option<Nanos> {
        match &mut self.queue {
            Queue::Managed(managed) => managed.ask(),
            _ => None,
        }
    }

    /// Packets that wait for the rate.
    pub fn queue_length(&mut self, now: Nanos) -> usize {
        match &mut self.queue {
            Queue::None => 0,
            Queue::Tail(tail) => {
                tail.run(now);
                tail.server.waiting(now).0
            }
            Queue::Managed(managed) => {
                // Packets of hosts have events: none of them is due before now.
                let served = managed.serve(now);
                debug_assert!(served.is_none());
                managed.length()
            }
        }
    }

    pub fn log(&self) -> DirectionLog {
        DirectionLog { queue_delay: QueueDelay::of(&self.waits), ..self.counts() }
    }

    /// The log without the time that packets waited.
    pub fn counts(&self) -> DirectionLog {
        let mut log = self.log;
        match &self.queue {
            Queue::None => {}
            Queue::Tail(tail) => log.cross = tail.cross_log,
            Queue::Managed(managed) => {
                log.marked += managed.counts.marks;
                log.aqm_drops += managed.counts.aqm_drops;
                log.queue_drops += managed.counts.full_drops;
                log.cross = managed.counts.cross;
            }
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
        if self.outages.iter().any(|(begins, ends)| (*begins..*ends).contains(&now)) {
            self.log.outage_drops += 1;
            return;
        }
        match &mut self.queue {
            Queue::None => self.leave(now, packet, out),
            Queue::Tail(tail) => {
                tail.run(now);
                let Tail { server, mark, .. } = &mut **tail;
                let marks = mark.is_some_and(|mark| mark.is_reached(server.waiting(now)));
                let Some(service) = server.enter(now, bytes) else {
                    self.log.queue_drops += 1;
                    return;
                };
                self.log.marked += u64::from(marks && packet.frame.mark());
                self.waits.add(service.begins - now);
                self.leave(service.ends, packet, out);
            }
            Queue::Managed(_) => {
                // What is due first goes first.
                self.serve_waiting(now, out);
                if let Queue::Managed(managed) = &mut self.queue {
                    managed.enter(now, packet);
                }
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
        let mut at = self.delay.after(sent);
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

fn outages(plan: &plan::Direction) -> Vec<(Nanos, Nanos)> {
    let lossy = plan.handovers.iter().filter(|handover| handover.lose);
    lossy
        .map(|handover| {
            let begins = nanos_of_ms(handover.at_s * 1e3);
            (begins, begins + nanos_of_ms(handover.outage_ms))
        })
        .collect()
}
