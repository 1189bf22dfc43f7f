//! A host with an agent and a connection in trouble, a router, and whoever asks.

use std::fs;
use std::io::Read;
use std::net::{Shutdown, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use transom_event::Event;
use transom_raw_stream::Reader;
use transom_spool::{Connection, Decision, Direction, Row, RowKind, Table, list, read};
use transom_testbed::{
    Fate, Namespace, Talking, find_program, link, pair, send_and_wait, wait_for,
};

pub const DRILL: &str = env!("CARGO_BIN_EXE_transom-drill");
pub const NAME: &str = "web-1";
/// The connection that met timeouts is recorded from then on.
pub const RECORDED: &str = "level = 2\n[recording]\ntimeouts = 2\nretransmitted = 0\nhandshake_ms = 0\n\
                        peer_limited = 0\nrefusals = 0\n";
/// How long an answer is waited for that comes in the end, however busy the machine is.
pub const PATIENT: [&str; 2] = ["--wait", "60"];
/// Where the router is, for hosts and for those who ask.
const ROUTER: &str = "10.88.0.2:7447";

/// What an agent left of connections between two hosts, one of which met timeouts.
pub struct Kept {
    folder: tempfile::TempDir,
    /// Of the connections: the agent has those of all other tests, too.
    netns: u32,
    /// Where the host answers.
    pub host: Namespace,
}

impl Kept {
    /// `config` is the text of the agent's configuration.
    pub fn of(config: &str) -> Kept {
        Kept::made(config, 3, 100_000)
    }

    /// The one that met timeouts moves at least so many bytes afterwards, if it is recorded. Where a
    /// machine hides what happens on process 1's time, one timeout may be in no row and be no reason.
    pub fn made(config: &str, timeouts: u32, bytes: usize) -> Kept {
        let folder = tempfile::tempdir().unwrap();
        // The user that answers comes by here.
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(folder.path(), open).unwrap();
        let path = transom_testbed::Path::new(Duration::from_millis(5));
        let file = folder.path().join("agent.toml");
        fs::write(&file, config).unwrap();
        let mut agent =
            Command::new(find_program("transom-agent").expect("transom-agent is built"));
        agent.arg("--config").arg(&file).arg("--spool").arg(folder.path().join("spool"));
        let mut agent = Talking::start(agent.stdin(Stdio::null()), "rows of connections go to");
        let (mut fine, mut fine_server) = pair(&path);
        send_and_wait(&mut fine, &mut fine_server, 10_000);
        let (mut client, mut server) = pair(&path);
        send_and_wait(&mut client, &mut server, 10_000);
        path.until_timeouts(timeouts, Fate::Drop);
        send_and_wait(&mut client, &mut server, 20_000);
        path.heal();
        let spool = folder.path().join("spool");
        send_and_wait(&mut client, &mut server, 10_000);
        if config.contains("level = 2") {
            wait_for("its trace", || {
                send_and_wait(&mut client, &mut server, 10_000);
                is_recorded(&spool, path.left.inode())
            });
            send_and_wait(&mut client, &mut server, bytes);
        }
        end(client, server);
        end(fine, fine_server);
        assert!(agent.end(libc::SIGINT).success());
        Kept { folder, netns: path.left.inode(), host: Namespace::new("web") }
    }

    pub fn spool(&self) -> PathBuf {
        self.folder.path().join("spool")
    }

    pub fn files(&self, table: Table) -> Vec<PathBuf> {
        let files = list(&self.spool()).unwrap();
        let of_table = files.into_iter().filter(|(name, ..)| name.table() == table);
        of_table.map(|(_, path, _)| path).collect()
    }

    pub fn rows<T: Row>(&self, table: Table) -> Vec<T> {
        let files = self.files(table);
        files.iter().flat_map(|path| read(fs::File::open(path).unwrap()).unwrap()).collect()
    }

    pub fn boot(&self) -> String {
        let file = fs::File::open(&self.files(Table::Agent)[0]).unwrap();
        transom_spool::boot_of(file).unwrap()
    }

    /// The connection made here that met timeouts, and the one that met nothing.
    pub fn connections(&self) -> [Connection; 2] {
        let mut rows = self.rows::<Connection>(Table::Connections);
        rows.retain(|row| {
            let is_client = row.direction == Direction::Connect && row.kind == RowKind::End;
            is_client && row.netns == self.netns
        });
        rows.sort_by_key(|row| row.retransmitted);
        let [fine, slow] = &rows[..] else { panic!("two connections: {rows:#?}") };
        [slow.clone(), fine.clone()]
    }

    pub fn decisions(&self, cookie: u64) -> Vec<Decision> {
        let mut rows = self.rows::<Decision>(Table::Decisions);
        rows.retain(|row| row.cookie == cookie);
        rows.sort_by_key(|row| row.time);
        rows
    }
}

/// Whether the events of a connection of this namespace are being written.
fn is_recorded(spool: &Path, netns: u32) -> bool {
    let files = list(spool).unwrap();
    let traces = files.iter().filter(|(name, ..)| name.table() == Table::Traces);
    let mut found = false;
    for (_, path, _) in traces {
        // The newest may have no header yet.
        let Ok(mut reader) = Reader::open(fs::File::open(path).unwrap()) else { continue };
        while let Ok(Some(block)) = reader.next_block() {
            let mut events = block.filter_map(|raw| Event::try_from(&raw).ok());
            found |= events.any(|event| event.open().is_some_and(|open| open.netns == netns));
        }
    }
    found
}

/// Both ends have seen it when this returns.
fn end(mut client: TcpStream, mut server: TcpStream) {
    client.shutdown(Shutdown::Write).unwrap();
    let mut rest = Vec::new();
    server.read_to_end(&mut rest).unwrap();
    drop(server);
    client.read_to_end(&mut rest).unwrap();
}

/// The network that hosts, the router and those who ask are in.
pub struct Desk {
    pub host: Namespace,
    router: Option<Talking>,
}

impl Desk {
    /// With a router of ours, to which this host has a link.
    pub fn beside(kept: &Kept) -> Desk {
        let host = Namespace::new("desk");
        link((&kept.host, "lan", &["10.88.0.1/24"]), (&host, "lan", &["10.88.0.2/24"]));
        Desk { host, router: None }
    }

    pub fn route(mut self) -> Desk {
        self.router = Some(self.router_with(&["--listen", &format!("tcp/{ROUTER}"), "--plain"]));
        self
    }

    /// The router ends, and another one begins.
    pub fn reroute(mut self) -> Desk {
        self.router = None;
        self.route()
    }

    pub fn router_with(&self, words: &[&str]) -> Talking {
        let mut command = self.host.command(DRILL);
        let router = Talking::spawn(command.arg("router").args(words).stdout(Stdio::null()));
        wait_for("the router to listen", || {
            let sockets = self.host.command("ss").args(["-Hltn"]).output().expect("ss");
            String::from_utf8_lossy(&sockets.stdout).contains(":7447")
        });
        router
    }

    /// With patience, unless `words` say how much.
    pub fn ask(&self, words: &[&str]) -> Command {
        let mut command = self.host.command(DRILL);
        command.arg("ask").args(words).args(["--router", &format!("tcp/{ROUTER}")]);
        if !words.contains(&"--wait") {
            command.args(PATIENT);
        }
        command
    }
}

/// As its unit runs it: a user of the agent's group, who may not write there.
pub fn answer(kept: &Kept, words: &[&str]) -> Command {
    let mut command = kept.host.command("setpriv");
    let user = ["--reuid=65534", "--regid=0", "--clear-groups", "--no-new-privs"];
    command
        .args(user)
        .args([DRILL, "answer", "--host", NAME])
        .arg("--spool")
        .arg(kept.spool())
        .args(words);
    command
}

/// Answers until it is dropped.
pub fn answering(kept: &Kept) -> Talking {
    answering_with(kept, &[])
}

pub fn answering_with(kept: &Kept, more: &[&str]) -> Talking {
    let router = format!("tcp/{ROUTER}");
    let mut command = answer(kept, &["--router", &router, "--plain"]);
    command.args(more);
    Talking::start(&mut command, "questions come by transom-drill1/web-1")
}

/// Standard output, or standard error where it failed.
pub fn said(command: &mut Command) -> Result<String, String> {
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
}

/// The words of a question about a connection.
pub fn about(row: &Connection) -> [String; 4] {
    let at = chrono::DateTime::from_timestamp_micros(row.time.0).unwrap();
    [NAME.into(), format!("#{}", row.cookie), "--at".into(), at.to_rfc3339()]
}

pub fn asked(desk: &Desk, row: &Connection, more: &[&str]) -> Result<Value, String> {
    let about = about(row);
    let words: Vec<&str> = about.iter().map(String::as_str).chain(more.iter().copied()).collect();
    said(desk.ask(&words).arg("--json")).map(|text| serde_json::from_str(&text).unwrap())
}
