//! What routers and neighbours say of a path, in the rows of the connections over it.

use std::io::{ErrorKind, Read, Write};

use transom_spool::{Cause, Ended};
use transom_testbed::{Namespace, link, needs_root, pair_at, send_and_wait, set_option};

use super::running::{Agent, Spool};
use super::{is_connect, one};

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
