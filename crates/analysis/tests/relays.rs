//! A proxy: what it reads on one connection it writes on another, and one of the two holds the other back.

mod sender;

use sender::{MS, MSS, Program, Sender, Setup, assert_says, download};
use transom_analysis::{Analysis, Cause, Recording, analyse};
use transom_event::{Body, Event};

const INBOUND: u64 = 7;
const OUTBOUND: u64 = 8;
const SECONDS: u64 = 2;

/// What the proxy sends: limited by the receiver's window, or by what it gets.
fn outbound(program: Program) -> Vec<Event> {
    let setup = Setup {
        receiver_window: 20 * MSS,
        program,
        length_ns: SECONDS * 1000 * MS,
        ..Setup::default()
    };
    let mut events = Sender::new(setup).run();
    for event in &mut events {
        event.cookie = OUTBOUND;
        if let Body::Open(open) = &mut event.body {
            open.local_port = 8443;
        }
    }
    events
}

/// What the proxy receives meanwhile, so many bytes, and reads at once or slowly.
fn inbound(bytes: u64, slowly: bool) -> Vec<Event> {
    let length_ms = SECONDS as u32 * 1000;
    download(length_ms, |ms, state| {
        state.rcv_nxt = (bytes * u64::from(ms) / u64::from(length_ms - 1)) as u32;
        if slowly && ms > 300 {
            (state.rcv_wnd, state.recv_queue) = (100_000, 1_800_000);
        }
    })
}

fn acked(events: &[Event]) -> u64 {
    analyse(&Recording::from_iter(events))[0].summary.acked
}

/// The verdicts of both, in one recording.
fn both(inbound: Vec<Event>, outbound: Vec<Event>) -> [Analysis; 2] {
    let mut events = [inbound, outbound].concat();
    events.sort_by_key(|event| event.time_ns);
    let all = analyse(&Recording::from_iter(&events));
    [INBOUND, OUTBOUND].map(|cookie| all.iter().find(|one| one.cookie == cookie).unwrap().clone())
}

const WAITS: &str = "for which the program waits";
const STARVES: &str = "from which the program gets what it sends";

#[test]
fn a_slow_reader_that_passes_on_waits_for_its_other_connection() {
    let sent = outbound(Program::Bulk);
    let [reads, sends] = both(inbound(acked(&sent), true), sent);
    assert_says(&reads, Cause::SlowReader, &["10.0.0.1:8443 > 10.0.0.2:5201 meanwhile", WAITS]);
    assert_eq!(sends.verdict.cause, Cause::ReceiverWindow, "{}", sends.verdict.text());
    assert!(!sends.verdict.text().contains("passes on"), "{}", sends.verdict.text());
}

/// The recording ends while the proxy's buffers are full.
#[test]
fn what_waits_in_the_buffers_of_a_proxy_has_come_and_not_yet_left() {
    let sent = outbound(Program::Bulk);
    let [reads, _] = both(inbound(acked(&sent) * 3 / 2, true), sent);
    assert_says(&reads, Cause::SlowReader, &[WAITS]);
}

#[test]
fn a_sender_that_has_nothing_to_send_waits_for_what_it_passes_on() {
    let sent = outbound(Program::Chunks { bytes: 3_000, every_ns: 20 * MS });
    let [reads, sends] = both(inbound(acked(&sent), false), sent);
    assert_says(&sends, Cause::Application, &["10.0.0.1:4000 > 10.0.0.2:5201 meanwhile", STARVES]);
    assert!(!reads.verdict.text().contains("passes on"), "{}", reads.verdict.text());
}

#[test]
fn connections_that_carry_another_amount_or_are_of_another_process_are_no_pair() {
    let sent = outbound(Program::Bulk);
    let bytes = acked(&sent);
    let alone = |inbound, outbound| {
        let [reads, _] = both(inbound, outbound);
        assert_says(&reads, Cause::SlowReader, &["Look at the program here"]);
        assert!(!reads.verdict.text().contains("passes on"), "{}", reads.verdict.text());
    };
    alone(inbound(bytes * 2 / 3, true), sent.clone());
    alone(inbound(bytes * 3, true), sent.clone());
    let of_another = |event: &Event| Event { tgid: 43, ..*event };
    alone(inbound(bytes, true), sent.iter().map(of_another).collect());
}
