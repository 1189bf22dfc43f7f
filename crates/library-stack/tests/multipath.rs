//! Multipath TCP (RFC 8684) of an unmodified program, against the MPTCP of a kernel: over two paths
//! at once, over one that dies and returns, and with a server that knows only TCP.

mod bed;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bed::tunnel::add_raw_path;
use bed::{Bed, PATIENCE, Running, numbered, until};
use transom_testbed::{host_and_port, multipath_stream, needs_root};

const TWO: [&str; 5] = ["--mptcp", "--path", "c0", "--path", "c1"];
const AMOUNT: usize = 12 << 20;

/// Two paths at 60 Mbit/s each, and a way from the second to the first one's server.
fn two_paths() -> Bed {
    let bed = Bed::with_path();
    bed.add_path(1);
    bed.limit_rate(0, 60);
    bed.limit_rate(1, 60);
    reachable_over_second(&bed);
    bed
}

/// The server is one address, 10.70.0.2: packets for it leave over `c1` to the gateway there.
fn reachable_over_second(bed: &Bed) {
    bed.client.ip("route add default via 10.70.1.2 dev c1");
}

/// Each byte of the client, checked as it comes.
struct Hearer {
    stream: TcpStream,
    heard: usize,
}

impl Hearer {
    fn accept(listener: &TcpListener) -> Self {
        let (stream, _) = listener.accept().expect("a client");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        Self { stream, heard: 0 }
    }

    /// False: the client has finished.
    fn hear(&mut self) -> bool {
        let mut piece = vec![0; 1 << 16];
        let length = self.stream.read(&mut piece).expect("data");
        assert!(
            piece[..length] == numbered(self.heard, length),
            "other bytes after {}",
            self.heard
        );
        self.heard += length;
        length > 0
    }

    fn hear_more(&mut self, amount: usize) {
        let end = self.heard + amount;
        while self.heard < end {
            assert!(self.hear(), "the client has finished early");
        }
    }

    /// Until the interface of the host has sent so much more.
    fn hear_until_sent(&mut self, bed: &Bed, interface: &str, more: u64) {
        let before = bed.client.sent(interface);
        let end = std::time::Instant::now() + PATIENCE;
        while bed.client.sent(interface) < before + more {
            assert!(std::time::Instant::now() < end, "{interface} is not used");
            assert!(self.hear(), "the client has finished early");
        }
    }

    /// Tells the client that it is enough, and hears the rest.
    fn finish(mut self, client: Running) {
        self.stream.write_all(b".").expect("taken");
        while self.hear() {}
        drop(self.stream);
        assert_eq!(client.end().text().trim(), self.heard.to_string());
    }
}

/// A program that sends [`AMOUNT`] bytes, to its end.
fn push(bed: &Bed, options: &[&str]) {
    let listener = bed.server.listen_multipath();
    let port = listener.local_addr().expect("its address").port().to_string();
    let client = bed.python(options, "push.py", &["10.70.0.2", &port, &AMOUNT.to_string()]);
    let mut hearer = Hearer::accept(&listener);
    while hearer.hear() {}
    assert_eq!(hearer.heard, AMOUNT);
    drop(hearer);
    client.end().well();
}

#[test]
fn both_paths_carry_what_the_program_sends() {
    needs_root!();
    let bed = two_paths();
    push(&bed, &TWO);
    let sent = [bed.client.sent("c0"), bed.client.sent("c1")];
    assert!(sent.iter().all(|sent| *sent > AMOUNT as u64 / 5), "{sent:?} bytes on the paths");
    bed.client.noticed_nothing();
}

#[test]
fn both_paths_carry_what_the_program_gets() {
    needs_root!();
    let bed = two_paths();
    let listener = bed.server.listen_multipath();
    let port = listener.local_addr().expect("its address").port().to_string();
    let server = thread::spawn(move || {
        let (mut client, _) = listener.accept().expect("a client");
        client.write_all(&numbered(0, AMOUNT)).expect("taken");
    });
    let got = bed.python(&TWO, "get.py", &["10.70.0.2", &port]).end().well();
    assert!(got == numbered(0, AMOUNT), "{} bytes arrived, or others", got.len());
    server.join().expect("the server");
    let sent = [bed.server.sent("s0"), bed.server.sent("s1")];
    assert!(sent.iter().all(|sent| *sent > AMOUNT as u64 / 5), "{sent:?} bytes on the paths");
    bed.client.noticed_nothing();
}

/// The program ends while most of what it has sent is still with the library.
fn leaves(options: &[&str]) {
    const LEFT: usize = 2_000_000;
    let bed = two_paths();
    bed.limit_rate(0, 10);
    bed.limit_rate(1, 10);
    let listener = bed.server.listen_multipath();
    let port = listener.local_addr().expect("its address").port().to_string();
    let client = bed.python(options, "leave.py", &["10.70.0.2", &port, &LEFT.to_string()]);
    let mut hearer = Hearer::accept(&listener);
    while hearer.hear() {}
    assert_eq!(hearer.heard, LEFT);
    drop(hearer);
    client.end().well();
    bed.client.noticed_nothing();
}

#[test]
fn what_a_program_has_sent_before_its_end_arrives() {
    needs_root!();
    leaves(&TWO);
}

#[test]
fn so_it_does_over_plain_tcp() {
    needs_root!();
    leaves(&TWO[1..3]);
}

/// Mid-transfer the link of `dying` goes, and comes back.
fn dies_and_returns(dying: &str) {
    let bed = two_paths();
    let listener = bed.server.listen_multipath();
    let port = listener.local_addr().expect("its address").port().to_string();
    let client = bed.python(&TWO, "push.py", &["10.70.0.2", &port]);
    let mut hearer = Hearer::accept(&listener);
    hearer.hear_more(1 << 20);
    hearer.hear_until_sent(&bed, dying, 1 << 18);
    bed.client.ip(&format!("link set {dying} down"));
    hearer.hear_more(4 << 20);
    bed.client.ip(&format!("link set {dying} up"));
    hearer.hear_until_sent(&bed, dying, 1 << 19);
    hearer.finish(client);
}

#[test]
fn a_second_path_that_dies_loses_nothing_and_is_used_again() {
    needs_root!();
    dies_and_returns("c1");
}

#[test]
fn a_first_path_that_dies_loses_nothing_and_is_used_again() {
    needs_root!();
    dies_and_returns("c0");
}

#[test]
fn one_path_may_be_without_ethernet() {
    needs_root!();
    let bed = Bed::with_path();
    bed.limit_rate(0, 60);
    let _wire = add_raw_path(&bed, 1);
    let listener = bed.server.listen_multipath();
    let port = listener.local_addr().expect("its address").port().to_string();
    let client = bed.python(&TWO, "push.py", &["10.70.0.2", &port]);
    let mut hearer = Hearer::accept(&listener);
    hearer.hear_until_sent(&bed, "c0", 1 << 18);
    // What goes out over a TUN interface comes in from the wire, which counts it at the far end.
    hearer.hear_until_sent(&bed, "c1", 1 << 18);
    hearer.finish(client);
    bed.client.noticed_nothing();
}

fn plain_server(listener: TcpListener) -> JoinHandle<()> {
    thread::spawn(move || {
        let (mut client, _) = listener.accept().expect("a client");
        client.write_all(&numbered(0, AMOUNT)).expect("taken");
    })
}

#[test]
fn a_server_without_mptcp_gets_plain_tcp() {
    needs_root!();
    let bed = two_paths();
    let listener = bed.server.listen("10.70.0.2:0");
    let [host, port] = host_and_port(listener.local_addr().expect("its address"));
    let thread = plain_server(listener);
    let got = bed.python(&TWO, "get.py", &[&host, &port]).end().well();
    assert!(got == numbered(0, AMOUNT), "{} bytes arrived, or others", got.len());
    thread.join().expect("the server");
}

#[test]
fn status_shows_the_subflows() {
    needs_root!();
    let bed = two_paths();
    let listener = bed.server.listen_multipath();
    let port = listener.local_addr().expect("its address").port().to_string();
    let options = [&TWO[..], &["--status"]].concat();
    let client = bed.python(&options, "push.py", &["10.70.0.2", &port]);
    let mut hearer = Hearer::accept(&listener);
    let begun = std::time::Instant::now();
    until("two seconds of it", || {
        hearer.hear();
        begun.elapsed() > Duration::from_secs(2)
    });
    hearer.stream.write_all(b".").expect("taken");
    while hearer.hear() {}
    drop(hearer);
    let status = client.end().stderr;
    assert!(status.contains("\n10.70.0.1:"), "{status}");
    assert!(status.contains("\n+ 10.70.1.1:"), "{status}");
}

#[test]
fn a_spare_path_carries_nothing_while_the_first_stands() {
    needs_root!();
    const SPARE: [&str; 5] = ["--mptcp", "--path", "c0", "--path", "c1,backup"];
    let bed = two_paths();
    push(&bed, &SPARE);
    let [first, spare] = [bed.client.sent("c0"), bed.client.sent("c1")];
    assert!(first > AMOUNT as u64 && spare < AMOUNT as u64 / 100, "{first} and {spare} bytes");
}

/// A client of the server's own kernel, with one address of its own, that reads what a program on the
/// library sends; it takes up what it is told of the program's other addresses.
fn client_of_program(bed: &Bed, options: &[&str]) -> (Running, Hearer) {
    bed.server.ip("mptcp limits set subflows 4 add_addr_accepted 4");
    let mut server = bed.python(options, "serve.py", &["7000"]);
    server.wait_for("ready");
    let to = "10.70.0.1:7000".parse().expect("an address");
    let stream = bed.server.inside(|| multipath_stream(to));
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    (server, Hearer { stream, heard: 0 })
}

#[test]
fn a_client_learns_of_all_paths_of_a_server() {
    needs_root!();
    let bed = two_paths();
    let (_server, mut hearer) =
        client_of_program(&bed, &["--mptcp", "--path", "c0", "--path", "c1,signal"]);
    hearer.hear_until_sent(&bed, "c0", 1 << 20);
    hearer.hear_until_sent(&bed, "c1", 1 << 20);
    bed.client.noticed_nothing();
}

#[test]
fn a_spare_path_of_a_server_carries_all_when_the_first_has_died() {
    needs_root!();
    let bed = two_paths();
    let (_server, mut hearer) =
        client_of_program(&bed, &["--mptcp", "--path", "c0", "--path", "c1,backup,signal"]);
    hearer.hear_until_sent(&bed, "c0", 8 << 20);
    let spare = bed.client.sent("c1");
    assert!(spare < 1 << 17, "{spare} bytes over the spare path while the first stood");
    bed.client.ip("link set c0 down");
    hearer.hear_until_sent(&bed, "c1", 4 << 20);
}
