//! The error events of a sender, each provoked for real, and each counted by
//! somebody else too: tcpdump on the same device, or the kernel's own counters.

use std::io::Write;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use transom_analysis::{Limit, analyse};
use transom_event::{CaState, Direction, Kind, RetransmitReason, RtoCause, fields};
use transom_testbed::{
    ACK, Capture, Counters, FIN, Fate, Namespace, Path, RST, Recording, SYN, Segment, Towards,
    Trace, enters, fresh_port, needs_probes, pair, pair_at, receive_all, send_and_wait, settle,
    skip, wait_for, where_all_is_seen,
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
