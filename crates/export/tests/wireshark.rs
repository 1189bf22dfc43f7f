//! What stock tshark reads in our pcapng files.

#[path = "../../trace/tests/bulk/mod.rs"]
mod bulk;
mod transfer;

use std::io;
use std::net::SocketAddrV4;
use std::path::{Path, PathBuf};
use std::process::Command;

use transfer::{COOKIE, Flow, MSS, OFFSET_NS, START_NS, origin, upload};
use transom_event::{Event, Kind, LossCause, Place, RtoCause};
use transom_export::{BlackBox, Origin, Owners, Packet, beside};
use transom_testbed::needs;

fn write(path: &Path, events: &[Event], origin: &Origin) {
    let mut file = BlackBox::new(Vec::new(), origin).unwrap();
    for event in events {
        file.push(event).unwrap();
    }
    std::fs::write(path, file.finish().unwrap()).unwrap();
}

/// The fields of every frame that the filter lets through, as tshark prints them.
fn fields(path: &Path, filter: &str, names: &[&str]) -> Vec<Vec<String>> {
    let mut command = Command::new("tshark");
    command.arg("-n").arg("-r").arg(path).args(["-Y", filter, "-T", "fields"]);
    for name in names {
        command.args(["-e", name]);
    }
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{errors}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect()
}

/// All frames that the filter lets through, one field of each.
fn column(path: &Path, filter: &str, name: &str) -> Vec<String> {
    fields(path, filter, &[name]).into_iter().map(|mut row| row.remove(0)).collect()
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    fn of(&self, events: &[Event]) -> PathBuf {
        let path = self.0.path().join("far.pcapng");
        write(&path, events, &origin());
        path
    }
}

#[test]
fn every_event_is_a_frame_with_the_event_of_freebsd_that_it_corresponds_to() {
    needs!("tshark");
    let folder = Folder::new();
    let path = folder.of(&upload());
    let of = |words: &str| {
        column(&path, &format!("frame.comment contains \"{words}\""), "bblog.event_id")
    };
    assert_eq!(of(": send "), ["2", "2", "2"]);
    assert_eq!(of(": ack "), ["1", "1", "1", "1"]);
    assert_eq!(of("retransmit_reason=fast"), ["2"]);
    assert_eq!(of(": rto in_a_row=1 rto_cause=timer"), ["3"]);
    assert_eq!(of("new_ca_state=recovery"), ["15"]);
    assert_eq!(of("old_ca_state=loss new_ca_state=open"), ["16"]);
    assert_eq!(of(": local_congestion "), ["42"]);
    assert_eq!(of(": close "), ["54"]);
    assert_eq!(of("10.0.0.1:40000 > 10.0.0.2:5201 iperf3: sack "), ["59"]);
    let all = fields(&path, "frame.number > 0", &["frame.number"]);
    assert_eq!(all.len(), upload().len() - 1, "the opening is a comment of the first send");
    assert!(column(&path, "frame.number == 1", "frame.comment")[0].contains("open origin=connect"));
}

/// FreeBSD writes the number of the timer there (0: retransmission) and what became of it, which
/// later versions of Wireshark say in words.
#[test]
fn a_retransmission_timeout_is_of_no_other_timer_and_only_where_a_timer_expired() {
    needs!("tshark");
    let folder = Folder::new();
    let mut flow = Flow::new(COOKIE, 40_000);
    flow.open();
    flow.after(100).send(4);
    // Of those that reneged the second in a row waited for its timer.
    let (timer, pmtu, reneging) = (RtoCause::Timer, RtoCause::Pmtu, RtoCause::Reneging);
    for (in_a_row, cause) in [(1, timer), (2, timer), (1, pmtu), (1, reneging), (2, reneging)] {
        flow.after(200_000).state_event(Kind::Rto, Place::EnterLoss, [in_a_row, cause as u32]);
    }
    let path = folder.of(&flow.events);
    let names = ["bblog.event_id", "bblog.flex_1", "bblog.flex_2"];
    let seen = fields(&path, "frame.comment contains \": rto \"", &names);
    assert_eq!(
        seen,
        [["3", "0", "0"], ["3", "0", "0"], ["59", "1", "3"], ["59", "1", "2"], ["3", "0", "0"],]
    );
    let comments = column(&path, "bblog.event_id == 3", "frame.comment");
    assert!(comments[1].contains("in_a_row=2 rto_cause=timer"), "{comments:?}");
}

#[test]
fn a_comment_names_the_new_algorithm_and_the_sack_blocks() {
    needs!("tshark");
    let folder = Folder::new();
    let mut flow = Flow::new(COOKIE, 40_000);
    flow.open();
    flow.after(100).send(4);
    let una = flow.state.snd_una;
    flow.after(20_000).sack(1, 3);
    flow.after(100).algorithm("bbr");
    let path = folder.of(&flow.events);
    let comment = |filter: &str| column(&path, filter, "frame.comment");
    let changes = comment("frame.comment contains \": algorithm\"");
    assert_eq!(changes, ["10.0.0.1:40000 > 10.0.0.2:5201 iperf3: algorithm algorithm=bbr"]);
    let edge = |n: u32| una.wrapping_add(n * MSS);
    let blocks = format!("d_sack=false sack_blocks={}-{}", edge(1), edge(3));
    let sacks = comment("frame.comment contains \"sack_blocks=\"");
    assert!(sacks.len() == 1 && sacks[0].ends_with(&blocks), "{sacks:?} {blocks}");
}

#[test]
fn windows_are_in_bytes_and_states_have_the_numbers_of_freebsd() {
    needs!("tshark");
    let folder = Folder::new();
    let path = folder.of(&upload());
    let cwnd = |filter| column(&path, filter, "bblog.snd_cwnd");
    assert_eq!(cwnd("frame.number == 1"), [(10 * MSS).to_string()]);
    assert_eq!(cwnd("bblog.event_id == 3"), [(8 * MSS).to_string()]);
    assert_eq!(cwnd("bblog.snd_cwnd == 1448").len(), 2, "a filter by number");
    let ssthresh = column(&path, "bblog.event_id == 15", "bblog.snd_ssthresh");
    assert_eq!(ssthresh, vec![(8 * MSS).to_string(); 2]);
    let unset = column(&path, "frame.number == 1", "bblog.snd_ssthresh");
    assert_eq!(unset, [(65_535 << 14).to_string()]);
    assert_eq!(column(&path, "bblog.state != 4", "bblog.state"), ["6"], "FIN_WAIT1 at the end");
    assert_eq!(
        column(&path, "bblog.t_flags_be_in_fast_recovery == 1", "bblog.event_id"),
        ["2", "1", "16"]
    );
    assert_eq!(
        fields(
            &path,
            "frame.number == 1",
            &["bblog.snd_shift", "bblog.rcv_shift", "bblog.txb_acc"]
        ),
        [["9", "7", "100000"]]
    );
}

#[test]
fn times_are_those_of_the_wall_clock() {
    needs!("tshark");
    let folder = Folder::new();
    let path = folder.of(&upload());
    let first = (START_NS as i64 + OFFSET_NS) / 1000 + 100;
    let seconds = format!("{}.{:06}000", first / 1_000_000, first % 1_000_000);
    assert_eq!(column(&path, "frame.number == 1", "frame.time_epoch"), [seconds]);
}

#[test]
fn events_that_the_recording_lost_are_said_to_be_skipped() {
    needs!("tshark");
    let folder = Folder::new();
    let path = folder.of(&upload());
    let output = Command::new("tshark").arg("-n").arg("-r").arg(&path).output().unwrap();
    let list = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(list.contains("Number of skipped events: 12"), "{list}");
    assert!(list.contains("Retransmit timeout"), "{list}");
}

#[test]
fn segments_that_left_unseen_are_named_and_are_no_skipped_events() {
    needs!("tshark");
    let folder = Folder::new();
    let path = folder.of(&[Event::lost(LossCause::UnseenSend, 21, START_NS)]);
    let output = Command::new("tshark").arg("-n").arg("-r").arg(&path).output().unwrap();
    let list = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(list.contains("Number of skipped events: 0"), "{list}");
    let said = column(&path, "frame.comment", "frame.comment");
    assert_eq!(said, ["lost lost_cause=unseen_send lost_count=21"]);
}

/// Every number that tshark reads from the record, beside the one of the event.
fn read_back(event: &Event, serial: usize) -> Option<Vec<String>> {
    let s = event.state()?;
    let bytes = |segments: u32| u64::from(segments) * u64::from(s.mss);
    let flex = if event.kind == Kind::Rto { [0; 2] } else { event.aux };
    let numbers: [u64; 13] = [
        serial as u64,
        s.snd_una.into(),
        s.snd_nxt.into(),
        bytes(s.cwnd),
        s.snd_wnd.into(),
        s.ssthresh_set().map_or(65_535 << 14, bytes),
        s.srtt_us.into(),
        s.mdev_us.into(),
        s.rcv_nxt.into(),
        s.rcv_wnd.into(),
        flex[0].into(),
        flex[1].into(),
        if event.kind == Kind::Send { event.aux[0].into() } else { 0 },
    ];
    Some(numbers.iter().map(u64::to_string).collect())
}

#[test]
fn tshark_reads_every_number_of_a_transfer_over_three_connections() {
    needs!("tshark");
    let folder = Folder::new();
    let events: Vec<Event> = bulk::Bulk::new(3).take(5_000).collect();
    let path = folder.of(&events);
    let names = [
        "serial_nr",
        "snd_una",
        "snd_nxt",
        "snd_cwnd",
        "snd_wnd",
        "snd_ssthresh",
        "srtt",
        "rttvar",
        "rcv_nxt",
        "rcv_wnd",
        "flex_1",
        "flex_2",
        "payload_length",
    ];
    let names = names.map(|name| format!("bblog.{name}"));
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let seen = fields(&path, "bblog", &names);
    // The three openings come before any state and are comments.
    let expected: Vec<_> =
        events[3..].iter().enumerate().map(|(at, event)| read_back(event, at)).collect();
    assert_eq!(seen.len(), expected.len());
    for (seen, expected) in seen.iter().zip(&expected) {
        // A SACK block has not all of them.
        assert!(expected.is_none() || expected.as_ref() == Some(seen), "{seen:?} {expected:?}");
    }
    let own = column(&path, "frame.comment contains \"10.0.0.1:40001 >\"", "frame.number").len();
    let sent = events.iter().filter(|event| event.cookie == 0x1001).count();
    assert_eq!(own, sent - 1, "a filter by connection");
}

/// Headers of IPv4 and TCP: 100 bytes of payload would follow.
fn segment(source: SocketAddrV4, destination: SocketAddrV4, flags: u8) -> Vec<u8> {
    let mut bytes = vec![0_u8; 40];
    (bytes[0], bytes[3], bytes[8], bytes[9]) = (0x45, 140, 64, 6);
    bytes[12..16].copy_from_slice(&source.ip().octets());
    bytes[16..20].copy_from_slice(&destination.ip().octets());
    bytes[20..22].copy_from_slice(&source.port().to_be_bytes());
    bytes[22..24].copy_from_slice(&destination.port().to_be_bytes());
    (bytes[27], bytes[32], bytes[33], bytes[35]) = (1, 0x50, flags, 100);
    bytes
}

/// As at the bridge of a container: what it sends comes in there, and what it receives goes out.
#[test]
fn packets_have_the_direction_and_the_window_scaling_of_their_connection_where_it_is_not_ours() {
    needs!("tshark");
    let folder = Folder::new();
    let path = folder.0.path().join("far.pcapng");
    let (mut flow, mut owners) = (Flow::new(COOKIE, 40_000), Owners::seen_in(1));
    flow.open();
    flow.after(100).send(1);
    flow.after(20_000).send(1);
    flow.events.iter().for_each(|event| owners.learn(event));
    let (local, remote) = ("10.0.0.1:40000".parse().unwrap(), "10.0.0.2:5201".parse().unwrap());
    let packet = |us: u64, outgoing, bytes: Vec<u8>| {
        let time_ns = START_NS + us * 1000;
        Ok(Packet { time_ns, interface: 0, outgoing, length: 140, bytes })
    };
    let packets = [
        packet(1_000, false, segment(local, remote, 0x18)),
        packet(2_000, true, segment(remote, local, 0x10)),
    ];
    let names = ["docker0".to_owned()];
    let mut file = BlackBox::with_interfaces(Vec::new(), &origin(), &names).unwrap();
    let events = flow.events.iter().copied().map(io::Result::Ok);
    assert_eq!(beside::write(&mut file, &owners, events, packets.into_iter(), 0).unwrap(), 2);
    std::fs::write(&path, file.finish().unwrap()).unwrap();
    let names = ["tcp.srcport", "frame.packet_flags_direction", "tcp.window_size_scalefactor"];
    let seen = fields(&path, "tcp", &names);
    assert_eq!(seen, [["40000", "0x00000002", "128"], ["5201", "0x00000001", "512"]]);
}

#[test]
fn a_recording_that_is_cut_says_so_and_one_without_events_is_read() {
    needs!("tshark");
    let folder = Folder::new();
    let path = folder.0.path().join("cut.pcapng");
    write(&path, &[], &Origin { cut: true, ..origin() });
    let output = Command::new("capinfos").arg(&path).output().unwrap();
    let about = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && about.contains("did not come to its end"), "{about}");
    assert!(fields(&path, "frame.number > 0", &["frame.number"]).is_empty());
}
