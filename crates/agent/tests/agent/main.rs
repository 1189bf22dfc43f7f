//! The agent on the real kernel: each connection has its row, and what is missing is said.

mod dashboard;
mod elsewhere;
mod faults;
mod managed;
mod many;
mod paths;
mod programs;
mod recording;
mod running;
mod scraped;
mod settings;
mod without_bpf;

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use libbpf_rs::{MapCore, MapFlags, MapHandle};
use running::{Agent, Spool, scraped};
use transom_spool::{Cause, Connection, Decided, Direction, Ended, RowKind};
use transom_testbed::{
    Counters, Fate, Namespace, Path, Towards, fresh_port, needs, needs_root, own_comm, pair,
    receive_all, send_and_wait, set_linger_zero, set_option, settle, wait_for, where_all_is_seen,
};

const LOOPBACK: Ipv4Addr = Ipv4Addr::LOCALHOST;

fn listener(namespace: &Namespace) -> (TcpListener, SocketAddr) {
    let listener = namespace.inside(|| TcpListener::bind((LOOPBACK, 0)).unwrap());
    let at = listener.local_addr().unwrap();
    (listener, at)
}

/// A request and an answer, over a connection that the client closes first.
fn exchange(client: &mut TcpStream, server: &mut TcpStream, request: usize, answer: usize) {
    send_and_wait(client, server, request);
    send_and_wait(server, client, answer);
    client.shutdown(std::net::Shutdown::Write).unwrap();
    let mut rest = Vec::new();
    server.read_to_end(&mut rest).unwrap();
}

/// A whole connection of that kind.
fn connect_once(host: &Namespace, server: &TcpListener, request: usize, answer: usize) {
    let at = server.local_addr().unwrap();
    let mut client = host.inside(|| TcpStream::connect(at).unwrap());
    let (mut accepted, _) = server.accept().unwrap();
    exchange(&mut client, &mut accepted, request, answer);
}

/// The last row of the only such connection; that of the moment which each connection has for
/// its interim row may come before.
fn one(rows: &[Connection], of: impl Fn(&&Connection) -> bool) -> &Connection {
    let last = rows.iter().filter(|row| row.kind != RowKind::Interim);
    let found: Vec<&Connection> = last.filter(of).collect();
    assert_eq!(found.len(), 1, "{rows:#?}");
    found[0]
}

/// Without what was retransmitted: on a busy machine a probe for the tail may be.
fn sent_once(row: &Connection) -> u64 {
    row.bytes_sent - row.bytes_retransmitted
}

fn is_connect(row: &&Connection) -> bool {
    row.direction == Direction::Connect
}

#[test]
fn every_connection_has_a_row_with_what_it_moved() {
    needs_root!();
    let (spool, host) = (Spool::new(), Namespace::new("host"));
    let agent = Agent::start(&spool.path, "");
    let (server, at) = listener(&host);
    for number in 1..=100 {
        connect_once(&host, &server, number * 10, number * 1000);
    }
    agent.stop();
    let rows = spool.connections(host.inode());
    assert_eq!(rows.len(), 200);
    for number in 1..=100u64 {
        // One byte more each way ends `send_and_wait`; the kernel counts SYN and FIN as bytes.
        let up = |row: &&Connection| is_connect(row) && sent_once(row) == number * 10 + 1;
        let row = one(&rows, |row| up(row));
        let answer = number * 1000 + 1;
        assert!((answer..=answer + 1).contains(&row.bytes_received));
        assert!((sent_once(row)..=sent_once(row) + 2).contains(&row.bytes_acked));
        assert_eq!((row.kind, row.ended), (RowKind::End, Ended::ClosedHere));
        assert!(row.handshake_us.is_some_and(|us| us <= row.duration_us.unwrap()));
        assert_eq!(row.program.as_deref(), Some(own_comm().as_str()), "not its thread's name");
        assert_eq!(
            (row.remote_prefix.as_deref(), &row.remote_address),
            (Some("127.0.0.0/24"), &None)
        );
        let down = |row: &&Connection| !is_connect(row) && sent_once(row) == answer;
        let row = one(&rows, |row| down(row));
        assert_eq!((row.direction, row.ended), (Direction::Accept, Ended::ClosedThere));
        assert_eq!((row.handshake_us, row.service), (None, at.port()));
    }
}

#[test]
fn a_program_that_names_itself_for_a_terminal_to_obey_is_called_something_plain() {
    needs_root!();
    let (spool, host) = (Spool::new(), Namespace::new("host"));
    let agent = Agent::start(&spool.path, "");
    let (server, at) = listener(&host);
    let program = format!(
        "import socket\n\
         open('/proc/self/comm', 'wb').write(b'\\x1b[2J\\x7f')\n\
         socket.create_connection(('127.0.0.1', {})).recv(1)",
        at.port()
    );
    let mut python = host.command("/usr/bin/python3");
    let mut python = python.args(["-c", &program]).spawn().unwrap();
    drop(server.accept().unwrap());
    assert!(python.wait().unwrap().success());
    let waiting = || spool.waiting(host.inode());
    wait_for("its row", || waiting().iter().any(|row| is_connect(&row)));
    let rows = waiting();
    agent.stop();
    assert_eq!(one(&rows, is_connect).program.as_deref(), Some("?[2J?"));
}

#[test]
fn how_a_connection_ended_is_told_apart() {
    // Level 1.
    needs!("root", "linux-5.19");
    let (spool, host) = (Spool::new(), Namespace::new("host"));
    let agent = Agent::start(&spool.path, "");
    let (server, at) = listener(&host);
    let connected = || {
        let client = host.inside(|| TcpStream::connect(at).unwrap());
        (client, server.accept().unwrap().0)
    };
    // The client resets: SO_LINGER of 0.
    let (client, mut accepted) = connected();
    set_linger_zero(&client);
    drop(client);
    assert!(accepted.read(&mut [0; 9]).is_err());
    drop(accepted);
    // The server closes first.
    let (mut client, accepted) = connected();
    drop(accepted);
    assert_eq!(client.read(&mut [0; 9]).unwrap(), 0);
    drop(client);
    // Nobody listens.
    let nobody = SocketAddr::from((LOOPBACK, fresh_port()));
    assert!(host.inside(|| TcpStream::connect(nobody)).is_err());
    agent.stop();
    let rows = spool.connections(host.inode());
    let count = |direction, ended| {
        rows.iter().filter(|row| (row.direction, row.ended) == (direction, ended)).count()
    };
    assert_eq!(count(Direction::Connect, Ended::AbortedHere), 1, "{rows:#?}");
    assert_eq!(count(Direction::Accept, Ended::ResetByPeer), 1, "{rows:#?}");
    assert_eq!(count(Direction::Accept, Ended::ClosedHere), 1, "{rows:#?}");
    assert_eq!(count(Direction::Connect, Ended::ClosedThere), 1, "{rows:#?}");
    let refused = one(&rows, |row| row.kind == RowKind::Failed);
    assert_eq!((refused.ended, refused.error.as_deref()), (Ended::Refused, Some("ECONNREFUSED")));
    assert_eq!(refused.verdict, Cause::Handshake);
    let reset = one(&rows, |row| row.ended == Ended::ResetByPeer);
    let decided = |row: &Connection| -> Vec<Decided> {
        let of_row = spool.decisions().into_iter().filter(|d| d.cookie == row.cookie);
        of_row.map(|decision| decision.decided).collect()
    };
    assert_eq!(decided(reset), [Decided::Reset]);
    assert_eq!(decided(one(&rows, |row| row.ended == Ended::AbortedHere)), [Decided::ResetSent]);
}

#[test]
fn a_connection_that_goes_on_has_interim_rows_and_one_from_before_is_whole() {
    needs_root!();
    let (spool, host) = (Spool::new(), Namespace::new("host"));
    let (server, at) = listener(&host);
    let mut client = host.inside(|| TcpStream::connect(at).unwrap());
    let (mut accepted, _) = server.accept().unwrap();
    send_and_wait(&mut client, &mut accepted, 5000);
    let began = Instant::now();
    let agent = Agent::start(&spool.path, "look_seconds = 1\ninterim_seconds = 1\n");
    for _ in 0..4 {
        send_and_wait(&mut client, &mut accepted, 100);
        std::thread::sleep(Duration::from_millis(1100));
    }
    exchange(&mut client, &mut accepted, 10, 10);
    drop((client, accepted));
    agent.stop();
    let most = began.elapsed().as_secs() as usize + 2;
    let rows = spool.connections(host.inode());
    let sent: Vec<&Connection> = rows.iter().filter(|row| row.bytes_sent > 4000).collect();
    let last = sent.last().unwrap();
    assert_eq!((last.kind, sent_once(last)), (RowKind::End, 5000 + 4 * 100 + 10 + 1));
    assert_eq!((last.direction, last.duration_us), (Direction::Existing, None));
    let interim = sent.iter().filter(|row| row.kind == RowKind::Interim).count();
    assert!((2..=most).contains(&interim), "{interim} rows in between, of at most {most}");
    assert!(sent.windows(2).all(|pair| pair[0].bytes_sent <= pair[1].bytes_sent));
    assert!(sent.iter().all(|row| row.cookie == last.cookie));
}

#[test]
fn rows_that_are_in_no_file_yet_are_of_the_same_boot_as_those_of_files() {
    needs_root!();
    let (spool, host) = (Spool::new(), Namespace::new("host"));
    let agent = Agent::start(&spool.path, "");
    let (server, _) = listener(&host);
    connect_once(&host, &server, 10, 10);
    wait_for("both rows", || spool.ended(host.inode()).len() == 2);
    let waiting = spool.ended(host.inode());
    agent.stop();
    let rows = spool.connections(host.inode());
    assert!(rows[0].boot.is_some());
    assert!(waiting.iter().chain(&rows).all(|row| row.boot == rows[0].boot), "{waiting:#?}");
}

/// An upload that loses one data segment in ten, and its row.
fn lossy_upload(config: &str) -> (Connection, Spool) {
    let (spool, path) = (Spool::new(), Path::new(Duration::from_millis(5)));
    let agent = Agent::start(&spool.path, config);
    path.lose(|n| n % 10 == 9);
    let (mut client, mut server) = pair(&path);
    send_and_wait(&mut client, &mut server, 400_000);
    settle(&client);
    drop((client, server));
    std::thread::sleep(Duration::from_millis(200));
    agent.stop();
    let rows = spool.connections(path.left.inode());
    (one(&rows, is_connect).clone(), spool)
}

#[test]
fn retransmissions_are_told_by_cause_and_decisions_kept() {
    needs_root!();
    let (row, spool) = lossy_upload("");
    assert!(row.retransmitted >= 20, "{row:#?}");
    let by_cause =
        [row.retransmitted_by_recovery, row.retransmitted_by_timeout, row.retransmitted_by_probe];
    let by_cause: Vec<u32> = by_cause.into_iter().flatten().collect();
    assert_eq!(by_cause.iter().sum::<u32>(), row.retransmitted, "{by_cause:?}");
    assert!(by_cause[0] > row.retransmitted / 2, "{by_cause:?}");
    let decisions = spool.decisions();
    let recoveries = decisions.iter().filter(|decision| {
        decision.cookie == row.cookie
            && decision.decided == Decided::State
            && decision.now.name() == "recovery"
    });
    assert!(recoveries.count() >= 1);
}

#[test]
fn a_probe_and_a_timeout_are_decisions_of_their_own_kinds() {
    // Level 1.
    needs!("root", "linux-5.19");
    where_all_is_seen(a_probe_and_a_timeout);
}

fn a_probe_and_a_timeout() {
    let (spool, path) = (Spool::new(), Path::new(Duration::from_millis(5)));
    let agent = Agent::start(&spool.path, "");
    let (mut client, mut server) = pair(&path);
    send_and_wait(&mut client, &mut server, 20_000);
    settle(&client);
    path.until_timeouts(1, Fate::Drop);
    send_and_wait(&mut client, &mut server, 20_000);
    settle(&client);
    drop((client, server));
    std::thread::sleep(Duration::from_millis(200));
    agent.stop();
    let rows = spool.connections(path.left.inode());
    let row = one(&rows, is_connect);
    let by_cause = (row.retransmitted_by_timeout, row.retransmitted_by_probe);
    assert!(by_cause.0 >= Some(1) && by_cause.1 >= Some(1), "{by_cause:?}");
    assert!(row.timeouts >= Some(1), "{row:#?}");
    let decisions = spool.decisions();
    let of_row = decisions.iter().filter(|decision| decision.cookie == row.cookie);
    let told: Vec<(Decided, &str, Option<u32>)> =
        of_row.map(|d| (d.decided, d.now.name(), d.value)).collect();
    assert_eq!(told[0], (Decided::Probe, "open", None), "{told:?}");
    assert_eq!(told[1], (Decided::Timeout, "loss", Some(1)), "{told:?}");
    let last = row.last_decisions.as_deref().unwrap();
    let (probe, timeout) = (last.find(" s probe; -"), last.find(" s timeout 1; -"));
    assert!(probe.is_some() && timeout > probe, "{last}");
    assert_eq!(last.split("; ").count(), told.len(), "{last}");
}

#[test]
fn what_this_machines_own_device_refuses_is_local_congestion() {
    needs_root!();
    let (spool, path) = (Spool::new(), Path::new(Duration::from_millis(5)));
    // A device whose own ring holds two packets, and is not read for a while.
    path.left.ip("link set wire txqueuelen 2");
    path.left.tc("qdisc replace dev wire root noqueue");
    // The end of a tail loss probe reduces the window, too.
    path.left.sysctl("net/ipv4/tcp_early_retrans", "0");
    let agent = Agent::start(&spool.path, "");
    let (mut client, mut server) = pair(&path);
    path.judge(|_, segment| {
        if segment.payload > 0 {
            std::thread::sleep(Duration::from_millis(2));
        }
        Fate::Pass
    });
    send_and_wait(&mut client, &mut server, 400_000);
    drop((client, server));
    std::thread::sleep(Duration::from_millis(200));
    agent.stop();
    let rows = spool.connections(path.left.inode());
    let row = one(&rows, is_connect);
    let decisions = spool.decisions();
    let local = decisions.iter().filter(|decision| {
        decision.cookie == row.cookie && decision.decided == Decided::LocalCongestion
    });
    assert!(local.count() >= 1, "{:?}", row.last_decisions);
}

#[test]
fn the_end_of_a_tail_loss_probe_is_not_local_congestion() {
    // Level 1.
    needs!("root", "linux-5.19");
    where_all_is_seen(the_end_of_a_tail_loss_probe);
}

fn the_end_of_a_tail_loss_probe() {
    let (spool, path) = (Spool::new(), Path::new(Duration::from_millis(5)));
    let agent = Agent::start(&spool.path, "");
    let (mut client, mut server) = pair(&path);
    // Segments of 1448 bytes: the last one of ten, and then one more.
    path.lose(|n| n == 9);
    for bytes in [10 * 1448, 1448] {
        client.write_all(&vec![7; bytes]).unwrap();
        receive_all(&mut server, bytes);
        settle(&client);
    }
    drop((client, server));
    std::thread::sleep(Duration::from_millis(200));
    agent.stop();
    assert_eq!(Counters::of(&path.left).get("TcpExtTCPLossProbeRecovery"), 1);
    let rows = spool.connections(path.left.inode());
    let row = one(&rows, is_connect);
    let decisions = spool.decisions();
    let of_row = decisions.iter().filter(|decision| decision.cookie == row.cookie);
    let told: Vec<(Decided, &str)> = of_row.map(|d| (d.decided, d.now.name())).collect();
    assert_eq!(
        told,
        [(Decided::Probe, "open"), (Decided::State, "cwr"), (Decided::State, "open")],
        "{:?}",
        row.last_decisions
    );
}

#[test]
fn a_syn_that_nobody_answers_is_told_each_time() {
    // Level 1.
    needs!("root", "linux-5.19");
    where_all_is_seen(a_syn_that_nobody_answers);
}

fn a_syn_that_nobody_answers() {
    let (spool, path) = (Spool::new(), Path::new(Duration::from_millis(5)));
    let agent = Agent::start(&spool.path, "");
    path.cut();
    let nobody = SocketAddr::from(([10, 77, 0, 2], 9));
    let client =
        path.left.inside(|| TcpStream::connect_timeout(&nobody, Duration::from_millis(1500)));
    assert!(client.is_err());
    agent.stop();
    let rows = spool.connections(path.left.inode());
    let row = one(&rows, |row| row.kind == RowKind::Failed);
    let last = row.last_decisions.as_deref().unwrap_or_default();
    assert!(last.ends_with(" s syn 1"), "{last}");
}

/// Linux traces the attempts since 6.17.
#[test]
fn a_syn_that_has_no_route_any_more_is_not_retransmitted() {
    needs!("root", "linux-5.19");
    let (spool, path) = (Spool::new(), Path::new(Duration::from_millis(5)));
    let agent = Agent::start(&spool.path, "");
    path.cut();
    let nobody = SocketAddr::from(([10, 77, 0, 2], 9));
    std::thread::scope(|scope| {
        let connecting = scope.spawn(|| {
            path.left.inside(|| TcpStream::connect_timeout(&nobody, Duration::from_millis(2500)))
        });
        wait_for("the SYN", || Counters::of(&path.left).get("TcpActiveOpens") == 1);
        path.left.ip("-4 route flush dev wire");
        assert!(connecting.join().unwrap().is_err());
    });
    agent.stop();
    let rows = spool.connections(path.left.inode());
    let row = one(&rows, |row| row.kind == RowKind::Failed);
    let last = row.last_decisions.as_deref().unwrap_or_default();
    assert!(!last.contains(" syn "), "{last}");
    assert_eq!(row.retransmitted, 0);
}

#[test]
fn at_level_0_nothing_is_attached_to_rare_decisions_and_rows_say_so() {
    needs_root!();
    let (row, spool) = lossy_upload("level = 0\n");
    assert!(row.retransmitted >= 20, "the kernel counts them all the same: {row:#?}");
    assert_eq!((row.level, row.retransmitted_by_recovery), (0, None));
    assert!(spool.decisions().is_empty());
}

#[test]
fn a_receiver_that_does_not_read_is_named_by_the_kernels_own_times() {
    needs_root!();
    let (spool, path) = (Spool::new(), Path::new(Duration::from_millis(2)));
    let agent = Agent::start(&spool.path, "");
    let (mut client, mut server) = pair(&path);
    // So that what is sent waits at the sender and not in the receiver's memory.
    set_option(&server, libc::SOL_SOCKET, libc::SO_RCVBUF, 65_536);
    let reader = std::thread::spawn(move || {
        for _ in 0..10 {
            std::thread::sleep(Duration::from_millis(200));
            receive_all(&mut server, 100_000);
        }
        server
    });
    client.write_all(&vec![7; 1_000_000]).unwrap();
    drop((client, reader.join().unwrap()));
    std::thread::sleep(Duration::from_millis(200));
    agent.stop();
    let rows = spool.connections(path.left.inode());
    let row = one(&rows, is_connect);
    assert_eq!(row.verdict, Cause::ReceiverWindow, "{row:#?}");
    assert!(row.receive_window_limited_us > row.busy_us / 2, "{row:#?}");
}

#[test]
fn a_queue_that_stands_longer_than_the_kernel_remembers_is_still_a_full_path() {
    needs_root!();
    let (spool, path) = (Spool::new(), Path::new(Duration::from_millis(5)));
    path.left.sysctl("net/ipv4/tcp_min_rtt_wlen", "3");
    let agent = Agent::start(&spool.path, "look_seconds = 1\ncpu = 1.0\n");
    // 500 data segments in a second; after the first one and a half others fill a queue, too.
    let (mut number, mut free) = (0, Instant::now());
    path.judge(move |towards, segment| {
        if towards == Towards::Left {
            return Fate::Pass;
        }
        if segment.payload > 0 {
            number += 1;
            free = free.max(Instant::now()) + Duration::from_millis(2);
        }
        let others = Duration::from_millis(if number > 750 { 100 } else { 0 });
        Fate::Late(free.saturating_duration_since(Instant::now()) + others)
    });
    let (mut client, mut server) = pair(&path);
    send_and_wait(&mut client, &mut server, 4_700_000);
    settle(&client);
    drop((client, server));
    std::thread::sleep(Duration::from_millis(200));
    agent.stop();
    let rows = spool.connections(path.left.inode());
    let row = one(&rows, is_connect);
    assert!(row.min_rtt_us.is_some_and(|us| us < 50_000), "{row:#?}");
    assert_eq!(row.verdict, Cause::FullPath, "{row:#?}");
}

#[test]
fn more_connections_than_are_remembered_are_counted() {
    needs_root!();
    let (spool, host) = (Spool::new(), Namespace::new("host"));
    let agent = Agent::start(&spool.path, "connections = 1\n");
    let (server, at) = listener(&host);
    let open: Vec<_> = (0..30)
        .map(|_| (host.inside(|| TcpStream::connect(at).unwrap()), server.accept().unwrap()))
        .collect();
    drop(open);
    std::thread::sleep(Duration::from_millis(1500));
    agent.stop();
    let rows = spool.connections(host.inode()).len() as u64;
    let untracked = spool.agent().iter().map(|row| row.untracked).max().unwrap();
    assert!(rows <= 30, "{rows} rows");
    assert!(rows + untracked >= 60, "{rows} rows and {untracked} connections without");
}

/// With one port to choose from, the kernel connects the socket to itself: both SYNs cross.
#[test]
fn connections_that_both_ends_begin_at_once_are_each_counted_once() {
    needs_root!();
    let (spool, host) = (Spool::new(), Namespace::new("host"));
    host.sysctl("net/ipv4/ip_local_port_range", "30001 30001");
    let agent = Agent::start(&spool.path, "connections = 50\n");
    for _ in 0..100 {
        let stream = host.inside(|| TcpStream::connect((LOOPBACK, 30001)).unwrap());
        set_linger_zero(&stream);
    }
    agent.stop();
    let rows = spool.connections(host.inode());
    assert_eq!(rows.len(), 100);
    assert!(rows.iter().all(|row| is_connect(&row)), "{:#?}", rows[0]);
}

/// A map of the agent by its name.
fn map_of(agent: &Agent, name: &str) -> MapHandle {
    let files = fs::read_dir(format!("/proc/{}/fdinfo", agent.id())).unwrap().flatten();
    let texts = files.filter_map(|file| fs::read_to_string(file.path()).ok());
    let ids =
        texts.filter_map(|text| text.split_once("map_id:")?.1.lines().next()?.trim().parse().ok());
    let mut maps = ids.filter_map(|id| MapHandle::from_map_id(id).ok());
    maps.find(|map| map.name() == name).expect("it has such a map")
}

/// What the agent counts now, by slot.
fn count_of(counts: &MapHandle, slot: u32) -> i64 {
    let value = counts.lookup(&slot.to_ne_bytes(), MapFlags::ANY).unwrap().unwrap();
    i64::from_ne_bytes(value.try_into().unwrap())
}

#[test]
fn what_is_remembered_now_is_counted_anew_with_each_look() {
    needs_root!();
    let (spool, host) = (Spool::new(), Namespace::new("host"));
    let (server, at) = listener(&host);
    let connected = || (host.inside(|| TcpStream::connect(at).unwrap()), server.accept().unwrap());
    let _open: Vec<_> = (0..20).map(|_| connected()).collect();
    let agent = Agent::start(&spool.path, "look_seconds = 1\n");
    let counts = map_of(&agent, "agent_counts");
    let wrong = 1_000_000_i64;
    // Connections, those with decisions, those that are recorded.
    for slot in [0_u32, 4, 5] {
        counts.update(&slot.to_ne_bytes(), &wrong.to_ne_bytes(), MapFlags::ANY).unwrap();
    }
    let now = |slot: u32| count_of(&counts, slot);
    wait_for("a look to set them right", || [0, 4, 5].iter().all(|&slot| now(slot) < wrong / 2));
    // Those of the whole machine, other tests' among them.
    assert!((40..wrong / 2).contains(&now(0)), "{} connections", now(0));
    agent.stop();
}

#[test]
fn metrics_count_what_the_rows_say() {
    // They have the level, 1 here.
    needs!("root", "linux-5.19");
    let (spool, host) = (Spool::new(), Namespace::new("host"));
    let agent = Agent::start(&spool.path, "metrics = \"127.0.0.1:0\"\n");
    drop(agent);
    // The line with the address comes before the one that `start` waits for.
    let port = fresh_port();
    let agent = Agent::start(&spool.path, &format!("metrics = \"127.0.0.1:{port}\"\n"));
    let (server, _) = listener(&host);
    connect_once(&host, &server, 12_345, 10);
    let scrape = || scraped(port);
    wait_for("the connection to be counted", || {
        scrape().contains("transom_tcp_ends_total{ended=\"closed_by_peer\"}")
    });
    wait_for("its own state", || scrape().contains("transom_agent_level 1"));
    let resets = || {
        let text = scrape();
        let line = text.lines().find(|line| line.contains("decision=\"reset\""));
        line.and_then(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok()).unwrap()
    };
    let before = resets();
    host.inside(|| TcpStream::connect((LOOPBACK, fresh_port()))).unwrap_err();
    wait_for("the refusal to be among the decisions", || resets() > before);
    agent.stop();
}

#[test]
fn nothing_is_left_of_an_agent_but_its_files() {
    needs_root!();
    let spool = Spool::new();
    let agent = Agent::start(&spool.path, "");
    let id = agent.id();
    agent.stop();
    assert!(!std::path::Path::new(&format!("/proc/{id}")).exists());
    let mut left: Vec<String> = std::fs::read_dir(&spool.path)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| !name.ends_with(".parquet"))
        .collect();
    left.sort();
    assert_eq!(left, ["key", "lock", "stopped.raw"]);
}
