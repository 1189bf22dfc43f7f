//! Programs on the library's stack against servers and clients of a kernel's own, over Ethernet and
//! raw IP; and what the host whose addresses they share notices of it: nothing.

mod bed;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bed::host::Host;
use bed::tunnel::add_raw_path;
use bed::{Bed, Running, accept, numbered, until};
use transom_testbed::{host_and_port, needs_root};

const AMOUNT: usize = 8 << 20;
const PATH: [&str; 2] = ["--path", "c0"];

/// Says its piece to one client.
fn speaker(listener: TcpListener, piece: Vec<u8>) -> JoinHandle<()> {
    thread::spawn(move || {
        let (mut client, _) = listener.accept().expect("a client");
        client.write_all(&piece).expect("taken");
    })
}

/// What one client says until it has finished.
fn hearer(listener: TcpListener) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let (mut client, _) = listener.accept().expect("a client");
        let mut all = Vec::new();
        client.read_to_end(&mut all).expect("all of it");
        all
    })
}

fn download(bed: &Bed, server: &str) {
    let listener = bed.server.listen(server);
    let [host, port] = host_and_port(listener.local_addr().expect("its address"));
    let thread = speaker(listener, numbered(0, AMOUNT));
    let got = bed.python(&PATH, "get.py", &[&host, &port]).end().well();
    assert!(got == numbered(0, AMOUNT), "{} bytes arrived, or others", got.len());
    thread.join().expect("the server");
}

fn upload(bed: &Bed, server: &str) {
    let listener = bed.server.listen(server);
    let [host, port] = host_and_port(listener.local_addr().expect("its address"));
    let thread = hearer(listener);
    let said = bed.python(&PATH, "push.py", &[&host, &port, &AMOUNT.to_string()]).end().text();
    assert_eq!(said.trim(), AMOUNT.to_string());
    assert!(thread.join().expect("the server") == numbered(0, AMOUNT), "other bytes arrived");
}

fn both_ways(bed: &Bed, server: &str) {
    download(bed, server);
    upload(bed, server);
    bed.client.noticed_nothing();
}

#[test]
fn ipv4_both_ways_and_the_host_notices_nothing() {
    needs_root!();
    both_ways(&Bed::with_path(), "10.70.0.2:0");
}

#[test]
fn ipv6_both_ways_and_the_host_notices_nothing() {
    needs_root!();
    both_ways(&Bed::with_path(), "[fd70:0::2]:0");
}

#[test]
fn ipv4_over_an_interface_without_ethernet() {
    needs_root!();
    let bed = Bed::new();
    let _wire = add_raw_path(&bed, 0);
    both_ways(&bed, "10.70.0.2:0");
}

#[test]
fn ipv6_over_an_interface_without_ethernet() {
    needs_root!();
    let bed = Bed::new();
    let _wire = add_raw_path(&bed, 0);
    both_ways(&bed, "[fd70:0::2]:0");
}

/// As a router with one address for all of its links has it.
#[test]
fn connections_have_the_source_that_the_default_route_names() {
    needs_root!();
    let bed = Bed::with_path();
    bed.client.ip("link set lo up");
    bed.client.ip("addr add 10.200.0.1/32 dev lo");
    bed.client.ip("route add default via 10.70.0.2 src 10.200.0.1");
    bed.server.ip("route add 10.200.0.1 via 10.70.0.1");
    let listener = bed.server.listen("10.70.0.2:0");
    let [host, port] = host_and_port(listener.local_addr().expect("its address"));
    let client = bed.python(&[], "get.py", &[&host, &port]);
    let (mut server, peer) = listener.accept().expect("a client");
    assert_eq!(peer.ip().to_string(), "10.200.0.1");
    server.write_all(b"an answer").expect("taken");
    drop(server);
    assert_eq!(client.end().well(), b"an answer");
    bed.client.noticed_nothing();
}

/// `ping` of a host that lets everybody send echo requests has no other way.
#[test]
fn an_echo_request_needs_no_raw_socket() {
    needs_root!();
    let bed = Bed::with_path();
    bed.client.output("sysctl", &["-qw", "net.ipv4.ping_group_range=0 2147483647"]);
    let script = "import socket\n\
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP)\n\
        s.settimeout(20); s.bind(('0.0.0.0', 77))\n\
        s.sendto(bytes([8, 0, 0, 0, 0, 0, 0, 1]) + b'ping', ('10.70.0.2', 0))\n\
        told, peer = s.recvfrom(99); print(told[0], told[4:6].hex(), told[8:].decode(), peer[0])";
    let told = bed.run(&PATH, &["python3", "-c", script]).end().text();
    assert_eq!(told.trim(), "0 004d ping 10.70.0.2");
}

/// A resolver on the host itself is out of the library's reach: whoever asks it learns what helps.
#[test]
fn a_nameserver_of_the_host_itself_is_told_of_once() {
    needs_root!();
    let bed = Bed::with_path();
    bed.client.ip("link set lo up");
    let resolver = bed.client.inside(|| UdpSocket::bind("127.0.0.53:53")).expect("a resolver");
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "nameserver 127.0.0.53\n").expect("written");
    let script = "import socket, sys\n\
        for at in [('10.70.0.2', 53), ('127.0.0.53', 53), ('127.0.0.53', 53)]:\n \
            s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect(at)\n \
            print(at[0], file=sys.stderr)\n\
        s.settimeout(1)\n\
        try: s.send(b'question'); s.recv(9)\n\
        except OSError: pass";
    let said = |udp: &str| {
        let line = "mount --bind \"$1\" /etc/resolv.conf && shift && exec \"$@\"";
        let netstack = env!("CARGO_BIN_EXE_transom-netstack");
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", line, "sh"]).arg(file.path()).arg(netstack);
        command.args(PATH).args(["--udp", udp, "--", "python3", "-c", script]);
        bed.client.take(&mut command);
        let ended = Running::start(&mut command).end();
        assert!(ended.status.success(), "{}", ended.stderr);
        ended.stderr
    };
    let told = said("stack");
    let lines: Vec<&str> = told.lines().collect();
    assert!(
        lines[1].contains("resolved by 127.0.0.53") && lines[1].contains("--udp host"),
        "{told}"
    );
    assert_eq!((lines.len(), lines[0]), (4, "10.70.0.2"), "{told}");
    resolver.set_nonblocking(true).expect("set");
    assert!(resolver.recv(&mut [0; 9]).is_err(), "it was asked");
    assert_eq!(said("host"), "10.70.0.2\n127.0.0.53\n127.0.0.53\n");
    assert_eq!(resolver.recv(&mut [0; 9]).expect("the question"), 8);
}

/// From the server's side: it sends all, and must get all back.
fn echoed(from: &Host, at: SocketAddr) {
    let mut stream = from.inside(|| TcpStream::connect(at)).expect("a connection");
    let mut writer = stream.try_clone().expect("a copy");
    let writing = thread::spawn(move || {
        writer.write_all(&numbered(0, AMOUNT)).expect("taken");
        writer.shutdown(Shutdown::Write).expect("finished");
    });
    let mut back = Vec::new();
    stream.read_to_end(&mut back).expect("all of it");
    writing.join().expect("writing");
    assert!(back == numbered(0, AMOUNT), "{} bytes came back, or others", back.len());
}

fn serves(bind: &str, at: &str) {
    serves_in(&Bed::with_path(), bind, at);
}

fn serves_in(bed: &Bed, bind: &str, at: &str) {
    let mut server = bed.python(&PATH, "echo.py", &[bind, "8070"]);
    server.wait_for("ready");
    for _ in 0..2 {
        echoed(&bed.server, at.parse().expect("an address"));
    }
    bed.client.noticed_nothing();
}

#[test]
fn a_server_on_the_library_is_reached_over_ipv4() {
    needs_root!();
    serves("0.0.0.0", "10.70.0.1:8070");
}

#[test]
fn a_server_on_the_library_is_reached_over_ipv6() {
    needs_root!();
    serves("::", "[fd70:0::1]:8070");
}

#[test]
fn a_server_of_ipv6_is_reached_over_ipv4_too() {
    needs_root!();
    serves("::", "10.70.0.1:8070");
}

/// As Java binds to an IPv4 address (RFC 4291, section 2.5.5.2), whatever the host's own sockets take.
#[test]
fn a_server_of_ipv6_at_one_ipv4_address_is_reached() {
    needs_root!();
    for only in [0, 1] {
        let bed = Bed::with_path();
        bed.client.output("sysctl", &["-qw", &format!("net.ipv6.bindv6only={only}")]);
        serves_in(&bed, "::ffff:10.70.0.1", "10.70.0.1:8070");
    }
}

#[test]
fn a_thousand_connections_at_once() {
    const NUMBER: usize = 1000;
    needs_root!();
    let bed = Bed::with_path();
    let listener = bed.listen_for_many();
    let [host, port] = host_and_port(listener.local_addr().expect("its address"));
    let server = thread::spawn(move || {
        // None is answered before all are there.
        for stream in &mut accept(&listener, NUMBER) {
            let mut two = [0; 2];
            stream.read_exact(&mut two).expect("its number");
            stream.write_all(&two).expect("taken");
        }
    });
    let program = bed.python(&PATH, "many.py", &[&host, &port, &NUMBER.to_string()]);
    assert_eq!(program.end().text().trim(), NUMBER.to_string());
    server.join().expect("the server");
    bed.client.noticed_nothing();
}

#[test]
fn the_host_goes_on_using_its_own_address() {
    needs_root!();
    let bed = Bed::with_path();
    let mut server = bed.python(&PATH, "echo.py", &["0.0.0.0", "8070"]);
    server.wait_for("ready");
    let listener = bed.client.listen("10.70.0.1:8071");
    let at = listener.local_addr().expect("its address");
    let thread = hearer(listener);
    let mut stream = bed.server.inside(|| TcpStream::connect(at)).expect("the host's own server");
    stream.write_all(&numbered(0, AMOUNT)).expect("taken");
    drop(stream);
    assert!(thread.join().expect("the host's server") == numbered(0, AMOUNT));
    assert_eq!(bed.client.counters()["Tcp.OutRsts"], 0);
    echoed(&bed.server, "10.70.0.1:8070".parse().expect("an address"));
}

/// Addresses of link scope are the host's, too. The client's interface has another number than the
/// library's.
#[test]
fn neighbours_are_reached_by_their_addresses_of_link_scope() {
    needs_root!();
    let bed = Bed::new();
    bed.client.ip("link add x0 type veth peer name x1");
    bed.add_path(0);
    bed.number_link_scope();
    let listener = bed.server.listen("[::]:0");
    let port = listener.local_addr().expect("its address").port().to_string();
    let script = "import socket,sys\n\
        where = socket.getaddrinfo(sys.argv[1], int(sys.argv[2]), type=socket.SOCK_STREAM)[0][4]\n\
        s = socket.socket(socket.AF_INET6)\n\
        s.settimeout(20)\n\
        s.connect(where)\n\
        named = s.getpeername()[3], s.getsockname()[3]\n\
        print([socket.if_indextoname(number) for number in named], flush=True)\n\
        s.recv(1)";
    let program = ["python3", "-c", script, "fe80::70:2%c0", &port];
    let mut client = bed.run(&PATH, &program);
    client.wait_for("c0");
    let (mut served, from) = listener.accept().expect("a client");
    assert_eq!(from.ip().to_string(), "fe80::70:1");
    served.write_all(b"x").expect("taken");
    assert_eq!(client.end().text().trim(), "['c0', 'c0']");

    let mut server = bed.python(&PATH, "echo.py", &["::", "8070"]);
    server.wait_for("ready");
    let number = bed.server.output("cat", &["/sys/class/net/s0/ifindex"]);
    echoed(&bed.server, format!("[fe80::70:1%{}]:8070", number.trim()).parse().expect("one"));
    bed.client.noticed_nothing();
}

/// To groups of IPv4 and of IPv6, to all on the link, to all of its network.
#[test]
fn what_is_sent_to_many_reaches_them() {
    needs_root!();
    let bed = Bed::with_path();
    let wait = Some(Duration::from_secs(20));
    let number = bed.server.output("cat", &["/sys/class/net/s0/ifindex"]);
    let number = number.trim().parse().expect("a number");
    // Until it has its address of link scope, it takes nothing that is sent to a group of IPv6.
    let of_link = ["-6", "addr", "show", "dev", "s0", "scope", "link", "-tentative"];
    until("the server's IPv6", || bed.server.output("ip", &of_link).contains("fe80:"));
    let [v4, v6] = bed.server.inside(|| {
        let sockets = ["0.0.0.0:0", "[::]:0"].map(|at| UdpSocket::bind(at).expect("a socket"));
        for socket in &sockets {
            socket.set_read_timeout(wait).expect("a time");
        }
        let group = Ipv4Addr::new(239, 70, 0, 1);
        sockets[0].join_multicast_v4(&group, &Ipv4Addr::new(10, 70, 0, 2)).expect("a group");
        sockets[1].join_multicast_v6(&"ff02::70".parse().expect("one"), number).expect("a group");
        sockets
    });
    let script = "import socket,sys\n\
        v4 = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
        v4.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)\n\
        v4.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton('10.70.0.1'))\n\
        v6 = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)\n\
        for to in sys.argv[3:]:\n\
        \x20 one, port = (v6, sys.argv[2]) if ':' in to else (v4, sys.argv[1])\n\
        \x20 one.sendto(to.encode(), socket.getaddrinfo(to, int(port), one.family)[0][4])";
    let ports = [&v4, &v6].map(|socket| socket.local_addr().expect("one").port().to_string());
    let all = ["239.70.0.1", "10.70.0.255", "ff02::70%c0"];
    let program = [&["python3", "-c", script, &ports[0], &ports[1]][..], &all].concat();
    bed.run(&PATH, &program).end().well();
    for (socket, to) in [(&v4, all[0]), (&v4, all[1]), (&v6, all[2])] {
        let mut said = [0; 64];
        let (length, _) = socket.recv_from(&mut said).unwrap_or_else(|e| panic!("{to}: {e}"));
        assert_eq!(String::from_utf8_lossy(&said[..length]), to);
    }
    bed.client.noticed_nothing();
}

/// A program has the number from the host, where the second path is not the first interface.
#[test]
fn a_program_names_a_path_by_the_number_that_the_host_has_for_it() {
    needs_root!();
    let bed = Bed::with_path();
    bed.add_path(1);
    let of_link = ["-6", "addr", "show", "dev", "s1", "scope", "link", "-tentative"];
    until("the server's IPv6", || bed.server.output("ip", &of_link).contains("fe80:"));
    let number = bed.server.output("cat", &["/sys/class/net/s1/ifindex"]);
    let number = number.trim().parse().expect("a number");
    let [hearer, sender] = bed.server.inside(|| {
        let sockets = ["[::]:0", "10.70.1.2:0"].map(|at| UdpSocket::bind(at).expect("a socket"));
        sockets[0].join_multicast_v6(&"ff02::70".parse().expect("one"), number).expect("a group");
        sockets
    });
    hearer.set_read_timeout(Some(Duration::from_secs(20))).expect("a time");
    let port = hearer.local_addr().expect("one").port().to_string();
    let options = ["--path", "c1", "--path", "c0"];
    let mut program = bed.python(&options, "interface.py", &["c1", &port]);
    program.wait_for("ready");
    let mut said = [0; 64];
    let (length, _) = hearer.recv_from(&mut said).expect("over the link with this number");
    assert_eq!(&said[..length], b"a word");
    sender.send_to(b"another", "10.70.1.1:5000").expect("sent");
    let told = program.end().text();
    assert_eq!(told, "name c1\nnumber True\noption True\nready\ncame over it True\n");
}

/// The descriptor of a datagram socket is in a namespace without interfaces and neighbours.
#[test]
fn drivers_and_neighbours_are_those_of_the_host() {
    needs_root!();
    let bed = Bed::with_path();
    bed.client.output("ping", &["-c", "1", "10.70.0.2"]);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/driver.py");
    let on_the_host = bed.client.output("python3", &[script, "c0", "10.70.0.2"]);
    assert!(on_the_host.contains("b'veth'"), "{on_the_host}");
    let on_the_library = bed.python(&PATH, "driver.py", &["c0", "10.70.0.2"]).end().text();
    assert_eq!(on_the_library, on_the_host);
}

/// As `ping` and `ping -s 2000` do it; the answers come to the address that the host has, too.
#[test]
fn an_echo_request_is_answered() {
    needs_root!();
    let bed = Bed::with_path();
    let script = "import socket,sys\n\
        v6, by = ':' in sys.argv[1], sys.argv[3]\n\
        kind = (socket.AF_INET6, socket.SOCK_RAW, 58) if v6 else (socket.AF_INET, socket.SOCK_RAW, 1)\n\
        s = socket.socket(*kind)\n\
        s.settimeout(20)\n\
        head = bytes([128 if v6 else 8, 0]); rest = b'\\x12\\x34\\0\\1' + b'echo' * int(sys.argv[2])\n\
        words = head + b'\\0\\0' + rest\n\
        total = sum(words[n] << 8 | words[n + 1] for n in range(0, len(words), 2))\n\
        total = (total & 0xffff) + (total >> 16)\n\
        s.sendto(head + (0xffff - total).to_bytes(2, 'big') + rest, (sys.argv[1], 0))\n\
        while True:\n\
        \x20 packet, whence = s.recvfrom(65535)\n\
        \x20 message = packet if v6 else packet[4 * (packet[0] & 15):]\n\
        \x20 if message[0] == (129 if v6 else 0) and whence[0] == by: break\n\
        print(message[4:] == rest)";
    let answered = |at: &str, words: &str, by: &str| {
        let said = bed.run(&PATH, &["python3", "-c", script, at, words, by]).end().text();
        assert_eq!(said.trim(), "True", "{words} to {at}");
    };
    for at in ["10.70.0.2", "fd70::2"] {
        answered(at, "1", at);
        answered(at, "500", at);
    }
    bed.number_link_scope();
    // All on the link; the library answers itself, too.
    answered("ff02::1%c0", "1", "fe80::70:2");
}

/// The second half of what the program sends is on its way as long as it likes.
#[test]
fn status_counts_the_bytes_of_the_program_and_no_syn() {
    needs_root!();
    let script = "import os,socket,sys,time\n\
        if sys.argv[1] == 'accepts':\n\
        \x20 listener = socket.create_server(('', int(sys.argv[2])))\n\
        \x20 print('ready', flush=True)\n\
        \x20 s = listener.accept()[0]\n\
        else:\n\
        \x20 s = socket.create_connection(('10.70.0.2', int(sys.argv[2])))\n\
        s.sendall(b'x' * 500)\n\
        s.recv(1)\n\
        print('acknowledged', flush=True)\n\
        sys.stdin.readline()\n\
        s.sendall(b'x' * 500)\n\
        time.sleep(3)\n\
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b'\\1\\0\\0\\0\\0\\0\\0\\0')";
    for accepts in [false, true] {
        let bed = Bed::with_path();
        let listener = bed.server.listen("10.70.0.2:0");
        let port = listener.local_addr().expect("its address").port().to_string();
        let (role, port) = if accepts { ("accepts", "8070") } else { ("connects", &*port) };
        let program = ["python3", "-c", script, role, port];
        let mut command = bed.command(&["--path", "c0", "--status"], &program);
        let mut program = Running::start_with_input(&mut command);
        let mut peer = if accepts {
            program.wait_for("ready");
            bed.server.inside(|| TcpStream::connect("10.70.0.1:8070")).expect("a connection")
        } else {
            listener.accept().expect("a client").0
        };
        peer.read_exact(&mut [0; 500]).expect("the first half");
        peer.write_all(b"x").expect("taken");
        program.wait_for("acknowledged");
        bed.server.ip("addr del 10.70.0.2/24 dev s0");
        program.tell("\n");
        let ended = program.end();
        let last = ended.stderr.lines().rfind(|line| line.contains("ESTABLISHED"));
        let columns: Vec<&str> = last.expect("a connection").split_whitespace().collect();
        let [sent, received, retransmitted] = columns[5..] else { panic!("{last:?}") };
        assert_eq!((sent, received), ("500", "1"), "{role}: {last:?}");
        assert_ne!(retransmitted, "0", "the second half is on its way: {last:?}");
    }
}

#[test]
fn a_refused_connection_is_refused() {
    needs_root!();
    let bed = Bed::with_path();
    let ended = bed.python(&PATH, "get.py", &["10.70.0.2", "9"]).end();
    assert!(ended.stderr.contains("ConnectionRefusedError"), "{}", ended.stderr);
    until("the server's reset", || bed.server.counters()["Tcp.OutRsts"] == 1);
    bed.client.noticed_nothing();
}

/// As Java's `NetworkInterface` asks for them: all that the host has, also those that are no paths.
#[test]
fn a_program_is_told_of_all_interfaces_of_the_host() {
    needs_root!();
    let bed = Bed::with_path();
    bed.add_path(1);
    let script = "import fcntl, socket, struct\n\
        for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):\n\
        \x20 one = socket.socket(socket.AF_INET, kind)\n\
        \x20 for name in (b'c0', b'c1'):\n\
        \x20  ask = lambda request: fcntl.ioctl(one, request, struct.pack('16s24x', name))\n\
        \x20  up = struct.unpack_from('h', ask(0x8913), 16)[0] & 1\n\
        \x20  mtu = struct.unpack_from('i', ask(0x8921), 16)[0]\n\
        \x20  print(name, up, mtu, ask(0x8915)[20:24].hex(), ask(0x8927)[18:24].hex())";
    let program = ["python3", "-c", script];
    let of_the_host = bed.client.output(program[0], &program[1..]);
    assert_eq!(bed.run(&PATH, &program).end().text().trim(), of_the_host.trim());
}
