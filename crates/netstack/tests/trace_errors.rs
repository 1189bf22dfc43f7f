//! What goes wrong with the library's connections, as events of the monitor (bpf/event.h): each
//! against a wire that loses, doubles or refuses what the test says.

mod bed;
mod mirror;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bed::{alone, connect, listener, receive, send};
use mirror::{BEYOND, Fate, Mirror, OURS, Rule};
use transom_netstack::{EVENT_BYTES, FakeClock, Kernel, Series, SocketId};

/// `enum tx_kind` of bpf/event.h.
const OPEN: u8 = 1;
const SEND: u8 = 5;
const RETRANSMIT: u8 = 6;
const DUP_ACK: u8 = 7;
const SACK: u8 = 8;
const RTO: u8 = 9;
const LOCAL_CONGESTION: u8 = 10;
const ZERO_WINDOW: u8 = 13;
const ALGORITHM: u8 = 14;

/// `enum tx_where`.
const QDISC_DROP: u8 = 10;

const BY_FAST_RETRANSMIT: u32 = 1;
const BY_RTO: u32 = 2;
const SENT: u32 = 1;
const RECEIVED: u32 = 2;

/// `srtt_us` and `mdev_us` among the words of `struct tx_state`.
const SRTT: usize = 13;
const MDEV: usize = 14;

#[derive(Clone, Copy, Debug)]
struct Event {
    cookie: u64,
    kind: u8,
    place: u8,
    aux: [u32; 2],
    body: [u32; 24],
}

fn word(record: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(record[at..at + 4].try_into().unwrap())
}

impl Event {
    fn of(record: &[u8; EVENT_BYTES]) -> Event {
        Event {
            cookie: u64::from_le_bytes(record[8..16].try_into().unwrap()),
            kind: record[22],
            place: record[23],
            aux: [word(record, 24), word(record, 28)],
            body: std::array::from_fn(|i| word(record, 32 + 4 * i)),
        }
    }
}

/// A client and a server on one wire, and all their events.
struct Talk {
    kernel: Kernel,
    clock: FakeClock,
    client: SocketId,
    server: SocketId,
    rule: Arc<Mutex<Rule>>,
    log: Arc<Mutex<Vec<Event>>>,
}

/// Payload of a packet from the client, which speaks to `BEYOND`.
fn payload_up(packet: &[u8]) -> usize {
    let header = usize::from(packet[0] & 15) * 4;
    if packet[12..16] != OURS || packet[16..20] != BEYOND {
        return 0;
    }
    packet.len() - header - usize::from(packet[header + 12] >> 4) * 4
}

impl Talk {
    fn begin(queue: Option<u32>) -> Talk {
        let clock = FakeClock::new(bed::WALL);
        let rule: Arc<Mutex<Rule>> = Arc::new(Mutex::new(Box::new(|_| Fate::Arrives)));
        let asked = rule.clone();
        let mirror = Mirror::new(move |packet| (*asked.lock().unwrap())(packet));
        let mut kernel = mirror::boot(1, &clock, queue, mirror);
        let log = Arc::<Mutex<Vec<Event>>>::default();
        let events = log.clone();
        kernel
            .trace(Some(Box::new(move |record| events.lock().unwrap().push(Event::of(record)))))
            .unwrap();
        let listener = listener(&mut kernel, "10.0.0.1:80".parse().unwrap(), 0);
        let client = connect(&mut kernel, "10.0.0.2:80".parse().unwrap(), 0);
        let server = loop {
            clock.advance(Duration::from_millis(1));
            kernel.turn(&mut Vec::new());
            if let Ok(server) = kernel.accept(listener) {
                break server;
            }
        };
        Talk { kernel, clock, client, server, rule, log }
    }

    fn rule(&self, rule: impl FnMut(&[u8]) -> Fate + Send + 'static) {
        *self.rule.lock().unwrap() = Box::new(rule);
    }

    fn turn(&mut self) {
        self.clock.advance(Duration::from_millis(1));
        self.kernel.turn(&mut Vec::new());
    }

    /// From client to server, a millisecond a turn.
    fn carry(&mut self, bytes: usize) {
        let mut left = vec![7; bytes];
        let mut buffer = vec![0; 1 << 16];
        let mut received = 0;
        for _ in 0..60_000 {
            if let Ok(n) = send(&mut self.kernel, self.client, &left) {
                left.drain(..n);
            }
            self.turn();
            received += receive(&mut self.kernel, self.server, &mut buffer).unwrap_or(0);
            if received == bytes {
                return;
            }
        }
        panic!("{received} of {bytes} bytes");
    }

    /// Cookie of the end that connected (origin 1) or accepted (2).
    fn end(&self, origin: u32) -> u64 {
        let log = self.log.lock().unwrap();
        let opened = log.iter().filter(|e| e.kind == OPEN && e.aux[0] == origin);
        let [open] = opened.collect::<Vec<_>>()[..] else { panic!("one open of origin {origin}") };
        open.cookie
    }

    fn told(&self, cookie: u64, kind: u8) -> Vec<Event> {
        let log = self.log.lock().unwrap();
        log.iter().filter(|e| e.cookie == cookie && e.kind == kind).copied().collect()
    }

    fn of_client(&self, kind: u8) -> Vec<Event> {
        self.told(self.end(1), kind)
    }
}

/// Loses the nth packet with payload, once.
fn lose(nth: usize) -> impl FnMut(&[u8]) -> Fate {
    let mut seen = 0;
    move |packet| {
        seen += usize::from(payload_up(packet) > 0);
        if payload_up(packet) > 0 && seen == nth { Fate::Lost } else { Fate::Arrives }
    }
}

#[test]
fn a_lost_segment_shows_in_duplicate_acks_sack_blocks_and_one_fast_retransmission() {
    // On this wire without a delay 6.1 retransmits the segment twice.
    if bed::series() == Series::Linux61 {
        return;
    }
    let _alone = alone();
    let mut talk = Talk::begin(None);
    talk.rule(lose(20));
    talk.carry(200_000);
    let sacks = talk.of_client(SACK);
    assert!(!sacks.is_empty());
    for sack in &sacks {
        assert!((1..=4).contains(&sack.aux[0]), "{sack:?}");
        assert_eq!(sack.aux[1], 0, "no D-SACK: nothing came twice");
        let [left, right, ..] = sack.body;
        let [una, nxt] = [sack.body[10], sack.body[11]];
        assert!(left.wrapping_sub(una) as i32 > 0, "behind what is acknowledged: {sack:?}");
        assert!((nxt.wrapping_sub(right) as i32) >= 0, "of what was sent: {sack:?}");
    }
    let in_a_row: Vec<u32> = talk.of_client(DUP_ACK).iter().map(|e| e.aux[0]).collect();
    assert!(!in_a_row.is_empty());
    assert_eq!(in_a_row, (1..=in_a_row.len() as u32).collect::<Vec<_>>());
    assert!(talk.of_client(DUP_ACK).iter().all(|e| e.aux[1] == 1), "each with its SACK blocks");
    let again: Vec<u32> = talk.of_client(RETRANSMIT).iter().map(|e| e.aux[0]).collect();
    assert_eq!(again, [BY_FAST_RETRANSMIT | 1 << 8]);
    assert!(talk.of_client(RTO).is_empty());
}

#[test]
fn what_is_sent_for_the_first_time_is_told_once_and_nothing_else_is_called_sent() {
    let _alone = alone();
    let mut talk = Talk::begin(None);
    talk.rule(lose(20));
    talk.carry(200_000);
    let sent: u32 = talk.of_client(SEND).iter().map(|e| e.aux[0]).sum();
    assert_eq!(sent, 200_000);
    assert!(talk.told(talk.end(2), SEND).is_empty(), "the server sends no data");
}

#[test]
fn a_dead_path_shows_in_timeouts_that_are_counted() {
    let _alone = alone();
    let mut talk = Talk::begin(None);
    talk.carry(20_000);
    talk.rule(|packet| if payload_up(packet) > 0 { Fate::Lost } else { Fate::Arrives });
    send(&mut talk.kernel, talk.client, &[7; 20_000]).unwrap();
    while talk.of_client(RTO).len() < 3 {
        talk.turn();
    }
    let timeouts: Vec<_> = talk.of_client(RTO).iter().map(|e| e.aux).collect();
    assert_eq!(timeouts, [[1, 1], [2, 1], [3, 1]], "in a row, each by the timer");
    let again = talk.of_client(RETRANSMIT);
    assert!(again.iter().filter(|e| e.aux[0] & 0xff == BY_RTO).count() >= 3, "{again:?}");
}

#[test]
fn a_segment_that_came_twice_shows_as_a_d_sack() {
    let _alone = alone();
    let mut talk = Talk::begin(None);
    let mut seen = 0;
    talk.rule(move |packet| {
        seen += usize::from(payload_up(packet) > 0);
        if payload_up(packet) > 0 && seen == 20 { Fate::Doubled } else { Fate::Arrives }
    });
    talk.carry(200_000);
    let sacks = talk.of_client(SACK);
    assert_eq!(sacks.iter().map(|e| e.aux).collect::<Vec<_>>(), [[1, 1]]);
    assert_eq!(sacks[0].body[1].wrapping_sub(sacks[0].body[0]), 1448, "the segment that it was");
    assert!(talk.of_client(RETRANSMIT).is_empty());
}

#[test]
fn a_reader_who_does_not_read_closes_the_window_and_both_ends_tell() {
    let _alone = alone();
    let mut talk = Talk::begin(None);
    for _ in 0..3_000 {
        let _ = send(&mut talk.kernel, talk.client, &[7; 100_000]);
        talk.turn();
    }
    let received = talk.of_client(ZERO_WINDOW);
    let sent = talk.told(talk.end(2), ZERO_WINDOW);
    assert!(!received.is_empty());
    assert!(received.iter().all(|e| e.aux[0] == RECEIVED), "{received:?}");
    assert!(sent.iter().all(|e| e.aux[0] == SENT), "{sent:?}");
    assert_eq!(sent.len(), received.len(), "the wire loses nothing");
    assert!(talk.of_client(RTO).is_empty(), "probes of a window are no timeouts");
}

#[test]
fn a_device_that_takes_nothing_shows_as_local_congestion() {
    let _alone = alone();
    let mut talk = Talk::begin(Some(4));
    // It would hold small segments back as long as others wait for the device.
    talk.kernel.set_sysctl("net.ipv4.tcp_autocorking", "0").unwrap();
    talk.carry(50_000);
    let before = talk.of_client(LOCAL_CONGESTION).len();
    talk.rule(|_| Fate::Refused);
    let at_once = 1i32.to_ne_bytes();
    talk.kernel.setsockopt(talk.client, libc::IPPROTO_TCP, libc::TCP_NODELAY, &at_once).unwrap();
    // Each a segment of its own: more than the queue holds, and than the socket may have there.
    for _ in 0..20 {
        send(&mut talk.kernel, talk.client, &[7; 100]).unwrap();
    }
    talk.turn();
    let refused = talk.of_client(LOCAL_CONGESTION).split_off(before);
    assert!(!refused.is_empty());
    assert!(refused.iter().all(|e| e.place == QDISC_DROP && e.aux[1] > 100), "{refused:?}");
}

#[test]
fn another_congestion_control_is_told_by_name() {
    let _alone = alone();
    let mut talk = Talk::begin(None);
    talk.carry(20_000);
    assert!(talk.of_client(ALGORITHM).is_empty());
    talk.kernel.setsockopt(talk.client, libc::IPPROTO_TCP, libc::TCP_CONGESTION, b"bbr").unwrap();
    talk.carry(20_000);
    let [event] = talk.of_client(ALGORITHM)[..] else { panic!("once") };
    // `algorithm` of struct tx_open.
    assert_eq!(event.body[18].to_le_bytes(), *b"bbr\0");
}

#[test]
fn the_deviation_of_the_round_trip_is_the_one_of_tcp_info() {
    let _alone = alone();
    let mut talk = Talk::begin(None);
    talk.carry(200_000);
    for _ in 0..100 {
        talk.turn();
    }
    let mut info = [0; 104];
    talk.kernel.getsockopt(talk.client, libc::SOL_TCP, libc::TCP_INFO, &mut info).unwrap();
    // Nothing moves until the next segment leaves.
    let before = talk.of_client(SEND).len();
    talk.carry(1000);
    let after = talk.of_client(SEND)[before];
    assert_eq!(after.body[SRTT], word(&info, 68), "srtt");
    assert_eq!(after.body[MDEV], word(&info, 72), "what ss shows behind the slash");
    assert!(after.body[MDEV] < 50_000, "{} us is the least of rttvar", after.body[MDEV]);
}
