//! Multipath TCP of the host's kernel: which subflows are one connection, whose it is, and how the
//! commands show them under one another.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use tempfile::TempDir;
use transom_event::{Open, Token};
use transom_testbed::{Namespace, Recording, Trace, TwoPaths, needs_probes, transom, wait_for};

const PYTHON: &str = "/usr/bin/python3";
/// Of Multipath TCP, and of the connection beside it that has one path only.
const MULTIPATH: u16 = 7300;
const SINGLE: u16 = 7301;

/// A recording of these ports sees those of all hosts.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A program that goes when the test goes.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const SERVER: &str = "
import socket, threading
def listen(port, protocol):
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, protocol)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(('0.0.0.0', port))
    listener.listen()
    return listener
def serve(listener):
    stream, _ = listener.accept()
    while stream.recv(1 << 16):
        pass
    stream.close()
listeners = [listen(7300, 262), listen(7301, 0)]
print('ready', flush=True)
threads = [threading.Thread(target=serve, args=(listener,)) for listener in listeners]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
";

/// Sends a little, and the rest when it is told to.
const CLIENT: &str = "
import socket, sys
multi = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)
multi.connect(('10.81.0.2', 7300))
single = socket.create_connection(('10.81.0.2', 7301))
for stream in (multi, single):
    stream.sendall(bytes(20000))
print('connected', flush=True)
sys.stdin.readline()
for stream in (multi, single):
    stream.sendall(bytes(3000000))
    stream.shutdown(socket.SHUT_WR)
    while stream.recv(1):
        pass
    stream.close()
";

fn started(host: &Namespace, program: &str) -> Running {
    let mut command = host.command(PYTHON);
    command.args(["-c", program]).stdin(Stdio::piped()).stdout(Stdio::piped());
    Running(command.spawn().expect("python runs"))
}

/// Waits for a line of it.
fn hear(program: &mut Running, line: &str) {
    let mut said = BufReader::new(program.0.stdout.take().unwrap()).lines();
    assert_eq!(said.next().unwrap().unwrap(), line);
}

/// What both ends of a client that sends over two paths did.
struct Recorded {
    _directory: TempDir,
    file: PathBuf,
    trace: Trace,
    client: u32,
    server: u32,
    /// What `ss` says of the client's connection.
    sockets: String,
}

/// One recording for all tests.
fn recorded() -> &'static Recorded {
    static RECORDED: LazyLock<Recorded> = LazyLock::new(record);
    &RECORDED
}

fn record() -> Recorded {
    let _alone = alone();
    let hosts = TwoPaths::new();
    let mut server = started(&hosts.server, SERVER);
    hear(&mut server, "ready");
    let mut recording = Recording::start(&["--port", "7300", "--port", "7301"]);
    let mut client = started(&hosts.client, CLIENT);
    hear(&mut client, "connected");
    wait_for("the second subflow", || hosts.subflows(MULTIPATH) == 2);
    let sockets = hosts.client.command("ss").arg("-MHni").output().expect("ss runs").stdout;
    let sockets = String::from_utf8_lossy(&sockets).into_owned();
    client.0.stdin.take().unwrap().write_all(b"go\n").unwrap();
    assert!(client.0.wait().unwrap().success());
    assert!(server.0.wait().unwrap().success());
    recording.signal(libc::SIGINT);
    let (code, errors) = recording.wait();
    assert_eq!(code, 0, "{errors}");
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("multi.parquet");
    std::fs::copy(recording.file(), &file).expect("the trace");
    let trace = Trace::read(&file);
    Recorded {
        _directory: directory,
        file,
        trace,
        client: client.0.id(),
        server: server.0.id(),
        sockets,
    }
}

/// What `transom` prints, with these words and the trace.
fn said(words: &[&str]) -> String {
    let output = transom().args(words).output().expect("transom runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// Ends by token, without those that have none.
fn by_token(trace: &Trace) -> BTreeMap<Token, Vec<Open>> {
    let mut all: BTreeMap<Token, Vec<Open>> = BTreeMap::new();
    for open in trace.connections().into_values() {
        if let Some(token) = open.mptcp() {
            all.entry(token).or_default().push(open);
        }
    }
    all
}

#[test]
fn subflows_have_the_token_and_the_owner_of_their_connection() {
    needs_probes!();
    let Recorded { trace, client, server, .. } = recorded();
    let tokens = by_token(trace);
    assert_eq!(tokens.len(), 2, "one of each end: {tokens:?}");
    for subflows in tokens.values() {
        let ends = subflows.iter().map(Open::endpoints);
        let ends: BTreeSet<String> =
            ends.flat_map(|e| [e.local.ip().to_string(), e.remote.ip().to_string()]).collect();
        assert_eq!(Vec::from_iter(ends), ["10.81.0.1", "10.81.0.2", "10.81.1.1"]);
        assert_eq!(subflows.len(), 2);
    }
    for (cookie, open) in trace.connections() {
        let ends = open.endpoints();
        let is_single = [ends.local.port(), ends.remote.port()].contains(&SINGLE);
        assert_eq!(open.mptcp().is_none(), is_single, "{ends}");
        if !is_single {
            assert_eq!(open.program(), "python3", "and not the kernel's worker: {ends}");
            let owners: BTreeSet<u32> = trace.only(cookie).iter().map(|e| e.tgid).collect();
            // The server listened before the recording began.
            let connected = ends.remote.port() == MULTIPATH;
            assert_eq!(owners, BTreeSet::from([if connected { *client } else { *server }]));
        }
    }
}

#[test]
fn the_token_is_the_one_that_other_tools_print() {
    needs_probes!();
    let Recorded { trace, sockets, .. } = recorded();
    let (_, rest) = sockets.split_once(" token:").expect(sockets);
    let digits = rest.split_whitespace().next().expect(sockets);
    assert_eq!(u32::from_str_radix(digits, 16), Ok(client_token(trace).0), "{sockets}");
}

/// The client's token: its subflows' other end is the server's port.
fn client_token(trace: &Trace) -> Token {
    let opened = trace.connections();
    let subflow = opened.values().find(|open| open.remote_port == MULTIPATH).expect("a subflow");
    subflow.mptcp().expect("it has one")
}

#[test]
fn explain_tells_subflows_under_their_sum_and_other_connections_as_ever() {
    needs_probes!();
    let Recorded { file, trace, client, .. } = recorded();
    let token = client_token(trace);
    let text = said(&["explain", file.to_str().unwrap()]);
    let sum = text.find(&format!("python3 [{client}] MPTCP {token}, 2 subflows")).expect(&text);
    let under: Vec<&str> =
        text[sum..].lines().skip(1).take_while(|l| l.starts_with("  ") || l.is_empty()).collect();
    let subflows: Vec<&&str> =
        under.iter().filter(|line| line.contains(" > 10.81.0.2:7300")).collect();
    let [first, second] = subflows[..] else { panic!("{text}") };
    assert!(first.starts_with("  10.81.0.1:") && second.starts_with("  10.81.1.1:"), "{text}");
    assert!(under[0].contains(" MiB up at "), "{text}");
    let single = format!("python3 [{client}] 10.81.0.1:");
    let single = text.lines().find(|l| l.starts_with(&single) && l.contains(":7301")).expect(&text);
    assert!(!single.contains("MPTCP"), "{single}");
}

#[test]
fn a_token_names_the_subflows_of_a_connection() {
    needs_probes!();
    let Recorded { file, trace, .. } = recorded();
    let token = client_token(trace);
    let words = ["explain", "--json", "--connection", &token.to_string(), file.to_str().unwrap()];
    let found: serde_json::Value = serde_json::from_str(&said(&words)).unwrap();
    let found = found.as_array().unwrap();
    assert_eq!(found.len(), 2);
    assert!(found.iter().all(|subflow| subflow["mptcp"] == token.0));
}

#[test]
fn the_column_is_in_csv_and_empty_where_there_is_one_path() {
    needs_probes!();
    let Recorded { file, trace, .. } = recorded();
    let csv = said(&["convert", "--to", "csv", file.to_str().unwrap(), "-"]);
    let mut lines = csv.lines();
    let names: Vec<&str> = lines.next().unwrap().split(',').collect();
    let at = |name: &str| names.iter().position(|n| *n == name).expect(name);
    let (kind, mptcp) = (at("kind"), at("mptcp"));
    let opened =
        lines.map(|line| line.split(',').collect::<Vec<_>>()).filter(|c| c[kind] == "open");
    let tokens: Vec<String> = opened.map(|cells| cells[mptcp].to_owned()).collect();
    let token = client_token(trace).0.to_string();
    assert_eq!(tokens.iter().filter(|cell| **cell == token).count(), 2);
    assert_eq!(tokens.iter().filter(|cell| cell.is_empty()).count(), 2, "both ends of the other");
}

#[test]
fn a_followed_program_has_all_subflows_of_its_connection() {
    needs_probes!();
    let _alone = alone();
    let hosts = TwoPaths::new();
    let mut server = started(&hosts.server, SERVER);
    hear(&mut server, "ready");
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("followed.parquet");
    let mut command = hosts.client.command(transom().get_program().to_str().unwrap());
    command.args(["record", "-o", file.to_str().unwrap(), "--", PYTHON, "-c", CLIENT]);
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut recording = Running(child);
    hear(&mut recording, "connected");
    wait_for("the second subflow", || hosts.subflows(MULTIPATH) == 2);
    recording.0.stdin.take().unwrap().write_all(b"go\n").unwrap();
    assert!(recording.0.wait().unwrap().success());
    let tokens = by_token(&Trace::read(&file));
    assert_eq!(tokens.values().map(Vec::len).collect::<Vec<_>>(), [2]);
}

#[test]
fn a_connection_that_was_there_before_belongs_to_who_holds_it() {
    needs_probes!();
    let _alone = alone();
    let hosts = TwoPaths::new();
    let mut server = started(&hosts.server, SERVER);
    hear(&mut server, "ready");
    let mut client = started(&hosts.client, CLIENT);
    hear(&mut client, "connected");
    wait_for("the second subflow", || hosts.subflows(MULTIPATH) == 2);
    let pid = client.0.id();
    let recording = Recording::start(&["--pid", &pid.to_string(), "--port", "7300"]);
    client.0.stdin.take().unwrap().write_all(b"go\n").unwrap();
    assert!(client.0.wait().unwrap().success());
    let trace = recording.finish();
    let tokens = by_token(&trace);
    let [subflows] = Vec::from_iter(tokens.values())[..] else { panic!("{tokens:?}") };
    let programs: Vec<String> = subflows.iter().map(Open::program).collect();
    assert_eq!(programs, ["python3", "python3"]);
    assert_eq!(trace.owners(), BTreeSet::from([pid]));
}
