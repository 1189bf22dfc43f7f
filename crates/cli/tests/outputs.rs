//! Whatever a command is given to write to, it harms nothing, and says what went wrong.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;
use transom_event::{Body, Event, Kind, Open, Origin, Place, Raw, State};
use transom_trace::{Footer, Meta, Writer, WriterOptions};

fn transom(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_transom"));
    command.args(arguments).stdin(Stdio::null());
    command
}

fn output(arguments: &[&str]) -> Output {
    transom(arguments).output().expect("transom runs")
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A folder with a small trace in it.
struct Bench {
    folder: TempDir,
}

impl Bench {
    fn new() -> Bench {
        let bench = Bench { folder: tempfile::tempdir().unwrap() };
        let mut writer =
            Writer::create(bench.path("t.parquet"), &Meta::default(), WriterOptions::default())
                .unwrap();
        let event = |kind, body| Event {
            time_ns: 1,
            cookie: 7,
            tgid: 1,
            cpu: 0,
            kind,
            place: Place::SetState,
            aux: [Origin::Existing as u32, 0],
            body,
        };
        let open = Open { family: 2, ..Open::default() };
        writer.push(&Raw::from(&event(Kind::Open, Body::Open(open)))).unwrap();
        // More than a pipe or a buffer holds, so that writing fails in the middle, too.
        for n in 0..20_000 {
            let state = State { snd_nxt: n, snd_una: n, ..State::default() };
            writer.push(&Raw::from(&event(Kind::Ack, Body::State(state)))).unwrap();
        }
        writer.finish(Footer { end_ns: 1, ..Footer::default() }).unwrap();
        bench
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder.path()).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

#[test]
fn a_command_never_writes_over_its_input() {
    let bench = Bench::new();
    let trace = bench.text("t.parquet");
    std::os::unix::fs::symlink(&trace, bench.path("link.parquet")).unwrap();
    let before = fs::read(&trace).unwrap();
    for out in [trace.as_str(), &bench.text("link.parquet")] {
        let commands: [&[&str]; 2] =
            [&["report", &trace, "-o", out, "--force"], &["convert", "--force", &trace, out]];
        for arguments in commands {
            let done = output(arguments);
            assert!(!done.status.success(), "{arguments:?}");
            assert!(errors(&done).contains("is the input"), "{}", errors(&done));
            assert!(fs::read(&trace).unwrap() == before, "{arguments:?} destroyed the trace");
        }
    }
    assert_eq!(bench.names(), ["link.parquet", "t.parquet"]);
}

#[test]
fn a_device_is_written_into_and_never_replaced() {
    let bench = Bench::new();
    let trace = bench.text("t.parquet");
    let before = fs::metadata("/dev/null").unwrap().ino();
    let commands: [&[&str]; 3] = [
        &["report", &trace, "-o", "/dev/null", "--force"],
        &["convert", "--force", "--to", "csv", &trace, "/dev/null"],
        &["lab", "report", "-o", "/dev/null", "nowhere", "nowhere-else"],
    ];
    for arguments in commands {
        output(arguments);
        let found = fs::metadata("/dev/null").unwrap();
        assert!(found.file_type().is_char_device() && found.ino() == before, "{arguments:?}");
    }
    let full = output(&["convert", "--to", "csv", &trace, "/dev/full"]);
    assert!(!full.status.success());
    assert!(errors(&full).contains("/dev/full"), "{}", errors(&full));
    let full = errors(&output(&["record", "-d", "100ms", "-o", "/dev/full"]));
    assert_eq!(full.matches("No space left").count(), 1, "{full}");
}

#[test]
fn a_fifo_gets_the_bytes_and_stays_one() {
    let bench = Bench::new();
    let fifo = bench.text("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let reader = std::thread::spawn({
        let fifo = fifo.clone();
        move || fs::read_to_string(fifo).unwrap()
    });
    let done = output(&["report", &bench.text("t.parquet"), "-o", &fifo, "--force"]);
    assert!(done.status.success(), "{}", errors(&done));
    assert!(reader.join().unwrap().trim_end().ends_with("</html>"));
    assert!(fs::metadata(&fifo).unwrap().file_type().is_fifo());
}

#[test]
fn a_dash_is_the_standard_output_and_so_is_its_device() {
    let bench = Bench::new();
    let trace = bench.text("t.parquet");
    for out in ["-", "/dev/stdout"] {
        let page = output(&["report", &trace, "-o", out]);
        assert!(page.stdout.starts_with(b"<!doctype html>"), "{out}: {}", errors(&page));
        assert!(page.stdout.trim_ascii_end().ends_with(b"</html>"), "only the page, on {out}");
        let rows = output(&["convert", "--to", "csv", &trace, out]).stdout;
        assert_eq!(rows.iter().filter(|&&byte| byte == b'\n').count(), 20_002);
    }
    // Behind it may be a file, which is written into from where it is.
    let file = bench.path("out.csv");
    let into = fs::OpenOptions::new().append(true).create(true).open(&file).unwrap();
    fs::write(&file, "first\n").unwrap();
    let mut command = transom(&["convert", "--to", "csv", &trace, "/dev/stdout"]);
    assert!(command.stdout(into).status().unwrap().success());
    assert!(fs::read_to_string(&file).unwrap().starts_with("first\ntime_"));
}

#[test]
fn convert_takes_its_output_as_an_option_too() {
    let bench = Bench::new();
    let trace = bench.text("t.parquet");
    let (by_place, by_option) = (bench.text("1.csv"), bench.text("2.csv"));
    for words in [vec!["convert", &trace, &by_place], vec!["convert", &trace, "-o", &by_option]] {
        let done = output(&words);
        assert!(done.status.success(), "{}", errors(&done));
    }
    assert_eq!(fs::read(by_place).unwrap(), fs::read(&by_option).unwrap());
    for words in [vec!["convert", &trace], vec!["convert", &trace, "3.csv", "-o", "4.csv"]] {
        let refused = output(&words);
        assert!(!refused.status.success());
        assert!(errors(&refused).contains("OUT"), "{}", errors(&refused));
    }
}

/// Commands that print, with what they need as root left out.
fn printing(trace: &str) -> Vec<Vec<&str>> {
    vec![
        vec!["--help"],
        vec!["check"],
        vec!["check", "--json"],
        vec!["explain", trace],
        vec!["explain", "--json", trace],
        vec!["convert", "--to", "csv", trace, "-"],
        vec!["convert", "--to", "parquet", trace, "-"],
        vec!["convert", "--to", "arrow", trace, "-"],
        vec!["convert", "--to", "jsonl", trace, "-"],
        vec!["report", trace, "-o", "-"],
        vec!["lab", "list"],
        vec!["lab", "show", "two-phones"],
        vec!["journal", "remove"],
        vec!["tune", "status"],
    ]
}

#[test]
fn nobody_reads_the_output_and_nothing_panics() {
    let bench = Bench::new();
    let trace = bench.text("t.parquet");
    for arguments in printing(&trace) {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let done = transom(&arguments).stdout(writer).stderr(Stdio::piped()).output().unwrap();
        let errors = errors(&done);
        assert!(done.status.code().is_some_and(|code| code != 101), "{arguments:?}: {errors}");
        assert!(!errors.contains("panicked"), "{arguments:?}: {errors}");
        assert!(!errors.contains("roken pipe"), "{arguments:?} is not quiet: {errors}");
    }
}

#[test]
fn a_full_output_is_an_error_with_a_message() {
    let bench = Bench::new();
    let trace = bench.text("t.parquet");
    for arguments in printing(&trace) {
        // What needs root may fail for that reason before it prints.
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let done = transom(&arguments).stdout(full).stderr(Stdio::piped()).output().unwrap();
        let errors = errors(&done);
        assert_eq!(done.status.code(), Some(1), "{arguments:?}: {errors}");
        assert!(errors.starts_with("transom: "), "{arguments:?}: {errors}");
    }
}

#[test]
fn notes_that_nobody_can_read_spoil_nothing() {
    let bench = Bench::new();
    let trace = bench.text("t.parquet");
    let out = bench.text("out.csv");
    let full = || fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let done = transom(&["convert", &trace, &out]).stderr(full()).status().unwrap();
    assert!(done.success());
    assert_eq!(fs::read_to_string(&out).unwrap().lines().count(), 20_002);

    let recorded = bench.text("r.parquet");
    let arguments = ["record", "-d", "100ms", "-o", &recorded];
    let done = transom(&arguments).stderr(full()).status().unwrap();
    assert!(done.success(), "a recording, by polling if there is no root");
    assert!(transom_trace::Reader::open(&recorded).unwrap().all(|event| event.is_ok()));
}

#[test]
fn a_recording_goes_where_its_name_says_or_is_refused() {
    let bench = Bench::new();
    let refused = output(&["record", "-d", "50ms", "-o", &bench.text("r.csv")]);
    assert!(!refused.status.success());
    assert!(errors(&refused).contains("transom convert"), "{}", errors(&refused));
    assert!(!bench.path("r.csv").exists());

    let is_whole_stream = |stdout: &[u8]| {
        let stream = bench.path("stream");
        fs::write(&stream, stdout).unwrap();
        let mut reader = transom_trace::Reader::open(&stream).unwrap();
        reader.by_ref().all(|event| event.is_ok()) && !reader.is_cut()
    };
    let recorded = output(&["record", "-q", "-d", "100ms", "-o", "-"]);
    assert!(recorded.status.success() && is_whole_stream(&recorded.stdout));
    for out in ["-", "/dev/stdout", "/proc/self/fd/1"] {
        let recorded = output(&["record", "--json", "-d", "100ms", "-o", out]);
        assert!(is_whole_stream(&recorded.stdout), "{out}");
        assert!(errors(&recorded).contains(r#""ready":true"#), "{out}: {}", errors(&recorded));
    }
}

#[test]
fn recorders_that_are_started_in_one_second_write_a_file_each() {
    let folder = tempfile::tempdir().unwrap();
    let mut record = transom(&["record", "-q", "-d", "10ms"]);
    record.current_dir(folder.path());
    let recorders = [(); 3].map(|()| record.spawn().unwrap());
    for mut recorder in recorders {
        assert!(recorder.wait().unwrap().success());
    }
    let files = fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().path());
    let read = files.map(|file| transom_trace::Reader::open(file).unwrap().is_cut());
    assert_eq!(Vec::from_iter(read), [false; 3]);
}

/// As an archive or a disk from elsewhere has them: Latin-1, which is no UTF-8.
const NO_TEXT: &[u8] = b"caf\xe9.parquet";

#[test]
fn a_name_that_is_no_text_is_as_good_as_another() {
    let bench = Bench::new();
    let file = bench.folder.path().join(OsStr::from_bytes(NO_TEXT));
    let recorded = transom(&["record", "-d", "100ms", "-o"]).arg(&file).output().unwrap();
    assert!(recorded.status.success(), "{}", errors(&recorded));
    let reader = transom_trace::Reader::open(&file).unwrap();
    assert!(reader.meta().command_line.contains("caf\u{fffd}.parquet"), "{:?}", reader.meta());
    assert!(reader.into_iter().all(|event| event.is_ok()));
    let again = bench.folder.path().join(OsStr::from_bytes(b"caf\xe9.arrow"));
    let converted = transom(&["convert"]).args([&file, &again]).output().unwrap();
    assert!(converted.status.success() && again.exists(), "{}", errors(&converted));
}

#[test]
fn a_program_gets_words_that_are_no_text_as_they_are() {
    let bench = Bench::new();
    let read = bench.folder.path().join(OsStr::from_bytes(b"gr\xf6sse"));
    fs::write(&read, "read\n").unwrap();
    let recorded = bench.text("r.parquet");
    let commands: [&[&str]; 2] = [&["record", "-q", "-o", &recorded], &["log"]];
    for arguments in commands {
        let done = transom(arguments).args(["--", "cat"]).arg(&read).output().unwrap();
        assert!(done.status.success(), "{arguments:?}: {}", errors(&done));
        assert_eq!(String::from_utf8_lossy(&done.stdout), "read\n");
    }
}

#[test]
fn nonsense_is_refused_with_the_remedy() {
    let bench = Bench::new();
    let trace = bench.text("t.parquet");
    File::create(bench.path("empty")).unwrap();
    let cases: [(&[&str], &str); 11] = [
        (&["record", "--netns", "/etc/passwd"], "is no network namespace"),
        (&["record", "--netns", ""], "is no network namespace"),
        (&["record", "--netns", "/proc/self/ns/mnt"], "is no network namespace"),
        (&["record", "--netns", "nowhere"], "there is no network namespace"),
        (&["record", "--port", "0"], "--port"),
        (&["record", "--rate", "10"], "10ms"),
        (&["record", "--rotate", "0"], "64k"),
        (&["record", "--duration", "-5"], "must not be negative"),
        (&["log", "--duration", "-5s"], "must not be negative"),
        (&["tune", "set", "--cap", "10", "--port", "0"], "--port"),
        (&["convert", &trace, "out.xyz"], "--to"),
    ];
    for (arguments, expected) in cases {
        let done = output(arguments);
        assert!(!done.status.success(), "{arguments:?}");
        let errors = errors(&done);
        assert!(errors.contains(expected), "{arguments:?}: {errors}");
        assert!(!errors.contains("-- -5"), "{errors}");
    }
    assert!(Path::new(&trace).exists());
}

#[test]
fn a_dash_is_no_input_and_the_message_says_so() {
    for command in [&["explain", "-"][..], &["convert", "--to", "csv", "-", "-"]] {
        let refused = output(command);
        assert_eq!(refused.status.code(), Some(1), "{command:?}");
        assert!(errors(&refused).contains("not read from the standard input"), "{refused:?}");
    }
}

/// What a program prints on a terminal of so many columns.
fn on_a_terminal(columns: u32, command: &str) -> String {
    let command = format!("stty cols {columns}; {command}");
    let printed = Command::new("script")
        .args(["-qec", &command, "/dev/null"])
        .env("TERM", "xterm")
        .stdin(Stdio::null())
        .output()
        .expect("script is installed");
    assert!(printed.status.success(), "{printed:?}");
    String::from_utf8(printed.stdout).unwrap()
}

/// What a recorder tells of its progress on a terminal of so many columns, at least once.
fn progress(columns: u32, file: &str) -> Vec<String> {
    let record = format!("{} record -d 1200ms -o {file}", env!("CARGO_BIN_EXE_transom"));
    let printed = on_a_terminal(columns, &record);
    let told = printed.split("\r\x1b[K").filter(|line| line.contains(" events"));
    let told: Vec<_> =
        told.filter(|line| line.starts_with(['0', '1'])).map(str::to_owned).collect();
    assert!(!told.is_empty(), "{printed:?}");
    told
}

/// A serial console does not tell its width, nor does a terminal that nobody has sized.
#[test]
fn a_terminal_without_a_width_gets_whole_lines() {
    let bench = Bench::new();
    let file = bench.text("new.parquet");
    let told = progress(0, &file);
    assert!(told.iter().all(|line| line.contains(" lost  ")), "{told:?}");
    assert!(!transom_trace::Reader::open(file).unwrap().is_cut());
}

#[test]
fn a_terminal_gets_lines_that_it_can_show() {
    let bench = Bench::new();
    let transom = env!("CARGO_BIN_EXE_transom");
    let width = |text: &str| text.lines().map(|line| line.chars().count()).max().unwrap();
    let explain = format!("{transom} explain --all {}", bench.text("t.parquet"));
    let (narrow, wide) = (on_a_terminal(50, &explain), on_a_terminal(300, &explain));
    assert!(width(&wide) > 80, "{wide}");
    assert!(width(&narrow) <= 50, "{narrow}");
    // The line of the progress is renewed, which one that goes on in the next cannot be.
    let told = progress(20, &bench.text("narrow.parquet"));
    assert!(told.iter().all(|line| line.chars().count() == 19), "{told:?}");
}
