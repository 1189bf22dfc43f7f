//! What goes wrong under way: interfaces that go, are renamed or come back, programs and supervisors
//! that are killed, ports that are taken. Nothing stays on the host.

mod bed;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use bed::{Bed, Running, numbered, until};
use transom_testbed::{host_and_port, kernel_is_since, needs, needs_root};

const PATH: [&str; 2] = ["--path", "c0"];

/// A transfer under way: 1 MiB has arrived.
struct Transfer {
    client: Running,
    stream: TcpStream,
    heard: usize,
}

fn transfer(bed: &Bed, options: &[&str]) -> Transfer {
    let listener = bed.server.listen("10.70.0.2:0");
    let [host, port] = host_and_port(listener.local_addr().expect("its address"));
    let client = bed.python(options, "push.py", &[&host, &port]);
    let (stream, _) = listener.accept().expect("a client");
    let mut transfer = Transfer { client, stream, heard: 0 };
    transfer.hear_more(1 << 20);
    transfer
}

impl Transfer {
    /// None: the client has finished, or is gone.
    fn hear(&mut self) -> Option<()> {
        let mut piece = vec![0; 1 << 16];
        let length = self.stream.read(&mut piece).ok().filter(|length| *length > 0)?;
        assert!(
            piece[..length] == numbered(self.heard, length),
            "other bytes after {}",
            self.heard
        );
        self.heard += length;
        Some(())
    }

    fn hear_more(&mut self, amount: usize) {
        let end = self.heard + amount;
        while self.heard < end {
            self.hear().expect("more of it");
        }
    }

    fn finish(mut self) -> String {
        self.stream.write_all(b".").expect("taken");
        while self.hear().is_some() {}
        drop(self.stream);
        let ended = self.client.end();
        let stderr = ended.stderr.clone();
        assert_eq!(ended.text().trim(), self.heard.to_string());
        stderr
    }
}

#[test]
fn an_interface_that_goes_down_and_comes_up_loses_nothing() {
    needs_root!();
    let bed = Bed::with_path();
    let mut transfer = transfer(&bed, &PATH);
    bed.client.ip("link set c0 down");
    std::thread::sleep(std::time::Duration::from_millis(300));
    bed.client.ip("link set c0 up");
    // What was under way at that moment is at most a few megabytes: this is new.
    transfer.hear_more(32 << 20);
    let said = transfer.finish();
    assert!(said.contains("c0 is down") && said.contains("c0 is up again"), "{said}");
}

#[test]
fn a_renamed_interface_goes_on() {
    needs_root!();
    // Before, an interface that is up keeps its name.
    needs!("linux-6.2");
    let bed = Bed::with_path();
    let mut transfer = transfer(&bed, &PATH);
    bed.client.ip("link set c0 name other0");
    transfer.hear_more(32 << 20);
    transfer.finish();
}

#[test]
fn a_deleted_interface_is_an_error_of_the_connection() {
    needs_root!();
    let bed = Bed::with_path();
    let options = [&PATH[..], &["--sysctl", "net.ipv4.tcp_retries2=2"]].concat();
    let transfer = transfer(&bed, &options);
    bed.client.ip("link del c0");
    let ended = transfer.client.end();
    assert!(!ended.status.success());
    assert!(ended.stderr.contains("c0 is down"), "{}", ended.stderr);
    // The last one if the program was just not writing: the kernel looks first whether the pair is
    // still open.
    let error = [
        "TimeoutError",
        "No route to host",
        "Network is unreachable",
        "reset by peer",
        "Broken pipe",
    ];
    assert!(error.iter().any(|error| ended.stderr.contains(error)), "{}", ended.stderr);
}

#[test]
fn a_killed_program_closes_its_connections() {
    needs_root!();
    let bed = Bed::with_path();
    let mut transfer = transfer(&bed, &PATH);
    transfer.client.signal(libc::SIGTERM);
    while transfer.hear().is_some() {}
    let ended = transfer.client.end();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&ended.status), Some(libc::SIGTERM));
    bed.client.noticed_nothing();
}

/// The program reads from a server that says nothing; its end shows in its own output.
#[test]
fn a_killed_supervisor_is_the_end_of_the_connections() {
    needs_root!();
    let bed = Bed::with_path();
    let listener = bed.server.listen("10.70.0.2:0");
    let [host, port] = host_and_port(listener.local_addr().expect("its address"));
    let script = "import socket,sys\n\
        s = socket.create_connection((sys.argv[1], int(sys.argv[2])))\n\
        print('connected', flush=True)\n\
        try: end = s.recv(1)\n\
        except OSError as error: end = error\n\
        print('over', end, flush=True)";
    let mut running = bed.run(&PATH, &["python3", "-c", script, &host, &port]);
    let _server_side = listener.accept().expect("a client");
    running.wait_for("connected");
    running.signal(libc::SIGKILL);
    running.wait_for_after_death("over");
}

/// A program that goes on in the background (`daemon(3)`) when the supervisor is told to end: its peers
/// do not wait for ever, and whoever ended the supervisor learns of it.
#[test]
fn a_supervisor_that_is_told_to_end_resets_what_a_daemon_has() {
    needs_root!();
    let bed = Bed::with_path();
    let listener = bed.server.listen("10.70.0.2:0");
    let [host, port] = host_and_port(listener.local_addr().expect("its address"));
    let script = "import os,socket,sys\n\
        s = socket.create_connection((sys.argv[1], int(sys.argv[2])))\n\
        if os.fork(): os._exit(3)\n\
        os.setsid()\n\
        print('daemon', os.getpid(), flush=True)\n\
        try: s.recv(1)\n\
        except OSError: pass";
    let mut running = bed.run(&PATH, &["python3", "-c", script, &host, &port]);
    let (mut served, _) = listener.accept().expect("a client");
    running.wait_for("daemon");
    until("the program itself has ended", || running.children().len() == 1);
    running.signal(libc::SIGTERM);
    served.set_read_timeout(Some(bed::PATIENCE)).expect("set");
    let end = std::io::Read::read(&mut served, &mut [0]).map_err(|error| error.kind());
    assert_eq!(end, Err(std::io::ErrorKind::ConnectionReset));
    let ended = running.end();
    assert_eq!(ended.status.code(), Some(3), "the program's own");
    let said = String::from_utf8(ended.stdout).expect("text");
    let daemon = said.trim().rsplit(' ').next().expect("its number");
    let note = format!("processes of the program still run, without network: {daemon}\n");
    assert!(ended.stderr.contains(&note), "{}", ended.stderr);
}

#[test]
fn a_killed_supervisor_leaves_the_host_its_ports() {
    needs_root!();
    let bed = Bed::with_path();
    let mut server = bed.python(&PATH, "echo.py", &["0.0.0.0", "8070"]);
    server.wait_for("ready");
    server.signal(libc::SIGKILL);
    drop(server);
    let at: SocketAddr = "10.70.0.1:8070".parse().expect("an address");
    let mut listener = None;
    until("the port is free again", || {
        let free = bed.client.inside(|| std::net::TcpListener::bind(at));
        listener = free.ok();
        listener.is_some()
    });
    if !kernel_is_since("6.6") {
        // Before there were links on an interface's ingress, a filter stays until the next start.
        bed.run(&PATH, &["true"]).end().well();
    }
    // A filter that had stayed would drop these packets before the host's TCP.
    let connected =
        bed.server.inside(|| TcpStream::connect_timeout(&at, std::time::Duration::from_secs(20)));
    connected.expect("the host's own server is reached");
    let qdiscs = bed.client.output("tc", &["filter", "show", "dev", "c0", "ingress"]);
    assert_eq!(qdiscs.trim(), "");
    bed.python(&PATH, "echo.py", &["0.0.0.0", "8072"]).wait_for("ready");
}

#[test]
fn a_port_that_the_host_uses_is_taken() {
    needs_root!();
    let bed = Bed::with_path();
    let _host = bed.client.listen("0.0.0.0:8070");
    let ended = bed.python(&PATH, "echo.py", &["0.0.0.0", "8070"]).end();
    assert!(ended.stderr.contains(&format!("bind: {}", libc::EADDRINUSE)), "{}", ended.stderr);
}

/// A socket that is bound is not bound again: the port of the second call stays the host's.
#[test]
fn a_port_that_the_program_did_not_get_is_the_hosts() {
    needs_root!();
    let bed = Bed::with_path();
    let script = "import socket, time\n\
                  own = socket.socket()\n\
                  own.bind(('', 8073))\n\
                  try: own.bind(('', 8074))\n\
                  except OSError as error: print('refused', error.errno, flush=True)\n\
                  time.sleep(60)";
    let mut running = bed.run(&PATH, &["python3", "-c", script]);
    running.wait_for(&format!("refused {}", libc::EINVAL));
    let at = |port: u16| SocketAddr::from(([10, 70, 0, 1], port));
    let held = bed.client.inside(|| std::net::TcpListener::bind(at(8073)));
    assert_eq!(held.map(|_| ()).unwrap_err().kind(), std::io::ErrorKind::AddrInUse);
    let listener = bed.client.inside(|| std::net::TcpListener::bind(at(8074)));
    let _listener = listener.expect("a port that the host has");
    let limit = std::time::Duration::from_secs(20);
    let connected = bed.server.inside(|| TcpStream::connect_timeout(&at(8074), limit));
    connected.expect("the host's own server is reached");
}

#[test]
fn a_port_of_one_library_is_taken_for_another() {
    needs_root!();
    let bed = Bed::with_path();
    let mut first = bed.python(&PATH, "echo.py", &["0.0.0.0", "8070"]);
    first.wait_for("ready");
    let ended = bed.python(&PATH, "echo.py", &["0.0.0.0", "8070"]).end();
    assert!(ended.stderr.contains(&format!("bind: {}", libc::EADDRINUSE)), "{}", ended.stderr);
}
