//! The error events of a sender, each provoked for real, and each counted by
//! somebody else too: tcpdump on the same device, or the kernel's own counters.

use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use transom_analysis::{Limit, analyse};
use transom_event::{CaState, Direction, Kind, Place, RetransmitReason, RtoCause, fields, flags};
use transom_testbed::{
    ACK, Capture, Counters, FIN, Fate, Namespace, Path, RST, Recording, SYN, Segment, Towards,
    Trace, Wire, device_drops, enters, fresh_port, hides_process_one, needs, needs_probes, pair,
    pair_at, queue_drops, receive_all, send_and_wait, settle, skip, wait_for, where_all_is_seen,
};

const DELAY: Duration = Duration::from_millis(5);

fn before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

/// What a reader of the capture would call duplicate ACKs (RFC 5681 section 2,
/// RFC 6675 section 2) of the data that `sender` sent: true where it had SACK blocks.
fn duplicate_acks(capture: &[Segment], sender: SocketAddr) -> Vec<bool> {
    let (mut una, mut nxt, mut window, mut found) = (0, 0, 0, Vec::new());
    for segment in capture {
        if segment.from == sender {
            if segment.has(SYN) {
                (una, nxt) = (segment.seq, segment.end());
            } else if before(nxt, segment.end()) {
                nxt = segment.end();
            }
            continue;
        }
        if segment.to != sender || !segment.has(ACK) {
            continue;
        }
        let plain = segment.payload == 0 && !segment.has(SYN | FIN | RST);
        let unchanged = !segment.sack.is_empty() || segment.window == window;
        if plain && una != nxt && segment.ack == una && unchanged {
            found.push(!segment.sack.is_empty());
        }
        let advanced = before(una, segment.ack);
        if advanced {
            una = segment.ack;
        }
        if advanced || segment.window > window {
            window = segment.window;
        }
    }
    found
}

/// RFC 2883: what the first block repeats was acknowledged or reported before.
fn is_d_sack(segment: &Segment) -> bool {
    let (left, right) = segment.sack[0];
    let within = |&(l, r): &(u32, u32)| !before(left, l) && !before(r, right);
    before(left, segment.ack) || segment.sack.get(1).is_some_and(within)
}

/// Loses some segments, sends others twice, and compares all that came back.
fn acknowledgments_agree_with_the_wire(path: &Path) -> Trace {
    let recording = Recording::start(&["--netns", path.left.name()]);
    let capture = Capture::start(&path.left, "wire");
    let (mut client, mut server) = pair(path);
    let sender = client.local_addr().unwrap();
    let mut n = 0;
    path.judge(move |towards, segment| {
        if towards == Towards::Left || segment.payload == 0 {
            return Fate::Pass;
        }
        n += 1;
        match n {
            20 | 22 | 25 | 90 | 91 | 200 => Fate::Drop,
            50 | 51 | 130 => Fate::Twice,
            _ => Fate::Pass,
        }
    });
    send_and_wait(&mut client, &mut server, 400_000);
    let seen = capture.finish();
    let trace = recording.finish();
    let duplicates = duplicate_acks(&seen, sender);
    let duplicates_told = trace.of(Kind::DupAck);
    let told: Vec<bool> = duplicates_told.iter().map(|e| fields::with_sack(e.aux)).collect();
    // A duplicate that waits for the socket's lock is joined with an ACK that
    // follows it (tcp_add_backlog); TCP itself then never sees a duplicate.
    let joined = Counters::of(&path.left).get("TcpExtTCPBacklogCoalesce") as usize;
    if joined == 0 {
        assert_eq!(told, duplicates, "duplicate ACKs, in order, and which had SACK blocks");
    }
    assert!(told.len() <= duplicates.len() && told.len() + joined >= duplicates.len());
    assert!(duplicates.len() > 10 && !told.is_empty(), "{} of {}", told.len(), duplicates.len());
    let with_sack = seen.iter().filter(|s| s.to == sender && !s.has(SYN) && !s.sack.is_empty());
    let expected: Vec<_> =
        with_sack.map(|segment| (segment.sack.clone(), is_d_sack(segment))).collect();
    let sacks: Vec<_> = trace
        .of(Kind::Sack)
        .iter()
        .map(|event| {
            let blocks = event.sack().unwrap().blocks;
            let blocks =
                blocks[..fields::sack_blocks(event.aux)].iter().map(|b| (b[0], b[1])).collect();
            (blocks, fields::is_d_sack(event.aux))
        })
        .collect();
    assert_eq!(sacks, expected, "SACK blocks edge for edge, and which segments are D-SACKs");
    trace
}

#[test]
fn duplicate_acks_and_sack_blocks_are_those_on_the_wire() {
    needs_probes!();
    let trace = acknowledgments_agree_with_the_wire(&Path::new(DELAY));
    assert!(
        trace.of(Kind::Sack).iter().any(|event| fields::is_d_sack(event.aux)),
        "D-SACKs were provoked"
    );
}

#[test]
fn without_sack_duplicate_acks_are_those_that_change_nothing() {
    needs_probes!();
    let path = Path::new(DELAY);
    path.left.sysctl("net/ipv4/tcp_sack", "0");
    let trace = acknowledgments_agree_with_the_wire(&path);
    assert_eq!(trace.count(Kind::Sack), 0);
}

fn segments_of(trace: &Trace, reason: RetransmitReason) -> u64 {
    let events = trace.of(Kind::Retransmit);
    let told = events.iter().map(|event| event.retransmit());
    told.filter(|&(why, _)| why == Some(reason)).map(|(_, segments)| u64::from(segments)).sum()
}

/// Every retransmission is one the kernel counted, under the same heading.
fn retransmissions_agree_with_nstat(trace: &Trace, path: &Path) {
    let counters = Counters::of(&path.left);
    let all: u64 = RetransmitReason::ALL.iter().map(|&reason| segments_of(trace, reason)).sum();
    let told = |reason| segments_of(trace, reason);
    assert_eq!(all, counters.get("TcpRetransSegs"), "all");
    assert_eq!(told(RetransmitReason::Fast), counters.get("TcpExtTCPFastRetrans"), "fast");
    let slow_start = counters.get("TcpExtTCPSlowStartRetrans");
    assert_eq!(told(RetransmitReason::SlowStart), slow_start, "slow start");
    assert_eq!(told(RetransmitReason::Syn), counters.get("TcpExtTCPSynRetrans"), "SYN");
    // A probe may carry new data; none of these senders has any left.
    assert_eq!(told(RetransmitReason::Tlp), counters.get("TcpExtTCPLossProbes"), "TLP");
    assert_eq!(trace.count(Kind::Rto), counters.get("TcpExtTCPTimeouts"), "timeouts");
}

#[test]
fn a_hole_in_the_window_is_repaired_by_fast_retransmit() {
    needs_probes!();
    where_all_is_seen(|| {
        let path = Path::new(DELAY);
        let recording = Recording::start(&["--netns", path.left.name()]);
        let (mut client, mut server) = pair(&path);
        path.lose(|n| [12, 30, 31, 70].contains(&n));
        send_and_wait(&mut client, &mut server, 300_000);
        let trace = recording.finish();
        retransmissions_agree_with_nstat(&trace, &path);
        assert_eq!(segments_of(&trace, RetransmitReason::Fast), 4);
        assert_eq!(trace.count(Kind::Rto), 0);
    });
}

#[test]
fn a_lost_tail_is_repaired_by_a_tail_loss_probe() {
    needs_probes!();
    where_all_is_seen(|| {
        let path = Path::new(DELAY);
        let recording = Recording::start(&["--netns", path.left.name()]);
        let (mut client, mut server) = pair(&path);
        // Segments of 1448 bytes: the last one of ten.
        path.lose(|n| n == 9);
        send_and_wait(&mut client, &mut server, 10 * 1448);
        let trace = recording.finish();
        retransmissions_agree_with_nstat(&trace, &path);
        assert_eq!(segments_of(&trace, RetransmitReason::Tlp), 1);
    });
}

#[test]
fn after_a_timeout_the_rest_is_sent_again_in_slow_start() {
    needs_probes!();
    where_all_is_seen(|| {
        let path = Path::new(DELAY);
        let recording = Recording::start(&["--netns", path.left.name()]);
        let (mut client, mut server) = pair(&path);
        send_and_wait(&mut client, &mut server, 14_480);
        // The whole of the next window, its probe and the first timeout's segment.
        path.lose(|n| n < 12);
        send_and_wait(&mut client, &mut server, 10 * 1448);
        let trace = recording.finish();
        retransmissions_agree_with_nstat(&trace, &path);
        assert!(segments_of(&trace, RetransmitReason::Rto) >= 2);
        assert!(segments_of(&trace, RetransmitReason::SlowStart) > 0);
    });
}

#[test]
fn a_syn_that_nobody_answers_is_sent_again() {
    needs_probes!();
    where_all_is_seen(|| {
        let path = Path::new(DELAY);
        let listener = path.right.inside(|| TcpListener::bind("10.77.0.2:7000")).unwrap();
        let recording = Recording::start(&["--netns", path.left.name()]);
        let mut syns = 0;
        path.judge(move |towards, segment| {
            syns += u32::from(towards == Towards::Right && segment.has(SYN));
            if syns == 1 { Fate::Drop } else { Fate::Pass }
        });
        let _client = path.left.inside(|| TcpStream::connect("10.77.0.2:7000")).unwrap();
        let _server = listener.accept().unwrap();
        let trace = recording.finish();
        retransmissions_agree_with_nstat(&trace, &path);
        assert_eq!(segments_of(&trace, RetransmitReason::Syn), 1);
        assert_eq!(trace.count(Kind::Rto), 1);
        // Its handshake began with the first, a second earlier (RFC 6298).
        let limits = &analyse(&trace.events.iter().collect())[0].limits;
        assert!(limits.time_ns(Limit::Handshake) >= 1_000_000_000, "{limits:?}");
    });
}

#[test]
fn timeouts_in_a_row_are_counted_and_double_the_timer() {
    needs_probes!();
    where_all_is_seen(|| {
        let path = Path::new(DELAY);
        let recording = Recording::start(&["--netns", path.left.name()]);
        let (mut client, mut server) = pair(&path);
        send_and_wait(&mut client, &mut server, 14_480);
        path.cut();
        client.write_all(&[1; 1000]).unwrap();
        wait_for("three timeouts", || Counters::of(&path.left).get("TcpExtTCPTimeouts") >= 3);
        // An acknowledgment stops the timer, so that it does not expire between the two counts.
        path.heal();
        settle(&client);
        let trace = recording.finish();
        retransmissions_agree_with_nstat(&trace, &path);
        let timeouts = trace.of(Kind::Rto);
        let in_a_row: Vec<u32> = timeouts.iter().map(|e| fields::in_a_row(e.aux)).collect();
        assert_eq!(in_a_row, (1..=timeouts.len() as u32).collect::<Vec<_>>());
        assert!(timeouts.iter().all(|event| event.aux[1] == RtoCause::Timer as u32));
        let timers: Vec<u32> = timeouts.iter().map(|event| event.state().unwrap().rto_us).collect();
        assert!(timers[0] >= 200_000, "RTO_MIN of the kernel: {timers:?}");
        assert!(timers.windows(2).all(|two| two[1] == 2 * two[0]), "doubled each time: {timers:?}");
        let backoffs: Vec<u8> =
            timeouts.iter().map(|event| event.state().unwrap().backoff).collect();
        assert_eq!(backoffs, (0..timeouts.len() as u8).collect::<Vec<_>>());
        let into_loss = trace.of(Kind::CaState).into_iter().filter(enters(CaState::Loss));
        assert_eq!(into_loss.count(), 1, "Loss is entered once");
    });
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

fn zero_windows(seen: &[Segment], from: SocketAddr) -> u64 {
    seen.iter().filter(|s| s.from == from && s.window == 0 && !s.has(RST)).count() as u64
}

fn told(trace: &Trace, kind: Kind, direction: Direction) -> u64 {
    trace.of(kind).iter().filter(|e| fields::direction(e.aux) == Some(direction)).count() as u64
}

#[test]
fn zero_windows_are_those_on_the_wire_at_both_ends() {
    needs_probes!();
    where_all_is_seen(zero_windows_at_both_ends);
}

fn zero_windows_at_both_ends() {
    let path = Path::new(Duration::from_millis(1));
    let sending = Recording::start(&["--netns", path.left.name()]);
    let receiving = Recording::start(&["--netns", path.right.name()]);
    let (at_left, at_right) =
        (Capture::start(&path.left, "wire"), Capture::start(&path.right, "wire"));
    let (mut client, mut server) = pair(&path);
    let receiver = server.local_addr().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| client.write_all(&[1; 300_000]).unwrap());
        // The window closes, and some probes find it closed.
        wait_for("window probes", || Counters::of(&path.left).get("TcpExtTCPWinProbe") >= 2);
        transom_testbed::receive_all(&mut server, 300_000);
    });
    server.write_all(b"!").unwrap();
    transom_testbed::receive_all(&mut client, 1);
    let (sent, received) =
        (zero_windows(&at_right.finish(), receiver), zero_windows(&at_left.finish(), receiver));
    let (left, right) = (sending.finish(), receiving.finish());
    assert!(received >= 2);
    assert_eq!(told(&left, Kind::ZeroWindow, Direction::Received), received);
    assert_eq!(told(&left, Kind::ZeroWindow, Direction::Sent), 0);
    assert_eq!(told(&right, Kind::ZeroWindow, Direction::Sent), sent);
    assert_eq!(told(&right, Kind::ZeroWindow, Direction::Received), 0);
}

/// Two hosts, 10.79.0.1 and 10.79.0.2 on a device `top` over `eth0`; none, and skipped, if the kernel has
/// no such devices.
fn hosts_with_stacked_devices(top: &str) -> Option<[Namespace; 2]> {
    let hosts = ["near", "far"].map(Namespace::new);
    transom_testbed::link((&hosts[0], "eth0", &[]), (&hosts[1], "eth0", &[]));
    for (host, number) in hosts.iter().zip(1..) {
        let made = host.command("ip").args(top.split_whitespace()).output().unwrap();
        if !made.status.success() {
            let (_, kind) = top.split_once("type ").unwrap();
            let kind = kind.split(' ').next().unwrap();
            skip(kind, String::from_utf8_lossy(&made.stderr).trim());
            return None;
        }
        if top.ends_with("bridge") {
            host.ip("link set eth0 master top");
        }
        host.ip(&format!("addr add 10.79.0.{number}/24 dev top"));
        host.ip("link set top up");
    }
    Some(hosts)
}

#[test]
fn a_zero_window_that_passes_several_devices_is_told_once() {
    needs_probes!();
    let over = ["macvlan", "vlan id 7"].map(|it| format!("link add link eth0 name top type {it}"));
    for top in ["link add top type bridge", &over[0], &over[1]] {
        where_all_is_seen(|| zero_windows_that_pass(top));
    }
}

fn zero_windows_that_pass(top: &str) {
    let Some([near, far]) = hosts_with_stacked_devices(top) else { return };
    let recording = Recording::start(&["--netns", far.name()]);
    let capture = Capture::start(&far, "top");
    let address = IpAddr::from([10, 79, 0, 2]);
    let (mut client, mut server) = pair_at(&near, &far, address, fresh_port());
    let receiver = server.local_addr().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| client.write_all(&[1; 3_000_000]).unwrap());
        wait_for("window probes", || Counters::of(&near).get("TcpExtTCPWinProbe") >= 2);
        receive_all(&mut server, 3_000_000);
    });
    server.write_all(b"!").unwrap();
    receive_all(&mut client, 1);
    let sent = zero_windows(&capture.finish(), receiver);
    assert!(sent >= 2, "{top}");
    assert_eq!(told(&recording.finish(), Kind::ZeroWindow, Direction::Sent), sent, "{top}");
}

#[test]
fn a_reset_is_told_at_the_end_that_sends_it_and_at_the_end_that_gets_it() {
    needs_probes!();
    where_all_is_seen(resets_at_both_ends);
}

fn resets_at_both_ends() {
    let path = Path::new(Duration::from_millis(1));
    let sending = Recording::start(&["--netns", path.left.name()]);
    let receiving = Recording::start(&["--netns", path.right.name()]);
    let capture = Capture::start(&path.left, "wire");
    for _ in 0..5 {
        let (mut client, mut server) = pair(&path);
        send_and_wait(&mut client, &mut server, 1000);
        transom_testbed::set_linger_zero(&client);
        drop(client);
        wait_for("the reset", || server.take_error().is_ok_and(|error| error.is_some()));
    }
    let on_the_wire = capture.finish().iter().filter(|segment| segment.has(RST)).count() as u64;
    let (left, right) = (sending.finish(), receiving.finish());
    assert_eq!(on_the_wire, 5);
    assert_eq!(told(&left, Kind::Reset, Direction::Sent), 5);
    assert_eq!(Counters::of(&path.left).get("TcpOutRsts"), 5);
    assert_eq!(Counters::of(&path.left).get("TcpExtTCPAbortOnData"), 5);
    assert_eq!(told(&right, Kind::Reset, Direction::Received), 5);
    assert_eq!(Counters::of(&path.right).get("TcpEstabResets"), 5);
}
