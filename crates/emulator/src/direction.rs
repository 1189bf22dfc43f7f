//! One direction of the path: loss, duplication, policer, queue and rate, delay, reordering.

use crate::log::DirectionLog;
use crate::loss::Loss;
use crate::packet::{Nanos, nanos_of_ms};
use crate::plan;
use crate::policer::Policer;
use crate::random::Stream;
use crate::server::Server;

#[derive(Clone, Debug)]
pub(crate) struct Direction {
    loss: Option<Loss>,
    duplicate: Option<(f64, Stream)>,
    policer: Option<Policer>,
    server: Option<Server>,
    delay: Nanos,
    reorder: Option<Reorder>,
    pub log: DirectionLog,
}

#[derive(Clone, Debug)]
struct Reorder {
    share: f64,
    hold: Nanos,
    random: Stream,
}

impl Direction {
    /// `name` tells its random streams from those of the other direction.
    pub fn new(plan: &plan::Direction, half_rtt_ms: f64, seed: u64, name: &str) -> Direction {
        let stream = |element: &str| Stream::new(seed, &format!("path.{name}.{element}"));
        Direction {
            loss: (plan.loss > 0.0).then(|| Loss::new(plan.loss, plan.loss_burst, stream("loss"))),
            duplicate: (plan.duplicate > 0.0).then(|| (plan.duplicate, stream("duplicate"))),
            policer: plan
                .police_mbit
                .map(|rate| Policer::new(rate, plan.police_burst_bytes.unwrap_or(0))),
            server: plan
                .rate_mbit
                .map(|rate| Server::new(rate, plan.queue_packets, plan.queue_bytes)),
            delay: nanos_of_ms(plan.delay_ms + half_rtt_ms),
            reorder: (plan.reorder > 0.0).then(|| Reorder {
                share: plan.reorder,
                hold: nanos_of_ms(plan.reorder_ms),
                random: stream("reorder"),
            }),
            log: DirectionLog::default(),
        }
    }

    /// When the packet comes out at the other end, and when its duplicate does.
    pub fn enter(&mut self, now: Nanos, bytes: usize) -> [Option<Nanos>; 2] {
        self.log.packets += 1;
        self.log.bytes += bytes as u64;
        if self.loss.as_mut().is_some_and(Loss::strikes) {
            self.log.lost += 1;
            return [None, None];
        }
        let twice = self.duplicate.as_mut().is_some_and(|(share, random)| random.chance(*share));
        self.log.duplicated += u64::from(twice);
        let first = self.queue(now, bytes);
        [first, twice.then(|| self.queue(now, bytes)).flatten()]
    }

    /// Packets that wait for the rate.
    pub fn queue_length(&mut self, now: Nanos) -> usize {
        self.server.as_mut().map_or(0, |server| server.length(now))
    }

    fn queue(&mut self, now: Nanos, bytes: usize) -> Option<Nanos> {
        if self.policer.as_mut().is_some_and(|policer| !policer.conforms(now, bytes)) {
            self.log.queue_drops += 1;
            return None;
        }
        let sent = match &mut self.server {
            None => now,
            Some(server) => match server.enter(now, bytes) {
                Some(sent) => sent,
                None => {
                    self.log.queue_drops += 1;
                    return None;
                }
            },
        };
        let mut at = sent + self.delay;
        if let Some(reorder) = &mut self.reorder
            && reorder.random.chance(reorder.share)
        {
            self.log.reordered += 1;
            at += reorder.hold;
        }
        self.log.passed += 1;
        self.log.passed_bytes += bytes as u64;
        Some(at)
    }
}
