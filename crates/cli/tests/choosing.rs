//! Which connections and which part of the time `explain` and `report` are about.

mod made;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use made::{upload, write};
use transom_event::errors::ECONNREFUSED;
use transom_event::{Body, Event, Kind};

fn trace(directory: &Path, name: &str) -> PathBuf {
    let mut events = upload(7, "iperf3", [10, 0, 0, 2], 5201);
    events.extend(upload(8, "curl", [192, 0, 2, 9], 5201));
    write(directory.join(name), events)
}

fn transom(command: &str, trace: &Path, arguments: &[&str]) -> Output {
    let mut transom = Command::new(env!("CARGO_BIN_EXE_transom"));
    transom.arg(command).arg(trace).args(arguments).output().unwrap()
}

/// What `explain --json` counts of each connection: its program, and bytes acknowledged.
fn acked(trace: &Path, arguments: &[&str]) -> Vec<(String, u64)> {
    let output = transom("explain", trace, &[&["--json"], arguments].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let all: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let of = |a: &serde_json::Value| {
        let program = a["program"].as_str().unwrap().to_owned();
        (program, a["summary"]["acked"].as_u64().unwrap())
    };
    all.as_array().unwrap().iter().map(of).collect()
}

fn refusal(command: &str, trace: &Path, arguments: &[&str]) -> String {
    let output = transom(command, trace, arguments);
    assert!(!output.status.success(), "{command} {arguments:?}");
    assert!(output.stdout.is_empty());
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn explain_and_report_take_the_same_names() {
    let directory = tempfile::tempdir().unwrap();
    let trace = trace(directory.path(), "t.parquet");
    for name in ["iperf3", "7", "#7", "10.0.0.2", "10.0.0.1:40007", "-10.0.0.2:5201", "1007"] {
        let found = acked(&trace, &["--connection", name]);
        assert_eq!(found, [("iperf3".to_owned(), 1_000_000)], "{name}");
        let page = directory.path().join("t.html");
        let page = page.to_str().unwrap();
        let output = transom("report", &trace, &["--connection", name, "-o", page, "--force"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let html = std::fs::read_to_string(page).unwrap();
        assert_eq!(html.matches("application/octet-stream").count(), 1, "{name}");
        assert!(html.contains("id=\"c7\""), "{name}");
    }
    assert_eq!(acked(&trace, &["--connection", "curl", "--connection", "7"]).len(), 2);
}

/// A socket that was refused, and connects again to another port, with other sequence numbers.
fn reused(directory: &Path) -> PathBuf {
    let mut second = upload(7, "iperf3", [10, 0, 0, 2], 5202);
    for event in &mut second {
        event.time_ns += 1_000_000_000;
        if let Body::State(state) = &mut event.body {
            state.snd_una += 3_000_000_000;
            state.snd_nxt += 3_000_000_000;
        }
    }
    let mut events = upload(7, "iperf3", [10, 0, 0, 2], 5201);
    events.truncate(2);
    let refused = Event { kind: Kind::Close, aux: [ECONNREFUSED, 0], ..events[1] };
    events.push(refused);
    events.extend(second);
    write(directory.join("reused.parquet"), events)
}

#[test]
fn convert_takes_each_connection_of_a_socket_by_itself_as_explain_does() {
    let directory = tempfile::tempdir().unwrap();
    let trace = reused(directory.path());
    let second = (7_u64 | 1 << 40).to_string();
    for (which, port, events) in
        [("#7", 5201, 3), (":5201", 5201, 3), (&second, 5202, 1002), (":5202", 5202, 1002)]
    {
        assert_eq!(acked(&trace, &["--connection", which]).len(), 1, "{which}");
        for format in ["qlog", "pftrace", "pcapng"] {
            let to = directory.path().join(format!("{which}.{format}"));
            let more = [to.to_str().unwrap(), "--force", "--connection", which];
            let output = transom("convert", &trace, &more);
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(said.contains(&format!("{events} events")), "{which} {format}: {said}");
            let written = std::fs::read(&to).unwrap();
            let text = String::from_utf8_lossy(&written);
            let names = [5201, 5202].map(|port| text.contains(&format!("10.0.0.2:{port}")));
            assert_eq!(names, [port == 5201, port == 5202], "{which} {format}");
        }
    }
    let said = refusal("convert", &trace, &["none.qlog", "--connection", "nginx"]);
    let listed = [&format!(":5202 (cookie {second})")[..], ":5201 (cookie 7)"];
    assert!(said.find(listed[0]).unwrap() < said.find(listed[1]).unwrap(), "by bytes: {said}");
}

#[test]
fn a_name_that_is_none_is_answered_with_what_there_is_and_nothing_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let trace = trace(directory.path(), "t.parquet");
    for command in ["explain", "report"] {
        let said = refusal(command, &trace, &["--connection", "nginx"]);
        for words in
            ["t.parquet", "\"nginx\"", "iperf3 10.0.0.1:40007 > 10.0.0.2:5201 (cookie 7)", "curl"]
        {
            assert!(said.contains(words), "{command}: {words}: {said}");
        }
        let said = refusal(command, &trace, &["--connection", ":70000"]);
        assert!(said.contains("no port"), "{said}");
    }
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1, "only the trace");
}

#[test]
fn a_part_of_the_time_has_its_part_of_the_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let trace = trace(directory.path(), "t.parquet");
    let bytes = |arguments: &[&str]| acked(&trace, arguments)[0].1;
    assert_eq!(bytes(&["--from", "3s"]), 701_000);
    assert_eq!(bytes(&["--to", "3s"]), 299_000);
    assert_eq!(bytes(&["--from", "3s", "--to", "8s"]), 500_000);
    assert_eq!(bytes(&["--from", "14:05:14", "--to", "14:05:19"]), 500_000);
    assert_eq!(bytes(&["--from", "2026-03-02T14:05:14Z", "--to", "8s"]), 500_000);
}

#[test]
fn a_part_that_is_empty_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let trace = trace(directory.path(), "t.parquet");
    for command in ["explain", "report"] {
        assert!(refusal(command, &trace, &["--from", "8s", "--to", "3s"]).contains("--from"));
        assert!(refusal(command, &trace, &["--from", "20s"]).contains("the recording lasts 10.0s"));
        assert!(refusal(command, &trace, &["--from", "noon"]).contains("14:05:11"));
    }
}

#[test]
fn two_traces_become_one_page_beside_the_first() {
    let directory = tempfile::tempdir().unwrap();
    let first = trace(directory.path(), "a.parquet");
    let second = trace(directory.path(), "b.parquet");
    let output = transom("report", &first, &[second.to_str().unwrap()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let html = std::fs::read_to_string(directory.path().join("a-b.html")).unwrap();
    assert!(html.contains("id=\"comparison\"") && html.contains("iperf3 to 10.0.0.2:5201"));
}
