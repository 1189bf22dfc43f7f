//! An agent of our own, with a spool of its own, and what it left there.

use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use transom_agent::Unfinished;
use transom_spool::{AgentRow, Connection, Decision, Row, RowKind, Table, list, read};
use transom_testbed::{Namespace, Talking};

pub const AGENT: &str = env!("CARGO_BIN_EXE_transom-agent");

/// Ended when it is dropped.
pub struct Agent(Talking);

impl Agent {
    /// Runs when this returns. `config` is the text of its file, without the spool.
    pub fn start(spool: &Path, config: &str) -> Agent {
        Agent::run(Command::new(AGENT), spool, config)
    }

    /// The same, with the counts of this namespace as those of its kernel.
    pub fn start_in(host: &Namespace, spool: &Path, config: &str) -> Agent {
        Agent::run(host.command(AGENT), spool, config)
    }

    /// The same with no capability but those of its unit.
    pub fn start_confined(spool: &Path, config: &str) -> Agent {
        let mut program = Command::new("setpriv");
        program.args(["--bounding-set=-all,+bpf,+perfmon", "--inh-caps=-all", AGENT]);
        Agent::run(program, spool, config)
    }

    /// Begun by a service manager, which it is to tell at this socket when it runs.
    pub fn begin_under(socket: &OsStr, spool: &Path) -> Agent {
        let mut program = Command::new(AGENT);
        Agent(Talking::spawn(with_spool(&mut program, spool, "").env("NOTIFY_SOCKET", socket)))
    }

    fn run(mut program: Command, spool: &Path, config: &str) -> Agent {
        let agent = Agent(Talking::spawn(with_spool(&mut program, spool, config)));
        agent.wait_for_words("rows of connections go to");
        agent
    }

    pub fn wait_for_words(&self, words: &str) -> String {
        self.0.wait_for_words(words)
    }

    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// Not while `work` is done, as on a machine that is far too busy.
    pub fn paused<T>(&self, work: impl FnOnce() -> T) -> T {
        self.0.signal(libc::SIGSTOP);
        let done = work();
        self.0.signal(libc::SIGCONT);
        done
    }

    /// Has it read this configuration instead.
    pub fn reconfigure(&self, spool: &Path, config: &str) {
        write_config(spool, config);
        self.0.signal(libc::SIGHUP);
    }

    /// As Ctrl-C does; what it wrote is whole then.
    pub fn stop(mut self) {
        assert!(self.0.end(libc::SIGINT).success());
    }

    /// As a service manager does.
    pub fn terminate(mut self) {
        assert!(self.0.end(libc::SIGTERM).success());
    }

    /// By itself.
    pub fn ends(mut self) -> ExitStatus {
        self.0.wait()
    }

    pub fn kill(mut self) {
        self.0.end(libc::SIGKILL);
    }
}

fn with_spool<'a>(program: &'a mut Command, spool: &Path, config: &str) -> &'a mut Command {
    write_config(spool, config);
    program.stdin(Stdio::null()).env_remove("NOTIFY_SOCKET");
    program.arg("--config").arg(config_of(spool)).arg("--spool").arg(spool)
}

fn config_of(spool: &Path) -> PathBuf {
    spool.with_extension("toml")
}

fn write_config(spool: &Path, config: &str) {
    fs::write(config_of(spool), config).unwrap();
}

/// /metrics of an agent of this namespace.
pub fn scraped(port: u16) -> String {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// One number of it, once the agent has said something of itself.
pub fn own_metric(port: u16, name: &str) -> Option<f64> {
    let text = scraped(port);
    let value = |name: &str| {
        let line = text.lines().find(|line| line.split(' ').next() == Some(name))?;
        line.rsplit_once(' ')?.1.parse::<f64>().ok()
    };
    value("transom_agent_resident_bytes").filter(|&bytes| bytes > 0.0)?;
    value(name)
}

/// What an agent says that does not get to run.
pub fn refusal(arguments: &[&str]) -> String {
    let mut child = Command::new(AGENT).args(arguments).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(!child.wait().unwrap().success(), "{said}");
    said
}

/// A folder for a spool that goes with the test.
pub struct Spool {
    _folder: tempfile::TempDir,
    pub path: PathBuf,
}

impl Spool {
    pub fn new() -> Spool {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("spool");
        Spool { _folder: folder, path }
    }

    fn rows<T: Row>(&self, table: Table) -> Vec<T> {
        let files = list(&self.path).unwrap();
        let of_table = files.iter().filter(|(name, ..)| name.table() == table);
        of_table
            .flat_map(|(_, path, _)| read::<T, _>(fs::File::open(path).unwrap()).unwrap())
            .collect()
    }

    /// Rows of connections of one network namespace, oldest first.
    pub fn connections(&self, netns: u32) -> Vec<Connection> {
        let mut rows = self.rows::<Connection>(Table::Connections);
        rows.retain(|row| row.netns == netns);
        rows.sort_by_key(|row| (row.time, row.cookie));
        rows
    }

    /// Rows of connections that are in no file yet.
    pub fn waiting(&self, netns: u32) -> Vec<Connection> {
        let journals = Unfinished::of(&self.path).unwrap();
        let rows = journals.into_iter().flat_map(|journal| journal.connections);
        rows.filter(|row| row.netns == netns).collect()
    }

    /// Of them, those of connections that have ended.
    pub fn ended(&self, netns: u32) -> Vec<Connection> {
        let mut rows = self.waiting(netns);
        rows.retain(|row| row.kind != RowKind::Interim);
        rows
    }

    /// What the agent has said of itself, in files or not yet.
    pub fn agent_until_now(&self) -> Vec<AgentRow> {
        let journals = Unfinished::of(&self.path).unwrap();
        self.agent().into_iter().chain(journals.into_iter().flat_map(|each| each.agent)).collect()
    }

    pub fn decisions(&self) -> Vec<Decision> {
        self.rows(Table::Decisions)
    }

    /// The traces of chosen connections, oldest first.
    pub fn traces(&self) -> Vec<PathBuf> {
        let files = list(&self.path).unwrap();
        let traces = files.into_iter().filter(|(name, ..)| name.table() == Table::Traces);
        traces.map(|(_, path, _)| path).collect()
    }

    pub fn agent(&self) -> Vec<AgentRow> {
        self.rows(Table::Agent)
    }
}
