//! Under a service manager that waits for it (systemd's Type=notify): the agent says that it runs
//! when it does, and not before.

use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use transom_testbed::{Namespace, needs_root};

use super::running::{Agent, Spool};
use super::{connect_once, is_connect, listener};

/// What systemd has: a socket that is told.
struct Manager {
    socket: UnixDatagram,
    name: OsString,
}

impl Manager {
    /// With a socket in the file system, as the system's manager has.
    fn beside(spool: &Spool) -> Manager {
        let path = spool.path.with_extension("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        Manager { socket, name: path.into() }
    }

    /// With a name that is no file, as older managers have and containers.
    fn without_a_file(name: &str) -> Manager {
        let address = SocketAddr::from_abstract_name(name).unwrap();
        let socket = UnixDatagram::bind_addr(&address).unwrap();
        Manager { socket, name: format!("@{name}").into() }
    }

    fn begin(&self, spool: &Spool) -> Agent {
        Agent::begin_under(&self.name, &spool.path)
    }

    /// The next that it is told.
    fn told(&self) -> String {
        let mut words = [0; 100];
        self.socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let length = loop {
            match self.socket.recv(&mut words) {
                // A wait with an end does not go on by itself after a stop (signal(7)).
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                received => break received.expect("to be told"),
            }
        };
        String::from_utf8_lossy(&words[..length]).into_owned()
    }

    fn was_told_nothing(&self) -> bool {
        self.socket.set_nonblocking(true).unwrap();
        self.socket.recv(&mut [0; 100]).is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    }
}

#[test]
fn a_connection_that_begins_when_the_agent_is_ready_has_its_row() {
    needs_root!();
    let (spool, host) = (Spool::new(), Namespace::new("host"));
    let manager = Manager::beside(&spool);
    let (server, _) = listener(&host);
    let agent = manager.begin(&spool);
    assert_eq!(manager.told(), "READY=1");
    connect_once(&host, &server, 10, 10);
    agent.stop();
    assert_eq!(manager.told(), "STOPPING=1");
    assert_eq!(spool.connections(host.inode()).iter().filter(is_connect).count(), 1);
}

#[test]
fn a_socket_without_a_file_is_told_too() {
    needs_root!();
    let spool = Spool::new();
    let manager = Manager::without_a_file(&format!("transom-test-{}", std::process::id()));
    let agent = manager.begin(&spool);
    assert_eq!(manager.told(), "READY=1");
    agent.stop();
}

#[test]
fn an_agent_that_does_not_get_to_run_is_never_ready() {
    needs_root!();
    let spool = Spool::new();
    let manager = Manager::beside(&spool);
    let first = Agent::start(&spool.path, "");
    assert!(!manager.begin(&spool).ends().success(), "the spool is taken");
    assert!(manager.was_told_nothing());
    first.stop();
}

#[test]
fn a_manager_that_cannot_be_told_is_named_and_the_agent_runs() {
    needs_root!();
    let (spool, host) = (Spool::new(), Namespace::new("host"));
    let agent = Agent::begin_under(OsStr::new("/run/no-such-manager"), &spool.path);
    agent.wait_for_words("/run/no-such-manager: telling the service manager READY=1: No such file");
    let (server, _) = listener(&host);
    connect_once(&host, &server, 10, 10);
    agent.stop();
    assert_eq!(spool.connections(host.inode()).len(), 2);
}
