//! Who else saw it: tcpdump, the kernel's counters, ss, tc.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use super::{Namespace, Segment};

/// tcpdump on one device.
pub struct Capture {
    child: Child,
    directory: TempDir,
}

impl Capture {
    pub fn start(namespace: &Namespace, device: &str) -> Capture {
        let directory = tempfile::tempdir().expect("a directory");
        let mut child = namespace
            .command("tcpdump")
            .args([
                "-i",
                device,
                "-s",
                "160",
                "-B",
                "32768",
                "--immediate-mode",
                "-U",
                "-Z",
                "root",
            ])
            .arg("-w")
            .arg(directory.path().join("pcap"))
            .arg("tcp or ip6")
            .stderr(Stdio::piped())
            .spawn()
            .expect("tcpdump");
        let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
        let ready = lines.any(|line| line.is_ok_and(|line| line.contains("listening on")));
        assert!(ready, "tcpdump did not start on {device}");
        // Its summary has to go somewhere, or it would get SIGPIPE.
        std::thread::spawn(move || lines.for_each(drop));
        Capture { child, directory }
    }

    /// Everything that passed until now.
    pub fn finish(mut self) -> Vec<Segment> {
        let pcap = self.directory.path().join("pcap");
        // What has been captured is written at once; stop when no more comes.
        let mut size = u64::MAX;
        super::wait_for("tcpdump to write all", || {
            std::thread::sleep(std::time::Duration::from_millis(40));
            let now = fs::metadata(&pcap).map(|m| m.len()).unwrap_or_default();
            std::mem::replace(&mut size, now) == now
        });
        interrupt(&self.child);
        self.child.wait().expect("tcpdump ends");
        parse_pcap(&fs::read(&pcap).expect("tcpdump wrote a file"))
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn interrupt(child: &Child) {
    // SAFETY: the child is ours and not yet waited for.
    unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
}

/// The classic pcap format: a header of 24 bytes, then 16 before each packet.
fn parse_pcap(file: &[u8]) -> Vec<Segment> {
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().expect("4 bytes"));
    let link_header = match word(20) {
        1 => 14,  // LINKTYPE_ETHERNET
        101 => 0, // LINKTYPE_RAW
        other => panic!("pcap of link type {other}"),
    };
    let (mut at, mut segments) = (24, Vec::new());
    while at + 16 <= file.len() {
        let captured = word(at + 8) as usize;
        let packet = &file[at + 16..at + 16 + captured];
        segments.extend(packet.get(link_header..).and_then(Segment::of_ip));
        at += 16 + captured;
    }
    segments
}

/// `nstat`: the namespace's counters.
pub struct Counters(HashMap<String, u64>);

impl Counters {
    pub fn of(namespace: &Namespace) -> Counters {
        let output = namespace.command("nstat").args(["-asz", "-j"]).output().expect("nstat");
        let json: Value = serde_json::from_slice(&output.stdout).expect("nstat prints JSON");
        let counters = json["kernel"].as_object().expect("nstat's table");
        Counters(counters.iter().map(|(k, v)| (k.clone(), v.as_u64().unwrap_or(0))).collect())
    }

    pub fn get(&self, name: &str) -> u64 {
        *self.0.get(name).unwrap_or_else(|| panic!("the kernel counts no {name}"))
    }
}

/// Packets that the queueing discipline 10: of a device dropped, by `tc -s`.
pub fn queue_drops(namespace: &Namespace, device: &str) -> u64 {
    let text = namespace.tc(&format!("-s -j qdisc show dev {device}"));
    let json: Value = serde_json::from_str(&text).expect("tc prints JSON");
    let disciplines = json.as_array().expect("a list of them");
    let one = disciplines.iter().find(|one| one["handle"] == "10:").expect("it was added");
    one["drops"].as_u64().expect("tc counts drops")
}

/// Packets that a device refused to take.
pub fn device_drops(namespace: &Namespace, device: &str) -> u64 {
    let text = namespace.ip(&format!("-s -j link show dev {device}"));
    let json: Value = serde_json::from_str(&text).expect("ip prints JSON");
    json[0]["stats64"]["tx"]["dropped"].as_u64().expect("the kernel counts drops")
}

/// What `ss -tin` prints of the connections to this port.
pub(crate) fn socket_lines(namespace: &Namespace, port: u16) -> String {
    let mut ss = namespace.command("ss");
    let output = ss.args(["-tinH", "dport", "=", &format!(":{port}")]).output().expect("ss");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// `ss -tin` of the connections to this port: `key:value` words by key.
pub fn socket_statistics(namespace: &Namespace, port: u16) -> HashMap<String, String> {
    let text = socket_lines(namespace, port);
    text.split_whitespace()
        .filter_map(|word| word.split_once(':'))
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}
