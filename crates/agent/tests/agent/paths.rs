//! What routers, neighbours and peers say of a path, in the rows of the connections over it.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use transom_event::{Kind, RtoCause, fields};
use transom_spool::{CaState, Cause, Connection, Decided, Ended, RowKind};
use transom_testbed::{
    ACK, Counters, Fate, Namespace, Path, Puppet, RST, SYN, Towards, link, needs, needs_root,
    on_a_path_in_time, pair, pair_at, send_and_wait, set_option, settle, wait_for,
    where_all_is_seen,
};

use super::recording::{events, quiet_but, watched};
use super::running::{Agent, Spool};
use super::{connect_once, is_connect, listener, one};

#[test]
fn segments_that_are_too_large_for_the_path_are_repeated_and_no_timer_has_expired() {
    // Level 1.
    needs!("root", "linux-5.19");
    where_all_is_seen(segments_that_are_too_large_for_the_path);
}

fn segments_that_are_too_large_for_the_path() {
    let spool = Spool::new();
    let [host, router, server] = ["host", "router", "server"].map(Namespace::new);
    link((&host, "near", &["10.78.1.1/24"]), (&router, "near", &["10.78.1.2/24"]));
    link((&router, "far", &["10.78.2.2/24"]), (&server, "far", &["10.78.2.1/24"]));
    host.ip("route add default via 10.78.1.2");
    server.ip("route add default via 10.78.2.2");
    router.sysctl("net/ipv4/ip_forward", "1");
    // As into a tunnel: neither end knows.
    router.ip("link set far mtu 1300");
    let agent = Agent::start(&spool.path, "");
    let (mut client, mut accepted) = pair_at(&host, &server, [10, 78, 2, 1].into(), 9);
    send_and_wait(&mut client, &mut accepted, 20_000);
    settle(&client);
    assert_eq!(Counters::of(&host).get("TcpExtTCPTimeouts"), 0, "what the kernel says of it");
    drop((client, accepted));
    std::thread::sleep(Duration::from_millis(200));
    agent.stop();
    let rows = spool.connections(host.inode());
    let row = one(&rows, is_connect);
    assert!(row.retransmitted >= 5, "{row:#?}");
    assert_eq!((row.timeouts, row.retransmitted_by_timeout), (Some(0), Some(0)), "{row:#?}");
    assert_eq!(row.retransmitted_by_probe, Some(row.retransmitted), "neither timer nor recovery");
    let decisions = spool.decisions();
    let mut of_row = decisions.iter().filter(|decision| decision.cookie == row.cookie);
    let first = of_row.next().map(|decision| (decision.decided, decision.now));
    assert_eq!(first, Some((Decided::State, CaState::Loss)), "{:?}", row.last_decisions);
    assert!(of_row.all(|decision| decision.decided != Decided::Probe), "{:?}", row.last_decisions);
}

#[test]
fn after_sack_that_was_taken_back_the_next_timer_is_a_timeout_as_ever() {
    // Level 1.
    needs!("root", "linux-5.19");
    // Once for what was taken back, and then nobody answers.
    let acts = |puppet: &mut Puppet| {
        puppet.wait_for_data(4000);
        puppet.wait_for_data(4000);
    };
    where_all_is_seen(|| timers_after_sack_that_was_taken_back(3000, acts));
}

/// An answer begins the count of timers in a row anew, and what was taken back is still marked.
#[test]
fn so_it_is_after_a_part_was_acknowledged() {
    // Level 1.
    needs!("root", "linux-5.19");
    let acts = |puppet: &mut Puppet| {
        puppet.wait_for_data(4000);
        puppet.acknowledge(4000, 60_000, &[]);
        puppet.wait_for_data(5000);
        puppet.wait_for_data(5000);
    };
    where_all_is_seen(|| timers_after_sack_that_was_taken_back(4000, acts));
}

/// `acts` has a timer expire beside the one for what was taken back, after which all before `acked`
/// is acknowledged.
fn timers_after_sack_that_was_taken_back(acked: u32, acts: impl FnOnce(&mut Puppet)) {
    let (spool, mut puppet, other) = (Spool::new(), Puppet::new(), Namespace::new("other"));
    let (server, at) = listener(&other);
    let watch = [Puppet::address().port(), at.port()].map(watched).join("\n");
    // No budget that recording could be given up for.
    let agent = Agent::start(&spool.path, &format!("cpu = 1.0\n{}", quiet_but(&watch)));
    wait_for("the probes to record", || {
        connect_once(&other, &server, 10, 10);
        !events(&spool, &[&other]).is_empty()
    });
    let connecting = puppet.host.spawn(|| TcpStream::connect(Puppet::address()).unwrap());
    puppet.accept();
    let mut client = connecting.join().unwrap();
    client.write_all(&[7; 6000]).unwrap();
    puppet.wait_for_data(6000);
    puppet.acknowledge(0, 60_000, &[(3000, 6000)]);
    puppet.acknowledge(3000, 60_000, &[]);
    acts(&mut puppet);
    let timers = Counters::of(&puppet.host).get("TcpExtTCPTimeouts") as u32;
    puppet.flag(acked, RST | ACK);
    wait_for("the reset", || client.take_error().unwrap().is_some());
    drop(client);
    assert_eq!(Counters::of(&puppet.host).get("TcpExtTCPSACKReneging"), 1);
    agent.stop();
    let rows = spool.connections(puppet.host.inode());
    let row = one(&rows, is_connect);
    assert!(timers >= 2, "{timers}");
    assert_eq!(row.timeouts, Some(timers - 1), "{row:#?}");
    assert_eq!(row.retransmitted_by_timeout, Some(timers - 1), "{row:#?}");
    let decisions = spool.decisions();
    let of_row = decisions.iter().filter(|decision| decision.cookie == row.cookie);
    let timeouts = of_row.filter(|decision| decision.decided == Decided::Timeout);
    assert_eq!(timeouts.count() as u32, timers - 1, "{:?}", row.last_decisions);
    let recorded = events(&spool, &[&puppet.host]).remove(&row.cookie).unwrap();
    let rtos = recorded.iter().filter(|event| event.kind == Kind::Rto);
    let causes: Vec<_> = rtos.filter_map(|event| fields::rto_cause(event.aux)).collect();
    let mut expected = vec![RtoCause::Timer; timers as usize];
    expected[0] = RtoCause::Reneging;
    assert_eq!(causes, expected);
}

#[test]
fn a_syn_that_was_lost_is_no_data_that_was_and_its_handshake_is_as_long_as_it_was() {
    // Level 1.
    needs!("root", "linux-5.19");
    let path = Path::new(Duration::from_millis(200));
    let row = after_a_lost_syn(&path, "", |client, server| send_and_wait(client, server, 200_000));
    assert_eq!((row.retransmitted, row.retransmitted_by_timeout), (1, Some(1)), "{row:#?}");
    assert!((1_400_000..1_700_000).contains(&row.handshake_us.unwrap()), "{row:#?}");
    assert_eq!(row.verdict, Cause::Cwnd, "{row:#?}");
}

/// Of its window of ten segments each question fills four.
#[test]
fn a_program_that_leaves_its_window_empty_does_so_after_a_lost_syn_too() {
    // Level 1; total_rto, which is all that level 0 has, came with 6.7.
    needs!("root", "linux-6.7");
    for settings in ["", "level = 0\n"] {
        // An answer that comes late has a probe sent.
        on_a_path_in_time(|| {
            let path = Path::new(Duration::from_millis(100));
            let row = after_a_lost_syn(&path, settings, |client, server| {
                (0..8).for_each(|_| send_and_wait(client, server, 5_000));
            });
            assert_eq!((row.retransmitted, row.timeouts), (1, Some(1)), "{settings} {row:#?}");
            assert_eq!(row.verdict, Cause::Application, "{settings} {row:#?}");
        });
    }
}

/// The row of the end that connected, with a path that loses its first SYN.
fn after_a_lost_syn(
    path: &Path,
    settings: &str,
    acts: impl FnOnce(&mut TcpStream, &mut TcpStream),
) -> Connection {
    let spool = Spool::new();
    let agent = Agent::start(&spool.path, settings);
    let mut syns = 0;
    path.judge(move |towards, segment| {
        syns += u32::from(towards == Towards::Right && segment.has(SYN));
        if syns == 1 { Fate::Drop } else { Fate::Pass }
    });
    let (mut client, mut server) = pair(path);
    acts(&mut client, &mut server);
    drop((client, server));
    std::thread::sleep(Duration::from_secs(1));
    agent.stop();
    let rows = spool.connections(path.left.inode());
    one(&rows, is_connect).clone()
}

/// The kernel makes two sockets of it then and throws one away, as its count of passive opens shows.
#[test]
fn a_handshake_whose_end_two_cpus_receive_at_once_is_one_connection_and_none_that_failed() {
    needs!("root", "two-cpus");
    let (spool, mut puppet) = (Spool::new(), Puppet::new());
    let agent = Agent::start(&spool.path, "");
    let listener = puppet.host.inside(|| TcpListener::bind("10.78.0.1:0")).unwrap();
    let connections = puppet.dial_at_two_cpus(&listener);
    agent.stop();
    let rows = spool.connections(puppet.host.inode());
    let failed: Vec<&Connection> = rows.iter().filter(|row| row.kind == RowKind::Failed).collect();
    assert!(failed.is_empty(), "{connections} connections, {failed:#?}");
    // An end may be hidden where nobody sees what happens on process 1's time.
    let seen = connections * 9 / 10..=connections;
    assert!(seen.contains(&(rows.len() as u64)), "{} rows of {connections}", rows.len());
}

#[test]
fn a_neighbour_that_is_switched_off_has_vanished() {
    needs_root!();
    let (spool, host, server) = (Spool::new(), Namespace::new("host"), Namespace::new("server"));
    link((&host, "wire", &["10.78.3.1/24"]), (&server, "wire", &["10.78.3.2/24"]));
    let agent = Agent::start(&spool.path, "");
    let (mut client, mut accepted) = pair_at(&host, &server, [10, 78, 3, 2].into(), 9);
    send_and_wait(&mut client, &mut accepted, 20_000);
    // Its link stays up, as behind a switch, and nobody tells its address any more.
    server.ip("addr flush dev wire");
    host.ip("neigh flush dev wire");
    const PATIENCE_MS: i32 = 6000;
    set_option(&client, libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, PATIENCE_MS);
    client.write_all(&[7; 20_000]).unwrap();
    let error = loop {
        let error = client.read(&mut [0; 9]).unwrap_err();
        if error.kind() != ErrorKind::Interrupted {
            break error;
        }
    };
    assert_eq!(error.raw_os_error(), Some(libc::EHOSTUNREACH), "{error}");
    drop((client, accepted));
    agent.stop();
    let rows = spool.connections(host.inode());
    let row = one(&rows, is_connect);
    assert_eq!((row.ended, row.verdict), (Ended::Unreachable, Cause::PeerVanished), "{row:#?}");
}
