//! The library's connections as events of the monitor (bpf/event.h).

mod bed;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use bed::{alone, boot, connect, listener, receive, send};
use transom_netstack::{EVENT_BYTES, Kernel};

const OPEN: u8 = 1;
const CLOSE: u8 = 2;
const STATE: u8 = 3;
const ACK: u8 = 4;
const SEND: u8 = 5;
const RESET: u8 = 12;

/// Where `mptcp` of `struct tx_open` stands.
const MPTCP: usize = 120;

type Log = Arc<Mutex<Vec<[u8; EVENT_BYTES]>>>;

fn traced(kernel: &mut Kernel) -> Log {
    let log = Log::default();
    let events = log.clone();
    kernel.trace(Some(Box::new(move |event| events.lock().unwrap().push(*event)))).unwrap();
    log
}

fn number(event: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(event[at..at + 8].try_into().unwrap())
}

fn kind(event: &[u8]) -> u8 {
    event[22]
}

/// A connection of 100,000 bytes that ends with a FIN, or with a reset.
fn talk(kernel: &mut Kernel, protocol: i32, reset: bool) {
    let address = "127.0.0.1:4000".parse().unwrap();
    let listener = listener(kernel, address, protocol);
    let client = connect(kernel, address, protocol);
    kernel.turn(&mut Vec::new());
    let server = kernel.accept(listener).unwrap();
    let mut received = 0;
    let mut buffer = vec![0; 1 << 16];
    let mut left = vec![1; 100_000];
    while received < 100_000 {
        if let Ok(n) = send(kernel, client, &left) {
            left.drain(..n);
        }
        kernel.turn(&mut Vec::new());
        received += receive(kernel, server, &mut buffer).unwrap_or(0);
    }
    if reset {
        let linger = [1i32.to_ne_bytes(), 0i32.to_ne_bytes()].concat();
        kernel.setsockopt(client, libc::SOL_SOCKET, libc::SO_LINGER, &linger).unwrap();
    }
    for socket in [client, server, listener] {
        kernel.close(socket);
        kernel.turn(&mut Vec::new());
    }
}

#[test]
fn a_connection_is_seen_from_open_to_close() {
    let _alone = alone();
    let mut kernel = boot();
    let log = traced(&mut kernel);
    talk(&mut kernel, 0, false);
    let log = log.lock().unwrap();
    let mut kinds: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
    for event in log.iter() {
        kinds.entry(number(event, 8)).or_default().push(kind(event));
    }
    assert_eq!(kinds.len(), 2, "both ends, and not the listener: {kinds:?}");
    for kinds in kinds.values() {
        for wanted in [OPEN, CLOSE, STATE, ACK] {
            assert!(kinds.contains(&wanted), "kind {wanted} in {kinds:?}");
        }
    }
    let senders = kinds.values().filter(|kinds| kinds.contains(&SEND)).count();
    assert_eq!(senders, 1, "the server sends no data: {kinds:?}");
    let times: Vec<_> = log.iter().map(|event| number(event, 0)).collect();
    assert!(times.is_sorted());
    let bytes = |wanted| -> u64 {
        let told = log.iter().filter(|event| kind(&event[..]) == wanted);
        told.map(|event| u64::from(u32::from_le_bytes(event[24..28].try_into().unwrap()))).sum()
    };
    assert_eq!(bytes(SEND), 100_000);
    let acked = bytes(ACK);
    assert!((90_000..=110_000).contains(&acked), "{acked} bytes acknowledged of 100000");
}

#[test]
fn a_reset_is_told_by_both_ends() {
    let _alone = alone();
    let mut kernel = boot();
    let log = traced(&mut kernel);
    talk(&mut kernel, 0, true);
    let log = log.lock().unwrap();
    let resets: Vec<_> =
        log.iter().filter(|event| kind(&event[..]) == RESET).map(|event| event[24]).collect();
    assert!(resets.contains(&1) && resets.contains(&2), "sent and received: {resets:?}");
}

#[test]
fn subflows_name_their_connection() {
    let _alone = alone();
    let mut kernel = boot();
    let log = traced(&mut kernel);
    talk(&mut kernel, libc::IPPROTO_MPTCP, false);
    let log = log.lock().unwrap();
    let tokens: Vec<_> = log
        .iter()
        .filter(|event| kind(&event[..]) == OPEN)
        .map(|event| u32::from_le_bytes(event[MPTCP..MPTCP + 4].try_into().unwrap()))
        .collect();
    assert_eq!(tokens.len(), 2, "one subflow, seen from both ends");
    assert!(tokens.iter().all(|token| *token != 0), "{tokens:?}");
    assert_ne!(tokens[0], tokens[1], "each end has a token of its own");
}

#[test]
fn a_connection_of_one_path_names_none() {
    let _alone = alone();
    let mut kernel = boot();
    let log = traced(&mut kernel);
    talk(&mut kernel, 0, false);
    let log = log.lock().unwrap();
    let opened: Vec<_> = log.iter().filter(|event| kind(&event[..]) == OPEN).collect();
    assert_eq!(opened.len(), 2);
    assert!(opened.iter().all(|event| event[MPTCP..MPTCP + 4] == [0; 4]));
}

#[test]
fn what_is_not_traced_any_more_is_not_told() {
    let _alone = alone();
    let mut kernel = boot();
    let log = traced(&mut kernel);
    talk(&mut kernel, 0, false);
    kernel.trace(None).unwrap();
    let before = log.lock().unwrap().len();
    assert!(before > 0);
    talk(&mut kernel, 0, false);
    assert_eq!(log.lock().unwrap().len(), before);
}
