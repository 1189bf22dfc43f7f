//! What `transom run --record` reads: whole records of `bpf/event.h` through an inherited pipe.

mod bed;

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::thread;

use bed::Bed;
use bed::host::host_and_port;

const RECORD: usize = 128;
/// `enum tx_kind` of bpf/event.h.
const OPEN: u8 = 1;
/// Of `struct tx_head`: time at 0, kind at 22.
const KIND: usize = 22;

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
