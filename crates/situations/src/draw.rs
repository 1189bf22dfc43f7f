//! Situations drawn at random, with the cause computed from what was drawn (`label`).
//!
//! Every parameter is drawn independently of the cause that is wanted; what no rule labels with
//! that cause is drawn again. So a limit stands beside others that are weaker.

use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};
use toml::{Table, Value};

use crate::label::{self, Algorithm, Build, Cut, Program, Reader};

/// The causes that are drawn, in turn; those on the path, which are hardest to tell, twice.
pub const CAUSES: [&str; 24] = [
    "application",
    "full_path",
    "send_buffer",
    "shallow_buffer",
    "receiver_window",
    "random_loss",
    "policer",
    "peer_reads_slowly",
    "full_path",
    "saturated",
    "pacing",
    "random_loss",
    "slow_start",
    "shallow_buffer",
    "local_device",
    "reordering",
    "policer",
    "outage",
    "peer_vanished",
    "own_window",
    "slow_reader",
    "other_side",
    "application",
    "handshake",
];

/// Draws for one situation after which the cause counts as unreachable.
const PATIENCE: usize = 5_000_000;

pub(crate) struct Chance(Pcg64Mcg);

impl Chance {
    pub fn new(seed: u64) -> Chance {
        Chance(Pcg64Mcg::seed_from_u64(seed))
    }

    pub fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    pub fn one_in(&mut self, n: f64) -> bool {
        self.unit() * n < 1.0
    }

    /// Between two bounds, as likely in each octave.
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low * (high / low).powf(self.unit())
    }

    pub fn maybe(&mut self, one_in: f64, low: f64, high: f64) -> Option<f64> {
        let value = self.between(low, high);
        self.one_in(one_in).then_some(value)
    }

    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[(self.unit() * of.len() as f64) as usize]
    }
}

/// The situations of a seed: name and table, as in `situations.toml`.
///
/// # Panics
/// If a cause cannot be drawn from these ranges.
pub fn situations(seed: u64, count: usize) -> Vec<(String, Table)> {
    let mut chance = Chance::new(seed);
    let one = |i: usize| {
        let cause = CAUSES[i % CAUSES.len()];
        let drawn = (0..PATIENCE).map(|_| build(&mut chance, cause));
        let mut labelled = drawn.filter_map(|build| Some((label::causes(&build)?, build)));
        let (causes, build) =
            labelled.find(|(causes, _)| causes[0] == cause).expect("every cause can be drawn");
        let name = format!("seed-{seed}-{:02}-{}", i + 1, cause.replace('_', "-"));
        (name, table(&build, &causes))
    };
    (0..count).map(one).collect()
}

pub(crate) fn round(value: f64, digits: i32) -> f64 {
    let scale = 10_f64.powi(digits);
    (value * scale).round() / scale
}

fn build(chance: &mut Chance, wanted: &str) -> Build {
    let rtt_ms = chance.between(2.0, 250.0).round();
    let rate_mbit = round(chance.between(1.5, 80.0), 1);
    let bdp = label::segments(rate_mbit, rtt_ms);
    let policed = chance.one_in(6.0);
    let of_receiver = chance.one_in(6.0);
    let build = Build {
        rtt_ms,
        rate_mbit,
        queue_packets: (bdp * chance.between(0.05, 4.0)).max(3.0).round(),
        burst_bytes: policed
            .then(|| (bdp * 1500.0 * chance.between(0.3, 2.0)).max(15_000.0).round()),
        loss: chance.maybe(4.0, 0.001, 0.04).map_or(0.0, |loss| round(loss, 4)),
        ack_loss: chance.maybe(10.0, 0.005, 0.1).map_or(0.0, |loss| round(loss, 3)),
        reorder: chance
            .maybe(10.0, 0.005, 0.08)
            .map(|share| (round(share, 3), (rtt_ms * chance.between(0.1, 4.0)).ceil())),
        algorithm: chance.pick(&[
            Algorithm::Cubic,
            Algorithm::Cubic,
            Algorithm::Reno,
            Algorithm::Bbr,
            Algorithm::Steady,
        ]),
        send_buffer: chance.maybe(8.0, 9_000.0, 200_000.0).map(f64::round),
        receive_buffer: chance.maybe(8.0, 9_000.0, 200_000.0).map(f64::round),
        unscaled: chance.one_in(20.0),
        clamp: chance.maybe(10.0, 5.0, 100.0).map(f64::round),
        pacing_mbit: chance.maybe(10.0, 0.5, 20.0).map(|mbit| round(mbit, 2)),
        driver_mbit: chance.maybe(12.0, 1.5, 40.0).map(|mbit| round(mbit, 1)),
        program: program(chance),
        reader: chance.one_in(8.0).then(|| Reader {
            read: chance.between(2_000.0, 200_000.0).round(),
            every_ms: chance.between(10.0, 800.0).round(),
        }),
        cut: cut(chance, wanted, rtt_ms),
        of_receiver,
        competing: chance.one_in(20.0),
        ipv6: chance.one_in(3.0),
        gso: chance.maybe(4.0, 2.0, 40.0).map(f64::round),
        seconds: 0.0,
    };
    Build { seconds: label::seconds(&build), ..build }
}

fn program(chance: &mut Chance) -> Program {
    let (size, every_ms) = (chance.between(500.0, 400_000.0).round(), chance.between(5.0, 3000.0));
    match chance.pick(&[0, 0, 0, 0, 1, 1, 2, 3]) {
        0 => Program::Bulk,
        1 => Program::Periodic { write: size, every_ms: every_ms.round() },
        2 => Program::Dialogue { write: size, reply: chance.between(50.0, 5_000.0).round() },
        _ => Program::Once { total: (size * 10.0).round() },
    }
}

/// Silence is an event of its own, which no other parameter is compared with.
fn cut(chance: &mut Chance, wanted: &str, rtt_ms: f64) -> Option<Cut> {
    let at_s = round(chance.between(0.5, 2.5) + rtt_ms * 0.01, 1);
    let for_s = round(chance.between(0.8, 4.0), 1);
    match wanted {
        "handshake" => Some(Cut { at_s: 0.0, for_s: None }),
        "peer_vanished" => Some(Cut { at_s, for_s: None }),
        "outage" => Some(Cut { at_s, for_s: Some(for_s) }),
        _ => None,
    }
}

pub(crate) fn number(value: f64) -> Value {
    if value.fract() == 0.0 { Value::Integer(value as i64) } else { Value::Float(value) }
}

pub(crate) fn numbers(of: &[(&str, f64)]) -> Table {
    of.iter().map(|(key, value)| ((*key).to_owned(), number(*value))).collect()
}

fn path(build: &Build) -> Table {
    let mut up = match build.burst_bytes {
        Some(bytes) => numbers(&[("police_mbit", build.rate_mbit), ("police_burst_bytes", bytes)]),
        None => numbers(&[("rate_mbit", build.rate_mbit), ("queue_packets", build.queue_packets)]),
    };
    if build.loss > 0.0 {
        up.insert("loss".into(), number(build.loss));
    }
    if let Some((share, ms)) = build.reorder {
        up.extend(numbers(&[("reorder", share), ("reorder_ms", ms)]));
    }
    let mut path = numbers(&[("rtt_ms", build.rtt_ms)]);
    path.insert("up".into(), up.into());
    if build.ack_loss > 0.0 {
        path.insert("down".into(), numbers(&[("loss", build.ack_loss)]).into());
    }
    path
}

fn sender(build: &Build) -> Table {
    let mut sender = Table::new();
    if let Some(segments) = build.clamp {
        sender.insert("largest_window".into(), number(segments));
    }
    if let Some(segments) = build.gso {
        sender.insert("gso_max_segs".into(), number(segments));
    }
    if let Some(mbit) = build.driver_mbit {
        let driver = numbers(&[("rate_mbit", mbit), ("queue_packets", 150.0)]);
        sender.insert("driver".into(), driver.into());
    }
    sender
}

fn send(build: &Build) -> Table {
    let mut send = match build.program {
        Program::Bulk => Table::new(),
        Program::Periodic { write, every_ms } => {
            numbers(&[("write", write), ("every_ms", every_ms)])
        }
        Program::Dialogue { write, reply } => numbers(&[("write", write), ("reply", reply)]),
        Program::Once { total } => numbers(&[("total", total)]),
    };
    if let Some(bytes) = build.send_buffer {
        send.insert("buffer".into(), number(bytes));
    }
    if let Some(mbit) = build.pacing_mbit {
        send.insert("max_pacing_mbit".into(), number(mbit));
    }
    send.insert("algorithm".into(), build.algorithm.name().into());
    send
}

fn receive(build: &Build) -> Table {
    let mut receive = Table::new();
    if let Some(bytes) = build.receive_buffer {
        receive.insert("buffer".into(), number(bytes));
    }
    if let Some(reader) = build.reader {
        receive.extend(numbers(&[("read", reader.read), ("every_ms", reader.every_ms)]));
    }
    receive
}

fn table(build: &Build, causes: &[&str]) -> Table {
    let mut table = Table::new();
    let causes: Vec<Value> = causes.iter().map(|cause| Value::from(*cause)).collect();
    table.insert("causes".into(), causes.into());
    table.insert("seconds".into(), number(build.seconds));
    if build.ipv6 {
        table.insert("ipv6".into(), true.into());
    }
    if build.of_receiver {
        table.insert("record".into(), "receiver".into());
    }
    table.insert("path".into(), path(build).into());
    table.insert("sender".into(), sender(build).into());
    if build.unscaled {
        let off = Table::from_iter([("ipv4.tcp_window_scaling".to_owned(), Value::from("0"))]);
        let receiver = Table::from_iter([("sysctl".to_owned(), Value::from(off))]);
        table.insert("receiver".into(), receiver.into());
    }
    table.insert("send".into(), send(build).into());
    table.insert("receive".into(), receive(build).into());
    if build.competing {
        let other = Table::from_iter([("algorithm".to_owned(), Value::from("cubic"))]);
        table.insert("competing".into(), other.into());
    }
    if let Some(cut) = build.cut {
        let mut silence = numbers(&[("at_s", cut.at_s)]);
        silence.extend(cut.for_s.map(|length| ("for_s".to_owned(), number(length))));
        table.insert("cut".into(), silence.into());
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_draws_the_same_situations_again_and_another_seed_others() {
        assert_eq!(situations(3, 24), situations(3, 24));
        let tables = |seed| situations(seed, 24).into_iter().map(|(_, table)| table);
        assert!(tables(3).zip(tables(4)).all(|(a, b)| a != b));
    }
}
