//! What `transom run --record` reads: whole records of `bpf/event.h` through an inherited pipe.

mod bed;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::thread;

use bed::Bed;
use transom_testbed::{host_and_port, needs_root};

const RECORD: usize = 128;
/// `enum tx_kind` of bpf/event.h.
const OPEN: u8 = 1;
const SEND: u8 = 5;
const RETRANSMIT: u8 = 6;
const DUP_ACK: u8 = 7;
const SACK: u8 = 8;
/// Of `struct tx_head`: time at 0, cookie at 8, kind at 22, the kind's numbers at 24 and 28.
const COOKIE: usize = 8;
const KIND: usize = 22;
const AUX: usize = 24;
/// Of `struct tx_open`.
const MPTCP: usize = 120;

/// Small enough that all its events fit into the pipe.
const PIECE: &[u8] = b"a few bytes";

/// Both ends stay open in the programs that we start.
fn pipe() -> (File, OwnedFd) {
    let mut ends = [0; 2];
    // SAFETY: the array has room for both, which are new and ours.
    unsafe {
        assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
        libc::fcntl(ends[0], libc::F_SETFL, libc::O_NONBLOCK);
        (File::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1]))
    }
}

fn boottime_ns() -> u64 {
    // SAFETY: the structure is good for the call.
    unsafe {
        let mut now: libc::timespec = std::mem::zeroed();
        libc::clock_gettime(libc::CLOCK_BOOTTIME, &mut now);
        now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
    }
}

#[test]
fn a_connection_of_the_library_is_told_event_by_event_in_the_hosts_time() {
    needs_root!();
    let bed = Bed::with_path();
    let listener = bed.server.listen("10.70.0.2:0");
    let [host, port] = host_and_port(listener.local_addr().expect("its address"));
    let server = thread::spawn(move || {
        let (mut client, _) = listener.accept().expect("a client");
        client.write_all(PIECE).expect("taken");
    });
    let (mut read, write) = pipe();
    let events = format!("--events={}", write.as_raw_fd());
    let before = boottime_ns();
    let client = bed.python(&[&events, "--path", "c0"], "get.py", &[&host, &port]);
    assert_eq!(client.end().well(), PIECE);
    server.join().expect("the server");
    let mut told = Vec::new();
    let ended = read.read_to_end(&mut told).map_err(|error| error.kind());
    assert!(matches!(ended, Ok(_) | Err(ErrorKind::WouldBlock)), "{ended:?}");
    assert!(!told.is_empty() && told.len() % RECORD == 0, "{} bytes", told.len());
    let opened = told.chunks(RECORD).filter(|record| record[KIND] == OPEN).count();
    assert_eq!(opened, 1, "one connection opens");
    let after = boottime_ns();
    for record in told.chunks(RECORD) {
        let time = u64::from_ne_bytes(record[..8].try_into().expect("eight"));
        assert!((before..after).contains(&time), "{time} is not in {before}..{after}");
    }
}

fn word(record: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(record[at..at + 4].try_into().expect("four"))
}

/// All that the library tells of a program that sends `amount` bytes to an MPTCP server over two
/// paths with queues that are too short for it.
fn told_of_two_paths(amount: usize) -> Vec<[u8; RECORD]> {
    let bed = Bed::with_path();
    bed.add_path(1);
    for path in ["c0", "c1"] {
        let words = ["qdisc", "replace", "dev", path, "root", "tbf", "rate", "30mbit"];
        bed.client.output("tc", &[&words[..], &["burst", "16kb", "latency", "10ms"]].concat());
    }
    bed.client.ip("route add default via 10.70.1.2 dev c1");
    let listener = bed.server.listen_multipath();
    let port = listener.local_addr().expect("its address").port().to_string();
    let server = thread::spawn(move || {
        let (mut client, _) = listener.accept().expect("a client");
        std::io::copy(&mut client, &mut std::io::sink()).expect("data")
    });
    let (mut read, write) = pipe();
    // SAFETY: the descriptor is ours.
    unsafe { libc::fcntl(read.as_raw_fd(), libc::F_SETFL, 0) };
    let events = format!("--events={}", write.as_raw_fd());
    let options = [&events, "--mptcp", "--path", "c0", "--path", "c1"];
    let client = bed.python(&options, "push.py", &["10.70.0.2", &port, &amount.to_string()]);
    drop(write);
    let mut told = Vec::new();
    read.read_to_end(&mut told).expect("events");
    assert_eq!(client.end().text().trim(), amount.to_string());
    assert_eq!(server.join().expect("the server"), amount as u64);
    told.as_chunks().0.to_vec()
}

#[test]
fn subflows_name_their_connection_and_tell_their_losses() {
    needs_root!();
    const AMOUNT: usize = 8 << 20;
    let told = told_of_two_paths(AMOUNT);
    let opened: BTreeMap<u64, u32> = told
        .iter()
        .filter(|record| record[KIND] == OPEN)
        .map(|record| {
            let cookie = record[COOKIE..COOKIE + 8].try_into().expect("eight");
            (u64::from_ne_bytes(cookie), word(record, MPTCP))
        })
        .collect();
    let tokens: Vec<u32> = opened.values().copied().collect();
    assert_eq!(tokens.len(), 2, "{opened:?}");
    assert!(tokens[0] != 0 && tokens[0] == tokens[1], "one connection: {opened:?}");
    let count = |kind| told.iter().filter(|record| record[KIND] == kind).count();
    for kind in [RETRANSMIT, DUP_ACK, SACK] {
        assert!(count(kind) > 0, "the queues overflow: kind {kind}");
    }
    let sent: u64 =
        told.iter().filter(|r| r[KIND] == SEND).map(|r| u64::from(word(&r[..], AUX))).sum();
    assert!(sent >= AMOUNT as u64, "each byte on one path at least: {sent}");
    assert!(sent < 2 * AMOUNT as u64, "what is sent again is not called sent: {sent}");
}
