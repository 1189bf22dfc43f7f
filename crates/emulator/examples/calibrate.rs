//! The air offline: goodput and fairness of saturated stations, in logical time, beside
//! Bianchi's model of the same timing.
//!
//! `cargo run --release -p transom-emulator --example calibrate [PAYLOAD_BYTES]`

use anyhow::{Context, Result};
use transom_emulator::log::{AirLog, Log};
use transom_emulator::plan::{Air, Plan, Port, Side, Station};
use transom_emulator::{Delivery, Frame, Nanos, Network};

const SECONDS: u64 = 60;
/// One packet a station each so often: 47 Mbit/s of 1470 bytes, more than the air carries.
const EVERY: Nanos = 250_000;
/// IP and UDP headers.
const HEADERS: usize = 28;
const ETHERNET: usize = transom_link::ethernet::HEADER;

fn main() -> Result<()> {
    let payload = match std::env::args().nth(1) {
        None => 1470,
        Some(text) => text.parse().context("PAYLOAD_BYTES is a number from 18 to 1472")?,
    };
    println!("{SECONDS} s of saturated UDP uplink, {payload} bytes each, PHY 54 Mbit/s\n");
    for (name, air) in [
        ("slot 9 µs", Air::default()),
        ("slot 20 µs", Air { long_slot: true, ..Air::default() }),
        ("slot 9 µs, CTS to self", Air { cts_to_self: true, ..Air::default() }),
    ] {
        println!("{name}");
        println!("  stations  Mbit/s  Bianchi  differs    Jain  collided  Bianchi");
        for stations in [1, 2, 4, 8, 16] {
            let run = saturate(&air, stations, payload)?;
            let model = bianchi(&air, stations, payload);
            println!(
                "  {stations:8} {:7.2} {:8.2} {:+7.2} % {:7.4} {:7.2} % {:6.2} %",
                run.mbit,
                model.mbit,
                (run.mbit / model.mbit - 1.0) * 100.0,
                run.jain,
                run.collided * 100.0,
                model.collided * 100.0,
            );
        }
    }
    Ok(())
}

struct Outcome {
    mbit: f64,
    jain: f64,
    /// Share of attempts that collided.
    collided: f64,
}

fn saturate(air: &Air, stations: usize, payload: usize) -> Result<Outcome> {
    let mac = |number: usize| [2, 0, 0, 0, 0, number as u8];
    let mut ports: Vec<Port> = (1..=stations)
        .map(|number| Port {
            name: format!("s{number}"),
            mac: mac(number),
            side: Side::Air(Station::default()),
        })
        .collect();
    ports.push(Port { name: "server".to_owned(), mac: mac(0), side: Side::Far });
    let mut network =
        Network::new(&Plan { seed: 1, air: Some(air.clone()), ports, ..Plan::default() })?;
    let mut bytes = vec![0_u64; stations];
    let mut deliveries: Vec<Delivery> = Vec::new();
    let mut frames = Vec::new();
    for station in 0..stations {
        let mut frame = vec![0_u8; ETHERNET + HEADERS + payload];
        frame[..6].copy_from_slice(&mac(0));
        frame[6..12].copy_from_slice(&mac(station + 1));
        frames.push(Frame::new(frame));
    }
    for now in (0..SECONDS * 1_000_000_000).step_by(EVERY as usize) {
        network.advance(now, &mut deliveries);
        for (station, frame) in frames.iter().enumerate() {
            network.arrive(now, station, frame.clone());
        }
        for delivery in deliveries.drain(..) {
            bytes[usize::from(delivery.frame.bytes()[11]) - 1] += payload as u64;
        }
    }
    let log = Log { air: network.air(), ..Log::default() };
    Ok(outcome(&bytes, &log.air.context("the plan has an air")?))
}

fn outcome(bytes: &[u64], air: &AirLog) -> Outcome {
    let total: f64 = bytes.iter().map(|bytes| *bytes as f64).sum();
    let squares: f64 = bytes.iter().map(|bytes| (*bytes as f64).powi(2)).sum();
    let attempts: u64 = air.stations.iter().map(|sender| sender.frames).sum();
    let collided: u64 = air.stations.iter().map(|sender| sender.collisions).sum();
    Outcome {
        mbit: total * 8.0 / SECONDS as f64 / 1e6,
        jain: total * total / (bytes.len() as f64 * squares),
        collided: collided as f64 / attempts as f64,
    }
}

/// Bianchi, "Performance analysis of the IEEE 802.11 distributed coordination function", 2000:
/// equations 7, 9 and 13, for windows 16…1024, with the times of 802.11g.
fn bianchi(air: &Air, stations: usize, payload: usize) -> Outcome {
    const LEAST_WINDOW: f64 = 16.0;
    const DOUBLINGS: i32 = 6;
    let slot = if air.long_slot { 20.0 } else { 9.0 };
    let (sifs, difs) = (10.0, 10.0 + 2.0 * slot);
    let frame = |bytes: usize, mbit: f64| {
        20.0 + 4.0 * ((22.0 + 8.0 * bytes as f64) / (4.0 * mbit)).ceil() + 6.0
    };
    let protection = if air.cts_to_self { 192.0 + 14.0 * 8.0 / 11.0 + sifs } else { 0.0 };
    let exchange = protection + frame(payload + HEADERS + 36, 54.0) + sifs + frame(14, 24.0) + difs;

    let others = stations as i32 - 1;
    let attempt = |collide: f64| {
        let halves = 1.0 - 2.0 * collide;
        2.0 * halves
            / (halves * (LEAST_WINDOW + 1.0)
                + collide * LEAST_WINDOW * (1.0 - (2.0 * collide).powi(DOUBLINGS)))
    };
    // The probability of colliding falls as that of attempting falls: bisection finds both.
    let (mut low, mut high) = (0.0, 0.49999);
    for _ in 0..60 {
        let collide = (low + high) / 2.0;
        let follows = 1.0 - (1.0 - attempt(collide)).powi(others);
        if follows > collide { low = collide } else { high = collide }
    }
    let tau = attempt(low);
    let silent = (1.0 - tau).powi(stations as i32);
    let one = stations as f64 * tau * (1.0 - tau).powi(others);
    let mean_slot = silent * slot + (1.0 - silent) * exchange;
    Outcome { mbit: one * payload as f64 * 8.0 / mean_slot, jain: 1.0, collided: low }
}
