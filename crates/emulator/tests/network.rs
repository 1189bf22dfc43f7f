//! The path and the air in logical time.

use transom_emulator::log::AirLog;
use transom_emulator::plan::{
    Access, Air, Direction, Fading, Path, Plan, Port, Processor, Receive, SendingQueue, Side,
    Station,
};
use transom_emulator::{Delivery, Frame, Nanos, Network};

const MS: Nanos = 1_000_000;
const SECOND: Nanos = 1_000 * MS;
/// 1500 bytes from the IP header on.
const FULL: usize = 1514;

fn mac(port: usize) -> [u8; 6] {
    [2, 0, 0, 0, 0, port as u8]
}

fn frame(from: usize, to: [u8; 6], number: u32, length: usize) -> Frame {
    let mut bytes = vec![0; length];
    bytes[..6].copy_from_slice(&to);
    bytes[6..12].copy_from_slice(&mac(from));
    bytes[14..18].copy_from_slice(&number.to_be_bytes());
    Frame::new(bytes)
}

fn number_of(delivery: &Delivery) -> u32 {
    u32::from_be_bytes(delivery.frame.bytes()[14..18].try_into().expect("four bytes"))
}

fn network(seed: u64, air: Option<Air>, path: Path, sides: Vec<Side>) -> Network {
    let ports = sides.into_iter().enumerate().map(|(index, side)| Port {
        name: format!("h{index}"),
        mac: mac(index),
        side,
    });
    let plan = Plan { seed, air, path, ports: ports.collect(), ..Plan::default() };
    Network::new(&plan).expect("a valid plan")
}

/// A host before the path (0) and one beyond it (1).
fn wire(seed: u64, up: Direction) -> Network {
    network(seed, None, Path { up, ..Path::default() }, vec![Side::Near, Side::Far])
}

fn on_air(stations: usize) -> Vec<Side> {
    let mut sides = vec![Side::Far];
    sides.extend((0..stations).map(|_| Side::Air(Station::default())));
    sides
}

fn all(network: &mut Network, until: Nanos) -> Vec<Delivery> {
    let mut out = Vec::new();
    network.advance(until, &mut out);
    out
}

/// Which of 10,000 packets from near to far pass, `gap` apart.
fn passed(seed: u64, up: Direction, gap: Nanos) -> Vec<u32> {
    let mut network = wire(seed, up);
    let mut out = Vec::new();
    for number in 0..10_000 {
        let now = Nanos::from(number) * gap;
        network.advance(now, &mut out);
        network.arrive(now, 0, frame(0, mac(1), number, FULL));
    }
    network.advance(1_000 * SECOND, &mut out);
    out.iter().map(number_of).collect()
}

/// `seconds` with all of `pairs` sending full frames faster than the air carries; bytes of IP
/// that each pair got through.
fn saturate(network: &mut Network, pairs: &[(usize, usize)], seconds: u64) -> Vec<u64> {
    let mut bytes = vec![0; pairs.len()];
    let mut out = Vec::new();
    for now in (0..seconds * SECOND).step_by(250_000) {
        network.advance(now, &mut out);
        for (from, to) in pairs {
            network.arrive(now, *from, frame(*from, mac(*to), 0, FULL));
        }
        for delivery in out.drain(..) {
            let from = usize::from(delivery.frame.bytes()[11]);
            let pair = pairs.iter().position(|pair| *pair == (from, delivery.port));
            bytes[pair.expect("only these send")] += 1500;
        }
    }
    bytes
}

fn air_log(network: &Network) -> AirLog {
    network.air().expect("there is an air")
}

#[test]
fn the_round_trip_is_split_over_both_directions() {
    let up = Direction { delay_ms: 3.0, ..Direction::default() };
    let path = Path { rtt_ms: 20.0, up, ..Path::default() };
    let mut network = network(1, None, path, vec![Side::Near, Side::Far]);
    network.arrive(0, 0, frame(0, mac(1), 0, FULL));
    network.arrive(0, 1, frame(1, mac(0), 0, FULL));
    let out = all(&mut network, SECOND);
    assert_eq!(
        out.iter().map(|delivery| (delivery.port, delivery.at)).collect::<Vec<_>>(),
        [(0, 10 * MS), (1, 13 * MS)]
    );
}

#[test]
fn hosts_on_the_same_side_do_not_meet_the_path() {
    let path = Path { rtt_ms: 20.0, ..Path::default() };
    let mut network = network(1, None, path, vec![Side::Near, Side::Near, Side::Far, Side::Far]);
    network.arrive(5, 0, frame(0, mac(1), 0, FULL));
    network.arrive(5, 2, frame(2, mac(3), 0, FULL));
    assert!(all(&mut network, SECOND).iter().all(|delivery| delivery.at == 5));
}

#[test]
fn a_broadcast_reaches_everybody_else_once() {
    let mut sides = on_air(2);
    sides.push(Side::Near);
    let mut network = network(1, Some(Air::default()), Path::default(), sides);
    network.arrive(0, 1, frame(1, [0xff; 6], 0, 64));
    let mut ports: Vec<usize> =
        all(&mut network, SECOND).iter().map(|delivery| delivery.port).collect();
    ports.sort_unstable();
    assert_eq!(ports, [0, 2, 3], "not the sender, who hears itself relayed and discards it");
}

#[test]
fn frames_for_nobody_and_frames_too_short_are_counted() {
    let mut network = wire(1, Direction::default());
    network.arrive(0, 0, frame(0, mac(9), 0, 64));
    network.arrive(0, 0, frame(0, mac(0), 0, 64));
    network.arrive(0, 0, Frame::new(vec![0; 13]));
    network.arrive(0, 0, Frame::new(Vec::new()));
    assert_eq!(all(&mut network, SECOND), []);
    assert_eq!((network.totals().no_host, network.totals().malformed), (2, 2));
}

#[test]
fn the_rate_counts_bytes_from_the_ip_header_on() {
    let mut network = wire(1, Direction { rate_mbit: Some(12.0), ..Direction::default() });
    (0..3).for_each(|number| network.arrive(0, 0, frame(0, mac(1), number, FULL)));
    let at: Vec<Nanos> = all(&mut network, SECOND).iter().map(|delivery| delivery.at).collect();
    assert_eq!(at, [MS, 2 * MS, 3 * MS]);
}

#[test]
fn a_seed_fixes_which_packets_are_lost_whenever_they_come() {
    let up = Direction { loss: 0.01, ..Direction::default() };
    let slow = passed(1, up.clone(), MS);
    assert_eq!(slow, passed(1, up.clone(), 1_000));
    assert_ne!(slow, passed(2, up.clone(), MS));
    let also_delayed = Direction { delay_ms: 7.0, rate_mbit: Some(100.0), ..up };
    assert_eq!(slow, passed(1, also_delayed, MS), "other elements draw from other streams");
}

#[test]
fn losses_come_in_bursts_of_the_asked_length() {
    let up = Direction { loss: 0.1, loss_burst: Some(5.0), ..Direction::default() };
    let passed = passed(1, up, MS);
    let lost = 10_000 - passed.len();
    let bursts = passed.windows(2).filter(|pair| pair[1] > pair[0] + 1).count();
    let mean = lost as f64 / bursts as f64;
    assert!((700..1_300).contains(&lost), "{lost}");
    assert!((4.0..6.0).contains(&mean), "{mean}");
}

#[test]
fn duplicates_follow_their_original() {
    let up = Direction { duplicate: 0.1, ..Direction::default() };
    let passed = passed(1, up, MS);
    assert!((900..1_100).contains(&(passed.len() - 10_000)), "{}", passed.len());
    assert!(passed.windows(2).all(|pair| pair[1] == pair[0] || pair[1] == pair[0] + 1));
}

#[test]
fn reordered_packets_are_passed_by_those_sent_while_they_are_held() {
    let up = Direction { reorder: 0.01, reorder_ms: 3.5, ..Direction::default() };
    let passed = passed(1, up, MS);
    assert_eq!(passed.len(), 10_000);
    let late = passed.windows(2).filter(|pair| pair[1] < pair[0]).count();
    assert!((70..130).contains(&late), "{late}");
    let position = passed.windows(5).find(|five| five[4] < five[0]).expect("one was held");
    assert_eq!(position[3] - position[4], 3, "three were sent within 3.5 ms");
}

#[test]
fn one_station_alone_sends_a_full_frame_each_393_microseconds_in_the_mean() {
    // DIFS 28, backoff 7.5 slots of 9, data 254, SIFS 10, ACK 34: 393.5 µs.
    let mut network = network(1, Some(Air::default()), Path::default(), on_air(1));
    let bytes = saturate(&mut network, &[(1, 0)], 10);
    let mbit = bytes[0] as f64 * 8.0 / 10e6;
    assert!((mbit / (1500.0 * 8.0 / 393.5) - 1.0).abs() < 0.005, "{mbit}");
    assert_eq!(air_log(&network).collisions, 0);
}

#[test]
fn an_idle_air_is_taken_at_once() {
    let mut network = network(1, Some(Air::default()), Path::default(), on_air(1));
    network.arrive(MS, 1, frame(1, mac(0), 0, FULL));
    assert_eq!(all(&mut network, SECOND)[0].at, MS + 254_000);
}

#[test]
fn both_directions_share_the_same_air() {
    let mut network = network(1, Some(Air::default()), Path::default(), on_air(2));
    let bytes = saturate(&mut network, &[(1, 0), (0, 2)], 10);
    let mbit: Vec<f64> = bytes.iter().map(|bytes| *bytes as f64 * 8.0 / 10e6).collect();
    assert!((mbit[0] / mbit[1] - 1.0).abs() < 0.03, "the access point is one sender: {mbit:?}");
    assert!(mbit[0] + mbit[1] < 31.5, "{mbit:?}");
}

#[test]
fn stations_collide_and_still_share_evenly() {
    let mut network = network(1, Some(Air::default()), Path::default(), on_air(4));
    let bytes = saturate(&mut network, &[(1, 0), (2, 0), (3, 0), (4, 0)], 10);
    let mean = bytes.iter().sum::<u64>() as f64 / 4.0;
    assert!(bytes.iter().all(|bytes| (*bytes as f64 / mean - 1.0).abs() < 0.05), "{bytes:?}");
    let log = air_log(&network);
    let attempts: u64 = log.stations.iter().map(|station| station.frames).sum();
    let collided: u64 = log.stations.iter().map(|station| station.collisions).sum();
    let share = collided as f64 / attempts as f64;
    assert!((0.21..0.25).contains(&share), "Bianchi's model says 0.231: {share}");
}

#[test]
fn a_slow_station_costs_the_fast_one_its_rate() {
    // The anomaly of 802.11: each gets as many frames, not as much time.
    let mut sides = on_air(1);
    sides.push(Side::Air(Station { phy_mbit: 6, ..Station::default() }));
    let mut network = network(1, Some(Air::default()), Path::default(), sides);
    let bytes = saturate(&mut network, &[(1, 0), (2, 0)], 20);
    assert!((bytes[0] as f64 / bytes[1] as f64 - 1.0).abs() < 0.05, "{bytes:?}");
    let log = air_log(&network);
    assert!(log.stations[1].airtime_s > 5.0 * log.stations[0].airtime_s, "{log:?}");
}

#[test]
fn round_robin_never_collides() {
    let air = Air { access: Access::RoundRobin, ..Air::default() };
    let mut network = network(1, Some(air), Path::default(), on_air(4));
    let bytes = saturate(&mut network, &[(1, 0), (2, 0), (3, 0), (4, 0)], 5);
    assert_eq!(air_log(&network).collisions, 0);
    let (least, most) = (bytes.iter().min(), bytes.iter().max());
    assert!(most.unwrap() - least.unwrap() <= 1500, "{bytes:?}");
}

#[test]
fn frame_errors_cost_retries_and_at_the_limit_the_frame() {
    let air = Air { retry_limit: Some(2), ..Air::default() };
    let station = Station { frame_errors_up: 0.5, ..Station::default() };
    let sides = vec![Side::Far, Side::Air(station)];
    let mut network = network(1, Some(air), Path::default(), sides);
    saturate(&mut network, &[(1, 0)], 10);
    let sender = air_log(&network).stations[0].clone();
    let share = |part: u64, whole: u64| part as f64 / whole as f64;
    assert!((share(sender.frame_errors, sender.frames) - 0.5).abs() < 0.01, "{sender:?}");
    let lost = share(sender.retry_drops, sender.arrived + sender.retry_drops);
    assert!((lost - 0.25).abs() < 0.01, "half of a half: {lost}");
    assert_eq!(network.totals().retry_drops, sender.retry_drops);
}

#[test]
fn frame_errors_towards_a_station_are_those_of_the_access_points_frames() {
    let station = Station { frame_errors_down: 0.2, ..Station::default() };
    let sides = vec![Side::Far, Side::Air(station), Side::Air(Station::default())];
    let mut network = network(1, Some(Air::default()), Path::default(), sides);
    saturate(&mut network, &[(0, 1), (2, 0)], 5);
    let log = air_log(&network);
    let sender = &log.access_point;
    let share = sender.frame_errors as f64 / (sender.frames - sender.collisions) as f64;
    assert!((share - 0.2).abs() < 0.02, "{share}");
    assert_eq!(log.stations[1].frame_errors, 0);
}

#[test]
fn a_fade_takes_both_directions_of_one_station_and_passes() {
    let fading = Fading { every_ms: 100.0, lasts_ms: 25.0, errors_up: 1.0, errors_down: 1.0 };
    let faded = Station { fading: Some(fading), ..Station::default() };
    let sides = vec![Side::Far, Side::Air(faded), Side::Air(Station::default())];
    let mut network = network(1, Some(Air::default()), Path::default(), sides);
    saturate(&mut network, &[(1, 0), (0, 1), (2, 0)], 20);
    let log = air_log(&network);
    let (faded, other) = (&log.stations[0], &log.stations[1]);
    assert!(faded.retry_drops > 30 && log.access_point.retry_drops > 30, "{log:?}");
    assert!(faded.arrived > 1000, "most of the time it is well");
    assert_eq!(other.frame_errors, 0, "the other's link is its own");
}

#[test]
fn fades_do_not_depend_on_what_is_sent() {
    let fading = Fading { every_ms: 100.0, lasts_ms: 50.0, errors_up: 1.0, errors_down: 1.0 };
    let station = Station { fading: Some(fading), ..Station::default() };
    let air = Air { retry_limit: Some(1), ..Air::default() };
    let passes_at = |apart: u64| -> Vec<u64> {
        let sides = vec![Side::Far, Side::Air(station.clone())];
        let mut network = network(7, Some(air.clone()), Path::default(), sides);
        (0..2 * SECOND / apart)
            .filter(|number| {
                let now = number * apart;
                network.arrive(now, 1, frame(1, mac(0), 0, FULL));
                !all(&mut network, now + apart - 1).is_empty()
            })
            .map(|number| number * apart)
            .collect()
    };
    let (often, seldom) = (passes_at(5_000_000), passes_at(20_000_000));
    let both: Vec<u64> = often.into_iter().filter(|at| at % 20_000_000 == 0).collect();
    assert_eq!(both, seldom);
    assert!((20..80).contains(&seldom.len()), "half of 100: {}", seldom.len());
}

#[test]
fn the_access_point_serves_its_stations_in_turn() {
    let mut network = network(1, Some(Air::default()), Path::default(), on_air(2));
    for number in 0..20 {
        network.arrive(0, 0, frame(0, mac(1 + usize::from(number >= 10)), number, FULL));
    }
    let ports: Vec<usize> =
        all(&mut network, SECOND).iter().map(|delivery| delivery.port).collect();
    assert_eq!(ports, [1, 2].repeat(10), "though all for the first came before");
}

#[test]
fn a_cts_to_self_takes_the_air_before_each_frame() {
    let air = Air { cts_to_self: true, ..Air::default() };
    let mut network = network(1, Some(air), Path::default(), on_air(1));
    network.arrive(0, 1, frame(1, mac(0), 0, FULL));
    let at = all(&mut network, SECOND)[0].at;
    assert_eq!(at, 28_000 + 202_182 + 10_000 + 254_000, "DIFS, CTS, SIFS, data");
}

#[test]
fn a_receiver_short_of_resources_loses_what_its_ring_cannot_hold() {
    let receive = Some(Receive { rate_mbit: 1.0, queue_packets: 3 });
    let sides = vec![Side::Far, Side::Air(Station { receive, ..Station::default() })];
    let mut network = network(1, Some(Air::default()), Path::default(), sides);
    (0..10).for_each(|number| network.arrive(0, 0, frame(0, mac(1), number, FULL)));
    let out = all(&mut network, SECOND);
    assert_eq!(out.iter().map(number_of).collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert_eq!(out[3].at - out[2].at, 12 * MS, "one packet each 12 ms at 1 Mbit/s");
    assert_eq!(air_log(&network).stations[0].receive_drops, 6);
    assert_eq!(air_log(&network).access_point.retry_drops, 0, "lost after the air's ACK");
}

/// A far host (0) and a station with this driver (1).
fn with_driver(radio: u32, queue: SendingQueue, processor: Option<Processor>) -> Network {
    let station = Station {
        queue_packets: radio,
        sending_queue: Some(queue),
        processor,
        ..Station::default()
    };
    network(1, Some(Air::default()), Path::default(), vec![Side::Far, Side::Air(station)])
}

#[test]
fn a_driver_loses_what_its_queue_cannot_hold_and_the_radio_nothing() {
    let mut network = with_driver(1, SendingQueue { packets: 3, rate_mbit: Some(1.0) }, None);
    (0..10).for_each(|number| network.arrive(0, 1, frame(1, mac(0), number, FULL)));
    let out = all(&mut network, SECOND);
    assert_eq!(out.iter().map(number_of).collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert_eq!(out[3].at - out[2].at, 12 * MS, "one packet each 12 ms at 1 Mbit/s");
    let station = &air_log(&network).stations[0];
    assert_eq!((station.sending_queue_drops, station.queue_drops), (6, 0));
    assert_eq!(network.totals().sending_queue_drops, 6);
}

#[test]
fn a_full_radio_holds_its_driver_back() {
    let mut network = with_driver(2, SendingQueue { packets: 5, rate_mbit: None }, None);
    (0..10).for_each(|number| network.arrive(0, 1, frame(1, mac(0), number, FULL)));
    let out = all(&mut network, SECOND);
    assert_eq!(out.iter().map(number_of).collect::<Vec<_>>(), (0..7).collect::<Vec<_>>());
    let station = &air_log(&network).stations[0];
    assert_eq!((station.sending_queue_drops, station.queue_drops), (3, 0));
}

#[test]
fn a_frame_on_the_air_has_left_its_place_in_the_radio_to_the_next() {
    // The first is in the radio, the second in the sending queue; both have room for one.
    let third_is_lost = |at| {
        let mut network = with_driver(1, SendingQueue { packets: 1, rate_mbit: None }, None);
        (0..2).for_each(|number| network.arrive(0, 1, frame(1, mac(0), number, FULL)));
        let mut out = Vec::new();
        network.advance(at, &mut out);
        assert_eq!(out, [], "the first has not arrived");
        network.arrive(at, 1, frame(1, mac(0), 2, FULL));
        all(&mut network, SECOND);
        air_log(&network).stations[0].sending_queue_drops == 1
    };
    // An idle air is taken after DIFS: two slots of 9 us after SIFS, 10 us.
    assert!(third_is_lost(27_999));
    assert!(!third_is_lost(28_000), "the second was transferred when the first began");
}

/// Frames that arrive in a second of those that the station's kernel sends this far apart.
fn arrived_each_second(apart: Nanos) -> usize {
    let processor = Processor { send_us: 500.0, transfer_us: 500.0, receive_us: 0.0 };
    let queue = SendingQueue { packets: 10, rate_mbit: None };
    let mut network = with_driver(10, queue, Some(processor));
    let mut out = Vec::new();
    for number in 0..10 * SECOND / apart {
        let now = number * apart;
        network.advance(now, &mut out);
        network.arrive(now, 1, frame(1, mac(0), number as u32, FULL));
    }
    out.len() / 10
}

#[test]
fn what_a_kernel_sends_too_much_costs_the_time_to_transfer() {
    assert!((995..=1_000).contains(&arrived_each_second(MS)), "all that the processor can do");
    // Of each 0.6 ms 0.5 are for taking the packet, and 0.1 are left for transferring.
    let flooded = arrived_each_second(600_000);
    assert!((325..=340).contains(&flooded), "{flooded}");
}

#[test]
fn receiving_and_transferring_take_turns_of_two_packets() {
    let processor = Processor { send_us: 0.0, transfer_us: 1_000.0, receive_us: 1_000.0 };
    let queue = SendingQueue { packets: 10, rate_mbit: None };
    let mut network = with_driver(10, queue, Some(processor));
    (0..6).for_each(|number| network.arrive(0, 1, frame(1, mac(0), number, FULL)));
    // All of them are on the air before the second transfer ends.
    (10..16).for_each(|number| network.arrive(0, 0, frame(0, mac(1), number, 64)));
    let out = all(&mut network, SECOND);
    let sent = |delivery: &&Delivery| delivery.port == 0;
    let turns: Vec<u64> = out.iter().filter(sent).map(|delivery| delivery.at / MS).collect();
    assert_eq!(turns, [1, 2, 5, 6, 9, 10], "each frame is on the air less than 1 ms");
    let received: Vec<Nanos> =
        out.iter().filter(|delivery| delivery.port == 1).map(|delivery| delivery.at).collect();
    assert_eq!(received, [3, 4, 7, 8, 11, 12].map(|ms| ms * MS));
}

#[test]
fn stations_send_to_each_other_over_the_air_twice() {
    let mut network = network(1, Some(Air::default()), Path::default(), on_air(2));
    network.arrive(0, 1, frame(1, mac(2), 0, FULL));
    assert_eq!(all(&mut network, SECOND).len(), 1);
    assert_eq!(air_log(&network).accesses, 2);
}

#[test]
fn queue_lengths_are_sampled_where_they_change() {
    let up = Direction { rate_mbit: Some(1.2), queue_packets: Some(5), ..Direction::default() };
    let mut network = wire(1, up);
    let mut out = Vec::new();
    (0..10).for_each(|number| network.arrive(0, 0, frame(0, mac(1), number, FULL)));
    network.advance(SECOND, &mut out);
    let queues = network.queues();
    assert_eq!(queues.len(), 1);
    assert_eq!(queues[0].name, "path up");
    assert_eq!(queues[0].packets, [5, 4, 3, 2, 1, 0], "10 ms a packet");
    assert_eq!(network.up().queue_drops, 4);
}

/// A near host (0) and a cellular host (1), and where both want to go (2).
fn two_ways(own: Path) -> Network {
    let path = Path { rtt_ms: 20.0, ..Path::default() };
    network(1, None, path, vec![Side::Near, Side::Cellular(own), Side::Far])
}

#[test]
fn a_cellular_host_reaches_the_far_ones_by_its_own_path_and_no_other() {
    let slow = |rate| Direction { rate_mbit: Some(rate), ..Direction::default() };
    let mut network = two_ways(Path { rtt_ms: 8.0, up: slow(12.0), down: slow(24.0) });
    // 1500 bytes take 1 ms up and half of it down.
    network.arrive(0, 1, frame(1, mac(2), 1, FULL));
    network.arrive(0, 2, frame(2, mac(1), 2, FULL));
    network.arrive(0, 0, frame(0, mac(2), 3, FULL));
    let out = all(&mut network, SECOND);
    let got: Vec<_> = out.iter().map(|d| (number_of(d), d.port, d.at)).collect();
    assert_eq!(got, [(2, 1, 4 * MS + MS / 2), (1, 2, 5 * MS), (3, 2, 10 * MS)]);
    let own = &network.cellular()[0];
    assert_eq!((own.name.as_str(), own.up.passed, own.down.passed), ("h1", 1, 1));
    assert_eq!((network.up().passed, network.down().passed), (1, 0));
}

#[test]
fn between_a_near_and_a_cellular_host_lie_both_paths() {
    let mut network = two_ways(Path { rtt_ms: 8.0, ..Path::default() });
    network.arrive(0, 0, frame(0, mac(1), 1, FULL));
    network.arrive(0, 1, frame(1, mac(0), 2, FULL));
    let out = all(&mut network, SECOND);
    assert_eq!(
        out.iter().map(|d| (d.port, d.at)).collect::<Vec<_>>(),
        [(1, 14 * MS), (0, 14 * MS)]
    );
}

#[test]
fn nobody_floods_a_cellular_host() {
    let mut network = two_ways(Path::default());
    network.arrive(0, 0, frame(0, [0xff; 6], 1, 60));
    network.arrive(0, 2, frame(2, [0xff; 6], 2, 60));
    let ports: Vec<_> = all(&mut network, SECOND).iter().map(|d| d.port).collect();
    assert_eq!(ports, [2, 0]);
}
