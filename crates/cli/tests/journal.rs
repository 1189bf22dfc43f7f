//! The log that stays in the kernel: installed, read with no process of ours, removed.
//!
//! There is one journal a machine, so all of it is one story.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Output;

use transom_testbed::{needs, needs_probes, transom, transom_of_nobody};

const FILE: &str = "/sys/fs/bpf/transom/tcp";

fn journal(arguments: &[&str]) -> Output {
    transom().arg("journal").args(arguments).output().expect("transom runs")
}

/// Leaves no journal behind, also when an assertion fails.
struct Removed;

impl Drop for Removed {
    fn drop(&mut self) {
        journal(&["remove"]);
    }
}

/// One request and one reply, and both ends closed.
fn converse(listener: &TcpListener) {
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    let mut message = [7; 100];
    for _ in 0..3 {
        client.write_all(&message).unwrap();
        server.read_exact(&mut message).unwrap();
        server.write_all(&message).unwrap();
        client.read_exact(&mut message).unwrap();
    }
}

fn lines() -> Vec<String> {
    std::fs::read_to_string(FILE)
        .expect("the journal can be read")
        .lines()
        .map(str::to_owned)
        .collect()
}

/// `[log index/capacity/total]` at the end of a line.
fn position(line: &str) -> (u64, u64, u64) {
    let numbers = line.split_once("[log ").expect("a position").1.trim_end_matches(']');
    let mut numbers = numbers.split('/').map(|number| number.parse().expect("a number"));
    let mut next = || numbers.next().expect("three numbers");
    (next(), next(), next())
}

fn is_paper_line(line: &str) -> bool {
    const FIELDS: &[&str] = &[
        " parm,Type=",
        " ,PID=",
        " ,cwnd=",
        " ,send_ssthresh=",
        " ,rcv_nxt= ",
        " ,snd_nxt= ",
        " ,snd_una= ",
        " ,ca_state= ",
        " , rto=",
        " [log ",
    ];
    let mut rest = line;
    FIELDS.iter().all(|field| match rest.split_once(field) {
        Some((before, after)) => {
            rest = after;
            before.chars().all(|c| c.is_ascii_digit() || c == ' ')
        }
        None => false,
    })
}

fn programs() -> usize {
    let output = std::process::Command::new("bpftool").args(["prog", "show"]).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    text.unwrap_or_default().matches("name print_journal").count()
}

#[test]
fn the_journal_keeps_the_last_events_and_goes_without_a_trace() {
    needs_probes!();
    needs!("journal");
    journal(&["remove"]);
    let mounted_before = std::fs::read_to_string("/proc/self/mounts").unwrap().contains(" bpf ");
    let _removed = Removed;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();

    let installed = journal(&["install", "--port", &port, "--size", "40"]);
    assert!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));
    assert!(String::from_utf8_lossy(&installed.stdout).contains(FILE));

    converse(&listener);
    let first = lines();
    assert!(!first.is_empty());
    for line in &first {
        assert!(is_paper_line(line), "{line}");
        assert!(line.contains(&format!(",PID={} ", std::process::id())), "{line}");
    }

    for _ in 0..10 {
        converse(&listener);
    }
    let last = lines();
    assert!((30..=40).contains(&last.len()), "a full log of 40 has {} lines", last.len());
    let totals: Vec<u64> = last.iter().map(|line| position(line).2).collect();
    assert!(totals.is_sorted(), "the oldest comes first: {totals:?}");
    for line in &last {
        let (index, capacity, total) = position(line);
        assert_eq!((index, capacity), (total % 40, 39), "{line}");
    }
    assert!(totals.last() > Some(&40), "the log has wrapped");

    // It is text, and made while it is read: no trace.
    for command in ["explain", "report", "whatif"] {
        let refused = transom().args([command, FILE]).output().expect("transom runs");
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success() && said.contains("print that with `cat`"), "{said}");
    }

    let again = journal(&["install"]);
    assert!(!again.status.success());
    assert!(String::from_utf8_lossy(&again.stderr).contains("journal remove"));

    let folder = tempfile::tempdir().unwrap();
    let mut of_nobody = transom_of_nobody(folder.path());
    let refused = of_nobody.args(["journal", "remove"]).output().expect("transom runs");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("Permission denied"), "{refused:?}");
    assert!(!lines().is_empty(), "it is still there");

    assert!(journal(&["remove"]).status.success());
    assert!(!Path::new("/sys/fs/bpf/transom").exists());
    transom_testbed::wait_for("the programs to go", || programs() == 0);
    let mounted_after = std::fs::read_to_string("/proc/self/mounts").unwrap().contains(" bpf ");
    assert_eq!(mounted_after, mounted_before, "bpffs is mounted as before");

    let impossible = journal(&["install", "--size", "0"]);
    assert!(!impossible.status.success());
    assert!(!Path::new("/sys/fs/bpf/transom").exists());
}
