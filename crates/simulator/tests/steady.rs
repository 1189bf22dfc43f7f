//! `steady` without a target: what it finds of a path, and what it leaves to others. Each with the
//! algorithm that fails in its place.

mod bed;

use bed::{flow, host, run, scenario, seconds};
use transom_emulator::plan::{Direction, Path, Port, Side};
use transom_scenario::{Flow, Host, Scenario};

/// Of a rate, the share that is payload: 1448 of each 1500 bytes from the IP header on.
const PAYLOAD: f64 = 1448.0 / 1500.0;

fn under(mut scenario: Scenario, algorithm: &str) -> Scenario {
    for (key, value) in
        [("ipv4.tcp_congestion_control", algorithm), ("ipv4.tcp_wmem", "4096 16384 33554432")]
    {
        host(&mut scenario, "a").sysctl.insert(key.to_owned(), value.to_owned());
    }
    let window = ("ipv4.tcp_rmem".to_owned(), "4096 131072 33554432".to_owned());
    host(&mut scenario, "b").sysctl.extend([window]);
    scenario.record = false;
    scenario
}

fn goodput(scenario: &Scenario, algorithm: &str) -> f64 {
    run(&under(scenario.clone(), algorithm)).flow().goodput_mbit().unwrap()
}

/// Mbit/s in each second.
fn by_second(scenario: &Scenario, algorithm: &str) -> Vec<f64> {
    let ran = run(&under(scenario.clone(), algorithm));
    ran.flow().per_second.iter().map(|&bytes| bytes as f64 * 8e-6).collect()
}

fn mean(of: &[f64]) -> f64 {
    of.iter().sum::<f64>() / of.len() as f64
}

/// Waits in the queue of the way there, mean, ms.
fn waits(scenario: &Scenario, algorithm: &str) -> f64 {
    run(&under(scenario.clone(), algorithm)).links().up.queue_delay.mean_ms
}

#[test]
fn losses_that_change_no_rate_cost_no_rate() {
    for (mbit, rtt_ms) in [(20.0, 48.0), (20.0, 200.0), (5.0, 96.0)] {
        let mut lossy = scenario(mbit, rtt_ms, seconds(30.0));
        lossy.links.path.up.loss = 0.01;
        let (steady, cubic) = (goodput(&lossy, "steady"), goodput(&lossy, "cubic"));
        assert!(steady > 0.85 * mbit * PAYLOAD, "{steady} of {mbit} Mbit/s over {rtt_ms} ms");
        assert!(cubic < 0.6 * steady, "the control: cubic has {cubic}");
    }
}

#[test]
fn alone_it_fills_the_path_and_not_the_queue() {
    let mut long = scenario(20.0, 40.0, seconds(30.0));
    long.links.path.up.queue_packets = Some(600);
    assert!(goodput(&long, "steady") > 0.97 * 20.0 * PAYLOAD);
    let (steady, cubic) = (waits(&long, "steady"), waits(&long, "cubic"));
    assert!(steady < 0.25 * 40.0, "packets wait {steady} ms");
    assert!(cubic > 100.0, "the control: with cubic they wait {cubic} ms");
}

/// Another host, `c`, sends to `b` under CUBIC all the time.
fn beside_cubic(mbit: f64, rtt_ms: f64, queue_packets: u32) -> Scenario {
    let mut shared = scenario(mbit, rtt_ms, seconds(60.0));
    shared.most_seconds = 70.0;
    shared.links.path.up.queue_packets = Some(queue_packets);
    let mac = [2, 0, 0, 0, 0, 3];
    shared.links.ports.push(Port { name: "c".into(), mac, side: Side::Near });
    let addresses = vec![[10, 77, 0, 3].into()];
    shared.hosts.insert("c".to_owned(), Host { addresses, ..Host::default() });
    let its = Flow { from: "c".into(), port: 5002, ..flow(&mut shared).clone() };
    shared.flows.insert("other".to_owned(), its);
    shared
}

/// The same beside BBR.
fn beside_bbr(mbit: f64, rtt_ms: f64, queue_packets: u32) -> Scenario {
    let mut shared = beside_cubic(mbit, rtt_ms, queue_packets);
    let bbr = ("ipv4.tcp_congestion_control".to_owned(), "bbr".to_owned());
    host(&mut shared, "c").sysctl.extend([bbr]);
    shared
}

/// What the other gets, of what it gets beside another CUBIC.
fn left(shared: &Scenario, algorithm: &str) -> f64 {
    let other = |algorithm| {
        let ran = run(&under(shared.clone(), algorithm));
        ran.outcome().flows["other"].goodput_mbit().unwrap()
    };
    other(algorithm) / other("cubic")
}

#[test]
fn cubic_beside_it_keeps_its_share() {
    for (mbit, rtt_ms, queue_packets) in [(20.0, 40.0, 70), (20.0, 40.0, 300), (50.0, 80.0, 330)] {
        let shared = beside_cubic(mbit, rtt_ms, queue_packets);
        let kept = left(&shared, "steady");
        assert!(kept >= 0.8, "{kept} at {mbit} Mbit/s, {rtt_ms} ms, {queue_packets} packets");
    }
    let control = left(&beside_cubic(20.0, 40.0, 70), "bbr");
    assert!(control < 0.8, "the control: beside BBR it keeps {control}");
}

#[test]
fn it_takes_a_share_of_a_long_queue_that_others_fill() {
    let ran = run(&under(beside_cubic(20.0, 40.0, 300), "steady"));
    let own = ran.flow().goodput_mbit().unwrap();
    assert!(own > 0.25 * 20.0 * PAYLOAD, "{own} of 20 Mbit/s");
}

#[test]
fn losses_that_stay_when_it_gives_way_do_not_starve_it() {
    let shallow = beside_bbr(5.0, 20.0, 4);
    let mut policed = beside_bbr(20.0, 20.0, 100);
    let up = &mut policed.links.path.up;
    (up.police_mbit, up.police_burst_bytes) = (Some(10.0), Some(60_000));
    for (what, mbit, shared) in [("a shallow queue", 5.0, shallow), ("a policer", 10.0, policed)] {
        let (steady, cubic) = (goodput(&shared, "steady"), goodput(&shared, "cubic"));
        assert!(steady > 0.15 * mbit * PAYLOAD, "{what}: {steady} of {mbit} Mbit/s");
        assert!(cubic < 0.5 * steady, "the control: cubic has {cubic}");
    }
}

#[test]
fn the_queue_of_others_is_seen_where_round_trips_are_short() {
    let shared = beside_cubic(100.0, 0.2, 30);
    let steady = goodput(&shared, "steady");
    assert!(steady > 0.4 * 100.0 * PAYLOAD, "{steady} of 100 Mbit/s");
    let kept = left(&shared, "steady");
    assert!(kept >= 0.8, "CUBIC keeps {kept}");
}

#[test]
fn a_rate_that_falls_and_rises_is_followed() {
    let mut changing = scenario(20.0, 40.0, seconds(40.0));
    let rates = vec![(0.0, 20.0), (10.0, 2.0), (25.0, 20.0)];
    let up = Direction { rates, queue_packets: Some(130), ..Direction::default() };
    changing.links.path = Path { up, ..changing.links.path };
    let got = by_second(&changing, "steady");
    assert!(mean(&got[15..24]) > 0.9 * 2.0 * PAYLOAD, "{got:?}");
    assert!(mean(&got[28..39]) > 0.95 * 20.0 * PAYLOAD, "{got:?}");
}

#[test]
fn a_route_that_becomes_longer_is_not_taken_for_a_queue() {
    let mut moved = scenario(20.0, 20.0, seconds(40.0));
    moved.links.path.up.delays = vec![(0.0, 0.0), (10.0, 100.0)];
    moved.links.path.up.queue_packets = Some(200);
    let got = by_second(&moved, "steady");
    assert!(mean(&got[12..39]) > 0.95 * 20.0 * PAYLOAD, "{got:?}");
}

#[test]
fn after_a_link_that_stood_still_it_goes_on_at_once() {
    let mut stopped = scenario(20.0, 40.0, seconds(25.0));
    let rates = vec![(0.0, 20.0), (10.0, 0.0), (13.0, 20.0)];
    let up = Direction { rates, queue_packets: Some(130), ..Direction::default() };
    stopped.links.path = Path { up, ..stopped.links.path };
    let (steady, bbr) = (by_second(&stopped, "steady"), by_second(&stopped, "bbr"));
    assert!(mean(&steady[14..20]) > 0.9 * 20.0 * PAYLOAD, "{steady:?}");
    assert!(mean(&bbr[14..20]) < 0.8 * 20.0 * PAYLOAD, "the control: {bbr:?}");
}

#[test]
fn behind_a_policer_it_sends_at_the_policed_rate() {
    let mut policed = scenario(40.0, 100.0, seconds(30.0));
    let up = &mut policed.links.path.up;
    (up.police_mbit, up.police_burst_bytes) = (Some(10.0), Some(60_000));
    let ran = run(&under(policed, "steady"));
    let up = ran.links().up;
    assert!(ran.flow().goodput_mbit().unwrap() > 0.85 * 10.0 * PAYLOAD);
    assert!(up.policed * 8 < up.packets, "{} of {} packets dropped", up.policed, up.packets);
}

#[test]
fn with_a_target_it_is_the_papers_tcp() {
    let window = |target: &str| {
        let mut aimed = scenario(20.0, 100.0, seconds(10.0));
        let word = ("ipv4.tcp_steady_target".to_owned(), target.to_owned());
        host(&mut aimed, "a").sysctl.extend([word]);
        goodput(&aimed, "steady")
    };
    let (free, aimed) = (window("0"), window("30"));
    assert!(aimed < 0.6 * free, "30 segments, and one more each round trip: {aimed} and {free}");
}
