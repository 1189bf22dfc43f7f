//! The emulator between real kernels: namespaces, TAP interfaces, UDP and TCP sockets.

mod hosts;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use hosts::{Hosts, at, ip, plan};
use transom_emulator::plan::{Air, Direction, Discipline, Kind, Path, Side, Station};
use transom_emulator::start;
use transom_testbed::needs_root;

const PORT: u16 = 7000;
/// Longer than anything here is on its way.
const PATIENCE: Duration = Duration::from_secs(3);

fn between(path: Path) -> Hosts {
    Hosts::start(&plan(1, None, path, vec![Side::Near, Side::Far])).expect("hosts")
}

fn stations(number: usize) -> Hosts {
    let mut sides = vec![Side::Far];
    sides.extend((0..number).map(|_| Side::Air(Station::default())));
    Hosts::start(&plan(1, Some(Air::default()), Path::default(), sides)).expect("hosts")
}

fn socket(hosts: &Hosts, host: usize) -> UdpSocket {
    let socket = hosts.udp(host, PORT).expect("a socket");
    socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    socket
}

fn send_number(from: &UdpSocket, to: usize, number: u32, length: usize) {
    let mut payload = vec![0; length];
    payload[..4].copy_from_slice(&number.to_be_bytes());
    from.send_to(&payload, at(to, PORT)).expect("sent");
}

/// The next datagram's number; none: nothing came for long.
fn receive_number(socket: &UdpSocket) -> Option<u32> {
    let mut buffer = [0; 2048];
    let length = socket.recv(&mut buffer).ok()?;
    (length >= 4).then(|| u32::from_be_bytes(buffer[..4].try_into().expect("four bytes")))
}

/// Sends numbers 0.. in groups, reads what comes out, and says which came.
fn passed(hosts: &Hosts, number: u32, group: u32) -> Vec<u32> {
    let (near, far) = (socket(hosts, 0), socket(hosts, 1));
    let mut came = Vec::new();
    for first in (0..number).step_by(group as usize) {
        (first..number.min(first + group)).for_each(|n| send_number(&near, 1, n, 100));
        // The last of a group may be lost itself: then a pause ends it.
        far.set_read_timeout(Some(Duration::from_millis(20))).expect("a timeout");
        while let Some(one) = receive_number(&far) {
            came.push(one);
            if one == first + group - 1 {
                break;
            }
        }
    }
    came
}

#[test]
fn a_packet_takes_the_round_trip_and_never_less() {
    needs_root!();
    let hosts = between(Path { rtt_ms: 30.0, ..Path::default() });
    let (near, far) = (socket(&hosts, 0), socket(&hosts, 1));
    for number in 0..10 {
        let before = Instant::now();
        send_number(&near, 1, number, 100);
        assert_eq!(receive_number(&far), Some(number));
        send_number(&far, 0, number, 100);
        assert_eq!(receive_number(&near), Some(number));
        let took = before.elapsed();
        assert!(took >= Duration::from_millis(30), "{took:?}");
    }
    let log = hosts.stop().expect("a log");
    assert_eq!((log.up.passed, log.down.passed), (10, 10));
    assert_eq!(log.totals.inside(), 0);
    assert_eq!(log.lateness.packets, 20);
}

#[test]
fn packets_come_no_faster_than_the_rate_and_the_queue_drops_the_rest() {
    needs_root!();
    let up = Direction { rate_mbit: Some(8.0), queue_packets: Some(49), ..Direction::default() };
    let hosts = between(Path { up, ..Path::default() });
    let (near, far) = (socket(&hosts, 0), socket(&hosts, 1));
    // 1000 bytes from the IP header on: one millisecond each.
    let began = Instant::now();
    (0..200).for_each(|number| send_number(&near, 1, number, 972));
    let mut times = Vec::new();
    far.set_read_timeout(Some(Duration::from_millis(500))).expect("a timeout");
    while receive_number(&far).is_some() {
        times.push(Instant::now());
    }
    let log = hosts.stop().expect("a log");
    assert_eq!(times.len() as u64, log.up.passed);
    assert_eq!(log.up.passed + log.up.queue_drops, 200);
    assert!(times.len() >= 50, "{}", times.len());
    let took = times[times.len() - 1] - began;
    let least = Duration::from_millis(times.len() as u64);
    assert!(took >= least, "{took:?} of {least:?}");
    assert_eq!(log.queues[0].name, "path up");
}

/// IPv4 packets that the host's kernel took in with "congestion experienced".
fn marks_seen(hosts: &Hosts, host: usize) -> u64 {
    let mut command = hosts.command(host, "cat");
    let output = hosts::run(command.arg("/proc/net/netstat")).expect("the host's counters");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("IpExt: "));
    let (names, values) = (lines.next().expect("names"), lines.next().expect("values"));
    let of = names.split(' ').position(|name| name == "InCEPkts").expect("a kernel since 3.12");
    values.split(' ').nth(of).and_then(|value| value.parse().ok()).expect("a number")
}

#[test]
fn a_marked_packet_reaches_the_kernel_with_a_valid_checksum() {
    needs_root!();
    let discipline = Discipline { mark_packets: Some(5), ..Discipline::of(Kind::DropTail) };
    let rate_mbit = Some(8.0);
    let up = Direction { rate_mbit, discipline: Some(discipline), ..Direction::default() };
    for (ecn, marks) in [(0x02, true), (0x00, false)] {
        let hosts = between(Path { up: up.clone(), ..Path::default() });
        let (near, far) = (socket(&hosts, 0), socket(&hosts, 1));
        rustix::net::sockopt::set_ip_tos(&near, ecn).expect("the ECN field");
        (0..50).for_each(|number| send_number(&near, 1, number, 972));
        let came: Vec<u32> = std::iter::from_fn(|| receive_number(&far)).take(50).collect();
        assert_eq!(came.len(), 50, "the kernel drops what has a wrong checksum");
        let seen = marks_seen(&hosts, 1);
        let log = hosts.stop().expect("a log");
        assert_eq!(seen, log.up.marked);
        assert_eq!(seen > 0, marks, "{log:?}");
    }
}

#[test]
fn the_same_seed_loses_the_same_packets_whatever_the_pace() {
    needs_root!();
    let up = Direction { loss: 0.05, ..Direction::default() };
    let run = |group| {
        let hosts = between(Path { up: up.clone(), ..Path::default() });
        let came = passed(&hosts, 2_000, group);
        let log = hosts.stop().expect("a log");
        assert_eq!(log.up.lost + came.len() as u64, 2_000, "all losses are the path's");
        came
    };
    let came = run(50);
    assert!((1_860..1_940).contains(&came.len()), "{}", came.len());
    assert_eq!(came, run(20));
}

#[test]
fn what_changes_over_time_and_what_is_counted_begin_anew_together() {
    needs_root!();
    let up = Direction { delays: vec![(0.0, 150.0), (0.4, 0.0)], ..Direction::default() };
    let hosts = between(Path { up, ..Path::default() });
    let (near, far) = (socket(&hosts, 0), socket(&hosts, 1));
    let way = |number| {
        let before = Instant::now();
        send_number(&near, 1, number, 100);
        assert_eq!(receive_number(&far), Some(number));
        before.elapsed()
    };
    std::thread::sleep(Duration::from_millis(500));
    let later = way(1);
    assert!(later < Duration::from_millis(150), "{later:?}: the delay has gone by then");
    hosts.running().begin_anew().expect("it runs");
    let at_first = way(2);
    assert!(at_first >= Duration::from_millis(150), "{at_first:?}");
    let log = hosts.stop().expect("a log");
    assert_eq!((log.up.packets, log.up.passed), (1, 1), "what came before is of another time");
    assert_eq!((log.ports[0].packets_in, log.ports[1].packets_out), (1, 1));
}

#[test]
fn stations_share_the_air_and_its_capacity() {
    needs_root!();
    let hosts = stations(2);
    let server = socket(&hosts, 0);
    let senders: Vec<UdpSocket> = (1..=2).map(|host| socket(&hosts, host)).collect();
    let end = Instant::now() + Duration::from_secs(2);
    let sending = std::thread::spawn(move || {
        while Instant::now() < end {
            for sender in &senders {
                // Together 57 Mbit/s, about twice what the air carries.
                (0..5).for_each(|number| send_number(sender, 0, number, 1472));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    });
    while Instant::now() < end {
        receive_number(&server);
    }
    sending.join().expect("the senders");
    let log = hosts.stop().expect("a log");
    let air = log.air.expect("an air");
    let bytes: Vec<u64> = air.stations.iter().map(|station| station.arrived_bytes).collect();
    let mbit = bytes.iter().sum::<u64>() as f64 * 8.0 / log.wall_s / 1e6;
    assert!(mbit < 31.5, "{mbit} Mbit/s is more than the air has");
    assert!(bytes.iter().min() >= Some(&(bytes.iter().max().unwrap() / 2)), "{bytes:?}");
    assert!(air.collisions > 0);
    assert!(air.stations.iter().all(|station| station.queue_drops > 0), "{air:?}");
}

#[test]
fn tcp_arrives_whole_over_an_air_that_loses() {
    needs_root!();
    let station = Station { frame_errors_up: 0.3, frame_errors_down: 0.1, ..Station::default() };
    let sides = vec![Side::Far, Side::Air(station)];
    let up = Direction { loss: 0.01, duplicate: 0.01, ..Direction::default() };
    let path = Path { rtt_ms: 4.0, up, ..Path::default() };
    let hosts = Hosts::start(&plan(1, Some(Air::default()), path, sides)).expect("hosts");
    let listener = hosts.namespace(0).inside(|| TcpListener::bind((ip(0), PORT)));
    let listener = listener.expect("a listener");
    let sent: Vec<u8> = (0..500_000_u32).map(|n| ((n * 31) >> 3) as u8).collect();
    let copy = sent.clone();
    let stream = hosts.namespace(1).inside(|| TcpStream::connect((ip(0), PORT)));
    let mut stream = stream.expect("a connection");
    let sending = std::thread::spawn(move || stream.write_all(&copy));
    let mut received = Vec::new();
    listener.accept().expect("accepted").0.read_to_end(&mut received).expect("read");
    sending.join().expect("the sender").expect("sent");
    assert!(received == sent, "{} of {} bytes, or others", received.len(), sent.len());
    let log = hosts.stop().expect("a log");
    assert!(log.up.lost > 0 && log.up.duplicated > 0, "{:?}", log.up);
    assert!(log.air.expect("an air").stations[0].retries > 0);
}

#[test]
fn an_interface_that_vanishes_does_not_stop_the_others() {
    needs_root!();
    let sides = vec![Side::Near, Side::Far, Side::Far];
    let hosts = Hosts::start(&plan(1, None, Path::default(), sides)).expect("hosts");
    let (near, far) = (socket(&hosts, 0), socket(&hosts, 1));
    hosts.namespace(2).ip("link del eth0");
    let deadline = Instant::now() + Duration::from_secs(20);
    while !hosts.running().snapshot().ports.get(2).is_some_and(|port| port.vanished) {
        assert!(Instant::now() < deadline, "its TAP never vanished");
        std::thread::sleep(Duration::from_millis(20));
    }
    send_number(&near, 2, 1, 100);
    send_number(&near, 1, 2, 100);
    assert_eq!(receive_number(&far), Some(2));
    assert!(hosts.running().is_alive());
    let log = hosts.stop().expect("a log");
    assert!(log.ports[2].vanished && !log.ports[0].vanished);
    assert_eq!(log.ports[2].refused, 1);
}

#[test]
fn a_namespace_whose_name_is_deleted_goes_on_until_the_emulator_stops() {
    needs_root!();
    let mut hosts = between(Path::default());
    let (near, far) = (socket(&hosts, 0), socket(&hosts, 1));
    hosts.remove(1);
    send_number(&near, 1, 1, 100);
    assert_eq!(receive_number(&far), Some(1), "the TAP's descriptor holds the namespace");
    let log = hosts.stop().expect("a log");
    assert_eq!((log.ports[1].refused, log.ports[1].packets_out), (0, 1));
}

#[test]
fn an_interface_that_is_down_refuses_and_comes_back() {
    needs_root!();
    let hosts = between(Path::default());
    let (near, far) = (socket(&hosts, 0), socket(&hosts, 1));
    let link = |state| hosts.namespace(1).ip(&format!("link set eth0 {state}"));
    link("down");
    send_number(&near, 1, 1, 100);
    far.set_read_timeout(Some(Duration::from_millis(200))).expect("a timeout");
    assert_eq!(receive_number(&far), None);
    link("up");
    send_number(&near, 1, 2, 100);
    assert_eq!(receive_number(&far), Some(2));
    let log = hosts.stop().expect("a log");
    assert_eq!((log.ports[1].refused, log.ports[1].vanished), (1, false));
    assert_eq!(log.ports[1].packets_out, 1);
}

#[test]
fn a_run_that_is_dropped_leaves_nothing() {
    needs_root!();
    let hosts = between(Path::default());
    let paths = [hosts.namespace(0).path(), hosts.namespace(1).path()];
    assert!(paths.iter().all(|path| path.exists()));
    drop(hosts);
    assert!(!paths.iter().any(|path| path.exists()));
}

#[test]
fn a_plan_and_its_interfaces_must_fit() {
    let plan = plan(1, None, Path::default(), vec![Side::Near, Side::Far]);
    let error = start(&plan, Vec::new()).expect_err("no interfaces");
    assert_eq!(error.to_string(), "0 interfaces for 2 hosts");
}
