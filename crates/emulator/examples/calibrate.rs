//! The air offline: goodput and fairness of saturated stations, in logical time, beside
//! Bianchi's model of the same timing.
//!
//! `cargo run --release -p transom-emulator --example calibrate [PAYLOAD_BYTES]`

use anyhow::{Context, Result};
use transom_emulator::log::{AirLog, Log};
use transom_emulator::plan::{Air, Plan, Port, Side, Standard, Station};
use transom_emulator::{Delivery, Frame, Nanos, Network};

const SECONDS: u64 = 60;
/// Each station sends a packet so often: 47 Mbit/s of 1470 bytes, more than the air carries.
const EVERY: Nanos = 250_000;
/// For 802.11n, 235 Mbit/s.
const EVERY_HT: Nanos = 50_000;
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
            let run = saturate(&air, &Station::default(), stations, payload)?;
            let model = bianchi(&erp_exchange(&air, payload), stations, payload);
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
    println!("\n802.11n");
    println!(
        "  link              frames  queue  stations  Mbit/s  Bianchi  differs  aggregated  collided"
    );
    for ht in HT {
        let most_frames = ht.most_frames;
        let air = Air {
            standard: Standard::N,
            channel_mhz: ht.wide.then_some(40),
            ampdu_packets: Some(most_frames),
            ..Air::default()
        };
        let station = Station {
            mcs: Some(ht.mcs),
            short_gi: Some(ht.short_gi),
            queue_packets: ht.queue,
            ..Station::default()
        };
        for stations in [1, 2, 5] {
            let run = saturate(&air, &station, stations, payload)?;
            let model = bianchi(&ht.exchange(payload), stations, payload);
            println!(
                "  {:16}  {most_frames:6}  {:5}  {stations:8} {:7.2} {:8.2} {:+6.2} % {:11.2} {:7.2} %",
                ht.name,
                ht.queue,
                run.mbit,
                model.mbit,
                (run.mbit / model.mbit - 1.0) * 100.0,
                run.frames,
                run.collided * 100.0,
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
    /// In each transmission.
    frames: f64,
}

/// One transmission without a backoff, and what follows it until slots are counted again.
struct Exchange {
    slot_us: f64,
    us: f64,
    frames: f64,
}

fn saturate(air: &Air, station: &Station, stations: usize, payload: usize) -> Result<Outcome> {
    let mac = |number: usize| [2, 0, 0, 0, 0, number as u8];
    let mut ports: Vec<Port> = (1..=stations)
        .map(|number| Port {
            name: format!("s{number}"),
            mac: mac(number),
            side: Side::Air(station.clone()),
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
    let every = if station.mcs.is_some() { EVERY_HT } else { EVERY };
    for now in (0..SECONDS * 1_000_000_000).step_by(every as usize) {
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
    let transmissions: u64 = air.stations.iter().map(|sender| sender.transmissions).sum();
    let collided: u64 = air.stations.iter().map(|sender| sender.collisions).sum();
    Outcome {
        mbit: total * 8.0 / SECONDS as f64 / 1e6,
        jain: total * total / (bytes.len() as f64 * squares),
        collided: collided as f64 / attempts as f64,
        frames: attempts as f64 / transmissions as f64,
    }
}

/// Preamble, symbols and signal extension of 802.11g.
fn erp_us(bytes: usize, mbit: f64) -> f64 {
    20.0 + 4.0 * ((22.0 + 8.0 * bytes as f64) / (4.0 * mbit)).ceil() + 6.0
}

fn erp_exchange(air: &Air, payload: usize) -> Exchange {
    let slot_us = if air.long_slot { 20.0 } else { 9.0 };
    let (sifs, difs) = (10.0, 10.0 + 2.0 * slot_us);
    let protection = if air.cts_to_self { 192.0 + 14.0 * 8.0 / 11.0 + sifs } else { 0.0 };
    let data = erp_us(payload + HEADERS + 36, 54.0);
    Exchange { slot_us, us: protection + data + sifs + erp_us(14, 24.0) + difs, frames: 1.0 }
}

/// A link of 802.11n; the numbers that follow from the MCS are those of the standard's tables.
struct Ht {
    name: &'static str,
    mcs: u32,
    short_gi: bool,
    wide: bool,
    most_frames: u32,
    queue: u32,
    bits_per_symbol: f64,
    preamble_us: f64,
    answer_mbit: f64,
}

const MCS_7: Ht = Ht {
    name: "MCS 7",
    mcs: 7,
    short_gi: false,
    wide: false,
    most_frames: 64,
    queue: 100,
    bits_per_symbol: 260.0,
    preamble_us: 36.0,
    answer_mbit: 24.0,
};

const HT: [Ht; 8] = [
    Ht { name: "MCS 0", mcs: 0, bits_per_symbol: 26.0, answer_mbit: 6.0, ..MCS_7 },
    Ht { name: "MCS 3", mcs: 3, bits_per_symbol: 104.0, ..MCS_7 },
    MCS_7,
    Ht { most_frames: 1, ..MCS_7 },
    Ht { queue: 10, ..MCS_7 },
    Ht { name: "MCS 7, short GI", short_gi: true, ..MCS_7 },
    Ht { name: "MCS 7, 40 MHz", wide: true, bits_per_symbol: 540.0, ..MCS_7 },
    Ht { name: "MCS 15", mcs: 15, bits_per_symbol: 520.0, preamble_us: 40.0, ..MCS_7 },
];

impl Ht {
    /// As many equal frames as the queue and the limits of an A-MPDU allow.
    fn exchange(&self, payload: usize) -> Exchange {
        let mpdu = payload + HEADERS + 38;
        let subframe = (4 + mpdu).next_multiple_of(4);
        let bytes = |frames: u32| match frames {
            1 => mpdu,
            _ => subframe * (frames as usize - 1) + 4 + mpdu,
        };
        let us = |frames| {
            let symbols = ((22.0 + 8.0 * bytes(frames) as f64) / self.bits_per_symbol).ceil();
            let symbol = if self.short_gi { 3.6 } else { 4.0 };
            self.preamble_us + 4.0 * (symbol * symbols / 4.0).ceil() + 6.0
        };
        let fits = |frames: &u32| bytes(*frames) <= 65_535 && us(*frames) <= 5_484.0;
        let most = self.most_frames.min(self.queue);
        let frames = (2..=most).take_while(fits).last().unwrap_or(1);
        let answer = erp_us(if frames > 1 { 32 } else { 14 }, self.answer_mbit);
        let aifs = 10.0 + 3.0 * 9.0;
        Exchange { slot_us: 9.0, us: us(frames) + 10.0 + answer + aifs, frames: frames.into() }
    }
}

/// Bianchi, "Performance analysis of the IEEE 802.11 distributed coordination function", 2000:
/// equations 7, 9 and 13, for windows 16…1024.
fn bianchi(exchange: &Exchange, stations: usize, payload: usize) -> Outcome {
    const LEAST_WINDOW: f64 = 16.0;
    const DOUBLINGS: i32 = 6;
    let Exchange { slot_us, us, frames } = *exchange;

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
    let mean_slot = silent * slot_us + (1.0 - silent) * us;
    let mbit = one * frames * payload as f64 * 8.0 / mean_slot;
    Outcome { mbit, jain: 1.0, collided: low, frames }
}
