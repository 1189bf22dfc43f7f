//! An agent of our own, with a spool of its own, and what it left there.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use transom_spool::{AgentRow, Connection, Decision, Row, Table, list, read};

pub const AGENT: &str = env!("CARGO_BIN_EXE_transom-agent");

/// Ended when it is dropped.
pub struct Agent {
    child: Child,
    /// What it says on its standard error, line by line.
    said: Receiver<String>,
}

impl Agent {
    /// Runs when this returns. `config` is the text of its file, without the spool.
    pub fn start(spool: &Path, config: &str) -> Agent {
        let file = spool.with_extension("toml");
        fs::write(&file, config).unwrap();
        let mut child = Command::new(AGENT)
            .arg("--config")
            .arg(&file)
            .arg("--spool")
            .arg(spool)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (say, said) = channel();
        let errors = BufReader::new(child.stderr.take().unwrap());
        std::thread::spawn(move || {
            for line in errors.lines().map_while(Result::ok) {
                let _ = say.send(line);
            }
        });
        let agent = Agent { child, said };
        agent.wait_for_words("rows of connections go to");
        agent
    }

    /// The first line that contains these words.
    pub fn wait_for_words(&self, words: &str) -> String {
        loop {
            let line = self
                .said
                .recv_timeout(Duration::from_secs(20))
                .unwrap_or_else(|_| panic!("the agent never said '{words}'"));
            if line.contains(words) {
                return line;
            }
        }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// As Ctrl-C does; what it wrote is whole then.
    pub fn stop(mut self) {
        assert!(self.end(libc::SIGINT).success());
    }

    pub fn kill(mut self) {
        self.end(libc::SIGKILL);
    }

    fn end(&mut self, signal: i32) -> ExitStatus {
        // SAFETY: a signal to a child that was not waited for.
        unsafe { libc::kill(self.child.id() as i32, signal) };
        self.child.wait().unwrap()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
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

    pub fn decisions(&self) -> Vec<Decision> {
        self.rows(Table::Decisions)
    }

    pub fn agent(&self) -> Vec<AgentRow> {
        self.rows(Table::Agent)
    }
}
