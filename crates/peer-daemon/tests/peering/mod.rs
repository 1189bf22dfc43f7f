//! Real daemons, each in a network namespace of its own, on a bridge that stands for the network
//! behind an access point. All of it goes when the values are dropped.

// Each test file uses its own part of this.
#![allow(dead_code)]

pub mod cost;
pub mod stranger;

use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

pub use transom_testbed::{Namespace, needs_root, wait_for};

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_transom-peer");

/// A network: a bridge, whose own address, 10.NET.0.254, is the gateway.
pub struct Lan {
    pub gateway: Namespace,
    pub net: u8,
}

impl Lan {
    pub fn new(net: u8) -> Lan {
        let gateway = Namespace::new(&format!("lan{net}"));
        let lan = Lan { gateway, net };
        // Else a bridge takes the lowest of its ports' addresses, which changes as they come.
        lan.gateway.ip(&format!("link add br0 address 02:00:00:00:00:{net:02x} type bridge"));
        lan.gateway.ip("link set br0 up");
        lan.gateway.ip(&format!("addr add 10.{net}.0.254/16 dev br0"));
        lan
    }

    /// One more host on the network.
    pub fn host(&self, number: u8) -> Namespace {
        let (host, net) = (Namespace::new(&format!("h{}-{number}", self.net)), self.net);
        let port = format!("port{number}");
        host.ip(&format!("link add eth0 type veth peer name {port} netns {}", self.gateway.name()));
        self.gateway.ip(&format!("link set {port} master br0 up"));
        host.ip(&format!("addr add 10.{net}.0.{number}/16 dev eth0"));
        host.ip("link set eth0 up");
        host.ip(&format!("route add default via 10.{net}.0.254"));
        host
    }

    pub fn terminals(&self, count: u8, group: &Group, arguments: &[&str]) -> Vec<Terminal> {
        let start = |number| Terminal::start(self.host(number), number, group, arguments);
        (1..=count).map(start).collect()
    }
}

/// A key, in a directory of its own.
pub struct Group(TempDir);

impl Group {
    pub fn new() -> Group {
        let group = Group(tempfile::tempdir().expect("a directory"));
        let made = Command::new(PROGRAM).args(["key", "new"]).arg(group.key()).output();
        assert!(made.expect("transom-peer runs").status.success());
        group
    }

    pub fn key(&self) -> PathBuf {
        self.0.path().join("key")
    }
}

/// A daemon, in its namespace.
pub struct Terminal {
    pub namespace: Namespace,
    pub name: String,
    child: Child,
    command: Vec<String>,
}

impl Terminal {
    pub fn start(namespace: Namespace, number: u8, group: &Group, more: &[&str]) -> Terminal {
        Terminal::start_under(&[], namespace, number, group, more)
    }

    /// `under`: a program, with its arguments, that starts the daemon in its own place.
    pub fn start_under(
        under: &[&str],
        namespace: Namespace,
        number: u8,
        group: &Group,
        more: &[&str],
    ) -> Terminal {
        let name = format!("phone{number}");
        let key = group.key();
        let key = key.to_str().expect("a plain path");
        let run = [PROGRAM, "run", "--key", key, "--name", &name];
        let command =
            under.iter().chain(&run).chain(more).map(|&word| word.to_owned()).collect::<Vec<_>>();
        let child = spawn(&namespace, &command);
        let terminal = Terminal { namespace, name, child, command };
        wait_for("the daemon to answer", || terminal.try_status().is_some());
        terminal
    }

    /// The same again.
    pub fn start_again(&mut self) {
        self.child = spawn(&self.namespace, &self.command);
        wait_for("the daemon to answer", || self.try_status().is_some());
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    fn signal(&self, signal: i32) {
        // SAFETY: the child is ours and not yet waited for.
        unsafe { libc::kill(self.child.id() as i32, signal) };
    }

    /// As a power cut does it.
    pub fn kill(&mut self) {
        self.signal(libc::SIGKILL);
        let _ = self.child.wait();
    }

    /// As Ctrl-C does it; it must end well.
    pub fn interrupt(&mut self) {
        self.signal(libc::SIGINT);
        assert!(self.child.wait().expect("our child").success());
    }

    pub fn ask(&self, arguments: &[&str]) -> Output {
        self.namespace.command(PROGRAM).args(arguments).output().expect("transom-peer runs")
    }

    fn try_status(&self) -> Option<Value> {
        let mut arguments = vec!["status", "--json"];
        let place = self.command.iter().skip_while(|&word| word != "--socket").take(2);
        arguments.extend(place.map(String::as_str));
        let output = self.ask(&arguments);
        output.status.success().then(|| serde_json::from_slice(&output.stdout).expect("JSON"))
    }

    pub fn status(&self) -> Value {
        self.try_status().expect("the daemon answers")
    }

    /// Names of those it believes to be there, itself included.
    pub fn sees(&self) -> Vec<String> {
        let status = self.status();
        let terminals = status["terminals"].as_array().expect("a list");
        let mut names: Vec<String> =
            terminals.iter().map(|t| t["name"].as_str().expect("a name").to_owned()).collect();
        names.sort();
        names
    }

    /// How long it has not heard of another that it believes to be there, by its own clock.
    pub fn age_of(&self, name: &str) -> Option<Duration> {
        let status = self.status();
        let mut terminals = status["terminals"].as_array().expect("a list").iter();
        let ms = terminals.find(|t| t["name"] == name)?["age_ms"].as_u64();
        Some(Duration::from_millis(ms.expect("an age")))
    }

    pub fn counted(&self, what: &str) -> u64 {
        self.status()["messages"]["counted"][what].as_u64().expect("a counter")
    }

    /// Its own part of the status.
    pub fn own(&self) -> Value {
        self.status()["terminals"][0].clone()
    }
}

fn spawn(namespace: &Namespace, words: &[String]) -> Child {
    let mut command = namespace.command(&words[0]);
    command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::null());
    command.spawn().expect("transom-peer runs")
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.signal(libc::SIGTERM);
        let _ = self.child.wait();
    }
}

pub fn names(numbers: impl IntoIterator<Item = u8>) -> Vec<String> {
    numbers.into_iter().map(|number| format!("phone{number}")).collect()
}

pub fn wait_until_all_see(terminals: &[Terminal], expected: &[String]) {
    for terminal in terminals {
        wait_for(&format!("{} to see {expected:?}", terminal.name), || terminal.sees() == expected);
    }
}

/// As [`wait_for`]; what the terminal says is shown if it never comes.
pub fn wait_for_at(terminal: &Terminal, what: &str, done: impl FnMut() -> bool) {
    let last = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| wait_for(what, done)));
    if last.is_err() {
        let table = String::from_utf8_lossy(&terminal.ask(&["status"]).stdout).into_owned();
        panic!("{} waited for {what}:\n{table}", terminal.name);
    }
}

/// A server of iperf3 that serves one transfer, and its client in `from`.
pub struct Transfer {
    server: Child,
    client: Child,
}

impl Transfer {
    pub fn start(from: &Namespace, lan: &Lan, port: u16, seconds: u32) -> Transfer {
        let gateway = format!("10.{}.0.254", lan.net);
        Transfer::between(from, &lan.gateway, &gateway, port, seconds)
    }

    /// `address`: of the server.
    pub fn between(
        from: &Namespace,
        server: &Namespace,
        address: &str,
        port: u16,
        seconds: u32,
    ) -> Transfer {
        let port = port.to_string();
        let quiet = |command: &mut Command| {
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            command.spawn().expect("iperf3")
        };
        let listener = quiet(server.command("iperf3").args(["-s", "-1", "-p", &port]));
        wait_for("iperf3 to listen", || {
            let listening = server.command("ss").args(["-Hltn", "sport", "=", &port]).output();
            !listening.expect("ss").stdout.is_empty()
        });
        let time = seconds.to_string();
        let client = quiet(from.command("iperf3").args(["-c", address, "-p", &port, "-t", &time]));
        Transfer { server: listener, client }
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        for child in [&mut self.client, &mut self.server] {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
