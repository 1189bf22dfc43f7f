//! Whose each connection is.

use std::io::{Read, Write};
use std::net::{SocketAddrV4, TcpListener, TcpStream};

use transom_spool::{Connection, Direction, RowKind};
use transom_testbed::{
    Namespace, TwoPaths, fresh_port, multipath_listener, multipath_stream, needs, needs_root,
    own_comm, wait_for,
};

use super::running::{Agent, Spool};
use super::{connect_once, listener};

fn is_ours(row: &Connection) -> bool {
    row.pid == Some(std::process::id()) && row.program.as_deref() == Some(own_comm().as_str())
}

#[test]
fn a_connection_is_of_the_process_whatever_its_thread_is_called() {
    needs_root!();
    let (spool, host) = (Spool::new(), Namespace::new("host"));
    let agent = Agent::start(&spool.path, "");
    std::thread::scope(|scope| {
        let work = || {
            let (server, _) = listener(&host);
            connect_once(&host, &server, 10, 10);
        };
        std::thread::Builder::new().name("worker-7".into()).spawn_scoped(scope, work).unwrap();
    });
    agent.stop();
    let rows = spool.connections(host.inode());
    assert_eq!(rows.len(), 2);
    assert!(rows.iter().all(is_ours), "{rows:#?}");
}

/// What two programs say to each other.
fn exchange(client: &mut TcpStream, server: &TcpListener) -> TcpStream {
    let (mut accepted, _) = server.accept().unwrap();
    client.write_all(&[7; 1000]).unwrap();
    accepted.read_exact(&mut [0; 1000]).unwrap();
    accepted
}

#[test]
fn subflows_of_multipath_tcp_are_of_the_program_that_connected_or_listens() {
    needs!("root", "mptcp");
    let (spool, hosts) = (Spool::new(), TwoPaths::new());
    let at = SocketAddrV4::new([10, 81, 0, 2].into(), fresh_port());
    let connect = |server: &TcpListener, subflows: usize| {
        let mut client = hosts.client.inside(|| multipath_stream(at));
        let accepted = exchange(&mut client, server);
        wait_for("its second subflow", || hosts.subflows(at.port()) == subflows);
        (client, accepted)
    };
    let server = hosts.server.inside(|| multipath_listener(at));
    let early = connect(&server, 2);
    // The agent begins when there is a listener and a connection already.
    let agent = Agent::start(&spool.path, "");
    let late = connect(&server, 4);
    let mut plain = hosts.client.inside(|| TcpStream::connect(at).unwrap());
    let plain = (exchange(&mut plain, &server), plain);
    drop((early, late, plain, server));
    // And a listener that comes after it.
    let next = SocketAddrV4::new(*at.ip(), fresh_port());
    let server = hosts.server.inside(|| multipath_listener(next));
    let mut client = hosts.client.inside(|| TcpStream::connect(next).unwrap());
    drop((exchange(&mut client, &server), client, server));
    let rows = || {
        let mut rows = spool.waiting(hosts.client.inode());
        rows.extend(spool.waiting(hosts.server.inode()));
        rows.retain(|row| row.kind == RowKind::End);
        rows
    };
    wait_for("a row of each end of each subflow", || rows().len() >= 12);
    agent.stop();
    let mut rows = spool.connections(hosts.client.inode());
    rows.extend(spool.connections(hosts.server.inode()));
    rows.retain(|row| row.kind == RowKind::End);
    let of = |direction: Direction| rows.iter().filter(|row| row.direction == direction).count();
    assert_eq!((of(Direction::Existing), of(Direction::Connect), of(Direction::Accept)), (4, 4, 4));
    assert!(rows.iter().all(is_ours), "{rows:#?}");
}

#[test]
fn without_bpf_a_connection_is_of_the_process_too() {
    needs_root!();
    let (spool, host) = (Spool::new(), Namespace::new("host"));
    let (server, at) = listener(&host);
    let client = host.inside(|| TcpStream::connect(at).unwrap());
    let accepted = server.accept().unwrap();
    let agent = Agent::start(&spool.path, "source = \"sock_diag\"\n");
    drop((client, accepted, server));
    wait_for("both rows", || spool.ended(host.inode()).len() == 2);
    agent.stop();
    assert!(spool.connections(host.inode()).iter().all(is_ours));
}
