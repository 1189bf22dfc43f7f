//! What must hold when things go wrong: clear words, the right exit code,
//! nothing lost that need not be, nothing left behind.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use transom_event::Kind;
use transom_monitor::clock::boottime_ns;
use transom_testbed::{
    Namespace, Recording, SmallDisk, Trace, copy_transom, needs_probes, pair_at, send_and_wait,
    settle, transom, wait_for,
};
use transom_trace::Format;

/// Flooding tests would take each other's processor.
static FLOOD: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    FLOOD.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Short messages to and fro over loopback until dropped.
struct Traffic {
    namespace: Namespace,
    stop: Arc<AtomicBool>,
    /// When each round was over, ns since boot.
    rounds: Arc<Mutex<Vec<u64>>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Traffic {
    fn start() -> Traffic {
        let namespace = Namespace::new("traffic");
        let (mut a, mut b) = pair_at(&namespace, &namespace, [127, 0, 0, 1].into(), 7320);
        let stop = Arc::new(AtomicBool::new(false));
        let rounds = Arc::new(Mutex::new(Vec::new()));
        let (until, over) = (Arc::clone(&stop), Arc::clone(&rounds));
        let thread = std::thread::spawn(move || {
            while !until.load(Ordering::Relaxed) {
                send_and_wait(&mut a, &mut b, 20_000);
                over.lock().expect("no panic").push(boottime_ns());
            }
        });
        Traffic { namespace, stop, rounds, thread: Some(thread) }
    }

    fn rounds(&self) -> Vec<u64> {
        self.rounds.lock().expect("no panic").clone()
    }

    /// A round has begun and ended since this was called.
    fn flow(&self) {
        let before = self.rounds().len();
        wait_for("traffic", || self.rounds().len() >= before + 2);
    }

    /// When the last round began that was over by then, of those since another time.
    fn last_round(&self, since_ns: u64, by_ns: u64) -> Option<u64> {
        let rounds = self.rounds();
        let mut whole = rounds.windows(2).filter(|two| two[0] >= since_ns && two[1] <= by_ns);
        whole.next_back().map(|two| two[0])
    }

    fn end(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("traffic flowed");
            assert!(!self.rounds().is_empty());
        }
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

const PROGRAMS: [&str; 5] = ["tp_state", "tp_ack", "tp_send", "tp_ca_state", "tp_retransmit"];
const MAPS: [&str; 7] =
    ["connections", "places", "crowded_out", "losses", "rings", "records", "doorbell"];

/// A program or a map of ours in the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Kept {
    is_program: bool,
    id: u64,
    name: String,
}

/// Everything BPF that is in the kernel under a name of ours, whoever keeps it there.
fn in_kernel() -> Vec<Kept> {
    let mut found = Vec::new();
    for (what, names) in [("prog", &PROGRAMS[..]), ("map", &MAPS)] {
        let list = Command::new("bpftool").args(["-j", what, "show"]).output().expect("bpftool");
        let list: serde_json::Value = serde_json::from_slice(&list.stdout).expect("JSON");
        for entry in list.as_array().expect("a list") {
            let name = entry["name"].as_str().unwrap_or_default();
            if names.contains(&name) {
                let id = entry["id"].as_u64().expect("an id");
                found.push(Kept { is_program: what == "prog", id, name: name.to_owned() });
            }
        }
    }
    found
}

/// What of it a process keeps there, by its open files: other recorders may run on this machine.
fn kept_by(pid: u32) -> Vec<Kept> {
    let mut ids = Vec::new();
    for file in fs::read_dir(format!("/proc/{pid}/fdinfo")).expect("its files").flatten() {
        let text = fs::read_to_string(file.path()).unwrap_or_default();
        for line in text.lines() {
            let Some((key, id)) = line.split_once(':') else { continue };
            if let (true, Ok(id)) = (["prog_id", "map_id"].contains(&key), id.trim().parse()) {
                ids.push((key == "prog_id", id));
            }
        }
    }
    let mut kept = in_kernel();
    kept.retain(|kept| ids.contains(&(kept.is_program, kept.id)));
    // A name that no longer exists would find nothing, and so nothing that is left.
    for name in PROGRAMS.iter().chain(&MAPS) {
        assert!(kept.iter().any(|kept| kept.name == *name), "the recorder keeps {name}: {kept:?}");
    }
    kept
}

/// What a process kept in the kernel goes with it.
fn nothing_is_left(of: &[Kept]) {
    // The kernel frees programs after a grace period.
    wait_for("the kernel to free our programs and maps", || {
        let now = in_kernel();
        of.iter().all(|kept| !now.contains(kept))
    });
}

/// How long the threads of a process have been ready to run without a processor, ns.
fn waited_ns(pid: u32) -> u64 {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).expect("its threads").flatten();
    let counts = threads.filter_map(|it| fs::read_to_string(it.path().join("schedstat")).ok());
    counts.filter_map(|it| it.split(' ').nth(1)?.parse::<u64>().ok()).sum()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// What a recorder that is killed may lose.
const LAST_SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_killed_recorder_leaves_a_readable_file_and_nothing_in_the_kernel() {
    needs_probes!();
    let _alone = alone();
    let mut traffic = Traffic::start();
    let mut recording = Recording::start(&["--netns", traffic.namespace.name()]);
    let attached = kept_by(recording.pid());
    let (began_ns, waited_before) = (boottime_ns(), waited_ns(recording.pid()));
    std::thread::sleep(Duration::from_millis(2500));
    let mut last_round = None;
    wait_for("traffic that must be in the file", || {
        // Without a processor it can write nothing.
        let waited = waited_ns(recording.pid()) - waited_before;
        let by_ns = boottime_ns() - LAST_SECOND.as_nanos() as u64 - waited;
        last_round = traffic.last_round(began_ns, by_ns);
        last_round.is_some()
    });
    recording.signal(libc::SIGKILL);
    assert_eq!(recording.wait().0, 128 + libc::SIGKILL);
    traffic.end();
    let trace = Trace::read(recording.file());
    assert!(trace.cut, "and it says that it is cut");
    assert_eq!(trace.format, Format::RawStream);
    let last = trace.events.last().map(|event| event.time_ns);
    assert!(last > last_round, "only the last second may be missing: {last:?}, {last_round:?}");
    nothing_is_left(&attached);
    let explained = transom().arg("explain").arg(recording.file()).output().unwrap();
    assert!(explained.status.success());
    assert!(text(&explained).contains("is cut"), "{}", text(&explained));
}

/// These tests may run under nohup themselves.
fn as_from_a_terminal() -> Command {
    let mut transom = transom();
    // SAFETY: a system call and nothing else.
    unsafe {
        transom.pre_exec(|| {
            libc::signal(libc::SIGHUP, libc::SIG_DFL);
            Ok(())
        })
    };
    transom
}

#[test]
fn an_interrupted_or_terminated_recorder_ends_in_order() {
    needs_probes!();
    let _alone = alone();
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        let mut traffic = Traffic::start();
        let mut recording =
            Recording::start_as(&mut as_from_a_terminal(), &["--netns", traffic.namespace.name()]);
        let attached = kept_by(recording.pid());
        traffic.flow();
        recording.signal(signal);
        let (code, errors) = recording.wait();
        assert_eq!(code, 0, "signal {signal}: {errors}");
        traffic.end();
        let trace = Trace::read(recording.file());
        assert!(!trace.cut);
        assert_eq!(trace.format, Format::Parquet);
        assert_eq!(trace.footer.as_ref().unwrap().events, trace.events.len() as u64);
        assert!(trace.count(Kind::Ack) > 0);
        nothing_is_left(&attached);
    }
}

#[test]
fn a_recorder_under_nohup_outlives_its_terminal() {
    needs_probes!();
    let namespace = Namespace::new("nohup");
    let mut nohup = Command::new("nohup");
    // With a terminal there it would write a file.
    nohup.arg(transom().get_program()).stdin(Stdio::null()).stdout(Stdio::null());
    let recording = Recording::start_as(&mut nohup, &["--netns", namespace.name()]);
    let status = fs::read_to_string(format!("/proc/{}/status", recording.pid())).unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    let ignored = u64::from_str_radix(ignored.trim(), 16).unwrap();
    assert_eq!(
        (ignored >> (libc::SIGHUP - 1)) & 1,
        1,
        "the recorder leaves it ignored: {ignored:x}"
    );
    recording.signal(libc::SIGHUP);
    let _pair = pair_at(&namespace, &namespace, [127, 0, 0, 1].into(), 7306);
    assert_eq!(recording.finish().count(Kind::Open), 2, "and SIGINT ends it in order");
}

#[test]
fn a_reader_that_goes_away_ends_the_log_quietly() {
    needs_probes!();
    let _alone = alone();
    let mut traffic = Traffic::start();
    let mut child = transom()
        .args(["log", "--netns", traffic.namespace.name()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = String::new();
    let mut reader = std::io::BufReader::new(child.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut reader, &mut first).unwrap();
    drop(reader);
    wait_for("the log to end", || child.try_wait().unwrap().is_some());
    let output = child.wait_with_output().unwrap();
    traffic.end();
    assert!(!first.is_empty());
    assert_eq!(text(&output), "");
}

#[test]
fn a_full_disk_ends_the_recording_with_a_message_and_a_readable_file() {
    needs_probes!();
    let _alone = alone();
    let mut traffic = Traffic::start();
    // The traffic of a few seconds fills it, or that of a minute in a guest.
    let disk = SmallDisk::mount(768);
    let file = disk.path().join("t.parquet");
    let output = transom()
        // The recording ends by itself when the disk is full; the time is for one that does not.
        .args(["record", "-d", "5min", "--netns", traffic.namespace.name(), "-o"])
        .arg(&file)
        .output()
        .unwrap();
    traffic.end();
    let errors = text(&output);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("No space left") && errors.contains("t.parquet"), "{errors}");
    let trace = Trace::read(&file);
    assert!(trace.cut);
    assert!(!trace.events.is_empty());
    // The file that is named is the one that was asked for, not one that is under way.
    let output =
        transom().arg("convert").args([&file, &disk.path().join("t.csv")]).output().unwrap();
    let errors = text(&output);
    assert!(errors.contains("t.csv: No space left on device"), "{errors}");
    assert!(!errors.contains(".transom-") && !disk.path().join("t.csv").exists(), "{errors}");
}

#[test]
fn a_file_that_is_there_is_not_overwritten_unasked() {
    needs_probes!();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("t.parquet");
    fs::write(&file, "precious").unwrap();
    let record = |force: &[&str]| {
        transom().args(["record", "-d", "10ms", "-o"]).arg(&file).args(force).output().unwrap()
    };
    let refused = record(&[]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused).contains("--force"), "{}", text(&refused));
    assert_eq!(fs::read_to_string(&file).unwrap(), "precious");
    assert!(record(&["--force"]).status.success());
    assert!(!Trace::read(&file).cut);
}

#[test]
fn a_namespace_that_goes_away_does_not_stop_the_recording() {
    needs_probes!();
    let namespace = Namespace::new("gone");
    let recording = Recording::start(&["--netns", namespace.name()]);
    let listener = namespace.inside(|| TcpListener::bind("127.0.0.1:7321")).unwrap();
    let stream = namespace.inside(|| std::net::TcpStream::connect("127.0.0.1:7321")).unwrap();
    drop((stream, listener));
    drop(namespace);
    let trace = recording.finish();
    assert!(trace.count(Kind::Open) >= 1);
    let absent = transom().args(["record", "--netns", "no-such-namespace"]).output().unwrap();
    assert_eq!(absent.status.code(), Some(1));
    assert!(text(&absent).contains("no-such-namespace"), "{}", text(&absent));
}

#[test]
fn two_recorders_at_once_see_the_same() {
    needs_probes!();
    let _alone = alone();
    let namespace = Namespace::new("twice");
    let first = Recording::start(&["--netns", namespace.name()]);
    let second = Recording::start(&["--netns", namespace.name()]);
    let (mut a, mut b) = pair_at(&namespace, &namespace, [127, 0, 0, 1].into(), 7302);
    for _ in 0..20 {
        send_and_wait(&mut a, &mut b, 100_000);
    }
    settle(&b);
    let (first, second) = (first.finish(), second.finish());
    assert!(first.events.len() > 100);
    let what = |trace: &Trace| -> Vec<_> {
        let mut seen: Vec<_> =
            trace.of_connections().map(|e| (e.cookie, e.kind, e.aux, e.tgid)).collect();
        seen.sort_unstable();
        seen
    };
    assert!(
        what(&first) == what(&second),
        "{} and {} events",
        first.events.len(),
        second.events.len()
    );
}

#[test]
fn what_a_small_ring_cannot_hold_is_counted() {
    needs_probes!();
    let _alone = alone();
    let namespace = Namespace::new("small");
    let large = Recording::start(&["--netns", namespace.name(), "--ring", "64M"]);
    let mut small = Recording::start(&["--netns", namespace.name(), "--ring", "64k"]);
    let (mut a, mut b) = pair_at(&namespace, &namespace, [127, 0, 0, 1].into(), 7303);
    // A recorder that does not get to run cannot empty its ring.
    small.signal(libc::SIGSTOP);
    for _ in 0..50 {
        send_and_wait(&mut a, &mut b, 500_000);
    }
    settle(&b);
    small.signal(libc::SIGCONT);
    small.signal(libc::SIGINT);
    let (code, errors) = small.wait();
    assert_eq!(code, 0, "{errors}");
    let (all, some) = (large.finish(), Trace::read(small.file()));
    assert!(
        some.lost() > 0 && errors.contains(&format!("{} events were lost", some.lost())),
        "{errors}"
    );
    let recorded = some.events.len() as u64 - some.count(Kind::Lost);
    assert_eq!(recorded + some.lost(), all.events.len() as u64);
}

/// The program where an unprivileged user can run it.
fn as_nobody(arguments: &[&str]) -> Output {
    let directory =
        tempfile::Builder::new().permissions(fs::Permissions::from_mode(0o755)).tempdir().unwrap();
    let program = directory.path().join("transom");
    copy_transom(&program);
    Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"])
        .arg(&program)
        .args(arguments)
        .stdin(Stdio::null())
        .current_dir("/tmp")
        .output()
        .unwrap()
}

#[test]
fn without_privilege_samples_are_taken_and_it_is_said() {
    needs_probes!();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let _stream = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    let port = port.to_string();
    let output = as_nobody(&["log", "--format", "json", "-d", "500ms", "--remote-port", &port]);
    assert!(output.status.success(), "{}", text(&output));
    assert!(text(&output).contains("samples of TCP_INFO"), "{}", text(&output));
    let lines = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(lines.lines().any(|line| line.contains(r#""kind":"sample""#)), "{lines}");
    let check = as_nobody(&["check"]);
    assert_eq!(check.status.code(), Some(1), "only polling is left");
    let said = String::from_utf8_lossy(&check.stdout).into_owned();
    assert!(said.contains("CAP_BPF") && said.contains("sock_diag"), "{said}");
}

#[test]
fn without_privilege_tune_says_that_it_needs_root() {
    needs_probes!();
    for words in [&["status"][..], &["set", "--cap", "20"], &["clear"]] {
        let output = as_nobody(&[&["tune"], words].concat());
        assert_eq!(output.status.code(), Some(1), "{words:?}: {}", text(&output));
        assert!(text(&output).starts_with("transom: run as root (sudo): "), "{}", text(&output));
    }
}

#[test]
fn files_that_are_no_traces_are_refused_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let foreign = directory.path().join("foreign.parquet");
    for content in [&b""[..], b"hello, world", b"PAR1 but no more", b"\xff\xff\xff\xff\x10\0\0\0"] {
        fs::write(&foreign, content).unwrap();
        for command in [&["explain"][..], &["convert", "--to", "csv"]] {
            let mut transom = transom();
            transom.args(command).arg(&foreign);
            if command[0] == "convert" {
                transom.arg("-");
            }
            let output = transom.output().unwrap();
            assert_eq!(output.status.code(), Some(1), "{command:?} {content:?}");
            let errors = text(&output);
            assert!(errors.contains("foreign.parquet"), "{errors}");
            assert!(!errors.contains("panicked"), "{errors}");
        }
    }
}

#[test]
fn a_recorder_says_in_json_when_it_is_ready_and_what_it_recorded() {
    needs_probes!();
    let _alone = alone();
    let namespace = Namespace::new("ready");
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("t.parquet");
    let mut child = transom()
        .args(["record", "--json", "--netns", namespace.name(), "-o"])
        .arg(&file)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    let mut line = || -> serde_json::Value {
        serde_json::from_str(&lines.next().expect("a line").unwrap()).unwrap()
    };
    let ready = line();
    assert_eq!((&ready["ready"], &ready["file"]), (&true.into(), &file.to_str().unwrap().into()));
    assert!(ready["probes"].as_str().unwrap().contains("send=tracepoint"), "{ready}");
    // From that line on all is recorded.
    let (mut a, mut b) = pair_at(&namespace, &namespace, [127, 0, 0, 1].into(), 7305);
    send_and_wait(&mut a, &mut b, 50_000);
    drop((a, b));
    // SAFETY: the child is ours and not yet waited for.
    unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
    let summary = line();
    assert!(child.wait().unwrap().success());
    let trace = Trace::read(&file);
    assert_eq!(summary["done"], true);
    assert_eq!(summary["events"], trace.events.len() as u64 - trace.count(Kind::Lost));
    assert_eq!(summary["connections"], 2);
    assert_eq!(summary["files"][0]["file"], file.to_str().unwrap());
    assert_eq!(summary["files"][0]["bytes"], fs::metadata(&file).unwrap().len());
    let lost: u64 = summary["lost"].as_object().unwrap().values().filter_map(|n| n.as_u64()).sum();
    assert_eq!(lost, trace.lost());
    assert!(summary["duration_s"].as_f64().unwrap() > 0.0);
    assert_eq!(summary["clock_step_s"], 0.0);
}

#[test]
fn with_a_program_the_json_is_on_the_standard_error() {
    needs_probes!();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("t.parquet");
    let output = transom()
        .args(["record", "--json", "-o"])
        .arg(&file)
        .args(["--", "echo", "mine"])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "mine\n");
    let errors = text(&output);
    let objects: Vec<serde_json::Value> =
        errors.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((objects.len(), &objects[0]["ready"]), (2, &true.into()), "{errors}");
}
