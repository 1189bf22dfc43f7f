//! Whose connection it is: the process that uses it, never the interrupt it
//! happened in; and exactly the connections of a program that is followed.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use transom_event::{Event, Kind, Place};
use transom_testbed::{Namespace, Recording, Trace, needs_probes, transom, wait_for};

/// A child that goes when the test goes.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const PYTHON: &str = "/usr/bin/python3";

/// A server in Python, with a process group of its own and a pipe to it, and the lines it prints.
fn serving(namespace: &Namespace, script: &str) -> (Running, impl Iterator<Item = String> + use<>) {
    let mut server = namespace.command(PYTHON);
    server.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
    let mut server = Running(server.spawn().unwrap());
    let lines = BufReader::new(server.0.stdout.take().unwrap()).lines().map(Result::unwrap);
    (server, lines)
}

#[test]
fn a_connection_that_a_forked_child_serves_belongs_to_the_child() {
    needs_probes!();
    let namespace = Namespace::new("fork");
    let server = "
import os, socket
listener = socket.create_server(('127.0.0.1', 7200))
print('ready', flush=True)
stream, _ = listener.accept()
if os.fork() == 0:
    print(os.getpid(), flush=True)
    while data := stream.recv(100000):
        stream.sendall(data)
    os._exit(0)
stream.close()
os.wait()
";
    let (server, mut lines) = serving(&namespace, server);
    assert_eq!(lines.next().unwrap(), "ready");
    let recording = Recording::start(&["--netns", namespace.name(), "--local-port", "7200"]);
    let mut stream = namespace.inside(|| std::net::TcpStream::connect("127.0.0.1:7200")).unwrap();
    let child: u32 = lines.next().unwrap().parse().unwrap();
    for _ in 0..20 {
        std::io::Write::write_all(&mut stream, &[1; 50_000]).unwrap();
        transom_testbed::receive_all(&mut stream, 50_000);
    }
    let trace = recording.finish();
    let parent = server.0.id();
    assert_eq!(trace.owners(), BTreeSet::from([parent, child]), "never 0, never a bystander");
    let handed_over: Vec<_> = trace.of(Kind::Owner).iter().map(|e| (e.aux[0], e.tgid)).collect();
    assert_eq!(handed_over, [(parent, child)], "it changes hands once");
    let after = trace.of(Kind::Owner)[0].time_ns;
    let later = trace.of_connections().filter(|event| event.time_ns > after);
    assert!(later.clone().count() > 40, "what follows happens mostly in softirq");
    assert!(later.clone().all(|event| event.tgid == child));
}

/// How many probes a process has attached: it keeps them by these files.
fn attached(pid: u32) -> usize {
    let files = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
    let targets = files.filter_map(|file| fs::read_link(file.path()).ok());
    targets.filter(|target| target.to_string_lossy().contains("bpf_link")).count()
}

/// The probes at system calls are gone: no connection waits for its owner.
fn wait_until_settled(recording: &Recording, at_start: usize) {
    wait_for("the recorder to detach the probes at system calls", || {
        attached(recording.pid()) + 2 <= at_start
    });
}

/// A server that answers five times on a connection, leaves so many answers more to a child whose number
/// it prints, and goes on with `then` when that has ended.
fn handing_over(port: u16, by_child: u32, then: &str) -> String {
    format!(
        "
import os, socket, sys
listener = socket.create_server(('127.0.0.1', {port}))
print('ready', flush=True)
stream, _ = listener.accept()
def serve(times):
    for _ in range(times):
        stream.sendall(stream.recv(100))
serve(5)
heir = os.fork()
if heir == 0:
    serve({by_child})
    os._exit(0)
print(heir, flush=True)
os.wait()
{then}
"
    )
}

#[test]
fn a_connection_handed_over_late_belongs_to_the_process_that_sends_from_then_on() {
    needs_probes!();
    let namespace = Namespace::new("late");
    let (server, mut lines) = serving(&namespace, &handing_over(7203, 20, ""));
    assert_eq!(lines.next().unwrap(), "ready");
    let recording = Recording::start(&["--netns", namespace.name(), "--local-port", "7203"]);
    let at_start = attached(recording.pid());
    let mut stream = namespace.inside(|| std::net::TcpStream::connect("127.0.0.1:7203")).unwrap();
    let mut ask = || {
        std::io::Write::write_all(&mut stream, &[1; 100]).unwrap();
        transom_testbed::receive_all(&mut stream, 100);
    };
    (0..5).for_each(|_| ask());
    let heir: u32 = lines.next().unwrap().parse().unwrap();
    wait_until_settled(&recording, at_start);
    (0..20).for_each(|_| ask());
    let trace = recording.finish();
    let parent = server.0.id();
    let handed_over = trace.of(Kind::Owner);
    let hands: Vec<_> = handed_over.iter().map(|e| (e.aux[0], e.tgid, e.place)).collect();
    assert_eq!(hands, [(parent, heir, Place::DevQueue)], "a sent segment shows it");
    let owners = BTreeSet::from([parent, heir]);
    assert_eq!(trace.owners(), owners, "never the client, in whose time it is");
    let sends: Vec<u32> = trace.of(Kind::Send).iter().map(|event| event.tgid).collect();
    let of_parent = sends.iter().filter(|&&tgid| tgid == parent).count() as u64;
    let least = 6_u64.saturating_sub(trace.unseen_sends());
    assert!((least..=6).contains(&of_parent), "its five and the heir's first: {sends:?}");
    let after = handed_over[0].time_ns;
    assert!(trace.of_connections().all(|e| e.time_ns <= after || e.tgid == heir));
}

#[test]
fn a_connection_of_another_process_is_recorded_once_the_one_that_is_wanted_uses_it() {
    needs_probes!();
    let namespace = Namespace::new("taken");
    let (_server, mut lines) = serving(&namespace, &handing_over(7205, 20, ""));
    assert_eq!(lines.next().unwrap(), "ready");
    let mut stream = namespace.inside(|| TcpStream::connect("127.0.0.1:7205")).unwrap();
    let mut ask = || {
        stream.write_all(&[1; 100]).unwrap();
        transom_testbed::receive_all(&mut stream, 100);
    };
    (0..5).for_each(|_| ask());
    let heir: u32 = lines.next().unwrap().parse().unwrap();
    // What comes for the first of its calls is no matter of the heir's yet.
    let recording = Recording::start(&["--pid", &heir.to_string(), "--local-port", "7205"]);
    (0..20).for_each(|_| ask());
    let trace = recording.finish();
    assert_eq!(trace.owners(), BTreeSet::from([heir]));
    let sends = trace.of(Kind::Send).len() as u64 + trace.unseen_sends();
    assert_eq!(sends, 20, "all its answers");
}

#[test]
fn a_connection_that_comes_back_to_its_first_owner_is_told_to() {
    needs_probes!();
    let namespace = Namespace::new("back");
    let comes_back = "sys.stdin.readline(); serve(5)";
    let (mut server, mut lines) = serving(&namespace, &handing_over(7204, 5, comes_back));
    assert_eq!(lines.next().unwrap(), "ready");
    let recording = Recording::start(&["--netns", namespace.name(), "--local-port", "7204"]);
    let at_start = attached(recording.pid());
    let connect = || namespace.inside(|| TcpStream::connect("127.0.0.1:7204")).unwrap();
    let mut stream = connect();
    let mut ask = || {
        stream.write_all(&[1; 100]).unwrap();
        transom_testbed::receive_all(&mut stream, 100);
    };
    (0..5).for_each(|_| ask());
    let heir: u32 = lines.next().unwrap().parse().unwrap();
    wait_until_settled(&recording, at_start);
    (0..5).for_each(|_| ask());
    // Nobody has used this one yet, so that the probes at system calls come back.
    let mut other = connect();
    wait_for("the recorder to attach the probes at system calls again", || {
        other.write_all(b"x").unwrap();
        attached(recording.pid()) == at_start
    });
    server.0.stdin.take().unwrap().write_all(b"go\n").unwrap();
    (0..5).for_each(|_| {
        other.write_all(b"x").unwrap();
        ask();
    });
    let trace = recording.finish();
    let (parent, back) = (server.0.id(), trace.of(Kind::Owner));
    let hands: Vec<_> = back.iter().map(|event| (event.aux[0], event.tgid)).collect();
    assert_eq!(hands, [(parent, heir), (heir, parent)]);
}

#[test]
fn an_accepted_connection_is_its_workers_although_its_first_segments_came_in_softirq() {
    needs_probes!();
    let namespace = Namespace::new("worker");
    // The worker reads when it is told to, long after handshake and request have come.
    let server = "
import os, socket, sys
listener = socket.create_server(('127.0.0.1', 7204))
worker = os.fork()
if worker == 0:
    while True:
        stream, _ = listener.accept()
        sys.stdin.readline()
        stream.sendall(stream.recv(100))
print(worker, flush=True)
os.wait()
";
    let (mut server, mut lines) = serving(&namespace, server);
    let worker: u32 = lines.next().unwrap().parse().unwrap();
    let mut told = server.0.stdin.take().unwrap();
    let recording = Recording::start(&["--netns", namespace.name(), "--local-port", "7204"]);
    let at_start = attached(recording.pid());
    for _ in 0..2 {
        wait_until_settled(&recording, at_start);
        let mut stream =
            namespace.inside(|| std::net::TcpStream::connect("127.0.0.1:7204")).unwrap();
        std::io::Write::write_all(&mut stream, &[1; 100]).unwrap();
        wait_for("the probes to come back", || attached(recording.pid()) == at_start);
        std::io::Write::write_all(&mut told, b"\n").unwrap();
        transom_testbed::receive_all(&mut stream, 100);
    }
    let trace = recording.finish();
    // SAFETY: a signal to processes that this test has started.
    unsafe { libc::kill(-(server.0.id() as i32), libc::SIGKILL) };
    let parent = server.0.id();
    for cookie in trace.connections().into_keys() {
        let events = trace.only(cookie);
        let hands: Vec<_> = events.iter().filter(|event| event.kind == Kind::Owner).collect();
        let who: Vec<_> = hands.iter().map(|e| (e.aux[0], e.tgid, e.place)).collect();
        assert_eq!(who, [(parent, worker, Place::RecvMsg)], "it reads before it answers");
        let at = hands[0].time_ns;
        let owner = |event: &&&Event| if event.time_ns < at { parent } else { worker };
        assert!(events.iter().all(|event| event.tgid == owner(&event)));
        assert!(events.iter().any(|event| event.kind == Kind::Ack && event.time_ns < at));
    }
    assert_eq!(trace.connections().len(), 2);
}

/// A namespace in which a server answers on port 7201, and its thread.
fn served() -> Namespace {
    let namespace = Namespace::new("served");
    let listener = namespace.inside(|| TcpListener::bind("127.0.0.1:7201")).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let _ = std::io::Write::write_all(&mut stream, b"hello");
        }
    });
    namespace
}

/// `transom record -- PROGRAM` inside the namespace; exit code, errors, trace if there is one.
fn record_program(namespace: &Namespace, program: &[&str]) -> (i32, String, Option<Trace>) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("trace.parquet");
    let output = namespace
        .command(transom().get_program().to_str().unwrap())
        .arg("record")
        .arg("-o")
        .arg(&file)
        .arg("--")
        .args(program)
        .output()
        .unwrap();
    let code = transom_output::program::code_of(output.status).into();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    (code, errors, file.exists().then(|| Trace::read(&file)))
}

#[test]
fn a_followed_program_has_exactly_its_connections_and_its_childrens() {
    needs_probes!();
    let namespace = served();
    let noise = "
import socket
while True:
    with socket.create_connection(('127.0.0.1', 7201)) as s: s.recv(10)
";
    let _noise = Running(namespace.command(PYTHON).args(["-c", noise]).spawn().unwrap());
    let one = "
import os, socket
s = socket.create_connection(('127.0.0.1', 7201))
assert s.recv(10) == b'hello'
print(os.getpid(), s.getsockname()[1], file=open(os.environ['OUT'], 'a'))
";
    let directory = tempfile::tempdir().unwrap();
    let told = directory.path().join("told");
    let script = directory.path().join("two.sh");
    fs::write(
        &script,
        format!("export OUT={}\n{PYTHON} -c \"$1\"\n{PYTHON} -c \"$1\" & wait\n", told.display()),
    )
    .unwrap();
    let (code, errors, trace) = record_program(&namespace, &["sh", script.to_str().unwrap(), one]);
    assert_eq!(code, 0, "{errors}");
    let trace = trace.unwrap();
    let expected: BTreeSet<(u32, u16)> = fs::read_to_string(told)
        .unwrap()
        .lines()
        .map(|line| {
            let (pid, port) = line.split_once(' ').unwrap();
            (pid.parse().unwrap(), port.parse().unwrap())
        })
        .collect();
    assert_eq!(expected.len(), 2);
    let opens = trace.of(Kind::Open);
    let seen: BTreeSet<_> =
        opens.iter().map(|event| (event.tgid, event.open().unwrap().local_port)).collect();
    assert_eq!(seen, expected);
    assert_eq!(opens.len(), 2);
}

/// Another thread than the first becomes another program, or goes on by itself.
#[test]
fn a_followed_program_is_followed_beyond_the_end_of_its_first_thread() {
    needs_probes!();
    let connects = "
import socket
assert socket.create_connection(('127.0.0.1', 7201)).recv(10) == b'hello'
";
    let becomes = "
import os, sys, threading, time
again = [sys.executable, '-c', sys.argv[1]]
threading.Thread(target=lambda: os.execv(sys.executable, again)).start()
time.sleep(60)
";
    let goes_on = "
import ctypes, os, platform, sys, threading, time
first = f'/proc/self/task/{os.getpid()}/stat'
def alone():
    while open(first).read().rsplit(')', 1)[1].split()[0] != 'Z': time.sleep(0.01)
    exec(sys.argv[1])
    os._exit(0)
threading.Thread(target=alone).start()
ctypes.CDLL(None).syscall(93 if platform.machine() == 'aarch64' else 60, 0)
";
    for script in [becomes, goes_on] {
        let (code, errors, trace) = record_program(&served(), &[PYTHON, "-c", script, connects]);
        assert_eq!(code, 0, "{errors}");
        assert_eq!(trace.unwrap().count(Kind::Open), 1, "of {script}");
    }
}

#[test]
fn the_exit_status_of_the_program_is_passed_on() {
    needs_probes!();
    let namespace = Namespace::new("status");
    for (script, expected) in
        [("exit 0", 0), ("exit 7", 7), ("kill -KILL $$", 137), ("kill -TERM $$", 143)]
    {
        let (code, errors, trace) = record_program(&namespace, &["sh", "-c", script]);
        assert_eq!(code, expected, "{script}: {errors}");
        assert!(!trace.expect("the recording itself went well").cut);
    }
}

#[test]
fn a_program_runs_with_the_priority_that_it_has_without_a_recorder() {
    needs_probes!();
    let namespace = Namespace::new("nice");
    let script = "test $(nice) = $1";
    let own = String::from_utf8(Command::new("nice").output().unwrap().stdout).unwrap();
    let (code, errors, _) = record_program(&namespace, &["sh", "-c", script, "sh", own.trim_end()]);
    assert_eq!(code, 0, "{errors}");
}

#[test]
fn a_program_that_is_not_there_is_named_and_leaves_no_events() {
    needs_probes!();
    let namespace = Namespace::new("absent");
    let (code, errors, trace) = record_program(&namespace, &["no-such-program-here"]);
    assert_ne!(code, 0);
    assert!(errors.contains("no-such-program-here"), "{errors}");
    assert!(trace.is_none_or(|trace| trace.events.is_empty()));
}

/// What `record` says of a program that cannot run, in the place of an earlier recording: one file,
/// and a row of them. It stays.
fn refused_and_nothing_overwritten(program: &Path) {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name);
    for (words, kept) in [(&[][..], "t.parquet"), (&["--rotate", "1M"], "t.007.parquet")] {
        fs::write(file(kept), "precious").unwrap();
        let mut record = transom();
        record.args(["record", "--force", "-o"]).arg(file("t.parquet")).args(words);
        let output = record.arg("--").arg(program).output().unwrap();
        assert!(!output.status.success());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains(&format!("cannot run '{}'", program.display())), "{said}");
        assert_eq!(fs::read_to_string(file(kept)).unwrap(), "precious", "{program:?} {words:?}");
        assert!(!file("t.000.parquet").exists());
    }
}

#[test]
fn for_a_program_that_is_not_there_no_earlier_recording_goes() {
    for absent in ["no-such-program-here", "/no/such/program", "/etc/passwd"] {
        refused_and_nothing_overwritten(Path::new(absent));
    }
}

#[test]
fn for_a_program_that_the_kernel_cannot_run_no_earlier_recording_goes() {
    needs_probes!();
    let directory = tempfile::tempdir().unwrap();
    let script = directory.path().join("script");
    fs::write(&script, "#!/no/such\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    refused_and_nothing_overwritten(&script);
}

#[test]
fn the_recorder_is_not_in_its_own_recording() {
    needs_probes!();
    let namespace = served();
    let program =
        [PYTHON, "-c", "import socket; socket.create_connection(('127.0.0.1', 7201)).recv(9)"];
    let (code, _, trace) = record_program(&namespace, &program);
    assert_eq!(code, 0);
    let trace = trace.unwrap();
    assert!(!trace.owners().contains(&0), "each has an owner");
    assert_eq!(trace.connections().len(), 1);
}

#[test]
fn a_program_still_running_is_ended_when_nobody_reads_the_log_any_more() {
    needs_probes!();
    let namespace = served();
    let program = "
import os, socket
print(os.getpid(), flush=True)
while True:
    with socket.create_connection(('127.0.0.1', 7201)) as s: s.recv(10)
";
    let mut log = namespace.command(transom().get_program().to_str().unwrap());
    log.args(["log", "--", PYTHON, "-c", program]).stdout(Stdio::piped());
    let mut log = Running(log.spawn().unwrap());
    let mut lines = BufReader::new(log.0.stdout.take().unwrap()).lines();
    let pid = lines.next().unwrap().unwrap();
    lines.next().expect("an event").unwrap();
    drop(lines);
    log.0.wait().unwrap();
    assert!(!fs::exists(format!("/proc/{pid}")).unwrap());
}

#[test]
fn a_program_still_running_is_ended_with_the_recording() {
    needs_probes!();
    let mut recorder = transom();
    let directory = tempfile::tempdir().unwrap();
    recorder.arg("record").arg("-o").arg(directory.path().join("t.parquet"));
    recorder.args(["-q", "-d", "200ms", "--", "sleep", "60"]).process_group(0);
    let status = Command::status(&mut recorder).unwrap();
    assert_eq!(status.code(), Some(128 + libc::SIGTERM));
}
