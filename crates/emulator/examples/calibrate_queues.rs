//! Queueing disciplines offline, in logical time: the wait in the queue, goodput and fairness of
//! constant streams and of CUBIC's window, beside which `bench/ns3-queues.cc` shows ns-3's.
//!
//! `cargo run --release -p transom-emulator --example calibrate_queues`

#[path = "../tests/logical/mod.rs"]
#[allow(dead_code, reason = "tests use the rest")]
mod logical;

use anyhow::Result;
use logical::{FULL, Kind, MS, SECOND, Sender, segment};
use rustix::time::{ClockId, clock_gettime};
use transom_emulator::Network;
use transom_emulator::log::DirectionLog;
use transom_emulator::plan::{self, Direction, Discipline, Path, Side};

const RATE_MBIT: f64 = 20.0;
const FROM: u64 = 10;
const UNTIL: u64 = 60;

fn main() -> Result<()> {
    let all = [plan::Kind::DropTail, plan::Kind::Codel, plan::Kind::FqCodel, plan::Kind::Pie];
    println!("{RATE_MBIT} Mbit/s, 20 ms one way; {FROM} to {UNTIL} s, drops and marks from 0 s\n");
    println!("                           wait, ms   Mbit/s    Jain   dropped   marked");
    for kind in all {
        for udp in [19.0_f64, 21.0, 24.0, 40.0] {
            // Full packets a second.
            let rate = (udp * 1e6 / 12_000.0).round() as u64;
            show(kind, &format!("udp {udp}"), &[sender(Kind::Constant(rate), false)])?;
        }
        for (flows, ecn) in [(1, false), (10, false), (10, true)] {
            let name = format!("cubic {flows}{}", if ecn { " ecn" } else { "" });
            show(kind, &name, &vec![sender(Kind::Cubic, ecn); flows])?;
        }
    }
    println!(
        "\nns of CPU time for each packet and stage, two thirds of them sent into a full queue"
    );
    for kind in all {
        println!("{:10} {:6.0}", kind.name(), cost(kind)?);
    }
    Ok(())
}

fn sender(kind: Kind, ecn: bool) -> Sender {
    Sender { from: 0, to: 1, ecn, back: 20 * MS, kind }
}

fn network(kind: plan::Kind, ecn: bool) -> Result<Network> {
    let mut discipline = Discipline::of(kind);
    if kind != plan::Kind::DropTail {
        discipline.ecn = Some(ecn);
    }
    let queue_packets = Some(if kind == plan::Kind::FqCodel { 10_240 } else { 1000 });
    let up = Direction {
        delay_ms: 20.0,
        rate_mbit: Some(RATE_MBIT),
        queue_packets,
        discipline: Some(discipline),
        ..Direction::default()
    };
    let path = Path { up, ..Path::default() };
    Network::new(&logical::plan(path, vec![Side::Near, Side::Far]))
}

fn show(kind: plan::Kind, name: &str, senders: &[Sender]) -> Result<()> {
    let mut network = network(kind, senders[0].ecn)?;
    let outcomes = logical::run(&mut network, senders, FROM * SECOND, UNTIL * SECOND);
    let DirectionLog { aqm_drops, queue_drops, marked, .. } = network.up();
    let packets: u64 = outcomes.iter().map(|one| one.packets).sum();
    let delays: u64 = outcomes.iter().flat_map(|one| &one.delays).sum();
    let sending = FULL as f64 * 8.0 / RATE_MBIT / 1e3;
    println!(
        "{:10} {name:14} {:10.2} {:8.2} {:7.3} {:9} {marked:8}",
        kind.name(),
        delays as f64 / packets as f64 / MS as f64 - 20.0 - sending,
        packets as f64 * FULL as f64 * 8e-6 / (UNTIL - FROM) as f64,
        logical::jain(&outcomes),
        aqm_drops + queue_drops,
    );
    Ok(())
}

/// Frames are made before the time is taken.
fn cost(kind: plan::Kind) -> Result<f64> {
    const PACKETS: u64 = 1_000_000;
    const BURST: u64 = 20;
    let mut network = network(kind, true)?;
    let frames: Vec<_> = (0..16).map(|flow| segment(0, 1, flow, true, 0, FULL)).collect();
    let mut out = Vec::new();
    let begun = thread_cpu();
    for number in 0..PACKETS {
        if number % BURST == 0 {
            // A packet takes 0.6 ms.
            network.advance(number * 620_000, &mut out);
            out.clear();
        }
        let now = number / BURST * BURST * 620_000;
        network.arrive(now, 0, frames[(number % 16) as usize].clone());
    }
    Ok((thread_cpu() - begun) / PACKETS as f64)
}

/// CPU time of this thread, ns: other work on the machine does not count.
fn thread_cpu() -> f64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as f64 * 1e9 + now.tv_nsec as f64
}
