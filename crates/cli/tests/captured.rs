//! `record --pcap`: real packets beside the events, in one file that tshark reads.

use std::fs::Permissions;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::Duration;

use transom_monitor::{Capture, Packets, clock};
use transom_testbed::{
    Namespace, Path, Recording, find_program, interrupt, needs, pair, pair_at, send_and_wait,
    transom, wait_for,
};

/// One list per field, of the frames that the filter lets through.
fn fields(file: &std::path::Path, filter: &str, names: &[&str]) -> Vec<Vec<String>> {
    let mut command = Command::new(find_program("tshark").unwrap());
    command.arg("-n").arg("-r").arg(file).args(["-Y", filter, "-T", "fields"]);
    for name in names {
        command.args(["-e", name]);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect()
}

#[test]
fn packets_of_the_recorded_connection_have_its_state_and_no_payload() {
    needs!("root", "tshark");
    let path = Path::new(Duration::from_millis(5));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("both.pcapng");
    let netns = path.left.name().to_owned();
    let recording =
        Recording::start(&["--netns", &netns, "--port", "7310", "--pcap", file.to_str().unwrap()]);
    let to = "10.77.0.2".parse().unwrap();
    let (mut client, mut server) = pair_at(&path.left, &path.right, to, 7310);
    let (mut other, mut far) = pair_at(&path.left, &path.right, to, 7311);
    let port = client.local_addr().unwrap().port();
    send_and_wait(&mut client, &mut server, 200_000);
    send_and_wait(&mut other, &mut far, 10_000);
    let _trace = recording.finish();

    let all = fields(&file, "tcp", &["tcp.port"]);
    assert!(all.len() > 30, "{} packets", all.len());
    assert!(fields(&file, "tcp.port == 7311", &["tcp.port"]).is_empty(), "it is not recorded");
    let syns = fields(&file, "tcp.flags.syn == 1", &["ip.src", "frame.bblog.serial_nr"]);
    assert_eq!(syns.len(), 2, "the handshake, which was over before the connection was known");
    // What was sent, by the sequence numbers of the packets themselves.
    let filter = format!("tcp.srcport == {port} && tcp.len > 0");
    let names = ["tcp.seq", "tcp.nxtseq", "frame.bblog.serial_nr"];
    let sent = fields(&file, &filter, &names);
    let last: u64 = sent.last().unwrap()[1].parse().unwrap();
    assert_eq!(last, 200_001);
    // Each packet names an event; its state is the one that was met. Wireshark 4.2 shows it there.
    let events = fields(&file, "bblog.state == 4", &["bblog.serial_nr", "bblog.snd_cwnd"]);
    for row in &sent[1..] {
        let event = events.iter().find(|event| event[0] == row[2]);
        let event = event.unwrap_or_else(|| panic!("no event {} in {events:?}", row[2]));
        assert!(event[1].parse::<u32>().unwrap() > 1_000, "{event:?}");
    }
    let lengths = fields(&file, &filter, &["frame.cap_len", "frame.len", "tcp.hdr_len"]);
    for row in lengths {
        let [kept, whole, tcp]: [u32; 3] = std::array::from_fn(|at| row[at].parse().unwrap());
        assert!(kept == 20 + tcp && whole > kept, "{row:?}");
    }
    let interfaces = fields(&file, "tcp", &["frame.interface_name"]);
    assert!(interfaces.iter().all(|row| row == &interfaces[0]) && !interfaces[0][0].is_empty());
    // Packets and events are one list: an ACK that arrives is followed by its event at once.
    let times = fields(&file, "tcp || bblog.event_id == 1", &["frame.time_epoch"]);
    let times: Vec<f64> = times.iter().map(|row| row[0].parse().unwrap()).collect();
    assert!(times.windows(2).all(|pair| pair[1] > pair[0] - 0.001), "in the order of time");
    let events = fields(&file, "bblog.event_id == 1", &["bblog.snd_cwnd"]).len();
    let arrived =
        fields(&file, &format!("tcp.dstport == {port} && tcp.flags.syn == 0"), &["tcp.seq"]);
    assert!(events > 3 && arrived.len() >= events, "{} {events}", arrived.len());
}

#[test]
fn the_line_for_programs_comes_when_the_packets_are_in_their_file_and_counts_them() {
    needs!("root", "tshark");
    let path = Path::new(Duration::from_millis(5));
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let words = ["record", "--json", "--netns", path.left.name(), "--pcap"];
    let mut child = transom()
        .args(words)
        .arg(at("both.pcapng"))
        .arg("-o")
        .arg(at("t.parquet"))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut line = || -> serde_json::Value {
        serde_json::from_str(&lines.next().expect("a line").unwrap()).unwrap()
    };
    assert_eq!(line()["ready"], true);
    let (mut client, mut server) = pair(&path);
    send_and_wait(&mut client, &mut server, 50_000);
    interrupt(&child);
    let summary = line();
    // Read before the program has ended.
    let packets = fields(&at("both.pcapng"), "tcp", &["tcp.seq"]).len();
    assert!(child.wait().unwrap().success());
    assert_eq!(summary["pcap"], at("both.pcapng").to_str().unwrap(), "{summary}");
    assert_eq!((&summary["packets"], &summary["packets_lost"]), (&packets.into(), &0.into()));
    assert!(packets > 10, "{summary}");
}

#[test]
fn what_could_not_be_written_in_the_end_is_refused_at_the_start() {
    needs!("root");
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(at("mine.pcapng"), "mine").unwrap();
    std::fs::create_dir(at("folder")).unwrap();
    let cases = [
        ([at("t.parquet"), at("mine.pcapng")], "--force"),
        ([at("t.parquet"), at("t.parquet")], "is the trace"),
        (["-".into(), at("p.pcapng")], "let -o name a file"),
        ([at("t.parquet"), at("nowhere/p.pcapng")], "nowhere/p.pcapng"),
        ([at("t.parquet"), at("folder")], "folder is a directory"),
        ([at("t.parquet"), at("folder/../t.parquet")], "is the trace"),
    ];
    for ([trace, pcap], expected) in cases {
        let arguments = ["record", "--duration", "0.1", "-o", &trace, "--pcap", &pcap];
        let done = transom().args(arguments).output().unwrap();
        let errors = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(!done.status.success() && errors.contains(expected), "{errors}");
        assert!(!errors.contains("ready"), "it was recorded: {errors}");
    }
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(left.len(), 2, "{left:?}");
    assert_eq!(std::fs::read(at("mine.pcapng")).unwrap(), b"mine");
}

#[test]
fn a_file_with_payload_is_for_its_owner_alone() {
    needs!("root");
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let mode = |payload: &str| {
        let (trace, pcap) = (at("t.parquet"), at("p.pcapng"));
        let names = ["record", "--force", "-o", &trace, "--pcap", &pcap];
        let rest = ["--duration", "0.1", "--interface", "lo", "--pcap-payload", payload];
        let done = transom().args(names).args(rest).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        std::fs::metadata(pcap).unwrap().permissions().mode() & 0o777
    };
    std::fs::write(at("p.pcapng"), "").unwrap();
    std::fs::set_permissions(at("p.pcapng"), Permissions::from_mode(0o644)).unwrap();
    assert_eq!(mode("0"), 0o644, "as the one that it replaces");
    assert_eq!(mode("1"), 0o600);
    std::fs::remove_file(at("p.pcapng")).unwrap();
    assert_eq!(mode("1"), 0o600);
}

/// Sends headers of TCP on an interface, faster than anyone takes them, until told to stop.
fn flood(namespace: &Namespace, interface: &str, stop: &Arc<AtomicBool>) -> JoinHandle<()> {
    let (interface, stop) = (std::ffi::CString::new(interface).unwrap(), Arc::clone(stop));
    namespace.spawn(move || {
        let mut packet = [0_u8; 40];
        (packet[0], packet[3], packet[9]) = (0x45, 40, 6);
        // SAFETY: integers only, and a socket of our own with an address of its own kind.
        unsafe {
            let mut to: libc::sockaddr_ll = std::mem::zeroed();
            to.sll_family = libc::AF_PACKET as u16;
            to.sll_protocol = (libc::ETH_P_IP as u16).to_be();
            to.sll_ifindex = libc::if_nametoindex(interface.as_ptr()) as i32;
            let socket = libc::socket(libc::AF_PACKET, libc::SOCK_DGRAM, 0);
            let length = size_of::<libc::sockaddr_ll>() as u32;
            while !stop.load(Ordering::Relaxed) {
                let (from, to) = (packet.as_ptr().cast(), (&raw const to).cast());
                libc::sendto(socket, from, packet.len(), 0, to, length);
            }
            libc::close(socket);
        }
    })
}

#[test]
fn a_capture_ends_while_packets_come_faster_than_they_are_taken() {
    needs!("root");
    let namespace = Namespace::new("flood");
    namespace.ip("link add sink type veth peer name drain");
    namespace.ip("link set drain up");
    namespace.ip("link set sink up");
    let spool = tempfile::tempfile().unwrap();
    let capture = Capture::start(Some(namespace.name()), None, 0, spool).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let floods: Vec<_> = (0..4).map(|_| flood(&namespace, "sink", &stop)).collect();
    // Memory of a socket as `ss` shows it: `d` is what it had no room for.
    wait_for("packets without room", || {
        let memory = namespace.output("ss", &["-0", "-a", "-m"]);
        memory.split(",d").skip(1).any(|drops| !drops.starts_with('0'))
    });
    let (to, ended) = channel();
    std::thread::spawn(move || {
        let end_ns = clock::boottime_ns();
        to.send(capture.finish().map(|packets| (packets, end_ns)))
    });
    let mut finished = None;
    wait_for("the end of the capture", || {
        finished = ended.try_recv().ok();
        finished.is_some()
    });
    stop.store(true, Ordering::Relaxed);
    for flood in floods {
        flood.join().unwrap();
    }
    let (mut packets, end_ns): (Packets, u64) = finished.expect("it was waited for").unwrap();
    assert!(packets.dropped > 0, "they came no faster");
    let count = packets.count;
    assert!(count > 1_000, "{count} packets");
    // The thread that ends it is one of many that run.
    let end_ns = end_ns + 1_000_000_000;
    assert!(packets.read().unwrap().all(|packet| packet.unwrap().time_ns <= end_ns));
}
