//! More connections at once than the kernel's side hands over in one go.

use std::collections::HashSet;
use std::io::Write;
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::time::Duration;

use transom_spool::{Chosen, RowKind};
use transom_testbed::{
    Counters, Namespace, Path, fresh_port, needs, needs_root, pair, send_and_wait, skip, wait_for,
};

use super::listener;
use super::recording::quiet_but;
use super::running::{Agent, Spool, own_metric};

const MANY_ROWS: &str = "cpu = 1.0\nlook_seconds = 1\ninterim_seconds = 1\n";

/// Connections that nobody accepts: the other end waits in the queue of the listener.
fn waiting_to_be_accepted(host: &Namespace, number: usize) -> (Vec<TcpStream>, impl Sized) {
    host.sysctl("net/core/somaxconn", "65535");
    let (server, at) = listener(host);
    // SAFETY: no memory.
    assert_eq!(unsafe { libc::listen(server.as_raw_fd(), 65535) }, 0);
    let connect = || (0..number).map(|_| TcpStream::connect(at).unwrap()).collect();
    (host.inside(connect), server)
}

/// Whether this process may have so many files open.
fn may_open(files: u64) -> bool {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel fills what is there.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: the kernel reads what is there.
    unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) };
    let enough = limit.rlim_max > files;
    if !enough {
        skip("files", &format!("{files} open files are not allowed"));
    }
    enough
}

#[test]
fn interim_rows_that_find_no_room_come_later_and_none_is_lost() {
    needs_root!();
    /// Of both ends; the ring takes some 13,000 rows.
    const ROWS: usize = 16_000;
    if !may_open(ROWS as u64 / 2 + 100) {
        return;
    }
    let (spool, host) = (Spool::new(), Namespace::new("host"));
    let (mut clients, server) = waiting_to_be_accepted(&host, ROWS / 2);
    clients.iter_mut().for_each(|client| client.write_all(b"x").unwrap());
    // The second look finds that an interval has passed for each.
    let agent = Agent::start(&spool.path, MANY_ROWS);
    let seen = || -> usize {
        let mut rows = spool.waiting(host.inode());
        rows.extend(spool.connections(host.inode()));
        let interim = rows.iter().filter(|row| row.kind == RowKind::Interim);
        interim.map(|row| row.cookie).collect::<HashSet<_>>().len()
    };
    let lost = || spool.agent_until_now().iter().map(|row| row.lost_rows).max().unwrap_or(0);
    wait_for("a row of each", || {
        std::thread::sleep(Duration::from_millis(500));
        seen() + lost() as usize >= ROWS
    });
    assert_eq!((seen(), lost()), (ROWS, 0));
    drop((clients, server));
    agent.stop();
}

#[test]
fn a_condition_that_holds_for_thousands_chooses_as_many_as_there_is_room_for() {
    needs!("root", "linux-5.19");
    const CONNECTIONS: usize = 1500;
    if !may_open(CONNECTIONS as u64 + 100) {
        return;
    }
    let (spool, host, port) = (Spool::new(), Namespace::new("host"), fresh_port());
    // The agent looks at them all once, while it starts.
    let (clients, server) = waiting_to_be_accepted(&host, CONNECTIONS);
    let of_this_host = format!("netns = {} and bytes_acked > 0", host.inode());
    let recording = quiet_but(&format!("connections = 5\ncondition = \"{of_this_host}\""));
    let config = format!("metrics = \"127.0.0.1:{port}\"\n{recording}");
    let agent = Agent::start(&spool.path, &config);
    let metric = |name: &str| own_metric(port, name).unwrap_or_default();
    let recorded = || metric("transom_agent_recorded_connections");
    wait_for("as many as there is room for", || recorded() == 5.0);
    let without = "transom_agent_not_chosen_connections_total";
    wait_for("the others to be counted", || metric(without) >= CONNECTIONS as f64 - 5.0);
    // Of what has ended nothing is in the way of what comes.
    drop((clients, server));
    wait_for("their end", || recorded() == 0.0);
    let (client, server) = waiting_to_be_accepted(&host, 1);
    wait_for("the next one", || recorded() == 1.0);
    drop((client, server));
    agent.stop();
    let rows = spool.connections(host.inode());
    let chosen = rows.iter().filter(|row| row.kind == RowKind::End && row.chosen != Chosen::No);
    assert_eq!(chosen.count(), 6);
}

#[test]
fn a_connection_without_room_is_counted_once_however_often_there_is_a_reason() {
    needs!("root", "linux-5.19");
    let (spool, path, port) = (Spool::new(), Path::new(Duration::from_millis(1)), fresh_port());
    let condition = format!("netns = {} and bytes_acked > 0", path.left.inode());
    let config = |more: &str| {
        let more = format!("connections = 1\n{more}\ncondition = \"{condition}\"");
        format!("cpu = 1.0\nmetrics = \"127.0.0.1:{port}\"\n{}", quiet_but(&more))
    };
    let agent = Agent::start(&spool.path, &config(""));
    let metric = |name: &str| own_metric(port, name).unwrap_or_default();
    let not_chosen = || metric("transom_agent_not_chosen_connections_total");
    let mut pairs = [pair(&path), pair(&path)];
    let mut some_looks = |bytes| {
        for _ in 0..4 {
            pairs.iter_mut().for_each(|(client, server)| send_and_wait(client, server, bytes));
            std::thread::sleep(Duration::from_millis(1200));
        }
    };
    some_looks(200_000);
    assert_eq!(metric("transom_agent_recorded_connections"), 1.0);
    assert_eq!(not_chosen(), 1.0, "the other one");
    // A reason that each retransmission is, on the whole machine.
    agent.reconfigure(&spool.path, &config("retransmitted = 0.02"));
    agent.wait_for_words("read again");
    path.lose(|n| n % 10 == 9);
    some_looks(500_000);
    // It is one of two, and has about half of them; connections of other tests are counted, too.
    let reasons = Counters::of(&path.left).get("TcpRetransSegs") as f64;
    assert!((1.0..reasons / 4.0).contains(&not_chosen()), "{} of {reasons}", not_chosen());
    agent.stop();
}

#[test]
fn of_very_many_samples_of_the_rtt_the_older_ones_fade() {
    // Level 1, whose decisions are samples, too.
    needs!("root", "linux-5.19");
    let (spool, path) = (Spool::new(), Path::new(Duration::from_millis(1)));
    let agent = Agent::start(&spool.path, MANY_ROWS);
    path.lose(|n| n % 10 == 9);
    let (mut client, mut server) = pair(&path);
    let ours = client.local_addr().unwrap().port();
    wait_for("a row with fewer samples than the one before", || {
        send_and_wait(&mut client, &mut server, 200_000);
        let mut rows = spool.waiting(path.left.inode());
        rows.retain(|row| row.local_port == ours);
        rows.windows(2).any(|pair| pair[1].rtt_samples < pair[0].rtt_samples)
    });
    agent.stop();
}
