//! `transom convert` to the formats of other tools: what is written, what is refused, and that
//! nothing half done is left.

use std::collections::HashSet;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use transom_event::{Event, Raw};
use transom_testbed::{find_program, needs};
use transom_trace::{Footer, Meta, Writer, WriterOptions};

#[path = "../../trace/tests/bulk/mod.rs"]
mod bulk;

const FORMATS: [&str; 3] = ["pcapng", "pftrace", "qlog"];
const EVENTS: usize = 3_000;

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        Place(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A trace of two connections that is not ended yet.
    fn recording(&self, name: &str) -> Writer {
        self.recording_of(name, 2, EVENTS)
    }

    fn recording_of(&self, name: &str, connections: usize, events: usize) -> Writer {
        let options = WriterOptions { batch_rows: 500, ..WriterOptions::default() };
        let meta = Meta { host: "client".into(), ..Meta::of_this_machine() };
        let mut writer = Writer::create(self.path(name), &meta, options).unwrap();
        for event in bulk::Bulk::new(connections).take(events) {
            writer.push(&Raw::from(&event)).unwrap();
        }
        writer
    }

    fn trace(&self) -> PathBuf {
        self.recording("t.parquet").finish(Footer::default()).unwrap().path
    }

    fn names(&self) -> Vec<String> {
        let all = fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<String> =
            all.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

fn convert(from: &Path, to: &Path, more: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_transom"));
    command.arg("convert").args([from, to]).args(more).stdin(Stdio::null());
    command.output().expect("transom runs")
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The first bytes of a file of each format.
fn is_of(format: &str, bytes: &[u8]) -> bool {
    match format {
        "pcapng" => bytes.starts_with(&[0x0a, 0x0d, 0x0d, 0x0a]),
        // A field of the trace: a packet.
        "pftrace" => bytes.starts_with(&[0x0a]),
        _ => serde_json::from_slice::<Value>(bytes).is_ok_and(|file| file["qlog_version"] == "0.3"),
    }
}

#[test]
fn the_ending_names_the_format_and_all_events_are_converted() {
    let place = Place::new();
    let trace = place.trace();
    for format in FORMATS {
        let out = place.path(&format!("out.{format}"));
        let done = convert(&trace, &out, &[]);
        assert!(done.status.success(), "{}", errors(&done));
        assert!(errors(&done).contains("3000 events"), "{}", errors(&done));
        assert!(is_of(format, &fs::read(&out).unwrap()), "{format}");
    }
}

#[test]
fn the_standard_output_gets_the_same_bytes() {
    let place = Place::new();
    let trace = place.trace();
    for (format, ending) in [("pcapng", "pcapng"), ("perfetto", "pftrace"), ("qlog", "qlog")] {
        let out = place.path(&format!("out.{ending}"));
        convert(&trace, &out, &[]);
        let piped = convert(&trace, Path::new("-"), &["--to", format]);
        assert!(piped.stdout == fs::read(out).unwrap(), "{format}");
    }
}

#[test]
fn one_connection_can_be_chosen() {
    let place = Place::new();
    let trace = place.trace();
    let own = bulk::Bulk::new(2).take(EVENTS).filter(|event: &Event| event.cookie == 0x1001);
    let own = format!("{} events", own.count());
    for format in FORMATS {
        let out = place.path(&format!("out.{format}"));
        let done = convert(&trace, &out, &["--connection", ":40001"]);
        assert!(errors(&done).contains(&own), "{format}: {} {own}", errors(&done));
        let text = String::from_utf8_lossy(&fs::read(&out).unwrap()).into_owned();
        assert!(text.contains("10.0.0.1:40001") && !text.contains("10.0.0.1:40000"), "{format}");
        let done = convert(&trace, &place.path("none"), &["--to", "qlog", "--connection", ":9"]);
        assert!(!done.status.success() && errors(&done).contains(":9"), "{}", errors(&done));
    }
    let done = convert(&trace, &place.path("t.csv"), &["--connection", ":40001"]);
    assert!(errors(&done).contains("pcapng, perfetto and qlog"), "{}", errors(&done));
    assert_eq!(place.names(), ["out.pcapng", "out.pftrace", "out.qlog", "t.parquet"]);
}

/// The most memory, kB, that a conversion had had when its first bytes came.
fn peak(trace: &Path, format: &str, more: &[&str]) -> u64 {
    let mut command = Command::new(env!("CARGO_BIN_EXE_transom"));
    command.arg("convert").args([trace, Path::new("-")]).args(["--to", format]).args(more);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut output = child.stdout.take().unwrap();
    // Less room than any output needs: the program waits, and so cannot end before it is looked at.
    rustix::pipe::fcntl_setpipe_size(&output, 4096).unwrap();
    output.read_exact(&mut [0]).unwrap();
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("its peak");
    peak.trim().strip_suffix(" kB").unwrap().parse().unwrap()
}

#[test]
fn one_connection_of_many_is_converted_without_the_others_in_memory() {
    let place = Place::new();
    drop(place.recording_of("t.arrow", 1_000, 80_000));
    let trace = place.path("t.arrow");
    // Event by event.
    let least = peak(&trace, "pcapng", &[]);
    for format in ["pcapng", "qlog"] {
        let peak = peak(&trace, format, &["--connection", ":40500"]);
        assert!(peak < least + (6 << 10), "{format}: {peak} kB, {least} kB");
    }
}

#[test]
fn tshark_finds_the_connection_by_its_ports() {
    needs!("tshark");
    let place = Place::new();
    let out = place.path("out.pcapng");
    convert(&place.trace(), &out, &[]);
    let tshark = find_program("tshark").unwrap();
    let filter = "frame.comment contains \":40001 >\" && bblog.event_id == 1";
    let output = Command::new(tshark).arg("-n").arg("-r").arg(&out).args(["-Y", filter]).output();
    let acks = String::from_utf8(output.unwrap().stdout).unwrap().lines().count();
    let own = bulk::Bulk::new(2)
        .take(EVENTS)
        .filter(|e| e.cookie == 0x1001 && e.kind == transom_event::Kind::Ack);
    assert_eq!(acks, own.count());
}

#[test]
fn every_field_of_wireshark_that_the_page_names_exists() {
    needs!("tshark");
    let output = Command::new(find_program("tshark").unwrap()).args(["-G", "fields"]).output();
    let text = String::from_utf8_lossy(&output.unwrap().stdout).into_owned();
    let known: HashSet<&str> = text.lines().filter_map(|line| line.split('\t').nth(2)).collect();
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/handover.md"));
    let page = page.unwrap();
    let is_name = |c: char| c.is_ascii_alphanumeric() || "._".contains(c);
    // `frame.bblog.…` is what some versions add to packets.
    let named: HashSet<&str> = page
        .split(|c| !is_name(c))
        .map(|word| word.trim_end_matches('.'))
        .filter(|word| word.starts_with("bblog."))
        .collect();
    assert!(named.len() > 15, "{named:?}");
    let strange: Vec<&&str> = named.iter().filter(|name| !known.contains(**name)).collect();
    assert!(strange.is_empty(), "{strange:?}");
}

#[test]
fn a_recording_that_was_cut_is_converted_and_said_to_be_cut() {
    let place = Place::new();
    drop(place.recording("t.arrow"));
    let trace = place.path("t.arrow");
    let whole = fs::read(&trace).unwrap();
    fs::write(&trace, &whole[..whole.len() - 100]).unwrap();
    for format in FORMATS {
        let out = place.path(&format!("out.{format}"));
        let done = convert(&trace, &out, &[]);
        assert!(done.status.success() && errors(&done).contains("is cut"), "{}", errors(&done));
        let text = String::from_utf8_lossy(&fs::read(out).unwrap()).into_owned();
        assert!(text.contains("did not come to its end"), "{format}");
    }
}

#[test]
fn a_file_of_format_1_is_converted_without_what_it_lacks() {
    let place = Place::new();
    let old = Path::new(env!("CARGO_MANIFEST_DIR")).join("../trace/tests/format1/talk.parquet");
    for format in FORMATS {
        let out = place.path(&format!("out.{format}"));
        let done = convert(&old, &out, &[]);
        assert!(done.status.success(), "{}", errors(&done));
        let text = String::from_utf8_lossy(&fs::read(&out).unwrap()).into_owned();
        assert!(!text.contains("rtt_variance"), "it has none that means the same");
    }
}

#[test]
fn what_is_no_trace_or_has_no_connection_is_refused_and_nothing_is_left() {
    let place = Place::new();
    let trace = place.trace();
    let bytes = fs::read(&trace).unwrap();
    fs::write(place.path("truncated"), &bytes[..bytes.len() / 2]).unwrap();
    fs::write(place.path("text"), "root:x:0").unwrap();
    let empty = Writer::create(place.path("empty"), &Meta::default(), WriterOptions::default());
    empty.unwrap().finish(Footer::default()).unwrap();
    let before = place.names();
    for format in FORMATS {
        let out = place.path(&format!("out.{format}"));
        for (input, expected) in [("truncated", "cut or corrupt"), ("text", "begins with")] {
            let done = convert(&place.path(input), &out, &[]);
            assert!(
                !done.status.success() && errors(&done).contains(expected),
                "{}",
                errors(&done)
            );
        }
    }
    let done = convert(&place.path("empty"), &place.path("out.qlog"), &[]);
    assert!(!done.status.success() && errors(&done).contains("no connection"), "{}", errors(&done));
    let done = convert(&trace, &place.path("out.pcap"), &[]);
    assert!(errors(&done).contains("out.pcapng"), "{}", errors(&done));
    assert_eq!(place.names(), before);
}

#[test]
fn neither_the_input_nor_a_file_that_is_there_is_replaced() {
    let place = Place::new();
    let trace = place.trace();
    let before = fs::read(&trace).unwrap();
    for format in ["pcapng", "perfetto", "qlog"] {
        let done = convert(&trace, &trace, &["--force", "--to", format]);
        assert!(errors(&done).contains("is the input"), "{}", errors(&done));
        assert!(fs::read(&trace).unwrap() == before);
        let out = place.path("kept");
        fs::write(&out, "mine").unwrap();
        let done = convert(&trace, &out, &["--to", format]);
        assert!(errors(&done).contains("--force"), "{}", errors(&done));
        assert_eq!(fs::read(&out).unwrap(), b"mine");
        let full = convert(&trace, Path::new("/dev/full"), &["--to", format]);
        assert!(!full.status.success() && errors(&full).contains("/dev/full"), "{}", errors(&full));
    }
    assert_eq!(place.names(), ["kept", "t.parquet"]);
}
