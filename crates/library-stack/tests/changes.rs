//! The host's network changes while a program runs: addresses, gateways and whole interfaces come
//! and go, as on a phone that moves.

mod bed;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use bed::{Bed, Running};
use transom_testbed::{host_and_port, needs_root};

const PATH: [&str; 2] = ["--path", "c0"];

/// Connects for each line that it reads, `HOST PORT`, and tells what came back and its own port there.
const CONNECT: &str = "import socket,sys\n\
    print('ready', flush=True)\n\
    for line in sys.stdin:\n\
    \x20 host, port = line.split()\n\
    \x20 with socket.create_connection((host, int(port)), timeout=30) as s:\n\
    \x20  s.sendall(b'x')\n\
    \x20  print('answered', s.recv(1), s.getsockname()[1], flush=True)\n";

fn client(bed: &Bed, options: &[&str]) -> Running {
    let mut client =
        Running::start_with_input(&mut bed.command(options, &["python3", "-c", CONNECT]));
    client.wait_for("ready");
    client
}

/// It answers the next connection; where that came from.
fn connection(client: &mut Running, listener: &TcpListener) -> (TcpStream, String) {
    let [host, port] = host_and_port(listener.local_addr().expect("its address"));
    client.tell(&format!("{host} {port}\n"));
    let (mut stream, from) = listener.accept().expect("a connection");
    let mut byte = [0];
    stream.read_exact(&mut byte).expect("its byte");
    stream.write_all(&byte).expect("taken");
    // Until it has the answer, it needs the address that it had.
    client.wait_for(&format!("answered b'x' {}\n", from.port()));
    (stream, from.ip().to_string())
}

#[test]
fn an_address_that_takes_the_place_of_another_is_used() {
    needs_root!();
    let bed = Bed::with_path();
    let listener = bed.server.listen("10.70.0.2:0");
    let mut client = client(&bed, &PATH);
    assert_eq!(connection(&mut client, &listener).1, "10.70.0.1");
    bed.client.ip("addr del 10.70.0.1/24 dev c0");
    bed.client.ip("addr add 10.70.0.9/24 dev c0");
    client.wait_for_said("10.70.0.9 is its address now");
    assert_eq!(connection(&mut client, &listener).1, "10.70.0.9");
    bed.client.noticed_nothing();
}

#[test]
fn an_address_of_the_other_family_that_comes_later_is_used() {
    needs_root!();
    let bed = Bed::with_path();
    bed.client.ip("addr del fd70:0::1/64 dev c0");
    let listener = bed.server.listen("[fd70:0::2]:0");
    let mut client = client(&bed, &PATH);
    bed.client.ip("addr add fd70:0::7/64 dev c0 nodad");
    client.wait_for_said("fd70::7 is its address now");
    assert_eq!(connection(&mut client, &listener).1, "fd70::7");
}

/// A second address beside it changes nothing: connections hang on the first.
#[test]
fn an_address_stays_while_the_interface_has_it() {
    needs_root!();
    let bed = Bed::with_path();
    let listener = bed.server.listen("10.70.0.2:0");
    let mut client = client(&bed, &PATH);
    bed.client.ip("addr add 10.70.0.9/24 dev c0");
    bed.client.ip("addr add 10.70.0.10/24 dev c0");
    assert_eq!(connection(&mut client, &listener).1, "10.70.0.1");
}

#[test]
fn a_new_gateway_is_used() {
    needs_root!();
    let bed = Bed::with_path();
    bed.server.ip("addr add 10.99.0.1/32 dev lo");
    let listener = bed.server.listen("10.99.0.1:0");
    bed.client.ip("route add default via 10.70.0.77");
    let mut client = client(&bed, &PATH);
    bed.client.ip("route replace default via 10.70.0.2");
    assert_eq!(connection(&mut client, &listener).1, "10.70.0.1");
}

#[test]
fn an_interface_that_is_deleted_and_made_anew_is_used() {
    needs_root!();
    let bed = Bed::with_path();
    let mut client = client(&bed, &PATH);
    let before = bed.server.listen("10.70.0.2:0");
    connection(&mut client, &before);
    bed.client.ip("link del c0");
    client.wait_for_said("c0 is down");
    bed.add_path(0);
    client.wait_for_said("c0 is up again");
    let after = bed.server.listen("10.70.0.2:0");
    assert_eq!(connection(&mut client, &after).1, "10.70.0.1");
    bed.client.noticed_nothing();
}

/// A connection of two paths to a server whose address is on neither link, and what is sent over it.
struct Push {
    client: Running,
    stream: TcpStream,
    heard: usize,
}

impl Push {
    fn begin(bed: &Bed, options: &[&str]) -> Self {
        bed.server.ip("addr add 10.99.0.1/32 dev lo");
        let listener = bed.server.listen_multipath();
        let port = listener.local_addr().expect("its address").port().to_string();
        let options = [&["--mptcp"], options].concat();
        let client = bed.python(&options, "push.py", &["10.99.0.1", &port]);
        let (stream, _) = listener.accept().expect("a client");
        Self { client, stream, heard: 0 }
    }

    fn hear_more(&mut self, amount: usize) {
        let mut piece = vec![0; 1 << 16];
        let end = self.heard + amount;
        while self.heard < end {
            let length = self.stream.read(&mut piece).expect("more of it");
            assert!(length > 0, "it ended after {} bytes", self.heard);
            self.heard += length;
        }
    }

    /// Until the server has received a megabyte more over this link.
    fn hear_over(&mut self, bed: &Bed, link: &str) {
        let unused = bed.server.received(link);
        bed::until(&format!("{link} carries it again"), || {
            self.hear_more(1 << 20);
            bed.server.received(link) > unused + (1 << 20)
        });
    }
}

/// The connection itself goes on: the second path carries it, and the first one again when it is back.
#[test]
fn a_multipath_connection_outlives_the_deletion_of_its_first_interface() {
    needs_root!();
    let bed = Bed::with_path();
    bed.add_path(1);
    let mut push = Push::begin(&bed, &["--path", "c0,,10.70.0.2", "--path", "c1,,10.70.1.2"]);
    push.hear_more(1 << 20);
    bed.client.ip("link del c0");
    push.client.wait_for_said("c0 is down");
    push.hear_more(32 << 20);
    bed.add_path(0);
    push.client.wait_for_said("c0 is up again");
    push.hear_more(32 << 20);
    push.hear_over(&bed, "s0");
}

/// As with DHCP: first the address, and then the way to all others.
#[test]
fn a_path_whose_address_and_gateway_come_back_carries_the_connection_again() {
    needs_root!();
    let bed = Bed::with_path();
    bed.add_path(1);
    for (n, metric) in [(0, 100), (1, 200)] {
        bed.client.ip(&format!("route add default via 10.70.{n}.2 metric {metric}"));
    }
    let mut push = Push::begin(&bed, &["--path", "c0", "--path", "c1"]);
    push.hear_over(&bed, "s1");
    bed.client.ip("addr del 10.70.1.1/24 dev c1");
    push.client.wait_for_said("10.70.1.1 is no longer its address");
    bed.client.ip("addr add 10.70.1.7/24 dev c1");
    push.client.wait_for_said("10.70.1.7 is its address now");
    push.hear_more(32 << 20);
    bed.client.ip("route add default via 10.70.1.2 metric 200");
    push.hear_over(&bed, "s1");
}

/// Its gateway is known before it is asked for.
#[test]
fn a_path_whose_address_is_taken_away_and_given_back_carries_the_connection_again() {
    needs_root!();
    let bed = Bed::with_path();
    bed.add_path(1);
    let mut push = Push::begin(&bed, &["--path", "c0,,10.70.0.2", "--path", "c1,,10.70.1.2"]);
    push.hear_over(&bed, "s1");
    bed.client.ip("addr del 10.70.1.1/24 dev c1");
    push.client.wait_for_said("10.70.1.1 is no longer its address");
    push.hear_more(32 << 20);
    bed.client.ip("addr add 10.70.1.1/24 dev c1");
    push.client.wait_for_said("10.70.1.1 is its address now");
    push.hear_over(&bed, "s1");
}
