//! Exit status, signals, rights, and what is left when one of both is killed.

mod support;

use std::io::{BufRead, BufReader, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output, Stdio};

use support::{SUPERVISOR, finished, numbered, own_namespace, supervised, text, web_server};
use transom_testbed::{copy, has};

/// In the namespace in which the supervisor is, as programs usually are.
fn supervisor(program: &[&str]) -> Command {
    let mut command = Command::new(SUPERVISOR);
    command.args(["--stack", "host", "--"]).args(program);
    command
}

#[test]
fn the_exit_status_is_the_program_s() {
    let status = |script: &str| supervisor(&["sh", "-c", script]).status().expect("starting it");
    assert_eq!(status("exit 0").code(), Some(0));
    assert_eq!(status("exit 77").code(), Some(77));
    assert_eq!(status("kill -KILL $$").signal(), Some(libc::SIGKILL));
}

#[test]
fn a_program_that_is_not_there_is_named() {
    let output = supervisor(&["no-such-program"]).output().expect("starting it");
    assert_eq!(output.status.code(), Some(127));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("cannot run no-such-program: No such file"), "{said}");
}

#[test]
fn options_that_the_host_cannot_serve_are_refused_before_the_program_starts() {
    for (options, remedy) in [
        (&["--path", "eth0"][..], "--stack linux"),
        (&["--sysctl", "net.ipv4.tcp_sack=0"], "sysctl -w net.ipv4.tcp_sack=0"),
        (&["--cc", "no-such-control"], "tcp_available_congestion_control"),
    ] {
        let mut command = Command::new(SUPERVISOR);
        command.args(["--stack", "host"]).args(options).args(["--", "echo", "started"]);
        let output = command.output().expect("starting it");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(remedy), "{said}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn a_signal_to_the_supervisor_is_the_program_s() {
    let script = "trap 'echo got it; exit 5' USR1; echo ready; while :; do sleep 0.01; done";
    let mut child =
        supervisor(&["sh", "-c", script]).stdout(Stdio::piped()).spawn().expect("start");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    assert_eq!(lines.next().expect("a line").expect("text"), "ready");
    // SAFETY: no pointers; the child has not been waited for.
    unsafe { libc::kill(child.id() as i32, libc::SIGUSR1) };
    assert_eq!(lines.next().expect("a line").expect("text"), "got it");
    assert_eq!(finished(child).status.code(), Some(5));
}

#[test]
fn environment_and_standard_input_reach_the_program() {
    let mut command = supervisor(&["sh", "-c", "cat; echo $GREETING"]);
    command.env("GREETING", "good morning").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("starting it");
    use std::io::Write;
    child.stdin.take().expect("a pipe").write_all(b"to standard input\n").expect("writing");
    let said = finished(child).stdout;
    assert_eq!(String::from_utf8_lossy(&said), "to standard input\ngood morning\n");
}

#[test]
fn descendants_are_served_after_the_program_has_ended() {
    if !own_namespace() || !has("curl") {
        return;
    }
    let url = format!("http://{}/", web_server(b"late".to_vec()));
    let script = format!("(sleep 0.3; curl -sS {url}) & exit 3");
    let mut command = supervised(&[], &["sh", "-c", &script]);
    let output = finished(command.stdout(Stdio::piped()).spawn().expect("starting it"));
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(3), &b"late"[..]));
}

#[test]
fn what_a_program_sent_before_its_end_is_delivered() {
    if !own_namespace() || !has("python3") {
        return;
    }
    let server = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let port = server.local_addr().expect("its number").port();
    let reader = std::thread::spawn(move || {
        let (mut stream, _) = server.accept().expect("a connection");
        std::thread::sleep(std::time::Duration::from_millis(300));
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).map(|_| bytes)
    });
    let script = format!(
        "import socket, struct\n\
         s = socket.create_connection(('127.0.0.1', {port}))\n\
         s.sendall(b''.join(struct.pack('>Q', i) for i in range(500000)))"
    );
    text(&mut supervised(&[], &["python3", "-c", &script]));
    assert!(reader.join().expect("thread").expect("reading") == numbered(4_000_000));
}

#[test]
fn what_a_slow_peer_takes_after_the_program_s_end_is_delivered_however_long_it_takes() {
    if !own_namespace() || !has("python3") {
        return;
    }
    let server = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let port = server.local_addr().expect("its number").port();
    let small = 65_536i32;
    // SAFETY: the option is an `int`; accepted connections have it, too.
    let set = unsafe {
        let at = (&raw const small).cast();
        libc::setsockopt(server.as_raw_fd(), libc::SOL_SOCKET, libc::SO_RCVBUF, at, 4)
    };
    assert_eq!(set, 0);
    let reader = std::thread::spawn(move || {
        let (mut stream, _) = server.accept().expect("a connection");
        let mut bytes = Vec::new();
        let slowly = std::time::Instant::now() + std::time::Duration::from_secs(13);
        while std::time::Instant::now() < slowly {
            let mut some = [0; 8192];
            let got = stream.read(&mut some).expect("reading");
            bytes.extend(&some[..got]);
            std::thread::sleep(std::time::Duration::from_millis(200));
        }
        stream.read_to_end(&mut bytes).map(|_| bytes)
    });
    let script = format!(
        "import socket, struct\n\
         s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 100000)\n\
         s.connect(('127.0.0.1', {port}))\n\
         s.setblocking(False)\n\
         sent = s.send(b''.join(struct.pack('>Q', i) for i in range(250000)))\n\
         print(sent)"
    );
    let mut command = supervised(&[], &["python3", "-c", &script]);
    let output = finished(
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starting it"),
    );
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let sent: usize = String::from_utf8_lossy(&output.stdout).trim().parse().expect("a number");
    let received = reader.join().expect("thread").expect("reading");
    assert!(received == numbered(2_000_000)[..sent], "{} of {sent} bytes", received.len());
}

/// Its connections end, and new sockets are refused: nothing falls back to the host unseen.
#[test]
fn a_program_whose_supervisor_is_killed_is_cut_off() {
    if !own_namespace() || !has("python3") {
        return;
    }
    let server = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let port = server.local_addr().expect("its number").port();
    let script = format!(
        "import socket\n\
         s = socket.create_connection(('127.0.0.1', {port}))\n\
         print('ready', flush=True)\n\
         try: print(s.recv(1))\n\
         except OSError as e: print(type(e).__name__)\n\
         try: socket.socket()\n\
         except OSError as e: print(e.errno)"
    );
    let mut command = supervised(&[], &["python3", "-c", &script]);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("starting it");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let mut line = || lines.next().expect("a line").expect("text");
    assert_eq!(line(), "ready");
    let (mut stream, _) = server.accept().expect("a connection");
    child.kill().expect("killing the supervisor");
    child.wait().expect("waiting");
    assert_eq!(line(), "b''");
    assert_eq!(line(), libc::ENOSYS.to_string());
    assert_eq!(stream.read(&mut [0]).expect("its end"), 0);
}

#[test]
fn a_killed_program_leaves_no_connection() {
    if !own_namespace() || !has("python3") {
        return;
    }
    let server = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let port = server.local_addr().expect("its number").port();
    let script = format!(
        "import os, signal, socket\n\
         s = socket.create_connection(('127.0.0.1', {port})); s.send(b'last')\n\
         os.kill(os.getpid(), signal.SIGKILL)"
    );
    let status = supervised(&[], &["python3", "-c", &script]).status().expect("starting it");
    assert_eq!(status.signal(), Some(libc::SIGKILL));
    let (mut stream, _) = server.accept().expect("a connection");
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("all that was sent");
    assert_eq!(bytes, b"last");
}

#[test]
fn datagram_sockets_whose_last_copy_is_closed_are_forgotten() {
    if !own_namespace() || !has("python3") {
        return;
    }
    let script = "import os, socket\n\
         for _ in range(300):\n \
             s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('127.0.0.1', 7777))\n \
             copy = s.dup(); s.close(); copy.getsockname(); copy.close()\n\
         print(len(os.listdir(f'/proc/{os.getppid()}/fd')))";
    let open = text(&mut supervised(&[], &["python3", "-c", script]));
    let open: usize = open.trim().parse().expect("a number");
    assert!(open < 100, "the supervisor has {open} descriptors");
}

/// A server that forks for each connection, on a machine that allows few descriptors.
#[test]
fn processes_that_have_ended_cost_no_descriptors_that_sockets_need() {
    if !own_namespace() || !has("prlimit") || !has("python3") {
        return;
    }
    let script = "import os, socket\n\
         for _ in range(300):\n \
             child = os.fork()\n \
             if child == 0: socket.socket().bind(('127.0.0.1', 0)); os._exit(0)\n \
             assert os.waitpid(child, 0)[1] == 0\n\
         print('all')";
    let mut command = Command::new("prlimit");
    command.args(["--nofile=150:150", SUPERVISOR, "--stack", "host", "--", "unshare", "-n"]);
    assert_eq!(text(command.args(["python3", "-c", script])), "all\n");
}

#[test]
fn an_ordinary_user_needs_no_right() {
    if !own_namespace() || !has("setpriv") || !has("curl") {
        return;
    }
    let url = format!("http://{}/", web_server(b"for everybody".to_vec()));
    let output = as_nobody(&["curl", "-sS", &url]);
    let traced = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.stdout, b"for everybody", "{traced}");
    assert!(traced.contains("connect("), "{traced}");
}

#[test]
fn an_ordinary_user_s_datagrams_are_refused_as_the_kernel_s() {
    if !own_namespace() || !has("setpriv") || !has("python3") {
        return;
    }
    let script = "import select, socket\n\
         s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect(('127.0.0.1', 1))\n\
         s.send(b'x')\n\
         p = select.poll(); p.register(s, 0); p.poll(5000)\n\
         try: s.recv(1)\n\
         except ConnectionRefusedError: print('refused')";
    let output = as_nobody(&["python3", "-c", script]);
    assert_eq!(output.stdout, b"refused\n", "{}", String::from_utf8_lossy(&output.stderr));
}

/// A server's worker that has given its privileges up, under a supervisor that has all of them.
#[test]
fn a_program_without_privileges_has_none_over_the_stack() {
    if !own_namespace() || !has("setpriv") || !has("unshare") || !has("python3") {
        return;
    }
    let script = "import ctypes, errno, socket, struct\n\
         c = ctypes.CDLL(None, use_errno=True)\n\
         def tell(what, *how):\n \
             try: what(*how); print('done', end=' ')\n \
             except OSError as error: print(errno.errorcode[error.errno], end=' ')\n\
         def bind_raw(family, address):\n \
             s = socket.socket(family)\n \
             if c.bind(s.fileno(), address, len(address)): raise OSError(ctypes.get_errno(), '')\n\
         mark = [(socket.SOL_SOCKET, 36, struct.pack('i', 7))]\n\
         tcp = socket.socket(); udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
         tell(bind_raw, socket.AF_INET, struct.pack('=H', 0) + struct.pack('>H12x', 81))\n\
         tell(bind_raw, socket.AF_INET6, struct.pack('=H', 10) + struct.pack('>H20x', 82))\n\
         tell(socket.socket, socket.AF_INET, 10, 0x300)\n\
         tell(socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendmsg, [b'x'], mark, 0, ('127.0.0.1', 9))\n\
         tell(tcp.bind, ('127.0.0.1', 80)); tell(udp.bind, ('127.0.0.1', 53))\n\
         tell(socket.socket, socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)\n\
         tell(udp.setsockopt, socket.SOL_SOCKET, 36, 7)\n\
         tell(udp.setsockopt, socket.SOL_SOCKET, 12, 7); tell(udp.setsockopt, socket.SOL_SOCKET, 12, 6)\n\
         tell(udp.setsockopt, socket.IPPROTO_IP, 19, 1)\n\
         tell(socket.create_server, ('127.0.0.1', 8080))";
    let python = ["python3", "-c", script];
    let by = |wrapper: &[&str]| text(&mut supervised(&[], &[wrapper, &python].concat()));
    let user = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"];
    let refused = "EACCES EACCES EPERM EPERM EACCES EACCES EPERM EPERM EPERM done EPERM done ";
    assert_eq!(by(&user), refused);
    assert_eq!(by(&["unshare", "--user", "--map-root-user"]), refused, "its network is not theirs");
    assert_eq!(by(&[]), "done ".repeat(12));
}

/// As on the kernel itself, which loads no algorithm for them either.
#[test]
fn a_program_without_privileges_has_the_allowed_congestion_controls() {
    if !own_namespace() || !has("setpriv") || !has("python3") {
        return;
    }
    let script = "import errno, socket\n\
         names = open('/proc/sys/net/ipv4/tcp_available_congestion_control').read().split()\n\
         for name in names + [socket.socket().getsockopt(6, 13, 16).decode(), 'nonsense']:\n \
             try: socket.socket().setsockopt(6, 13, name.encode()); print(name, 'done')\n \
             except OSError as error: print(name, errno.errorcode[error.errno])";
    let user = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "python3", "-c", script];
    let own = Command::new(user[0]).args(&user[1..]).output().expect("starting it").stdout;
    let own = String::from_utf8(own).expect("text");
    assert!(own.contains("reno done") && own.ends_with("nonsense ENOENT\n"), "{own}");
    assert_eq!(text(&mut supervisor(&user)), own);
    let by_root = text(&mut supervisor(&user[3..]));
    assert!(!by_root.contains("EPERM"), "{by_root}");
    if !own.contains("EPERM") {
        eprintln!("note: this kernel allows all that it has, so no refusal was seen");
    }
}

/// A UDP descriptor is on a loopback device of ours, which no program is to take down.
#[test]
fn what_changes_an_interface_changes_the_host_s() {
    if !own_namespace() || !has("setpriv") || !has("python3") {
        return;
    }
    let ip = |words: &str| {
        let run = Command::new("ip").args(words.split(' ')).output().expect("ip of iproute2");
        assert!(run.status.success(), "ip {words}");
        String::from_utf8(run.stdout).expect("text")
    };
    ip("link add change0 type veth peer name change1");
    ip("link set lo mtu 60000");
    let script = "import fcntl, socket, struct, sys\n\
         s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
         def change(name, mtu): fcntl.ioctl(s, 0x8922, struct.pack('16si20x', name, mtu))\n\
         try: change(b'change0', 1300); change(b'lo', 1000)\n\
         except OSError as error: sys.exit(error.errno)\n\
         s.connect(('127.0.0.1', 9)); print(s.send(b'x' * 900))";
    let python = ["python3", "-c", script];
    let user = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"];
    let refused = supervisor(&[&user[..], &python].concat()).status().expect("starting it");
    assert_eq!(refused.code(), Some(libc::EPERM));
    assert!(
        ip("link show change0").contains("mtu 1500") && ip("link show lo").contains("mtu 60000")
    );
    assert_eq!(text(&mut supervisor(&python)), "900\n");
    assert!(
        ip("link show change0").contains("mtu 1300") && ip("link show lo").contains("mtu 1000")
    );
}

/// As in a container: the host keeps its interface.
#[test]
fn what_changes_an_interface_of_another_namespace_changes_it_there() {
    if !own_namespace() || !has("unshare") || !has("python3") {
        return;
    }
    let script = "import fcntl, socket, struct, subprocess, sys\n\
         s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
         fcntl.ioctl(s, 0x8922, struct.pack('16si20x', b'lo', 1300))\n\
         fcntl.ioctl(s, 0x8943, struct.pack('16si20x', b'lo', 77))\n\
         sys.exit(subprocess.call(['ip', 'link', 'show', 'lo']))";
    let python = ["python3", "-c", script];
    let of_host = || text(Command::new("ip").args(["link", "show", "lo"]));
    let (before, changed) =
        (of_host(), |lo: &str| lo.contains("mtu 1300") && lo.contains("qlen 77"));
    for unshare in [&["unshare", "--net"][..], &["unshare", "--net", "--user", "--map-root-user"]] {
        let there = text(&mut supervisor(&[unshare, &python].concat()));
        assert!(changed(&there), "{there}");
        assert_eq!(of_host(), before, "{unshare:?}");
    }
    assert!(changed(&text(&mut supervisor(&python))));
    assert!(changed(&of_host()), "the control: without a namespace of its own it is the host's");
}

/// A number that the library and the host may have of different interfaces.
#[test]
fn an_address_of_ipv6_is_set_on_no_interface_by_its_number() {
    if !own_namespace() || !has("python3") {
        return;
    }
    let script = "import errno, fcntl, socket, struct\n\
         s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)\n\
         at = socket.inet_pton(socket.AF_INET6, 'fd55::5') + struct.pack('Ii', 128, 1)\n\
         try: fcntl.ioctl(s, 0x8916, at); print('done')\n\
         except OSError as error: print(errno.errorcode[error.errno])";
    let python = ["python3", "-c", script];
    assert_eq!(text(&mut supervisor(&python)), "ENOTSUP\n", "as Python calls EOPNOTSUPP");
    assert_eq!(text(Command::new("python3").args(&python[1..])), "done\n", "the control: a kernel");
}

/// As on a host where `net.ipv4.ping_group_range` lets one group send echo requests.
#[test]
fn echo_requests_are_for_the_groups_that_the_host_lets_send_them() {
    if !own_namespace() || !has("setpriv") || !has("python3") {
        return;
    }
    let range = "/proc/sys/net/ipv4/ping_group_range";
    std::fs::write(range, "0 0").expect("a setting of this namespace");
    let script = "import errno, socket\n\
         try: socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP); print('done')\n\
         except OSError as error: print(errno.errorcode[error.errno])";
    let python = ["python3", "-c", script];
    let by = |wrapper: &[&str]| text(&mut supervised(&[], &[wrapper, &python].concat()));
    let group = |groups: &'static str| ["setpriv", "--regid=65534", groups];
    assert_eq!(by(&[]), "done\n");
    assert_eq!(by(&group("--clear-groups")), "EACCES\n");
    assert_eq!(by(&group("--groups=0")), "done\n");
}

/// It runs; it gets no socket that the host would have, and its user learns why.
#[cfg(target_arch = "x86_64")]
#[test]
fn a_32_bit_program_is_told_that_it_has_no_network() {
    if !own_namespace() || !has("cc") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("narrow");
    let mut compiler = Command::new("cc");
    compiler.args(["-m32", "-nostdlib", "-static", "-ffreestanding", "-fno-stack-protector"]);
    compiler
        .args(["-fno-pic", "-no-pie", "-O1", "-Wall", "-Wextra", "-Werror", "-o"])
        .arg(&program);
    text(compiler.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/narrow.c")));
    let run = Command::new(&program).output();
    if !run.as_ref().is_ok_and(|run| run.status.success()) {
        return transom_testbed::skip("i386", "this kernel runs no 32-bit programs");
    }
    assert_eq!(run.expect("as above").stdout, b"unix yes\nunix yes\ninet yes\ninet yes\n");
    let name = program.to_str().expect("a plain name");
    let output = supervised(&[], &[name]).output().expect("starting it");
    assert_eq!(output.stdout, b"unix yes\nunix yes\ninet no\ninet no\n");
    assert_eq!(output.status.code(), Some(7), "EAFNOSUPPORT");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(said.matches(&format!("{name} is a 32-bit program")).count(), 1, "{said}");
    assert!(said.contains("64-bit build"), "{said}");
}

/// Each call needs a copy of the descriptor that it is about: some are kept for that.
#[test]
fn a_program_that_has_all_descriptors_still_uses_them() {
    if !own_namespace() || !has("prlimit") || !has("python3") {
        return;
    }
    let script = "import errno, socket\n\
         server = socket.create_server(('127.0.0.1', 0))\n\
         clients = [socket.create_connection(server.getsockname()) for _ in range(3)]\n\
         several = []\n\
         try:\n \
             while True: several.append(socket.socket())\n\
         except OSError as error: print(errno.errorcode[error.errno], len(several) > 9)\n\
         try: server.accept()\n\
         except OSError as error: print(errno.errorcode[error.errno])\n\
         several[0].bind(('127.0.0.1', 80)); server.getsockname(); clients[0].getpeername()\n\
         del several\n\
         for _ in range(3): server.accept()\n\
         print('all')";
    let mut command = Command::new("prlimit");
    command.args(["--nofile=100:100", SUPERVISOR, "--stack", "host", "--", "unshare", "-n"]);
    // It takes more of ours than of the program's.
    let told = text(command.args(["python3", "-c", script]));
    assert_eq!(told, "EMFILE True\nEMFILE\nall\n");
}

/// A descriptor of ours is kept for each thread that calls, but none of the last ones.
#[test]
fn threads_of_a_program_that_has_all_descriptors_keep_their_privileges() {
    if !own_namespace() || !has("prlimit") || !has("python3") {
        return;
    }
    let script = "import socket, threading\n\
         several = []\n\
         try:\n \
             while True: several.append(socket.socket())\n\
         except OSError: pass\n\
         wrong, begin = [], threading.Event()\n\
         def work(n):\n \
             begin.wait()\n \
             try:\n  \
                 for _ in range(9): several[n].getsockname()\n  \
                 several[n].bind(('127.0.0.1', 100 + n))\n  \
                 assert several[n].getsockname()[1] == 100 + n\n \
             except Exception as error: wrong.append(repr(error))\n\
         threads = [threading.Thread(target=work, args=(n,)) for n in range(40)]\n\
         for thread in threads: thread.start()\n\
         begin.set()\n\
         for thread in threads: thread.join()\n\
         print(len(several) > 40, wrong)";
    for _ in 0..5 {
        let mut command = Command::new("prlimit");
        command.args(["--nofile=110:110", SUPERVISOR, "--stack", "host", "--", "unshare", "-n"]);
        assert_eq!(text(command.args(["python3", "-c", script])), "True []\n");
    }
}

/// Under a copy of the supervisor that everybody may run.
fn as_nobody(program: &[&str]) -> Output {
    let folder = tempfile::tempdir().expect("a folder");
    let supervisor = folder.path().join("supervisor");
    copy(SUPERVISOR.as_ref(), &supervisor);
    let all = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(folder.path(), all).expect("a folder for everybody");
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"]);
    command.arg(&supervisor).args(["--stack", "host", "--trace", "--"]).args(program);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    finished(command.spawn().expect("starting it"))
}
