//! Who else saw it: tcpdump, the kernel's counters, ss, tc.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, UdpSocket};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use super::{Namespace, Segment};

/// tcpdump on one device.
pub struct Capture {
    child: Child,
    directory: TempDir,
    marks: UdpSocket,
}

/// Where the marks go, which say that tcpdump has written all that passed before them: to nobody, over
/// the device alone (224.0.0.254 and 1021 are for experiments: RFC 4727).
const NOBODY: (Ipv4Addr, u16) = (Ipv4Addr::new(224, 0, 0, 254), 1021);

impl Capture {
    pub fn start(namespace: &Namespace, device: &str) -> Capture {
        let directory = tempfile::tempdir().expect("a directory");
        let options = "-s 160 -B 32768 --immediate-mode -U -Z root";
        let mut child = namespace
            .command("tcpdump")
            .args(["-i", device])
            .args(options.split(' '))
            .arg("-w")
            .arg(directory.path().join("pcap"))
            .arg(format!("tcp or ip6 or udp dst port {}", NOBODY.1))
            .stderr(Stdio::piped())
            .spawn()
            .expect("tcpdump");
        let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
        let ready = lines.any(|line| line.is_ok_and(|line| line.contains("listening on")));
        assert!(ready, "tcpdump did not start on {device}");
        // Its summary has to go somewhere, or it would get SIGPIPE.
        std::thread::spawn(move || lines.for_each(drop));
        let marks = namespace.inside(|| UdpSocket::bind("0.0.0.0:0")).expect("a socket");
        let mut name = [0u8; libc::IFNAMSIZ];
        name[..device.len()].copy_from_slice(device.as_bytes());
        super::set_option(&marks, libc::SOL_SOCKET, libc::SO_BINDTODEVICE, name);
        marks.set_multicast_loop_v4(false).expect("an option");
        Capture { child, directory, marks }
    }

    /// Everything that passed until now, and what was on its way: until nothing comes for a while.
    pub fn finish(self) -> Vec<Segment> {
        const A_WHILE: Duration = Duration::from_millis(40);
        let mut seen = self.until_now();
        loop {
            std::thread::sleep(A_WHILE);
            let now = self.until_now();
            if now.len() == seen.len() {
                return now;
            }
            seen = now;
        }
    }

    /// What passed before a mark that is sent now: tcpdump writes in order, and at once.
    fn until_now(&self) -> Vec<Segment> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let mark = format!("transom {} {number}", std::process::id());
        self.marks.send_to(mark.as_bytes(), NOBODY).expect("the device is up");
        let mut before = None;
        super::wait_for("tcpdump to write all", || {
            let file = fs::read(self.directory.path().join("pcap")).unwrap_or_default();
            let packets = packets(&file);
            let at = packets.iter().position(|packet| packet.ends_with(mark.as_bytes()));
            before =
                at.map(|at| packets[..at].iter().copied().filter_map(Segment::of_ip).collect());
            before.is_some()
        });
        before.expect("it was waited for")
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

/// The IP packets of a file in the classic pcap format: a header of 24 bytes, then 16 before each packet.
/// The last one may be half written.
fn packets(file: &[u8]) -> Vec<&[u8]> {
    let word = |at: usize| Some(u32::from_le_bytes(file.get(at..at + 4)?.try_into().ok()?));
    let link_header = match word(20) {
        Some(1) => 14,  // LINKTYPE_ETHERNET
        Some(101) => 0, // LINKTYPE_RAW
        Some(other) => panic!("pcap of link type {other}"),
        None => return Vec::new(),
    };
    let (mut at, mut packets) = (24, Vec::new());
    while let Some(captured) = word(at + 8) {
        let end = at + 16 + captured as usize;
        let Some(packet) = file.get(at + 16..end) else { break };
        packets.extend(packet.get(link_header..));
        at = end;
    }
    packets
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{fresh_port, needs, pair_at, send_and_wait};

    #[test]
    fn a_tcpdump_that_gets_no_processor_for_a_while_has_all_in_the_end() {
        needs!("root", "tcpdump");
        let hosts = ["near", "far"].map(Namespace::new);
        let ends = ["10.79.0.1/24", "10.79.0.2/24"];
        crate::link((&hosts[0], "eth0", &ends[..1]), (&hosts[1], "eth0", &ends[1..]));
        let capture = Capture::start(&hosts[0], "eth0");
        let tcpdump = capture.child.id() as i32;
        // SAFETY: a child that is not waited for before both threads have ended.
        let signal = |signal| unsafe { libc::kill(tcpdump, signal) };
        signal(libc::SIGSTOP);
        let (mut client, mut server) =
            pair_at(&hosts[0], &hosts[1], [10, 79, 0, 2].into(), fresh_port());
        let from = client.local_addr().unwrap();
        send_and_wait(&mut client, &mut server, 100_000);
        let seen = std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(500));
                signal(libc::SIGCONT);
            });
            capture.finish()
        });
        let sent: Vec<_> = seen.iter().filter(|segment| segment.from == from).collect();
        let first = sent[0].end();
        let last = sent.iter().map(|segment| segment.end().wrapping_sub(first)).max();
        assert_eq!(last, Some(100_000));
    }
}
