//! `transom run` finds its program, and says what to do when it cannot.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

/// `transom run`, copied where nothing lies beside it.
fn run(folder: &Path, arguments: &[&str]) -> Output {
    let alone = folder.join("transom");
    transom_testbed::copy_transom(&alone);
    let mut command = Command::new(&alone);
    command.arg("run").args(arguments).env("PATH", folder.join("bin"));
    command.output().expect("starting it")
}

#[test]
fn without_its_program_it_says_how_to_get_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = run(folder.path(), &["--", "true"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(said.contains("transom-netstack") && said.contains("make netstack"), "{said}");
}

#[test]
fn without_its_program_no_earlier_recording_goes() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("t.parquet");
    std::fs::write(&file, "precious").expect("writing");
    let words = ["--record", file.to_str().expect("a name"), "--force", "--", "true"];
    let output = run(folder.path(), &words);
    assert!(!output.status.success());
    assert_eq!(std::fs::read_to_string(&file).expect("it is there"), "precious");
}

/// A folder in which the program of `transom run` is this script.
fn with_its_program(script: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let bin = folder.path().join("bin");
    std::fs::create_dir(&bin).expect("a folder");
    let program = bin.join("transom-netstack");
    std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).expect("writing");
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).expect("its mode");
    folder
}

#[test]
fn a_command_that_its_program_refuses_costs_no_earlier_recording() {
    let folder = with_its_program("echo 'no such path' >&2; exit 2");
    let file = folder.path().join("t.parquet");
    let record = |file: &Path| {
        let words = ["--record", file.to_str().expect("a name"), "--force", "--path", "zz", "true"];
        let output = run(folder.path(), &words);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("no such path") && said.contains("nothing was recorded"), "{said}");
    };
    std::fs::write(&file, "precious").expect("writing");
    record(&file);
    assert_eq!(std::fs::read_to_string(&file).expect("it is there"), "precious");
    let new = folder.path().join("new.parquet");
    record(&new);
    assert!(!new.exists());
}

#[test]
fn every_argument_reaches_its_program_and_the_exit_status_comes_back() {
    let folder = with_its_program("printf '%s|' \"$@\"; exit 9");
    let arguments = ["--status", "--cc", "bbr", "--", "curl", "--help", "a b"];
    let output = run(folder.path(), &arguments);
    assert_eq!(String::from_utf8_lossy(&output.stdout), arguments.join("|") + "|");
    assert_eq!(output.status.code(), Some(9));
}

#[test]
fn help_and_usage_name_the_command_and_need_no_other_program() {
    let folder = tempfile::tempdir().expect("a folder");
    let help = String::from_utf8(run(folder.path(), &["--help"]).stdout).expect("text");
    for told in ["Usage: transom run [OPTIONS] <PROGRAM>...", "--path <IF", "--record", "Examples:"]
    {
        assert!(help.contains(told), "{help}");
    }
    let usage = String::from_utf8(run(folder.path(), &["--path", "p0"]).stderr).expect("text");
    assert!(usage.contains("transom run --path") && !usage.contains("netstack"), "{usage}");
}

/// What the recording command is sent alone is for the program, whose end it then tells.
#[test]
fn signals_to_a_recording_reach_its_program_once() {
    let script = "trap 'echo got' TERM INT HUP QUIT USR1 WINCH\n\
        echo ready; read line; read line; exit 9";
    let folder = with_its_program(script);
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT, libc::SIGUSR1] {
        let mut recording = Recording::start(folder.path());
        assert_eq!(recording.line(), "ready");
        recording.signal(signal);
        assert_eq!(recording.line(), "got", "signal {signal}");
        // The shell's `read` ends with the trap; the second one has the end of its input.
        let (status, rest, said) = recording.end();
        assert_eq!((status.code(), &*rest), (Some(9), ""), "signal {signal}");
        assert!(said.contains("nothing was recorded"), "{said}");
    }
}

#[test]
fn a_recording_stops_and_goes_on_with_its_program() {
    let folder = with_its_program("echo ready; read line; exit 9");
    let mut recording = Recording::start(folder.path());
    assert_eq!(recording.line(), "ready");
    let state = |recording: &Recording| {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", recording.child.id()));
        let stat = stat.expect("it is there");
        stat.rsplit_once(") ").expect("a state").1[..1].to_owned()
    };
    recording.signal(libc::SIGTSTP);
    until(|| state(&recording) == "T");
    recording.signal(libc::SIGCONT);
    until(|| state(&recording) != "T");
    let (status, ..) = recording.end();
    assert_eq!(status.code(), Some(9));
}

#[test]
fn a_recording_is_asked_for_in_any_place_before_the_program() {
    let folder = with_its_program("shift; printf '%s|' \"$@\"; exit 9");
    let file = folder.path().join("t.parquet");
    let file = file.to_str().expect("a name");
    let first = format!("--record={file}");
    for line in [
        &[&first, "--force", "--path", "p0", "curl", "-x"][..],
        &["--path", "p0", "--record", file, "curl", "--record", "x"],
        &["--force", "--cc", "bbr", "--record", file, "--", "curl", "--path"],
    ] {
        let output = run(folder.path(), line);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(9), "{said}");
        assert!(said.contains(&format!("nothing was recorded in {file}")), "{said}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), line.join("|") + "|");
    }
}

/// `transom run --record`, with an input that ends when the test says so.
struct Recording {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Recording {
    fn start(folder: &Path) -> Self {
        let alone = folder.join("transom");
        transom_testbed::copy_transom(&alone);
        let mut command = Command::new(&alone);
        command.args(["run", "--record"]).arg(folder.join("t.parquet")).args(["--force", "true"]);
        command.env("PATH", folder.join("bin")).stdin(Stdio::piped());
        // In a group of its own, whose other members a terminal would have told.
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        // What these tests were started with as ignored (`nohup`, `&`), the program would ignore, too.
        // SAFETY: no pointers, and `signal` may be called there.
        unsafe {
            command.pre_exec(|| {
                for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT] {
                    libc::signal(signal, libc::SIG_DFL);
                }
                Ok(())
            });
        }
        let mut child = command.spawn().expect("starting it");
        let lines = BufReader::new(child.stdout.take().expect("a pipe"));
        Self { child, lines }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("text");
        line.trim_end().to_owned()
    }

    fn signal(&self, signal: i32) {
        // SAFETY: no pointers; the child has not been waited for.
        assert_eq!(unsafe { libc::kill(self.child.id() as i32, signal) }, 0);
    }

    /// Its status, what else it printed, and what it said.
    fn end(mut self) -> (ExitStatus, String, String) {
        drop(self.child.stdin.take());
        let (mut rest, mut said) = (String::new(), String::new());
        self.lines.read_to_string(&mut rest).expect("text");
        let mut stderr = self.child.stderr.take().expect("a pipe");
        stderr.read_to_string(&mut said).expect("text");
        (self.child.wait().expect("its end"), rest, said)
    }
}

fn until(mut so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !so() {
        assert!(Instant::now() < end, "not within a minute");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn what_only_looks_like_a_recording_is_none() {
    let folder = with_its_program("printf '%s|' \"$@\"; exit 9");
    let of_the_program = ["--path", "p0", "curl", "--record", "x", "--force"];
    let output = run(folder.path(), &of_the_program);
    assert_eq!(String::from_utf8_lossy(&output.stdout), of_the_program.join("|") + "|");
    for (line, told) in [
        (&["--record", "x", "--mtpcp", "curl"][..], "'--mtpcp'"),
        (&["--force", "--path", "p0", "curl"], "--record <FILE>"),
    ] {
        let output = run(folder.path(), line);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(told) && output.stdout.is_empty(), "{said}");
    }
}
