//! How connections come and go, as events tell it.

use std::io::Write;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{self, sockopt};
use transom_analysis::{Analysis, analyse};
use transom_event::{Kind, Origin, TcpState, fields};
use transom_testbed::{
    Namespace, Path, Puppet, Recording, Trace, fresh_port, hides_process_one, needs, needs_probes,
    own_comm, pair, pair_at, send_and_wait, transom, wait_for,
};

/// All states that the connection with this port of its own went through.
fn states(trace: &Trace, local_port: u16) -> Vec<TcpState> {
    let events = trace.only(trace.cookie_at(local_port));
    let changes: Vec<_> = events.into_iter().filter(|event| event.kind == Kind::State).collect();
    let changes = changes.iter().map(|event| fields::tcp_states(event.aux));
    let changes: Vec<_> = changes.map(|both| both.map(|state| state.expect("a state"))).collect();
    for two in changes.windows(2) {
        assert_eq!(two[0][1], two[1][0], "each change begins where the last one ended");
    }
    changes.first().map(|[old, _]| *old).into_iter().chain(changes.iter().map(|c| c[1])).collect()
}

fn origin(trace: &Trace, local_port: u16) -> Origin {
    let cookie = trace.cookie_at(local_port);
    let opens: Vec<_> =
        trace.only(cookie).into_iter().filter(|event| event.kind == Kind::Open).collect();
    assert_eq!(opens.len(), 1, "one open a connection");
    fields::origin(opens[0].aux).expect("an origin")
}

fn closes(trace: &Trace, local_port: u16) -> Vec<u32> {
    let events = trace.only(trace.cookie_at(local_port));
    events.iter().filter(|event| event.kind == Kind::Close).map(|event| event.aux[0]).collect()
}

/// Shift counts that `ss` shows of the connection between these ports: of the other side's windows
/// and of its own.
fn scaling(of: &Namespace, local: u16, remote: u16) -> [u32; 2] {
    let filter = format!("sport = :{local} and dport = :{remote}");
    let shown = of.output("ss", &["-tinH", "state", "established", &filter]);
    let pair = shown.split_once("wscale:").map(|(_, after)| after.split(' ').next().unwrap());
    let counts = pair.map(|pair| pair.split(',').map(|n| n.trim().parse().unwrap()));
    counts.map_or([0; 2], |mut counts| [counts.next().unwrap(), counts.next().unwrap()])
}

#[test]
fn the_shifts_of_both_windows_are_those_of_the_handshake() {
    needs_probes!();
    let path = Path::new(Duration::from_millis(1));
    path.left.sysctl("net/ipv4/tcp_rmem", "4096 131072 1000000000");
    let listens = fresh_port();
    let recording = Recording::start(&["--port", &listens.to_string()]);
    let ends = [(&path.left, "1"), (&path.left, "0")].map(|(left, scales)| {
        left.sysctl("net/ipv4/tcp_window_scaling", scales);
        let (client, server) = pair_at(left, &path.right, "10.77.0.2".parse().unwrap(), listens);
        let port = client.local_addr().unwrap().port();
        let seen = [scaling(left, port, listens), scaling(&path.right, listens, port)];
        (client, server, seen)
    });
    let trace = recording.finish();
    for (client, _server, seen) in &ends {
        let port = client.local_addr().unwrap().port();
        let of = |local: bool| {
            let is_its = |open: &&transom_event::Event| {
                let open = open.open().unwrap();
                (if local { open.local_port } else { open.remote_port }) == port
            };
            let opens = trace.of(Kind::Open);
            let open = opens.into_iter().find(is_its).expect("it was opened");
            fields::window_scaling(open.aux).expect("it was recorded")
        };
        assert_eq!([of(true), of(false)], *seen);
    }
    let [(_, _, scaled), (_, _, unscaled)] = ends;
    assert_ne!(scaled[0], [scaled[0][0]; 2], "both ends have counts of their own");
    assert_eq!(unscaled, [[0; 2]; 2]);
}

/// Whether nothing but what is left in TIME-WAIT has this port.
fn is_closed(of: &Namespace, port: u16) -> bool {
    let filter = format!("sport = :{port} or dport = :{port}");
    let shown = of.output("ss", &["-tanH", &filter]);
    shown.lines().all(|line| line.starts_with("TIME-WAIT"))
}

fn life_of_a_connection(to: &str) {
    let path = Path::new(Duration::from_millis(1));
    let port = fresh_port();
    let recording = Recording::start(&["--port", &port.to_string()]);
    let address: IpAddr = to.parse().unwrap();
    let (client, server) = pair_at(&path.left, &path.right, address, port);
    let (near, far) = (client.local_addr().unwrap(), client.peer_addr().unwrap());
    drop(client);
    std::io::Read::read(&mut &server, &mut [0; 8]).unwrap();
    drop(server);
    wait_for("both ends to close", || {
        [&path.left, &path.right].iter().all(|it| is_closed(it, port))
    });
    let trace = recording.finish();
    let plain = |a: SocketAddr| SocketAddr::new(a.ip().to_canonical(), a.port());
    let left = trace.connections()[&trace.cookie_at(near.port())];
    let right = trace.connections()[&trace.cookie_at(port)];
    assert_eq!((left.endpoints().local, left.endpoints().remote), (plain(near), plain(far)));
    assert_eq!((right.endpoints().local, right.endpoints().remote), (plain(far), plain(near)));
    assert_eq!((left.netns, right.netns), (path.left.inode(), path.right.inode()));
    assert_eq!((left.program(), left.algorithm()), (own_comm(), "reno".to_owned()));
    assert_eq!(origin(&trace, near.port()), Origin::Connect);
    assert_eq!(origin(&trace, port), Origin::Accept);
    use TcpState::*;
    // The SYN is on its way when the first change is told; what is left of the
    // connection in TIME_WAIT is no full socket any more, so CLOSE ends the story.
    assert_eq!(states(&trace, near.port()), [SynSent, Established, FinWait1, FinWait2, Close]);
    assert_eq!(states(&trace, port), [SynRecv, Established, CloseWait, LastAck, Close]);
    assert_eq!((closes(&trace, near.port()), closes(&trace, port)), (vec![0], vec![0]));
}

#[test]
fn every_state_of_both_ends_in_order() {
    needs_probes!();
    life_of_a_connection("10.77.0.2");
}

#[test]
fn every_state_of_both_ends_in_order_over_ipv6() {
    needs_probes!();
    life_of_a_connection("fd77::2");
}

#[test]
fn an_ipv6_socket_that_speaks_ipv4_is_shown_with_its_ipv4_addresses() {
    needs_probes!();
    life_of_a_connection("::ffff:10.77.0.2");
}

/// With one port to choose from, the kernel connects the socket to itself: both SYNs cross.
#[test]
fn a_connection_that_both_ends_begin_at_once_is_one_that_was_connected() {
    needs_probes!();
    let host = Namespace::new("host");
    host.sysctl("net/ipv4/ip_local_port_range", "30001 30001");
    let recording = Recording::start(&["--netns", host.name()]);
    drop(host.inside(|| TcpStream::connect("127.0.0.1:30001")).unwrap());
    let trace = recording.finish();
    assert_eq!(origin(&trace, 30001), Origin::Connect);
}

/// A client whose SYN carries a part of its request, and a server that answers when it has all of it.
const FAST_OPEN: &str = "
import socket, threading
def all_of(stream, size):
    while size > 0:
        size -= len(stream.recv(size))
listener = socket.socket()
listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_FASTOPEN, 16)
listener.bind(('127.0.0.1', 30002))
listener.listen()
def serve():
    stream, _ = listener.accept()
    all_of(stream, 20000)
    stream.sendall(b'y' * 30000)
    stream.recv(1)
    stream.close()
server = threading.Thread(target=serve)
server.start()
client = socket.socket()
sent = client.sendto(b'x' * 20000, socket.MSG_FASTOPEN, ('127.0.0.1', 30002))
client.sendall(b'x' * (20000 - sent))
all_of(client, 30000)
client.close()
server.join()
";

#[test]
fn what_a_syn_carries_is_counted_once_at_both_ends_whether_it_was_taken_or_not() {
    needs_probes!();
    const NO_COOKIES: u32 = 0x4 | 0x200;
    for (takes, flags) in [(1, NO_COOKIES | 0x3), (0, NO_COOKIES | 0x1)] {
        let host = Namespace::new("host");
        host.sysctl("net/ipv4/tcp_fastopen", &flags.to_string());
        let recording = Recording::start(&["--netns", host.name()]);
        host.output("python3", &["-c", FAST_OPEN]);
        assert_eq!(host.counter("TcpExt.TCPFastOpenPassive"), takes, "SYNs with data were taken");
        let trace = recording.finish();
        let early = trace.of(Kind::Open).into_iter().map(|open| fields::early_bytes(open.aux));
        assert_eq!(early.filter(|bytes| *bytes > 0).count() as u64, 2 * takes);
        let analyses = analyse(&trace.events.iter().collect());
        let server = analyses.iter().find(|a| a.local.ends_with(":30002")).expect("a server");
        let client = analyses.iter().find(|a| a.remote.ends_with(":30002")).expect("a client");
        let counted = |a: &Analysis| [a.summary.sent, a.summary.acked, a.summary.received];
        assert_eq!(counted(client), [20_000, 20_000, 30_000]);
        assert_eq!(counted(server), [30_000, 30_000, 20_000]);
    }
}

#[test]
fn a_refused_connection_opens_is_reset_and_closes_with_its_error() {
    needs_probes!();
    let path = Path::new(Duration::from_millis(1));
    let recording = Recording::start(&["--netns", path.left.name()]);
    let refused = path.left.inside(|| TcpStream::connect("10.77.0.2:7199")).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(libc::ECONNREFUSED));
    let trace = recording.finish();
    let kinds: Vec<Kind> = trace.events.iter().map(|event| event.kind).collect();
    assert_eq!(kinds.iter().filter(|&&kind| kind == Kind::Open).count(), 1);
    assert_eq!(kinds.iter().filter(|&&kind| kind == Kind::Reset).count(), 1);
    let close = trace.of(Kind::Close);
    assert_eq!(close.len(), 1);
    assert_eq!(close[0].aux[0], libc::ECONNREFUSED as u32);
}

#[test]
fn a_firewall_that_refuses_is_told_from_a_port_on_which_nobody_listens() {
    needs_probes!();
    let mut firewall = Puppet::new();
    let mut recording = Recording::start(&["--netns", firewall.host.name()]);
    let connecting = firewall.host.spawn(|| TcpStream::connect(Puppet::address()));
    firewall.reject();
    let refused = connecting.join().unwrap().unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(libc::ECONNREFUSED));
    let nobody = SocketAddr::from(([127, 0, 0, 1], fresh_port()));
    assert!(firewall.host.inside(|| TcpStream::connect(nobody)).is_err());
    recording.signal(libc::SIGINT);
    assert_eq!(recording.wait().0, 0);
    let explain = |which: SocketAddr| {
        let mut explain = transom();
        let which = which.to_string();
        explain.args(["explain", "--json", "--connection", &which]).arg(recording.file());
        let done = explain.output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let analyses: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
        analyses[0]["verdict"].to_string()
    };
    let [by_firewall, by_host] = [Puppet::address(), nobody].map(explain);
    assert!(by_firewall.contains("An ICMP message (port unreachable)"), "{by_firewall}");
    assert!(by_host.contains("Does a program listen on that port?"), "{by_host}");
}

#[test]
fn an_attempt_that_its_program_gives_up_before_anything_came_has_its_events() {
    needs_probes!();
    let silent = Puppet::new();
    let recording = Recording::start(&["--netns", silent.host.name()]);
    let soon = Duration::from_millis(300);
    let given_up = silent.host.inside(|| TcpStream::connect_timeout(&Puppet::address(), soon));
    assert_eq!(given_up.unwrap_err().kind(), std::io::ErrorKind::TimedOut);
    let trace = recording.finish();
    let kinds: Vec<Kind> = trace.of_connections().map(|event| event.kind).collect();
    assert_eq!(kinds, [Kind::Open, Kind::State, Kind::Close]);
    let [ends] = trace.endpoints()[..] else { panic!("one attempt") };
    assert_eq!(ends.remote, Puppet::address());
    assert_ne!(ends.local.port(), 0);
}

/// An IPv4 socket of which another one may have the address; bound to this port, if one is given.
fn socket(bound_to: Option<u16>) -> OwnedFd {
    let socket = net::socket(net::AddressFamily::INET, net::SocketType::STREAM, None).unwrap();
    sockopt::set_socket_reuseaddr(&socket, true).unwrap();
    if let Some(port) = bound_to {
        net::bind(&socket, &SocketAddr::from(([127, 0, 0, 1], port))).unwrap();
    }
    socket
}

/// A socket that has connected before, and one that was bound: both have a port, and the kernel
/// refuses it to them since another one is connected from it to the same place.
#[test]
fn an_attempt_that_the_kernel_refuses_before_its_syn_is_none() {
    needs_probes!();
    let namespace = Namespace::new("no-port");
    namespace.sysctl("net/ipv4/ip_local_port_range", "41000 41000");
    let recording = Recording::start(&["--netns", namespace.name()]);
    let [listens, nobody] = [7308, 7309].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
    namespace.inside(|| {
        let _listener = TcpListener::bind(listens).unwrap();
        let others = [socket(None), socket(Some(42_000))];
        others.iter().for_each(|other| net::connect(other, &listens).unwrap());
        let again = socket(None);
        assert_eq!(net::connect(&again, &nobody), Err(Errno::CONNREFUSED));
        for refused in [again, socket(Some(42_000))] {
            assert_eq!(net::connect(&refused, &listens), Err(Errno::ADDRNOTAVAIL));
        }
    });
    let trace = recording.finish();
    let opens = trace.of(Kind::Open).into_iter().map(|event| event.open().unwrap().endpoints());
    let of_clients = opens.filter(|ends| ends.local.port() > 40_000);
    let mut attempts: Vec<_> = of_clients.map(|ends| (ends.local.port(), ends.remote)).collect();
    attempts.sort_unstable();
    assert_eq!(attempts, [(41_000, listens), (41_000, nobody), (42_000, listens)]);
}

#[test]
fn the_reset_of_a_close_with_unread_data_says_in_every_line_whose_it_is() {
    needs_probes!();
    let namespace = Namespace::new("unread");
    let mut recording = Recording::start(&["--netns", namespace.name()]);
    let (client, mut server) = pair_at(&namespace, &namespace, [127, 0, 0, 1].into(), 7307);
    server.write_all(b"unread").unwrap();
    wait_for("the data to arrive", || client.peek(&mut [0; 6]).is_ok_and(|bytes| bytes == 6));
    let port = client.local_addr().unwrap().port();
    drop(client);
    wait_for("the reset to arrive", || server.take_error().is_ok_and(|error| error.is_some()));
    let lines = tempfile::tempdir().unwrap();
    let lines = lines.path().join("t.jsonl");
    recording.signal(libc::SIGINT);
    assert_eq!(recording.wait().0, 0);
    assert!(transom().arg("convert").args([recording.file(), &lines]).status().unwrap().success());
    let text = std::fs::read_to_string(lines).unwrap();
    let events = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let mut ports: Vec<_> = events
        .filter(|event| event["kind"] == "reset")
        .map(|event| event["local_port"].as_u64().expect("an end"))
        .collect();
    ports.sort_unstable();
    assert_eq!(ports, [7307, port.into()], "received by one end, sent by the other");
}

#[test]
fn ten_thousand_connections_as_fast_as_possible_have_one_open_and_one_close_each() {
    needs_probes!();
    const CONNECTIONS: usize = 10_000;
    let namespace = Namespace::new("many");
    let listener = namespace.inside(|| TcpListener::bind("127.0.0.1:7101")).unwrap();
    let mut recording = Recording::start(&["--netns", namespace.name(), "--remote-port", "7101"]);
    listener.set_nonblocking(true).unwrap();
    let are_made = Arc::new(AtomicBool::new(false));
    let enough = are_made.clone();
    // One that is reset while there are too many to accept is never accepted.
    let accepting = std::thread::spawn(move || {
        while !enough.load(Ordering::Relaxed) {
            if listener.accept().is_err() {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    });
    namespace.inside(|| {
        for _ in 0..CONNECTIONS {
            let stream = TcpStream::connect("127.0.0.1:7101").unwrap();
            // So that ports do not run out: no TIME_WAIT.
            transom_testbed::set_linger_zero(&stream);
        }
    });
    are_made.store(true, Ordering::Relaxed);
    accepting.join().unwrap();
    recording.signal(libc::SIGINT);
    let (code, _) = recording.wait();
    assert_eq!(code, 0);
    let trace = Trace::read(recording.file());
    if trace.lost() == 0 {
        // What softirqs do on the time of process 1 is not seen on such a machine.
        let hidden = if hides_process_one() { CONNECTIONS as u64 / 1000 } else { 0 };
        let told =
            [trace.count(Kind::Open), trace.count(Kind::Close), trace.connections().len() as u64];
        for count in told {
            assert!(count <= CONNECTIONS as u64, "{told:?}");
            assert!(count + hidden >= CONNECTIONS as u64, "{told:?}");
        }
    } else {
        let missing = 2 * CONNECTIONS as u64 - trace.count(Kind::Open) - trace.count(Kind::Close);
        assert!(missing <= trace.lost(), "every missing event is counted as lost");
    }
}

/// The kernel makes two sockets of it and throws one away.
#[test]
fn a_handshake_whose_end_two_cpus_receive_at_once_is_one_connection() {
    needs!("root", "bpf", "two-cpus");
    let mut puppet = Puppet::new();
    let listener = puppet.host.inside(|| TcpListener::bind("10.78.0.1:0")).unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut recording = Recording::start(&["--port", &port.to_string()]);
    let connections = puppet.dial_at_two_cpus(&listener);
    recording.signal(libc::SIGINT);
    assert_eq!(recording.wait().0, 0);
    let trace = Trace::read(recording.file());
    let told = [trace.count(Kind::Open), trace.count(Kind::Close)];
    // What softirqs do on the time of process 1 may not be seen.
    let seen = connections * 9 / 10..=connections;
    assert!(told.iter().all(|count| seen.contains(count)), "{told:?} of {connections}");
}

#[test]
fn connections_that_exist_already_are_told_with_their_owner_in_every_namespace() {
    needs_probes!();
    let path = Path::new(Duration::from_millis(1));
    let (client, _server) = pair_at(&path.left, &path.right, IpAddr::from([10, 77, 0, 2]), 7102);
    let near = client.local_addr().unwrap().port();
    // A local connection of another kind is none of ours.
    let _other = UnixStream::pair().unwrap();
    let trace = Recording::start(&["--port", "7102"]).finish();
    assert_eq!(trace.endpoints().len(), 2, "both ends, each in its own namespace");
    assert_eq!(origin(&trace, near), Origin::Existing);
    assert_eq!(origin(&trace, 7102), Origin::Existing);
    for event in trace.of(Kind::Open) {
        assert_eq!(event.tgid, std::process::id());
    }
    assert_eq!(trace.connections()[&trace.cookie_at(near)].program(), own_comm());
    let state = trace.of(Kind::State);
    assert!(state.iter().all(|e| e.state().unwrap().tcp() == Some(TcpState::Established)));
}

/// Each is told by two events or three, and the rings have room for 512 a CPU: they are read while the
/// kernel walks over the connections.
#[test]
fn more_connections_than_a_ring_has_room_for_are_all_told_where_they_exist_already() {
    const MANY: usize = 450;
    needs_probes!();
    let namespace = Namespace::new("many");
    let held: Vec<_> = namespace.inside(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let pair = |_| (TcpStream::connect(address).unwrap(), listener.accept().unwrap());
        (0..MANY).map(pair).collect()
    });
    let only = ["--ring", "64k", "--netns", namespace.name()];
    let trace = Recording::start(&only).finish();
    assert_eq!((trace.endpoints().len(), trace.lost()), (2 * held.len(), 0));
}

#[test]
fn existing_connections_can_be_left_out_until_something_happens() {
    needs_probes!();
    let path = Path::new(Duration::from_millis(1));
    let (mut client, mut server) = pair(&path);
    let (_quiet, _quiet_too) = pair(&path);
    let recording = Recording::start(&["--netns", path.left.name(), "--no-existing"]);
    send_and_wait(&mut client, &mut server, 1000);
    let trace = recording.finish();
    assert_eq!(trace.connections().len(), 1);
    assert_eq!(trace.cookie_at(client.local_addr().unwrap().port()), trace.events[0].cookie);
}
