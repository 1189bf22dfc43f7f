//! The air of 802.11n: A-MPDUs, block ACK, and stations of 802.11g beside them.

#[expect(dead_code, reason = "these tests need no senders with congestion control")]
mod logical;

use logical::{FULL, SECOND, advance, mac, number_of, plan, segment};
use transom_emulator::log::{AirLog, SenderLog};
use transom_emulator::plan::{Access, Air, Path, Side, Standard, Station};
use transom_emulator::{Delivery, Frame, Nanos, Network};

const SERVER: usize = 0;
const FLOW: u16 = 1;

fn air() -> Air {
    Air { standard: Standard::N, ..Air::default() }
}

fn mcs(mcs: u32) -> Station {
    Station { mcs: Some(mcs), ..Station::default() }
}

/// A server beyond the path (0), and these stations.
fn network(air: Air, stations: Vec<Station>) -> Network {
    let sides = [Side::Far].into_iter().chain(stations.into_iter().map(Side::Air));
    let plan = plan(Path::default(), sides.collect());
    Network::new(&transom_emulator::plan::Plan { air: Some(air), ..plan }).expect("a valid plan")
}

fn packet(from: usize, to: usize, number: u64) -> Frame {
    segment(from, to, FLOW, false, number, FULL)
}

/// So many packets of one host to another at once, and all that arrives.
fn burst(network: &mut Network, (from, to): (usize, usize), packets: u64) -> Vec<Delivery> {
    for number in 0..packets {
        network.arrive(0, from, packet(from, to, number));
    }
    advance(network, 10 * SECOND)
}

fn log(network: &Network) -> AirLog {
    network.air().expect("there is an air")
}

/// Mbit/s, from IP on, of each station when all send to the server all the time.
fn saturate(network: &mut Network, stations: usize, seconds: u64) -> Vec<f64> {
    let mut mbit = vec![0.0; stations];
    for now in (0..seconds * SECOND).step_by(60_000) {
        for delivery in advance(network, now) {
            let station = usize::from(delivery.frame.bytes()[11]);
            mbit[station - 1] += FULL as f64 * 8.0 / 1e6 / seconds as f64;
        }
        for station in 1..=stations {
            network.arrive(now, station, packet(station, SERVER, 0));
        }
    }
    mbit
}

fn close(measured: f64, computed: f64) {
    assert!((measured / computed - 1.0).abs() < 0.01, "{measured} instead of {computed}");
}

fn arrival_times(out: &[Delivery]) -> Vec<Nanos> {
    let mut times: Vec<Nanos> = out.iter().map(|delivery| delivery.at).collect();
    times.dedup();
    times
}

fn in_order(out: &[Delivery]) -> bool {
    out.windows(2).all(|pair| number_of(&pair[0]) < number_of(&pair[1]))
}

#[test]
fn one_station_gets_what_the_times_of_its_exchange_say() {
    // AIFS and 7.5 slots, 28 subframes of 1544 bytes in 1331 symbols, SIFS, BlockAck.
    let cycle = 37.0 + 67.5 + (36.0 + 1331.0 * 4.0 + 6.0) + 10.0 + 38.0;
    let mut whole = network(air(), vec![mcs(7)]);
    close(saturate(&mut whole, 1, 10)[0], 28.0 * 12_000.0 / cycle);
    let sender = &log(&whole).stations[0];
    close(sender.mean_frames_per_transmission, 28.0);
}

#[test]
fn without_aggregation_one_station_gets_what_single_frames_and_acks_allow() {
    // 1538 bytes in 48 symbols, SIFS, ACK.
    let cycle = 37.0 + 67.5 + (36.0 + 48.0 * 4.0 + 6.0) + 10.0 + 34.0;
    let mut alone = network(Air { ampdu_packets: Some(1), ..air() }, vec![mcs(7)]);
    close(saturate(&mut alone, 1, 10)[0], 12_000.0 / cycle);
    let sender = &log(&alone).stations[0];
    assert_eq!(sender.frames, sender.transmissions);
}

#[test]
fn an_a_mpdu_holds_what_waits_when_the_medium_is_won() {
    let small = Station { queue_packets: 8, ..mcs(7) };
    let mut network = network(air(), vec![small]);
    saturate(&mut network, 1, 2);
    close(log(&network).stations[0].mean_frames_per_transmission, 8.0);
}

#[test]
fn a_frame_alone_is_sent_plain_after_aifs() {
    let mut network = network(air(), vec![mcs(7)]);
    let out = burst(&mut network, (1, SERVER), 1);
    assert_eq!(out[0].at, 37_000 + 36_000 + 48 * 4_000 + 6_000);
}

#[test]
fn a_lost_frame_delays_those_behind_it_and_is_retried_alone() {
    let lossy = Station { frame_errors_up: 0.1, ..mcs(15) };
    let mut network = network(air(), vec![lossy]);
    let out = burst(&mut network, (1, SERVER), 40);
    let sender = log(&network).stations[0].clone();
    assert_eq!(out.len(), 40);
    assert!(in_order(&out));
    let errors = sender.frame_errors;
    assert!((1..15).contains(&errors), "of 40 and some retries: {errors}");
    assert_eq!(sender.frames, 40 + errors, "only lost frames are sent again");
    assert_eq!(sender.retries, errors);
    let first = out.iter().filter(|delivery| delivery.at == out[0].at).count();
    assert!(first < 40, "the first lost frame holds back those behind it");
    let in_second = out[first..].iter().filter(|delivery| delivery.at == out[first].at).count();
    assert!(in_second > 1, "they come with it");
}

#[test]
fn without_errors_all_of_an_a_mpdu_arrives_at_once() {
    let mut network = network(air(), vec![mcs(15)]);
    let out = burst(&mut network, (1, SERVER), 40);
    assert_eq!((out.len(), arrival_times(&out).len()), (40, 1));
    assert_eq!(log(&network).stations[0].transmissions, 1);
}

#[test]
fn a_frame_that_was_given_up_does_not_stop_those_behind_it() {
    let lossy = Station { frame_errors_up: 0.5, ..mcs(7) };
    let mut network = network(Air { retry_limit: Some(2), ..air() }, vec![lossy]);
    saturate(&mut network, 1, 10);
    let SenderLog { frames, frame_errors, arrived, retry_drops, .. } = log(&network).stations[0];
    let share = |part: u64, whole: u64| part as f64 / whole as f64;
    assert!((share(frame_errors, frames) - 0.5).abs() < 0.01);
    assert!((share(retry_drops, arrived + retry_drops) - 0.25).abs() < 0.01, "a half of a half");
    let totals = network.totals();
    assert_eq!(totals.retry_drops, retry_drops);
    assert!(totals.inside() <= 100 + 64, "{totals:?}");
}

#[test]
fn errors_cost_throughput_in_proportion_not_whole_a_mpdus() {
    let goodput = |errors: f64| {
        let station = Station { frame_errors_up: errors, ..mcs(7) };
        saturate(&mut network(air(), vec![station]), 1, 5)[0]
    };
    let ratio = goodput(0.1) / goodput(0.0);
    assert!((0.85..0.92).contains(&ratio), "{ratio}; all 28 decoded: 0.9^28 = 0.05");
}

#[test]
fn the_access_point_aggregates_for_each_station_apart() {
    let mut network = network(air(), vec![mcs(7), mcs(7)]);
    for number in 0..20 {
        network.arrive(0, SERVER, packet(SERVER, 1 + number as usize % 2, number));
    }
    let out = advance(&mut network, SECOND);
    assert_eq!(out.len(), 20);
    let log = log(&network);
    assert_eq!(log.access_point.transmissions, 2);
    assert_eq!(log.access_point.mean_frames_per_transmission, 10.0);
    let [first, second] = [&log.stations[0], &log.stations[1]].map(|own| own.airtime_down_s);
    assert_eq!(first, second);
    assert!((first + second - log.access_point.airtime_s).abs() < 1e-9);
}

#[test]
fn group_frames_are_sent_one_by_one() {
    let mut network = network(air(), vec![mcs(7), mcs(7)]);
    let mut group = vec![0; 100];
    group[..6].copy_from_slice(&[0xff; 6]);
    group[6..12].copy_from_slice(&mac(SERVER));
    for _ in 0..5 {
        network.arrive(0, SERVER, Frame::new(group.clone()));
    }
    assert_eq!(advance(&mut network, SECOND).len(), 10, "each station hears each");
    assert_eq!(log(&network).access_point.transmissions, 5);
}

#[test]
fn a_station_of_802_11g_sends_single_frames_beside_one_that_aggregates() {
    let mut mixed = network(air(), vec![Station::default(), mcs(7)]);
    let mbit = saturate(&mut mixed, 2, 10);
    let [g, n] = [&log(&mixed).stations[0], &log(&mixed).stations[1]].map(Clone::clone);
    assert_eq!(g.frames, g.transmissions);
    assert!(n.mean_frames_per_transmission > 27.0, "{n:?}");
    // DIFS is one slot shorter than AIFS, so the old station is at an advantage in each access.
    assert!(g.transmissions > n.transmissions, "{g:?} {n:?}");
    assert!(mbit[1] > 10.0 * mbit[0], "{mbit:?}");
}

#[test]
fn without_stations_that_aggregate_an_air_of_802_11n_carries_what_that_of_802_11g_carries() {
    let carried = |standard| {
        let air = Air { standard, ..Air::default() };
        let mut network = network(air, vec![Station::default(), Station::default()]);
        (saturate(&mut network, 2, 3), log(&network).stations)
    };
    assert_eq!(carried(Standard::G), carried(Standard::N));
}

#[test]
fn round_robin_aggregates_too_and_never_collides() {
    let air = Air { access: Access::RoundRobin, ..air() };
    let mut network = network(air, vec![mcs(7), mcs(7), mcs(7)]);
    let mbit = saturate(&mut network, 3, 5);
    assert_eq!(log(&network).collisions, 0);
    assert!(mbit.iter().all(|own| (own / mbit[0] - 1.0).abs() < 0.01), "{mbit:?}");
    // PIFS instead of AIFS and a backoff.
    close(mbit.iter().sum(), 28.0 * 12_000.0 / (19.0 + 5366.0 + 48.0));
}
