//! Points of a space.
//!
//! Points are drawn in blocks, each a Latin hypercube of its own: within a block, every dimension
//! has one point in each of its equal parts. More points extend a grid and leave those that it has
//! as they are.

use serde::{Deserialize, Serialize};
use transom_emulator::Stream;
use transom_emulator::plan::Discipline;

use super::file::{Cost, Flows, Grid, Losses, Range};

/// A multiple of how many kinds a dimension usually has: all come equally often.
const BLOCK: usize = 60;
/// Queues are made for round trips of at least this, as operators make them.
const LEAST_QUEUE_RTT_MS: f64 = 10.0;
/// Of the smallest queue, packets.
const LEAST_QUEUE: f64 = 4.0;
/// Bytes of a full packet, from the IP header on.
const PACKET: f64 = 1500.0;
/// Of ten transfers, each has so much of the time, if its flow gets its share.
const LEAST_TRANSFERS: f64 = 10.0;

/// Which half a point is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Half {
    /// Algorithms may be made for it.
    Train,
    /// They are only judged on it.
    Report,
}

/// One situation: a place in the space.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Point {
    /// From 1.
    pub number: u32,
    pub half: Half,
    /// Run on real kernels, too.
    pub real: bool,
    /// Of its repeats.
    pub seed: u64,
    pub terminals: u32,
    pub rtt_ms: f64,
    pub rate_mbit: f64,
    /// Name of the kind of queue.
    pub queue: String,
    /// Its limit, packets; none: the discipline's default.
    pub queue_packets: Option<u32>,
    pub discipline: Option<Discipline>,
    /// Name of the kind of losses.
    pub losses: String,
    pub loss: Loss,
    /// Name of the kind of competitor, and its algorithm.
    pub competitor: String,
    pub competes: Option<String>,
    /// Name of the kind of flows.
    pub flows: String,
    pub traffic: Sends,
    /// How long it runs, s.
    pub seconds: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Loss {
    None,
    Random { share: f64 },
    WeakMoments { every_ms: f64, lasts_ms: f64, errors: f64 },
    Policer { mbit: f64, burst_bytes: u64 },
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Sends {
    Bulk,
    Short { bytes: u64, think_s: f64 },
    OnOff { on_s: f64, off_s: f64 },
}

impl Point {
    /// What passes the bottleneck at most, Mbit/s of IP packets.
    pub fn capacity_mbit(&self) -> f64 {
        match self.loss {
            Loss::Policer { mbit, .. } => mbit,
            _ => self.rate_mbit,
        }
    }

    /// Flows that share the bottleneck.
    pub fn flows(&self) -> u32 {
        self.terminals + u32::from(self.competes.is_some())
    }

    pub fn has_weak_moments(&self) -> bool {
        matches!(self.loss, Loss::WeakMoments { .. })
    }

    /// In one line, with enough to see what is special about it.
    pub fn describe(&self) -> String {
        let queue = match self.queue_packets {
            Some(packets) => format!("{} ({packets} packets)", self.queue),
            None => self.queue.clone(),
        };
        let losses = match self.loss {
            Loss::None => self.losses.clone(),
            Loss::Random { share } => format!("{} {:.2} %", self.losses, share * 100.0),
            Loss::WeakMoments { every_ms, lasts_ms, errors } => {
                format!("{} ({lasts_ms:.0} of {every_ms:.0} ms, {errors:.2})", self.losses)
            }
            Loss::Policer { mbit, burst_bytes } => {
                format!("{} {mbit} Mbit/s ({burst_bytes} B)", self.losses)
            }
        };
        let flows = match self.traffic {
            Sends::Bulk => self.flows.clone(),
            Sends::Short { bytes, think_s } => {
                format!("{} {} kB, {think_s} s", self.flows, bytes / 1000)
            }
            Sends::OnOff { on_s, off_s } => format!("{} {on_s}/{off_s} s", self.flows),
        };
        format!(
            "{} × {flows}, {} ms, {} Mbit/s, queue {queue}, losses {losses}, competitor {}",
            self.terminals, self.rtt_ms, self.rate_mbit, self.competitor
        )
    }
}

/// The first so many points.
pub fn points(grid: &Grid, count: u32) -> Vec<Point> {
    let blocks = (count as usize).div_ceil(BLOCK);
    let mut points: Vec<Point> = (0..blocks).flat_map(|number| block(grid, number)).collect();
    points.truncate(count as usize);
    points
}

/// Where a point lies in each dimension, as it is asked for: 0 to 1.
struct Drawn<'a> {
    seed: u64,
    block: usize,
    at: usize,
    taken: &'a mut Vec<(String, Vec<f64>)>,
}

impl Drawn<'_> {
    /// In this dimension.
    fn part(&mut self, dimension: &str) -> f64 {
        if let Some((_, values)) = self.taken.iter().find(|(name, _)| name == dimension) {
            return values[self.at];
        }
        let name = format!("grid.{}.{dimension}", self.block);
        let mut random = Stream::new(self.seed, &name);
        let mut values: Vec<f64> = (0..BLOCK).map(|n| n as f64 + random.uniform()).collect();
        for last in (1..BLOCK).rev() {
            values.swap(last, (random.uniform() * (last + 1) as f64) as usize);
        }
        values.iter_mut().for_each(|value| *value /= BLOCK as f64);
        let drawn = values[self.at];
        self.taken.push((dimension.to_owned(), values));
        drawn
    }

    fn within(&mut self, dimension: &str, Range(low, high): Range) -> f64 {
        let part = self.part(dimension);
        if low > 0.0 {
            return three_digits((low.ln() + part * (high.ln() - low.ln())).exp());
        }
        let low = high / 1000.0;
        let value = (low.ln() + part * (high.ln() - low.ln())).exp();
        if value < 2.0 * low { 0.0 } else { three_digits(value) }
    }

    fn whole(&mut self, dimension: &str, Range(low, high): Range) -> u32 {
        let value = self.part(dimension) * ((high + 1.0) / low).ln() + low.ln();
        value.exp().min(high) as u32
    }

    fn kind<'a, T>(
        &mut self,
        dimension: &str,
        kinds: &'a std::collections::BTreeMap<String, T>,
    ) -> (&'a String, &'a T) {
        let at = (self.part(dimension) * kinds.len() as f64) as usize;
        kinds.iter().nth(at).expect("a part is below 1, and a file has at least one kind")
    }
}

/// So that what a table shows is exactly what was run.
fn three_digits(value: f64) -> f64 {
    format!("{value:.2e}").parse().unwrap_or(value)
}

fn block(grid: &Grid, block: usize) -> Vec<Point> {
    let mut taken = Vec::new();
    let one = |at| {
        let drawn = Drawn { seed: grid.seed, block, at, taken: &mut taken };
        point(grid, (block * BLOCK + at) as u32 + 1, drawn)
    };
    (0..BLOCK).map(one).collect()
}

fn point(grid: &Grid, number: u32, mut drawn: Drawn<'_>) -> Point {
    let space = &grid.space;
    let mut chance = Stream::new(grid.seed, &format!("grid.point.{number}"));
    let half = if chance.key() & 1 == 0 { Half::Train } else { Half::Report };
    let real = chance.chance(0.1) && half == Half::Report;
    let seed = chance.key() >> 11;
    let terminals = drawn.whole("terminals", space.terminals);
    let rtt_ms = drawn.within("rtt", space.rtt_ms);
    let rate_mbit = drawn.within("rate", space.rate_mbit);
    let (competitor, rival) = drawn.kind("competitor", &space.competitor);
    let (queue, kind) = drawn.kind("queue", &space.queue);
    let product = rate_mbit * 1e3 * rtt_ms.max(LEAST_QUEUE_RTT_MS) / 8.0 / PACKET;
    let packets = |drawn: &mut Drawn<'_>, bdp: Range| {
        (drawn.within("queue.bdp", bdp) * product).ceil().max(LEAST_QUEUE) as u32
    };
    let queue_packets = kind.bdp.map(|bdp| packets(&mut drawn, bdp));
    let (losses, loss) = drawn.kind("losses", &space.losses);
    let loss = draw_loss(&mut drawn, loss, rate_mbit);
    let (flows, traffic) = drawn.kind("flows", &space.flows);
    let mut point = Point {
        number,
        half,
        real,
        seed,
        terminals,
        rtt_ms,
        rate_mbit,
        queue: queue.clone(),
        queue_packets,
        discipline: kind.discipline.clone(),
        losses: losses.clone(),
        loss,
        competitor: competitor.clone(),
        competes: rival.algorithm.clone(),
        flows: flows.clone(),
        traffic: Sends::Bulk,
        seconds: 0.0,
    };
    point.seconds = seconds(&point, &grid.cost);
    point.traffic = draw_traffic(&mut drawn, traffic, &point);
    point
}

fn draw_loss(drawn: &mut Drawn<'_>, losses: &Losses, rate_mbit: f64) -> Loss {
    match losses {
        Losses::None {} => Loss::None,
        Losses::Random { share } => Loss::Random { share: drawn.within("loss.share", *share) },
        Losses::WeakMoments { every_ms, lasts_ms, errors } => Loss::WeakMoments {
            every_ms: drawn.within("loss.every", *every_ms),
            lasts_ms: drawn.within("loss.lasts", *lasts_ms),
            errors: drawn.within("loss.errors", *errors),
        },
        Losses::Policer { share, burst_ms } => {
            let mbit = three_digits(rate_mbit * drawn.within("loss.police", *share));
            let bytes = mbit * 1e3 / 8.0 * drawn.within("loss.burst", *burst_ms);
            Loss::Policer { mbit, burst_bytes: bytes.max(2.0 * PACKET) as u64 }
        }
    }
}

/// A transfer is no larger than what a flow's equal share brings over in a tenth of the time.
fn draw_traffic(drawn: &mut Drawn<'_>, flows: &Flows, point: &Point) -> Sends {
    match flows {
        Flows::Bulk {} => Sends::Bulk,
        Flows::Short { bytes, think_s } => {
            let share = point.capacity_mbit() * 1e6 / 8.0 / f64::from(point.flows());
            let most = (share * point.seconds / LEAST_TRANSFERS).max(PACKET);
            let bytes = three_digits(drawn.within("flows.bytes", *bytes).min(most)) as u64;
            Sends::Short { bytes, think_s: drawn.within("flows.think", *think_s) }
        }
        Flows::OnOff { on_s, off_s } => Sends::OnOff {
            on_s: drawn.within("flows.on", *on_s),
            off_s: drawn.within("flows.off", *off_s),
        },
    }
}

fn seconds(point: &Point, cost: &Cost) -> f64 {
    let round_trip = point.rtt_ms / 1e3;
    let packets_per_second = point.capacity_mbit() * 1e6 / 8.0 / PACKET;
    let wanted = (cost.seconds)
        .max(cost.round_trips * round_trip)
        .max(cost.packets_per_flow * f64::from(point.flows()) / packets_per_second);
    let most = cost.most_packets / packets_per_second;
    wanted.min(most.max(cost.least_round_trips * round_trip)).ceil()
}
