//! Programs that know nothing of the supervisor, without any network of their own.

mod support;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::{Command, Stdio};
use std::time::Duration;

use support::{
    SUPERVISOR, Server, finished, numbered, output, own_namespace, supervised, text, wait_for,
    web_server,
};
use transom_testbed::has;

fn local(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

#[test]
fn curl_and_wget_fetch_what_the_server_has() {
    if !own_namespace() {
        return;
    }
    let body = numbered(5_000_000);
    let url = format!("http://{}/", web_server(body.clone()));
    if has("curl") {
        assert!(output(&mut supervised(&[], &["curl", "-sS", &url])) == body);
    }
    if has("wget") {
        assert!(output(&mut supervised(&[], &["wget", "-qO-", &url])) == body);
    }
}

#[test]
fn a_refused_connection_is_refused() {
    if !own_namespace() || !has("python3") {
        return;
    }
    let script = "import socket\ntry: socket.create_connection(('127.0.0.1', 1), timeout=5)\n\
                  except OSError as e: print(type(e).__name__)";
    let said = text(&mut supervised(&[], &["python3", "-c", script]));
    assert_eq!(said, "ConnectionRefusedError\n");
}

#[test]
fn a_threaded_and_an_epoll_server_serve_the_outside() {
    if !own_namespace() || !has("python3") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let body = numbered(3_000_000);
    std::fs::write(folder.path().join("body"), &body).expect("writing");
    let path = folder.path().to_str().expect("a plain name");
    let threaded = ["python3", "-m", "http.server", "-b", "127.0.0.1", "-d", path, "8001"];
    let _threaded = Server::start(&mut supervised(&[], &threaded));
    wait_for(local(8001));
    let mut stream = TcpStream::connect(local(8001)).expect("connecting");
    stream.write_all(b"GET /body HTTP/1.0\r\n\r\n").expect("asking");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("reading");
    assert!(answer.ends_with(&body));

    let script = "import asyncio\n\
        async def echo(r, w):\n while d := await r.read(65536): w.write(d); await w.drain()\n w.close()\n\
        async def main():\n await (await asyncio.start_server(echo, '127.0.0.1', 8002)).serve_forever()\n\
        asyncio.run(main())";
    let _epoll = Server::start(&mut supervised(&[], &["python3", "-c", script]));
    wait_for(local(8002));
    let connections: Vec<_> = (0..50)
        .map(|_| {
            std::thread::spawn(|| {
                let sent = numbered(200_000);
                let mut stream = TcpStream::connect(local(8002)).expect("connecting");
                let mut writer = stream.try_clone().expect("a copy");
                let copy = sent.clone();
                let writing = std::thread::spawn(move || {
                    writer
                        .write_all(&copy)
                        .and_then(|()| writer.shutdown(std::net::Shutdown::Write))
                });
                let mut received = Vec::new();
                stream.read_to_end(&mut received).expect("reading");
                writing.join().expect("thread").expect("writing");
                received == sent
            })
        })
        .collect();
    assert!(connections.into_iter().all(|thread| thread.join().expect("thread")));
}

#[test]
fn iperf3_measures_both_ways_tcp_and_udp() {
    if !own_namespace() || !has("iperf3") {
        return;
    }
    let _outside = Server::start(Command::new("iperf3").args(["-s", "-p", "5301"]));
    wait_for(local(5301));
    let client = ["iperf3", "-c", "127.0.0.1", "-p", "5301"];
    for way in [&["-n", "50M"][..], &["-n", "50M", "-R"], &["-u", "-b", "50M", "-n", "2M"]] {
        let said = text(&mut supervised(&[], &[&client, way].concat()));
        assert!(said.contains("iperf Done."), "{said}");
    }
    let _inside = Server::start(&mut supervised(&[], &["iperf3", "-s", "-p", "5302"]));
    wait_for(local(5302));
    let said = text(Command::new("iperf3").args(["-c", "127.0.0.1", "-p", "5302", "-n", "50M"]));
    assert!(said.contains("iperf Done."), "{said}");
}

#[test]
fn go_needs_no_c_library_to_be_supervised() {
    if !own_namespace() || !has("go") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("client-server");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/client-server.go");
    text(
        Command::new("go").args(["build", "-o"]).arg(&program).arg(source).env("CGO_ENABLED", "0"),
    );
    let program = program.to_str().expect("a plain name");
    let _server = Server::start(&mut supervised(&[], &[program, "serve", "127.0.0.1:8003"]));
    wait_for(local(8003));
    let said = text(&mut supervised(&[], &[program, "ask", "127.0.0.1:8003"]));
    assert_eq!(said, "100 dial tcp 127.0.0.1:1: connect: connection refused\n");
}

/// RFC 1035: every name has the one IPv4 address 192.0.2.80.
fn name_server() -> SocketAddr {
    let socket = UdpSocket::bind(local(53)).expect("port 53");
    let address = socket.local_addr().expect("its number");
    std::thread::spawn(move || {
        let mut query = [0; 512];
        while let Ok((len, from)) = socket.recv_from(&mut query) {
            let wants_ipv4 = query[len - 4..len] == [0, 1, 0, 1];
            let mut answer = [&query[..2], &[0x81, 0x80, 0, 1, 0, u8::from(wants_ipv4)]].concat();
            answer.extend([0; 4]);
            answer.extend(&query[12..len]);
            if wants_ipv4 {
                answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 80]);
            }
            let _ = socket.send_to(&answer, from);
        }
    });
    address
}

#[test]
fn names_are_resolved_through_the_stack() {
    if !own_namespace() || !has("python3") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let list = folder.path().join("resolv.conf");
    std::fs::write(&list, format!("nameserver {}\n", name_server().ip())).expect("writing");
    let script = format!(
        "mount --bind {} /etc/resolv.conf && exec python3 -c \
         'import socket; print(socket.gethostbyname(\"some.example\"))'",
        list.display()
    );
    let resolved = text(&mut supervised(&[], &["unshare", "-m", "sh", "-c", &script]));
    assert_eq!(resolved, "192.0.2.80\n");
    let resolved = supervised(&["--udp", "host"], &["unshare", "-m", "sh", "-c", &script])
        .output()
        .expect("starting it");
    assert!(!resolved.status.success(), "the host's namespace of the program has no network");
}

#[test]
fn git_clones_with_its_helper_processes() {
    if !own_namespace() || !has("git") || !has("python3") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_str().expect("a plain name");
    let make = "git init -q work && cd work && head -c 500000 /dev/urandom > file && git add file && \
                git -c user.email=a@example -c user.name=a commit -qm file && cd .. && \
                git clone -q --bare work bare.git && cd bare.git && git update-server-info";
    text(Command::new("sh").args(["-c", make]).current_dir(path));
    let server = ["python3", "-m", "http.server", "-b", "127.0.0.1", "-d", path, "8004"];
    let _server = Server::start(&mut supervised(&[], &server));
    wait_for(local(8004));
    let copy = format!("{path}/copy");
    text(&mut supervised(&[], &["git", "clone", "-q", "http://127.0.0.1:8004/bare.git", &copy]));
    let read = |path: String| std::fs::read(path).expect("a file");
    assert!(read(format!("{path}/work/file")) == read(format!("{copy}/file")));
}

#[test]
fn a_thousand_connections_are_served_at_once() {
    if !own_namespace() || !has("python3") {
        return;
    }
    let server = TcpListener::bind(local(0)).expect("a port");
    let port = server.local_addr().expect("its number").port();
    std::thread::spawn(move || {
        let mut all: Vec<TcpStream> = (0..1000).map(|_| server.accept().expect("one").0).collect();
        let mut byte = [0];
        for stream in &mut all {
            stream.read_exact(&mut byte).and_then(|()| stream.write_all(&byte)).expect("echo");
        }
    });
    let script = format!(
        "import socket\n\
         all = [socket.create_connection(('127.0.0.1', {port})) for i in range(1000)]\n\
         for i, s in enumerate(all): s.send(bytes([i % 256]))\n\
         print(sum(s.recv(1) == bytes([i % 256]) for i, s in enumerate(all)))"
    );
    // As much as the program needs; the supervisor needs more, and has it.
    let limited = format!(
        "ulimit -Sn 1100; exec {SUPERVISOR} --stack host -- unshare -n python3 -c \"{script}\""
    );
    assert_eq!(text(Command::new("sh").args(["-c", &limited])), "1000\n");
}

#[test]
fn sockets_that_are_closed_leave_nothing_with_the_supervisor() {
    if !own_namespace() || !has("python3") {
        return;
    }
    let server = TcpListener::bind(local(0)).expect("a port");
    let port = server.local_addr().expect("its number").port();
    std::thread::spawn(move || {
        for (index, stream) in server.incoming().flatten().enumerate() {
            // Every other one is reset by what is left unread.
            if index % 2 == 0 {
                let _ = (&stream).read(&mut [0; 16]);
            }
        }
    });
    let script = format!(
        "import os, socket, time\n\
         fds = lambda: len(os.listdir(f'/proc/{{os.getppid()}}/fd'))\n\
         before = fds()\n\
         for i in range(600):\n \
           s = socket.create_connection(('127.0.0.1', {port}))\n \
           s.send(b'x')\n \
           try: s.recv(1)\n \
           except ConnectionResetError: pass\n \
           s.close()\n \
           u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.close()\n\
         end = time.time() + 10\n\
         while fds() > before + 70 and time.time() < end: time.sleep(0.01)\n\
         print(fds() - before)"
    );
    let left: i32 = text(&mut supervised(&[], &["python3", "-c", &script])).trim().parse().unwrap();
    // Reset ones are looked for in batches of 64.
    assert!(left <= 70, "{left} descriptors are left");
}

/// Takes connections until each has said something, and resets each a little later.
fn resetting_server() -> u16 {
    let server = TcpListener::bind(local(0)).expect("a port");
    let port = server.local_addr().expect("its number").port();
    std::thread::spawn(move || {
        for stream in server.incoming().flatten() {
            std::thread::spawn(move || {
                let _ = stream.peek(&mut [0]);
                std::thread::sleep(Duration::from_millis(20));
                // The byte is unread: RST.
                drop(stream);
            });
        }
    });
    port
}

/// What a script begins with that counts the supervisor's descriptors.
const COUNTING: &str = "import os, socket, time\n\
    fds = lambda: len(os.listdir(f'/proc/{os.getppid()}/fd'))\n\
    def left():\n \
      end = time.time() + 5\n \
      while fds() > before + 70 and time.time() < end: time.sleep(0.01)\n \
      return fds() - before\n\
    before = fds()\n";

#[test]
fn a_child_that_does_nothing_but_read_is_told_of_the_reset() {
    if !own_namespace() || !has("python3") {
        return;
    }
    let script = format!(
        "{COUNTING}\
         said = set()\n\
         for i in range(150):\n \
           s = socket.create_connection(('127.0.0.1', {}))\n \
           parent_closed = os.pipe()\n \
           child = os.fork()\n \
           if child == 0:\n  \
             os.read(parent_closed[0], 1)\n  \
             os.write(s.fileno(), b'x')\n  \
             try: os.read(s.fileno(), 1)\n  \
             except ConnectionResetError: os._exit(7)\n  \
             os._exit(0)\n \
           s.close()\n \
           os.write(parent_closed[1], b'x')\n \
           said.add(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n \
           for end in parent_closed: os.close(end)\n\
         print(said, left())",
        resetting_server()
    );
    let printed = text(&mut supervised(&[], &["python3", "-c", &script]));
    let left = printed.trim().strip_prefix("{7} ").unwrap_or_else(|| panic!("no reset: {printed}"));
    // They are looked for in batches of 64.
    assert!(left.parse::<i32>().expect("a number") <= 70, "{left} descriptors are left");
}

#[test]
fn connections_that_are_reset_while_nobody_has_them_leave_nothing() {
    if !own_namespace() || !has("python3") {
        return;
    }
    let script = format!(
        "{COUNTING}\
         a, b = socket.socketpair()\n\
         for i in range(150):\n \
           s = socket.create_connection(('127.0.0.1', {}))\n \
           socket.send_fds(a, [b'x'], [s.fileno()])\n \
           os.write(s.fileno(), b'x')\n \
           s.close()\n\
         time.sleep(0.5)\n\
         _, (late,), _, _ = socket.recv_fds(b, 1, 1)\n\
         a.close(); b.close()\n\
         print(left())",
        resetting_server()
    );
    let left = text(&mut supervised(&[], &["python3", "-c", &script]));
    assert!(left.trim().parse::<i32>().expect("a number") <= 70, "{left} descriptors are left");
}

#[test]
fn status_counts_the_bytes_that_the_program_sent() {
    if !own_namespace() || !has("python3") {
        return;
    }
    let server = TcpListener::bind(local(0)).expect("a port");
    let at = server.local_addr().expect("its number");
    let reader = std::thread::spawn(move || {
        let (mut stream, _) = server.accept().expect("a connection");
        std::io::copy(&mut stream, &mut std::io::sink()).expect("reading")
    });
    let script = format!(
        "import socket, time\n\
         s = socket.create_connection(('127.0.0.1', {}))\n\
         s.sendall(bytes(1000))\n\
         time.sleep(1.5)",
        at.port()
    );
    let mut command = supervised(&["--status"], &["python3", "-c", &script]);
    let child = command.stderr(Stdio::piped()).spawn().expect("starting it");
    let status = String::from_utf8(finished(child).stderr).expect("text");
    let line = status.lines().find(|line| line.contains("ESTABLISHED")).expect("a line of it");
    let sent = line.split_whitespace().nth(5);
    assert_eq!((sent, reader.join().expect("thread")), (Some("1000"), 1000), "{status}");
}
