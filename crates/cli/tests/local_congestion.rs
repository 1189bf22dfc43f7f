//! What a sender's own device refuses or drops is told from every loss and mark of the path: provoked
//! for real, and counted by `tc`, too.

use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown};
use std::time::Duration;

use transom_event::{CaState, Kind, Place, RetransmitReason, flags};
use transom_testbed::{
    Counters, Fate, Namespace, Path, Recording, Towards, Trace, Wire, device_drops, enters,
    hides_process_one, needs, needs_probes, pair, pair_at, queue_drops, receive_all, send_and_wait,
    settle, wait_for,
};

const DELAY: Duration = Duration::from_millis(5);

fn segments_of(trace: &Trace, reason: RetransmitReason) -> u64 {
    let events = trace.of(Kind::Retransmit);
    let told = events.iter().map(|event| event.retransmit());
    told.filter(|&(why, _)| why == Some(reason)).map(|(_, segments)| u64::from(segments)).sum()
}

/// A slow device with a queue of one packet, since TCP small queues would spare
/// a longer one. Only TCP goes through it, so that `tc` counts nothing else.
fn shorten_queue(namespace: &Namespace, device: &str) {
    namespace.tc(&format!("qdisc add dev {device} root handle 1: htb"));
    namespace.tc(&format!("class add dev {device} parent 1: classid 1:1 htb rate 4mbit"));
    namespace.tc(&format!("qdisc add dev {device} parent 1:1 handle 10: pfifo limit 1"));
    for (protocol, word) in [("ip", "ip"), ("ipv6", "ip6")] {
        namespace.tc(&format!(
            "filter add dev {device} parent 1: protocol {protocol} u32 match {word} protocol 6 0xff flowid 1:1"
        ));
    }
}

fn one_packet_a_segment(wire: &Wire) {
    for namespace in [&wire.sender, &wire.router] {
        let device = if std::ptr::eq(namespace, &wire.router) { "port2" } else { "eth0" };
        namespace.ip(&format!("link set {device} gso_max_segs 1"));
    }
}

/// The counter when nothing has been dropped for longer than a delayed ACK waits.
fn drops_when_quiet(namespace: &Namespace, device: &str) -> u64 {
    let mut before = queue_drops(namespace, device);
    let mut since = std::time::Instant::now();
    wait_for("the last drop", || {
        let now = queue_drops(namespace, device);
        if now != before {
            (before, since) = (now, std::time::Instant::now());
        }
        since.elapsed() > std::time::Duration::from_millis(500)
    });
    before
}

/// One transfer through the short queue: events, and what `tc` counts.
fn local_drops(to: &str) -> (u64, u64) {
    let wire = Wire::new();
    one_packet_a_segment(&wire);
    shorten_queue(&wire.sender, "eth0");
    let recording = Recording::start(&["--netns", wire.sender.name()]);
    let address: IpAddr = to.parse().unwrap();
    let (mut client, mut server) = pair_at(&wire.sender, &wire.receiver, address, 7000);
    send_and_wait(&mut client, &mut server, 200_000);
    let dropped = drops_when_quiet(&wire.sender, "eth0");
    let trace = recording.finish();
    assert!(dropped > 0, "the queue was too long to be short");
    // Where the queue drops (tracepoint tier), or where the drop is returned (the tiers above).
    let one_by_one = trace.of(Kind::LocalCongestion);
    let first = one_by_one.first().expect("a drop is reported");
    let of_connection = trace.only(first.cookie);
    let after = of_connection.iter().find(|event| event.time_ns > first.time_ns);
    let after = after.expect("the sender reacts");
    assert_eq!(after.kind, Kind::CaState, "in the same call, before anything else happens");
    assert!(enters(CaState::Cwr)(after), "tcp_enter_cwr follows the refusal");
    (one_by_one.len() as u64, dropped)
}

/// One event for each packet that `tc` counts as dropped. A machine that runs no program on process
/// 1's time hides those that fall into it, which nobody can count.
fn local_congestion(to: &str) {
    let (events, dropped) = local_drops(to);
    if hides_process_one() {
        eprintln!("process 1 is hidden here: {events} of {dropped} drops were seen");
        assert!(events > 0 && events <= dropped, "{events} events, {dropped} drops");
    } else {
        assert_eq!(events, dropped, "events and drops");
    }
}

#[test]
fn a_packet_the_own_device_drops_is_local_congestion() {
    needs_probes!();
    local_congestion("10.78.2.1");
}

#[test]
fn a_packet_the_own_device_drops_is_local_congestion_over_ipv6() {
    needs_probes!();
    local_congestion("fd78:2::1");
}

/// What the own device drops was never sent again: Linux traces such attempts since 6.17, too.
#[test]
fn a_retransmission_the_own_device_drops_is_none() {
    needs_probes!();
    let path = Path::new(DELAY);
    let recording = Recording::start(&["--netns", path.left.name()]);
    let (mut client, mut server) = pair(&path);
    path.judge(|towards, segment| {
        if towards == Towards::Right && segment.payload > 0 { Fate::Drop } else { Fate::Pass }
    });
    client.write_all(&[0; 5000]).unwrap();
    let counter = |name| Counters::of(&path.left).get(name);
    path.left.tc("qdisc replace dev wire root handle 10: pfifo limit 0");
    wait_for("attempts that fail", || counter("TcpExtTCPRetransFail") >= 3);
    path.judge(|_, _| Fate::Pass);
    path.left.tc("qdisc replace dev wire root handle 11: pfifo limit 100");
    receive_all(&mut server, 5000);
    settle(&client);
    let trace = recording.finish();
    let told: u64 = RetransmitReason::ALL.iter().map(|&reason| segments_of(&trace, reason)).sum();
    let sent = counter("TcpRetransSegs") - counter("TcpExtTCPRetransFail");
    assert!(told > 0, "at last one came through");
    assert_eq!(told, sent);
}

/// A TUN device without a queueing discipline, whose own ring holds two packets
/// and is not read for a while: its refusal goes straight to the sender.
#[test]
fn a_segment_the_device_itself_refuses_is_local_congestion() {
    needs_probes!();
    let path = Path::new(Duration::from_millis(5));
    path.left.ip("link set wire txqueuelen 2");
    path.left.tc("qdisc replace dev wire root noqueue");
    // The ACK of a tail loss probe reduces the window, too.
    path.left.sysctl("net/ipv4/tcp_early_retrans", "0");
    let recording = Recording::start(&["--netns", path.left.name()]);
    let refused_before = device_drops(&path.left, "wire");
    let (mut client, mut server) = pair(&path);
    path.judge(|towards, segment| {
        if towards == Towards::Right && segment.payload > 0 {
            std::thread::sleep(Duration::from_millis(2));
        }
        Fate::Pass
    });
    send_and_wait(&mut client, &mut server, 300_000);
    let refused = device_drops(&path.left, "wire") - refused_before;
    let trace = recording.finish();
    assert!(refused > 0, "the device's ring was large enough");
    let told = trace.of(Kind::LocalCongestion);
    assert!(!told.is_empty() && told.len() as u64 <= refused, "{} of {refused}", told.len());
    assert!(told.iter().all(|event| event.place == Place::EnterCwr));
    let reductions = trace.of(Kind::CaState).into_iter();
    let reductions = reductions.filter(enters(CaState::Cwr)).count();
    // With the function's return code each refusal is told, without it each reduction.
    if told.iter().all(|event| event.aux[0] > 0) {
        assert!(told.len() >= reductions, "{} for {reductions} reductions", told.len());
    } else {
        assert_eq!(told.len(), reductions, "one each time the window is reduced for it");
    }
}

/// The peer has closed its direction, so that segments take another way through the kernel.
#[test]
fn a_mark_of_congestion_after_the_peers_fin_is_none_of_the_own_device() {
    needs_probes!();
    let path = Path::new(DELAY);
    for end in [&path.left, &path.right] {
        end.sysctl("net/ipv4/tcp_ecn", "1");
    }
    let recording = Recording::start(&["--netns", path.left.name()]);
    let (mut client, mut server) = pair(&path);
    server.shutdown(Shutdown::Write).unwrap();
    assert_eq!(client.read(&mut [0]).unwrap(), 0);
    let mut n = 0;
    path.judge(move |towards, segment| {
        let is_data = towards == Towards::Right && segment.payload > 0;
        n += u32::from(is_data);
        if is_data && n == 20 { Fate::Marked } else { Fate::Pass }
    });
    client.write_all(&vec![7; 50_000]).unwrap();
    receive_all(&mut server, 50_000);
    settle(&client);
    let trace = recording.finish();
    assert!(trace.of(Kind::CaState).into_iter().any(|event| enters(CaState::Cwr)(&event)));
    assert_eq!(trace.count(Kind::LocalCongestion), 0);
}

#[test]
fn the_end_of_a_tail_loss_probe_after_the_own_fin_is_none_of_the_own_device() {
    needs_probes!();
    let path = Path::new(DELAY);
    let recording = Recording::start(&["--netns", path.left.name()]);
    let (mut client, mut server) = pair(&path);
    path.lose(|n| n == 9);
    client.write_all(&[7; 10 * 1448]).unwrap();
    receive_all(&mut server, 10 * 1448);
    settle(&client);
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(server.read(&mut [0]).unwrap(), 0);
    settle(&client);
    let trace = recording.finish();
    assert_eq!(Counters::of(&path.left).get("TcpExtTCPLossProbeRecovery"), 1);
    assert_eq!(segments_of(&trace, RetransmitReason::Tlp), 1);
    assert_eq!(trace.count(Kind::LocalCongestion), 0);
}

#[test]
fn a_packet_a_router_drops_is_not_local_congestion() {
    needs_probes!();
    let wire = Wire::new();
    one_packet_a_segment(&wire);
    shorten_queue(&wire.router, "port2");
    let recording = Recording::start(&["--port", "7001", "--local", "10.78.1.1"]);
    let address: IpAddr = "10.78.2.1".parse().unwrap();
    let (mut client, mut server) = pair_at(&wire.sender, &wire.receiver, address, 7001);
    send_and_wait(&mut client, &mut server, 200_000);
    let trace = recording.finish();
    assert!(queue_drops(&wire.router, "port2") > 0);
    assert!(trace.count(Kind::Retransmit) > 0, "the sender sees a loss");
    assert_eq!(trace.count(Kind::LocalCongestion), 0, "but not one of its own device");
}

/// With AccECN (RFC 9768) an ACK tells in three bits how many marks there were: the first of them
/// makes 6 of 5, which has no ECE bit, and reduces the window all the same.
#[test]
fn a_mark_that_accurate_ecn_counts_is_not_local_congestion() {
    needs_probes!();
    needs!("accecn");
    let path = Path::new(DELAY);
    for end in [&path.left, &path.right] {
        end.sysctl("net/ipv4/tcp_ecn", "3");
    }
    let recording = Recording::start(&["--netns", path.left.name()]);
    let (mut client, mut server) = pair(&path);
    let mut n = 0;
    path.judge(move |towards, segment| {
        n += u32::from(towards == Towards::Right && segment.payload > 0);
        let is_marked = towards == Towards::Right && segment.payload > 0 && n % 50 == 0;
        if is_marked { Fate::Marked } else { Fate::Pass }
    });
    send_and_wait(&mut client, &mut server, 500_000);
    let trace = recording.finish();
    let reductions = trace.of(Kind::CaState).into_iter().filter(enters(CaState::Cwr)).count();
    assert!(reductions > 0, "the marks have reduced the window");
    assert_eq!(trace.count(Kind::LocalCongestion), 0, "of {reductions} reductions");
    let acks = trace.of(Kind::Ack).into_iter().filter_map(|event| event.state());
    assert!(acks.into_iter().all(|state| state.has(flags::ECN)), "it was agreed on");
}
