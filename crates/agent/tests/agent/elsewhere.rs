//! Connections in network namespaces where the agent does not look, or no longer does.

use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::time::Duration;

use libbpf_rs::MapCore;
use transom_event::Kind;
use transom_testbed::{Fate, Namespace, Path, needs, pair, send_and_wait, wait_for};

use super::recording::{events, quiet_but, watched};
use super::running::{Agent, Spool};
use super::{count_of, listener, map_of};

/// Of what the agent counts: connections that are recorded now.
const CHOSEN: u32 = 5;
/// One a second.
const LOOKS: Duration = Duration::from_secs(4);

/// As its unit has it, which has no right to enter namespaces.
#[test]
fn a_connection_where_the_agent_must_not_look_is_recorded_until_it_ends() {
    needs!("root", "linux-5.19", "setpriv");
    let (spool, path) = (Spool::new(), Path::new(Duration::from_millis(5)));
    let agent = Agent::start_confined(&spool.path, &quiet_but("timeouts = 2"));
    let counts = map_of(&agent, "agent_counts");
    let (mut client, mut server) = pair(&path);
    send_and_wait(&mut client, &mut server, 10_000);
    path.until_timeouts(2, Fate::Drop);
    send_and_wait(&mut client, &mut server, 20_000);
    path.heal();
    let recorded = || events(&spool, &[&path.left]).into_values().next().unwrap_or_default();
    wait_for("its trace", || {
        send_and_wait(&mut client, &mut server, 100_000);
        !recorded().is_empty()
    });
    std::thread::sleep(LOOKS);
    assert_eq!(count_of(&counts, CHOSEN), 1);
    let before = recorded().len();
    wait_for("its events of now", || {
        send_and_wait(&mut client, &mut server, 100_000);
        recorded().len() > before
    });
    drop((client, server));
    wait_for("its end", || count_of(&counts, CHOSEN) == 0);
    agent.stop();
    assert_eq!(spool.traces().len(), 1, "without a gap");
    assert_eq!(recorded().last().map(|event| event.kind), Some(Kind::Close));
}

/// One whose entry has gone is not taken away when it ends, as when the kernel skips the probe.
#[test]
fn an_end_that_was_skipped_is_found_out_where_the_agent_must_not_look() {
    needs!("root", "linux-5.19", "setpriv");
    let (spool, host) = (Spool::new(), Namespace::new("host"));
    let (server, at) = listener(&host);
    let agent = Agent::start_confined(&spool.path, &quiet_but(&watched(at.port())));
    let counts = map_of(&agent, "agent_counts");
    let connected = || (host.inside(|| TcpStream::connect(at).unwrap()), server.accept().unwrap());
    let ends = [connected(), connected()];
    wait_for("all ends", || count_of(&counts, CHOSEN) == 4);
    let [(client, accepted), others] = ends;
    map_of(&agent, "tracked").delete(&client.as_raw_fd().to_ne_bytes()).unwrap();
    drop(client);
    wait_for("the one to be missed", || count_of(&counts, CHOSEN) == 3);
    drop((accepted, others));
    wait_for("no end to be left", || count_of(&counts, CHOSEN) == 0);
    agent.stop();
}

#[test]
fn a_namespace_whose_process_has_ended_is_found_by_another_name() {
    needs!("root", "linux-5.19");
    let (spool, host) = (Spool::new(), Namespace::new("host"));
    let (server, at) = listener(&host);
    let mut first = host.command("sleep").arg("1000").spawn().unwrap();
    let agent = Agent::start(&spool.path, &quiet_but(&watched(at.port())));
    let counts = map_of(&agent, "agent_counts");
    let client = host.inside(|| TcpStream::connect(at).unwrap());
    let accepted = server.accept().unwrap();
    wait_for("both ends", || count_of(&counts, CHOSEN) == 2);
    std::thread::sleep(LOOKS);
    first.kill().unwrap();
    first.wait().unwrap();
    for _ in 0..40 {
        assert_eq!(count_of(&counts, CHOSEN), 2);
        std::thread::sleep(LOOKS / 40);
    }
    drop((client, accepted));
    wait_for("their end", || count_of(&counts, CHOSEN) == 0);
    agent.stop();
}
