//! What comes to an end: ports, memory. An error that programs know, and everything else goes on.

mod bed;

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use bed::{Bed, accept};
use transom_testbed::{host_and_port, needs_root};

const PATH: [&str; 2] = ["--path", "c0"];

#[test]
fn an_address_of_nobody_cannot_be_bound() {
    needs_root!();
    let bed = Bed::with_path();
    let ended = bed.python(&PATH, "echo.py", &["10.9.9.9", "8070"]).end();
    let told = format!("bind: {}", libc::EADDRNOTAVAIL);
    assert!(ended.stderr.contains(&told), "{}", ended.stderr);
}

#[test]
fn a_host_that_picks_from_all_ports_does_not_pick_ours() {
    needs_root!();
    let bed = Bed::with_path();
    bed.client.output("sysctl", &["-qw", "net.ipv4.ip_local_port_range=1024 65535"]);
    let listener = bed.server.listen("10.70.0.2:0");
    let [host, port] = host_and_port(listener.local_addr().expect("its address"));
    let script = "import socket, sys\n\
        s = socket.create_connection(sys.argv[1:3]); print(s.recv(9).decode())";
    let client = bed.run(&PATH, &["python3", "-c", script, &host, &port]);
    let (mut server, peer) = listener.accept().expect("a client");
    let taken = bed.client.inside(|| TcpListener::bind(("0.0.0.0", peer.port())));
    assert_eq!(taken.expect_err("it is the library's").kind(), ErrorKind::AddrInUse);
    server.write_all(b"an answer").expect("taken");
    assert_eq!(client.end().text().trim(), "an answer");
    bed.client.noticed_nothing();
}

/// It finds the limits in `/proc/sys`, which is the host's.
#[test]
fn a_program_gets_the_buffers_and_the_backlog_that_the_host_allows() {
    needs_root!();
    let bed = Bed::with_path();
    bed.client.sysctl("net/core/somaxconn", "77");
    let script = "import socket, struct\n\
        s = socket.socket(); s.bind(('', 0)); s.listen(5000)\n\
        limit = lambda name: int(open('/proc/sys/net/core/' + name).read())\n\
        print('backlog', struct.unpack_from('I', s.getsockopt(6, socket.TCP_INFO, 104), 28)[0])\n\
        for option, name in (socket.SO_SNDBUF, 'wmem_max'), (socket.SO_RCVBUF, 'rmem_max'):\n\
        \x20 s.setsockopt(socket.SOL_SOCKET, option, 1 << 30)\n\
        \x20 print(name, s.getsockopt(socket.SOL_SOCKET, option) == 2 * limit(name))";
    let said = bed.run(&PATH, &["python3", "-c", script]).end().text();
    assert_eq!(said.trim(), "backlog 77\nwmem_max True\nrmem_max True");
}

/// To one server there are as many connections as ports; then the library refuses as a kernel does.
#[test]
fn when_all_ports_are_used_connect_says_so() {
    needs_root!();
    let bed = Bed::with_path();
    let listener = bed.listen_for_many();
    let [host, port] = host_and_port(listener.local_addr().expect("its address"));
    thread::spawn(move || {
        let accepted: Vec<TcpStream> = listener.incoming().map_while(Result::ok).collect();
        drop(accepted);
    });
    let script = "import resource,socket,sys\n\
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]\n\
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))\n\
        to, all = (sys.argv[1], int(sys.argv[2])), []\n\
        try:\n\
        \x20 while len(all) < 5000: all.append(socket.create_connection(to))\n\
        except OSError as error: print(len(all), error.errno)";
    let said = bed.run(&PATH, &["python3", "-c", script, &host, &port]).end().text();
    assert_eq!(said.trim(), format!("2048 {}", libc::EADDRNOTAVAIL));
}

/// RFC 6191: the port of a connection that has ended serves the next one after a second, though
/// the first one is in TIME-WAIT for a minute. Not in the library's first second, whose number is 0.
#[test]
fn more_connections_than_ports_one_after_the_other() {
    needs_root!();
    let bed = Bed::with_path();
    let listener = bed.listen_for_many();
    let [host, port] = host_and_port(listener.local_addr().expect("its address"));
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            // The client closes first, and waits.
            let _ = stream.read(&mut [0]);
        }
    });
    let script = "import socket,sys,time\n\
        to = (sys.argv[1], int(sys.argv[2]))\n\
        def connect(times):\n\
        \x20 for _ in range(times):\n\
        \x20  one = socket.create_connection(to)\n\
        \x20  one.shutdown(socket.SHUT_WR); one.recv(1); one.close()\n\
        time.sleep(1.1); connect(2048); time.sleep(2.1); connect(2048); print('all')";
    let said = bed.run(&PATH, &["python3", "-c", script, &host, &port]).end().text();
    assert_eq!(said.trim(), "all");
}

/// More connections than the library has memory for buffers, to a server that does not read. Then
/// it reads all, and each byte that was taken arrives.
#[test]
fn buffers_beyond_the_librarys_memory_hold_what_was_taken() {
    const CONNECTIONS: usize = 200;
    needs_root!();
    let bed = Bed::with_path();
    let listener = bed.listen_for_many();
    let [host, port] = host_and_port(listener.local_addr().expect("its address"));
    let server = thread::spawn(move || {
        let mut all = accept(&listener, CONNECTIONS + 1);
        // The last one says that the others are full.
        let mut full = all.pop().expect("the last");
        full.read_exact(&mut [0]).expect("a byte");
        let drains = all.into_iter().map(|mut stream| {
            thread::spawn(move || std::io::copy(&mut stream, &mut std::io::sink()).expect("all"))
        });
        let drains: Vec<_> = drains.collect();
        full.write_all(b".").expect("taken");
        drains.into_iter().map(|drain| drain.join().expect("drained")).sum::<u64>()
    });
    let script = "import select,socket,sys\n\
        to = (sys.argv[1], int(sys.argv[2]))\n\
        all = [socket.create_connection(to) for _ in range(int(sys.argv[3]))]\n\
        taken, idle = 0, 0\n\
        for one in all: one.setblocking(False)\n\
        while idle < 3:\n\
        \x20 ready = select.select([], all, [], 0.5)[1]\n\
        \x20 idle = 0 if ready else idle + 1\n\
        \x20 for one in ready: taken += one.send(bytes(1 << 20))\n\
        last = socket.create_connection(to)\n\
        last.sendall(b'x')\n\
        last.recv(1)\n\
        for one in all: one.close()\n\
        print(taken)\n";
    let number = CONNECTIONS.to_string();
    let said = bed.run(&PATH, &["python3", "-c", script, &host, &port, &number]).end().text();
    let arrived = server.join().expect("the server");
    assert_eq!(said.trim(), arrived.to_string());
    assert!(arrived > 100 << 20, "only {arrived} bytes were taken: no memory came to its end");
    bed.client.noticed_nothing();
}
