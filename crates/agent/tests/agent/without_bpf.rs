//! The same rows where the kernel takes no programs, as far as sock_diag tells them.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use transom_spool::{Connection, Direction, Ended, RowKind, Source};
use transom_testbed::{Namespace, Talking, copy, fresh_port, needs_root, wait_for};

use super::running::{AGENT, Agent, Spool};
use super::{LOOPBACK, connect_once, exchange, listener};

const SOCK_DIAG: &str = "source = \"sock_diag\"\nlook_seconds = 1\n";

/// What both ways must say alike.
fn counters(row: &Connection) -> impl PartialEq + std::fmt::Debug {
    let bytes = (row.bytes_sent, row.bytes_acked, row.bytes_received);
    let segments = (row.data_segments_sent, row.data_segments_received, row.retransmitted);
    let ends = (row.local_port, row.remote_port, row.remote_prefix.clone(), row.netns);
    (row.cookie, bytes, segments, ends, row.remote_tag.is_some(), row.mss, row.algorithm.clone())
}

#[test]
fn rows_without_bpf_have_the_counters_of_those_of_the_probes() {
    needs_root!();
    let (probed, asked, host) = (Spool::new(), Spool::new(), Namespace::new("host"));
    let (server, at) = listener(&host);
    let agents = [Agent::start(&probed.path, ""), Agent::start(&asked.path, SOCK_DIAG)];
    for number in 1..=20 {
        let mut client = host.inside(|| TcpStream::connect(at).unwrap());
        let (mut accepted, _) = server.accept().unwrap();
        // The last one is seen by a look.
        if number == 20 {
            std::thread::sleep(Duration::from_millis(2500));
        }
        exchange(&mut client, &mut accepted, number * 100, number * 5000);
    }
    std::thread::sleep(Duration::from_millis(500));
    agents.into_iter().for_each(Agent::stop);
    let by_cookie = |spool: &Spool| {
        let mut rows = spool.connections(host.inode());
        rows.retain(|row| row.kind == RowKind::End);
        rows.sort_by_key(|row| row.cookie);
        rows
    };
    let (probed, asked) = (by_cookie(&probed), by_cookie(&asked));
    assert_eq!((probed.len(), asked.len()), (40, 40));
    for (probed, asked) in probed.iter().zip(&asked) {
        if probed.algorithm == asked.algorithm {
            assert_eq!(counters(probed), counters(asked));
        } else {
            // The end of a socket is told without it: only a look tells.
            assert_eq!((asked.algorithm.clone(), asked.pid), (None, None));
            let known = Connection { algorithm: probed.algorithm.clone(), ..asked.clone() };
            assert_eq!(counters(probed), counters(&known));
        }
        assert_eq!(asked.direction, probed.direction, "{asked:#?}");
        assert_eq!((probed.source, asked.source), (Source::Probes, Source::SockDiag));
        assert_eq!((asked.ended, asked.duration_us), (Ended::Unknown, None));
    }
    let named: Vec<_> = asked.iter().filter(|row| row.pid.is_some()).collect();
    assert_eq!(named.len(), 2, "both ends of the one that lasted");
    assert!(named.iter().all(|row| row.pid == Some(std::process::id())));
}

#[test]
fn an_ipv4_connection_of_an_ipv6_socket_has_its_prefix_also_without_bpf() {
    needs_root!();
    let (spool, host) = (Spool::new(), Namespace::new("host"));
    let server = host.inside(|| TcpListener::bind("[::]:0").unwrap());
    let at = (LOOPBACK, server.local_addr().unwrap().port());
    let agent = Agent::start(&spool.path, SOCK_DIAG);
    let mut client = host.inside(|| TcpStream::connect(at).unwrap());
    let mut accepted = server.accept().unwrap().0;
    exchange(&mut client, &mut accepted, 100, 100);
    drop((client, accepted));
    wait_for("both rows", || spool.ended(host.inode()).len() >= 2);
    agent.stop();
    for row in spool.connections(host.inode()) {
        assert_eq!(row.remote_prefix.as_deref(), Some("127.0.0.0/24"), "{row:#?}");
    }
}

#[test]
fn a_port_that_was_listened_on_before_can_be_the_near_end_of_a_connection_made_here() {
    needs_root!();
    let (spool, host) = (Spool::new(), Namespace::new("host"));
    let (server, at) = listener(&host);
    let (gone, was_at) = listener(&host);
    // With looks as often as they are asked for.
    let agent = Agent::start(&spool.path, &format!("{SOCK_DIAG}cpu = 1.0\n"));
    // One finds it, and two do not.
    std::thread::sleep(Duration::from_millis(1500));
    drop(gone);
    std::thread::sleep(Duration::from_millis(3500));
    let port = was_at.port();
    host.sysctl("net/ipv4/ip_local_port_range", &format!("{port} {port}"));
    connect_once(&host, &server, 10, 1000);
    wait_for("its rows", || spool.ended(host.inode()).len() == 2);
    agent.stop();
    let mut ends: Vec<(u16, Direction)> =
        spool.connections(host.inode()).iter().map(|row| (row.local_port, row.direction)).collect();
    ends.sort_by_key(|(local, _)| *local == port);
    assert_eq!(ends, [(at.port(), Direction::Accept), (port, Direction::Connect)]);
}

/// Reports of the namespace that found no room in a queue of the process, as the kernel counts them
/// (`/proc/net/netlink`: the last columns are `Drops` and `Inode`).
fn dropped_reports(pid: u32, namespace: &Namespace) -> u64 {
    let open = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
    let open: Vec<_> = open.filter_map(|entry| fs::read_link(entry.path()).ok()).collect();
    let read = || fs::read_to_string("/proc/thread-self/net/netlink").unwrap();
    let sockets = namespace.inside(read);
    let drops = |line: &str| {
        let mut words = line.split_whitespace().rev();
        let socket = PathBuf::from(format!("socket:[{}]", words.next()?));
        open.contains(&socket).then(|| words.next()?.parse::<u64>().ok())?
    };
    sockets.lines().skip(1).filter_map(drops).sum()
}

#[test]
fn reports_that_found_no_room_are_counted_as_lost() {
    needs_root!();
    let (spool, host) = (Spool::new(), Namespace::new("host"));
    let (server, _) = listener(&host);
    let agent = Agent::start(&spool.path, SOCK_DIAG);
    std::thread::sleep(Duration::from_millis(1500));
    let mut connections = 0;
    agent.paused(|| {
        while dropped_reports(agent.id(), &host) < 1000 {
            assert!(connections < 200_000, "its queue takes all");
            (0..500).for_each(|_| connect_once(&host, &server, 1, 1));
            connections += 500;
        }
    });
    let lost = || spool.agent_until_now().iter().map(|row| row.lost_rows).max().unwrap_or(0);
    // Those of other namespaces are among the lost.
    wait_for("each end to have a row or to be lost", || {
        spool.waiting(host.inode()).len() + lost() as usize >= 2 * connections
    });
    agent.stop();
    let rows = spool.connections(host.inode()).len();
    let lost = spool.agent().iter().map(|row| row.lost_rows).max().unwrap();
    assert!(rows > 0 && lost > 0, "{rows} rows, {lost} lost");
    assert!(rows + lost as usize >= 2 * connections, "{rows} rows, {lost} lost");
}

#[test]
fn without_a_privilege_there_are_rows_of_the_own_namespace() {
    needs_root!();
    const NOBODY: u32 = 65534;
    let (spool, host) = (Spool::new(), Namespace::new("host"));
    let folder = spool.path.parent().unwrap();
    chown(folder, Some(NOBODY), Some(NOBODY)).unwrap();
    let program = folder.join("transom-agent");
    copy(AGENT.as_ref(), &program);
    let (server, _) = listener(&host);
    let mut agent = host.inside(|| {
        let mut command = Command::new(&program);
        command.arg("--spool").arg(&spool.path).current_dir("/").uid(NOBODY).gid(NOBODY);
        Talking::start(&mut command, "not permitted")
    });
    agent.wait_for_words("rows of connections go to");
    connect_once(&host, &server, 10, 1000);
    let nowhere = (LOOPBACK, fresh_port());
    host.inside(|| TcpStream::connect(nowhere)).unwrap_err();
    drop((server, listener(&host)));
    wait_for("its rows", || spool.ended(host.inode()).len() >= 3);
    assert!(agent.end(libc::SIGINT).success());
    let rows = spool.connections(host.inode());
    let ended: Vec<_> = rows.iter().filter(|row| row.kind == RowKind::End).collect();
    assert_eq!(ended.len(), 2, "{rows:#?}");
    let failed: Vec<_> = rows.iter().filter(|row| row.kind == RowKind::Failed).collect();
    assert_eq!(failed.len(), 1, "{rows:#?}");
    assert_eq!((failed[0].direction, failed[0].bytes_acked), (Direction::Connect, 0));
    assert_eq!(rows.len(), 3, "listeners have no row");
}
