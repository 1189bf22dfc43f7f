//! Into a real S3 server, with and without trouble on the way.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::environment;
use crate::killed::{kill_often, kills};
use crate::place::{Folder, ended, ship};
use crate::spool::Spool;
use crate::troubled::{Trouble, Troubled};

pub struct Server {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    pub port: u16,
}

impl Server {
    /// `None` where it cannot be had.
    pub fn start() -> Option<Server> {
        let python = environment::engines()?;
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ship/serve.py");
        let mut child = Command::new(python)
            .arg(script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        Some(Server { child, input, output, port: line.trim().parse().expect("a port") })
    }

    /// All that it has.
    pub fn objects(&mut self) -> Folder {
        let folder = Folder::new();
        writeln!(self.input, "{}", folder.0.path().display()).unwrap();
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        let found = folder.objects().len() + folder.of_hosts().len();
        assert_eq!(line.trim().parse::<usize>().unwrap(), found);
        folder
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn ship_to(port: u16, spool: &Spool, address: &str) -> Command {
    let mut command = ship(spool.path(), address);
    with_keys(&mut command, port, "testing", "testing");
    command
}

pub fn with_keys(command: &mut Command, port: u16, key: &str, secret: &str) {
    command
        .env("AWS_ACCESS_KEY_ID", key)
        .env("AWS_SECRET_ACCESS_KEY", secret)
        .env("AWS_REGION", "us-east-1")
        .env("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{port}"))
        .env("AWS_ALLOW_HTTP", "true");
}

#[test]
fn files_land_below_the_prefix_of_a_bucket_once() {
    let Some(mut server) = Server::start() else { return };
    let (spool, other) = (Spool::new(1), Spool::new(2));
    spool.finish(1, 10);
    other.finish(1, 10);
    let to = "s3://tables/fleet/a";
    let mut command = ship_to(server.port, &spool, to);
    let (good, said) = ended(command.arg("--once"));
    assert!(good && said.contains("3 files landed"), "{said}");
    let objects = server.objects().objects();
    assert_eq!(objects.len(), 3);
    assert!(objects[1].starts_with("fleet/a/connections/date=2026-11-23/hour=12/web-1-"));
    std::fs::remove_file(spool.path().join("shipped")).unwrap();
    let (good, said) = ended(&mut command);
    assert!(good && said.contains("3 of them before"), "{said}");
    let (good, said) = ended(ship_to(server.port, &other, to).arg("--once"));
    assert!(!good && said.contains("a clone"), "{said}");
    let state = tempfile::tempdir().unwrap();
    let mut gone = ship_to(server.port, &spool, "s3://gone");
    let (good, said) = ended(gone.arg("--once").arg("--state").arg(state.path()));
    assert!(!good && said.contains("no such bucket"), "{said}");
    let mut corrected = ship_to(server.port, &spool, "s3://tables/corrected");
    let (good, said) = ended(corrected.arg("--once").arg("--state").arg(state.path()));
    assert!(good && said.contains("3 files landed"), "an address may be corrected: {said}");
    let (good, said) = ended(&mut gone);
    assert!(!good && said.contains("is of web-1 to s3://tables/corrected"), "{said}");
}

#[test]
fn no_row_is_lost_or_doubled_in_a_bucket_whatever_the_server_and_the_way_do() {
    let Some(mut server) = Server::start() else { return };
    let spool = Spool::new(1);
    let met = Arc::new(AtomicU64::new(0));
    let counted = met.clone();
    // Each after some that went well, so that waits stay short.
    let way = Troubled::before(server.port, move |n| {
        let trouble = match n % 30 {
            5 => Trouble::Slower,
            11 => Trouble::AnswerCut,
            17 => Trouble::TooMany,
            23 => Trouble::RequestCut,
            29 => Trouble::Internal,
            _ => Trouble::None,
        };
        counted.fetch_add(u64::from(trouble != Trouble::None), Ordering::Relaxed);
        trouble
    });
    let ship = || ship_to(way.port, &spool, "s3://tables");
    kill_often(&spool, ship, kills());
    let (good, said) = ended(ship().arg("--once"));
    assert!(good, "{said}");
    assert!(met.load(Ordering::Relaxed) > 0, "it met trouble");
    let objects = server.objects();
    let mut cookies = objects.cookies();
    let all = cookies.len();
    cookies.dedup();
    assert_eq!((cookies.len(), all), (20 * kills() as usize, 20 * kills() as usize));
}

#[test]
fn what_only_somebody_can_change_ends_it_with_the_remedy() {
    let Some(server) = Server::start() else { return };
    for (trouble, words) in [
        (Trouble::Skewed, "clock is wrong (the server's: 2026-11-24T12:00:00Z)"),
        (Trouble::OtherRegion, "AWS_REGION=eu-west-1"),
        (Trouble::Denied, "bucket's policy"),
        (Trouble::Unsupported, "take a store or a version of it that has both"),
        (Trouble::Refused, "the server refuses it: InvalidRequest: m"),
    ] {
        let spool = Spool::new(1);
        spool.finish(1, 1);
        let way = Troubled::before(server.port, move |_| trouble);
        let (good, said) = ended(&mut ship_to(way.port, &spool, "s3://tables"));
        assert!(!good && said.contains(words), "{said}");
        assert_eq!(transom_spool::list(spool.path()).unwrap().len(), 3, "the files wait");
    }
}

#[test]
fn a_store_that_writes_over_what_is_there_is_noticed_with_the_first_object() {
    let Some(mut server) = Server::start() else { return };
    let spool = Spool::new(1);
    spool.finish(1, 10);
    let careless = Troubled::before(server.port, |_| Trouble::Unconditional);
    let (good, said) = ended(&mut ship_to(careless.port, &spool, "s3://tables"));
    assert!(!good && said.contains("writes over what is there"), "{said}");
    assert_eq!(server.objects().objects().len(), 1, "the first one, and no other after it");
    // The control: the same server by itself.
    let (good, said) = ended(ship_to(server.port, &spool, "s3://tables").arg("--once"));
    assert!(good && said.contains("1 of them before"), "{said}");
}

#[test]
fn what_landed_is_remembered_and_told_once_though_the_store_cannot_be_asked_what_it_keeps() {
    let Some(mut server) = Server::start() else { return };
    let spool = Spool::new(1);
    // The agent needed the room: its own file is the first that lands, and tells of the others.
    spool.finish(1, 10)[..2].iter().for_each(|file| std::fs::remove_file(file).unwrap());
    let metrics = spool.path().join("ship.prom");
    let asked = |n| if n == 2 { Trouble::Slower } else { Trouble::None };
    let way = Troubled::before(server.port, asked);
    let mut command = ship_to(way.port, &spool, "s3://tables");
    let (good, said) = ended(command.arg("--once").arg("--metrics").arg(&metrics));
    assert!(good && said.contains("503"), "{said}");
    assert_eq!(said.matches("15 rows were given up").count(), 1, "{said}");
    assert!(said.contains("1 files landed:"), "nothing was there before: {said}");
    let told = std::fs::read_to_string(&metrics).unwrap();
    for line in [
        "transom_ship_given_up_rows_total{table=\"connections\"} 10",
        "transom_ship_given_up_rows_total{table=\"decisions\"} 5",
        "transom_ship_troubles_total{refusal=\"slower\"} 1",
    ] {
        assert!(told.lines().any(|told| told == line), "{line}: {told}");
    }
    assert_eq!(server.objects().objects().len(), 2);
}
