//! `transom flight`: what was kept is written when it is worth it, and at no other time.

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path as FilePath, PathBuf};
use std::time::Duration;

use transom_event::{Body, Event, Kind};
use transom_testbed::{
    Fate, Path, SmallDisk, Talking, host_and_port, needs_probes, pair, send_and_wait, settle,
    transom, wait_for,
};
use transom_trace::Reader;

struct Flight {
    program: Talking,
    folder: PathBuf,
    _made: Option<tempfile::TempDir>,
}

impl Flight {
    fn record(path: &Path, arguments: &[&str]) -> Flight {
        Flight::into(tempfile::tempdir().unwrap(), path, arguments)
    }

    fn into(folder: tempfile::TempDir, path: &Path, arguments: &[&str]) -> Flight {
        let flight = Flight::at(folder.path(), path, arguments);
        Flight { _made: Some(folder), ..flight }
    }

    fn at(folder: &FilePath, path: &Path, arguments: &[&str]) -> Flight {
        let mut command = transom();
        command.args(["flight", "record", "--netns", path.left.name(), "-o"]);
        command.arg(folder).args(arguments);
        let program = Talking::start(&mut command, "are kept");
        Flight { program, folder: folder.to_owned(), _made: None }
    }

    fn files(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.folder).unwrap();
        let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        files.sort();
        files
    }

    fn stop(&mut self) {
        assert!(self.program.end(libc::SIGINT).success());
    }
}

fn events(file: &FilePath) -> Vec<Event> {
    let reader = Reader::open(file).unwrap();
    reader.map(|event| event.unwrap()).collect()
}

fn dump(arguments: &[&str]) -> std::process::Output {
    transom().args(["flight", "dump"]).args(arguments).output().unwrap()
}

#[test]
fn two_timeouts_of_a_connection_write_what_came_before_them() {
    needs_probes!();
    let path = Path::new(Duration::from_millis(5));
    let (mut client, mut server) = pair(&path);
    let mut flight = Flight::record(&path, &["--when", "rto=2/20s", "--after", "200ms"]);
    send_and_wait(&mut client, &mut server, 50_000);
    settle(&client);
    std::thread::sleep(Duration::from_millis(500));
    assert!(flight.files().is_empty(), "nothing has happened yet");
    path.until_timeouts(2, Fate::Drop);
    client.write_all(&[7; 20_000]).unwrap();
    let said = flight.program.wait_for_words("rto=2/20s on connection #");
    flight.stop();
    let files = flight.files();
    assert_eq!(files.len(), 1, "{said}");
    let events = events(&files[0]);
    let count = |kind| events.iter().filter(|event| event.kind == kind).count();
    assert!(count(Kind::Rto) >= 2 && count(Kind::Ack) >= 10, "what came before is there, too");
    let open = events.iter().find(|event| event.kind == Kind::Open).expect("who it is");
    let Body::Open(open) = open.body else { panic!("{open:?}") };
    assert_eq!(open.endpoints().remote, client.peer_addr().unwrap());
    assert!(!host_and_port(open.endpoints().local)[1].is_empty());
}

#[test]
fn without_what_is_waited_for_no_file_is_written() {
    needs_probes!();
    let path = Path::new(Duration::from_millis(5));
    let mut flight = Flight::record(&path, &["--when", "rto=2/20s", "--after", "0s"]);
    let (mut client, mut server) = pair(&path);
    path.lose(|n| n == 20);
    send_and_wait(&mut client, &mut server, 200_000);
    settle(&client);
    std::thread::sleep(Duration::from_millis(300));
    flight.stop();
    assert!(flight.files().is_empty());
}

#[test]
fn a_dump_writes_what_there_is_and_the_recorder_goes_on() {
    needs_probes!();
    let path = Path::new(Duration::from_millis(5));
    let mut flight = Flight::record(&path, &["--keep", "1s"]);
    let (mut client, mut server) = pair(&path);
    send_and_wait(&mut client, &mut server, 20_000);
    let process = flight.program.id().to_string();
    assert!(dump(&["--process", &process]).status.success());
    flight.program.wait_for_words("asked for");
    std::thread::sleep(Duration::from_millis(1500));
    send_and_wait(&mut client, &mut server, 20_000);
    flight.program.signal(libc::SIGUSR1);
    flight.program.wait_for_words("asked for");
    flight.stop();
    let files = flight.files();
    assert_eq!(files.len(), 2);
    let (first, second) = (events(&files[0]), events(&files[1]));
    let last = first.last().unwrap().time_ns;
    assert!(second[0].time_ns > last, "a second was kept, and more has passed");
    assert_eq!(second[0].kind, Kind::Open, "the connection is known though it began before");
}

#[test]
fn a_folder_whose_name_is_no_text_gets_its_file() {
    needs_probes!();
    let path = Path::new(Duration::from_millis(5));
    let folder = tempfile::Builder::new().prefix(OsStr::from_bytes(b"caf\xe9")).tempdir().unwrap();
    let mut flight = Flight::into(folder, &path, &[]);
    let (mut client, mut server) = pair(&path);
    send_and_wait(&mut client, &mut server, 20_000);
    flight.program.signal(libc::SIGUSR1);
    flight.program.wait_for_words("asked for");
    flight.stop();
    assert_eq!(events(&flight.files()[0])[0].kind, Kind::Open);
}

#[test]
fn a_dump_of_what_does_not_run_is_an_error_and_what_was_killed_is_forgotten() {
    needs_probes!();
    let path = Path::new(Duration::from_millis(5));
    let mut flight = Flight::record(&path, &[]);
    let process = flight.program.id().to_string();
    flight.program.end(libc::SIGKILL);
    let output = dump(&["--process", &process]);
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains(&format!("process {process} is no")), "{said}");
    let place = FilePath::new("/run/transom/flight").join(&process);
    wait_for("what it left to be removed", || !place.exists());
}

#[test]
fn what_a_recorder_left_that_was_killed_while_it_wrote_goes_at_the_next_start() {
    needs_probes!();
    let path = Path::new(Duration::from_millis(5));
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("flight-20261123-075033.parquet.4000000.tmp"), "PAR1").unwrap();
    let others = folder.path().join("others.parquet.4000000.tmp");
    fs::write(&others, "PAR1").unwrap();
    let mut flight = Flight::into(folder, &path, &[]);
    assert_eq!(flight.files(), [others]);
    flight.stop();
}

#[test]
fn a_recorder_whose_folder_is_gone_keeps_the_events_until_they_can_be_written() {
    needs_probes!();
    let path = Path::new(Duration::from_millis(5));
    let mut flight = Flight::record(&path, &[]);
    let (mut client, mut server) = pair(&path);
    send_and_wait(&mut client, &mut server, 20_000);
    fs::remove_dir(&flight.folder).unwrap();
    flight.program.signal(libc::SIGUSR1);
    let said = flight.program.wait_for_words("asked for");
    assert!(said.contains("the events are kept") && said.contains("flight-"), "{said}");
    fs::create_dir(&flight.folder).unwrap();
    flight.program.signal(libc::SIGUSR1);
    flight.program.wait_for_words("asked for");
    flight.stop();
    let files = flight.files();
    assert_eq!(files.len(), 1);
    assert_eq!(events(&files[0])[0].kind, Kind::Open, "from its handshake on");
}

#[test]
fn on_a_full_disk_no_half_a_file_is_left_and_the_events_are_kept() {
    needs_probes!();
    let path = Path::new(Duration::from_millis(5));
    let disk = SmallDisk::mount(4096);
    let mut flight = Flight::at(disk.path(), &path, &[]);
    let (mut client, mut server) = pair(&path);
    send_and_wait(&mut client, &mut server, 4_000_000);
    // Not even the header has room, or not all of the events.
    for room in [0, 8192] {
        disk.fill("filler", room);
        flight.program.signal(libc::SIGUSR1);
        let said = flight.program.wait_for_words("asked for");
        assert!(said.contains("cannot write ") && said.contains("/flight-"), "{said}");
        assert!(said.contains("No space left") && said.contains("are kept"), "{said}");
        assert!(!said.contains("can be read from it"), "{said}");
        assert_eq!(flight.files(), [disk.path().join("filler")], "{room}");
    }
    fs::remove_file(disk.path().join("filler")).unwrap();
    flight.program.signal(libc::SIGUSR1);
    flight.program.wait_for_words("asked for");
    flight.stop();
    assert_eq!(events(&flight.files()[0])[0].kind, Kind::Open, "from its handshake on");
}

#[test]
fn what_would_be_noticed_only_when_the_fault_has_come_is_refused_at_the_start() {
    let refusal = |arguments: &[&str]| {
        let output = transom().args(["flight", "record"]).args(arguments).output().unwrap();
        assert!(!output.status.success(), "{arguments:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let said = refusal(&["--when", "rto", "--keep", "2s", "--after", "3s"]);
    assert!(said.contains("--after 3s is not shorter than --keep 2s"), "{said}");
    let said = refusal(&["--when", "rto=2/10m", "--keep", "1m"]);
    assert!(said.contains("--when rto=2/10m counts for longer than --keep 60s"), "{said}");
    assert!(refusal(&["--keep", "0s"]).contains("'0s' keeps nothing"));
    assert!(refusal(&["--after", "-1s"]).contains("'-1s' is no duration: it must not be negative"));
    assert!(refusal(&["--files", "0"]).contains("0 is not in 1.."));
    let said = refusal(&["--when", "rto", "--when", "lost"]);
    assert!(said.contains("--when lost=1/10s would never be fulfilled"), "{said}");
    assert!(refusal(&["-o", "/no/such"]).contains("/no/such is no folder: make it"));
    // Where nobody can write, not even root.
    let said = refusal(&["-o", "/proc"]);
    assert!(said.contains("/proc cannot be written: name another folder"), "{said}");
}
