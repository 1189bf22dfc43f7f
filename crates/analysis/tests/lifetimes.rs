//! How a connection began and how it ended.

mod sender;

use sender::{MS, Program, Sender, Setup, open_event};
use transom_analysis::{Analysis, Cause, Recording, analyse, text};
use transom_event::{Body, Direction, Event, Kind, Place, RetransmitReason, State, TcpState};

fn of(events: &[Event]) -> Analysis {
    analyse(&Recording::from_iter(events)).remove(0)
}

/// A run whose SYN is lost so many times before: the timer of 1 s doubles.
fn after_lost_syns(lost: u32, setup: Setup) -> Vec<Event> {
    let took = ((1 << lost) - 1) * 1000 * MS;
    let mut events = Sender::new(setup).run();
    let first = *events.iter().find(|event| event.state().is_some()).unwrap();
    let state = State { tcp_state: TcpState::SynSent as u8, ..*first.state().unwrap() };
    events[1..].iter_mut().for_each(|event| event.time_ns += took);
    let again = (0..lost).map(|n| Event {
        time_ns: ((2 << n) - 1) * 1000 * MS,
        kind: Kind::Retransmit,
        place: Place::RetransmitSkb,
        aux: [RetransmitReason::Syn as u32 | 1 << 8, 0],
        body: Body::State(state),
        ..first
    });
    let established = Event {
        time_ns: took + MS / 2,
        kind: Kind::State,
        aux: [TcpState::SynSent as u32, TcpState::Established as u32],
        body: Body::State(state),
        ..first
    };
    let before: Vec<Event> = again.chain([established]).collect();
    events.splice(1..1, before);
    events
}

/// As a program does that tries again after a refusal, or disconnects its socket (AF_UNSPEC) and connects
/// it anew: the kernel draws new sequence numbers.
#[test]
fn a_socket_that_connects_again_has_a_connection_of_its_own_each_time() {
    let program = Program::Chunks { bytes: 3000, every_ns: 100 * MS };
    let mut events = Vec::new();
    for (start_ns, initial_sequence) in [(0, 1_000), (10_000, 3_000_000_000), (20_000, 2_000_000)] {
        let setup = Setup { program, initial_sequence, length_ns: 1000 * MS, ..Setup::default() };
        let mut run = Sender::new(setup).run();
        let last = *run.last().unwrap();
        // The reset that a disconnection sends comes after its close.
        for kind in [Kind::Close, Kind::Reset] {
            run.push(Event { kind, aux: [Direction::Sent as u32, 0], ..last });
        }
        run.iter_mut().for_each(|event| event.time_ns += start_ns * MS);
        events.extend(run);
    }
    let recording = Recording::from_iter(&events);
    let all = analyse(&recording);
    let sent: Vec<u64> = all.iter().map(|analysis| analysis.summary.sent).collect();
    assert_eq!(sent, [30_000; 3]);
    let mut cookies: Vec<u64> = all.iter().map(|analysis| analysis.cookie).collect();
    cookies.sort_unstable();
    assert_eq!(cookies, [7, 7 | 1 << 40, 7 | 2 << 40]);
    for analysis in &all {
        let connection = recording.connection(analysis.cookie).expect("found by its number");
        assert_eq!(connection.first_ns, analysis.start_ns);
        assert_eq!(analysis.summary.resets, 1);
    }
}

/// A recording in several files tells in each of them who its connections are.
#[test]
fn one_that_is_told_of_again_while_it_is_open_is_the_same_connection() {
    let mut events = Sender::new(Setup::default()).run();
    let again = Event { place: Place::Recorder, time_ns: events[50].time_ns, ..events[0] };
    events.insert(50, again);
    assert_eq!(Recording::from_iter(&events).connections.len(), 1);
}

#[test]
fn lost_syns_are_why_a_small_connection_took_long() {
    let program = Program::Chunks { bytes: 500, every_ns: 100_000 * MS };
    let small = of(&after_lost_syns(2, Setup { program, length_ns: 80 * MS, ..Setup::default() }));
    let words = small.verdict.text();
    assert_eq!(small.verdict.cause, Cause::Handshake, "{words}");
    assert!(words.contains("The handshake took 3.00 s of its 3.05 s"), "{words}");
    assert!(words.contains("the SYN was retransmitted 2 times"), "{words}");
    assert!(
        text::explain(&[small], false, text::ANY_WIDTH).contains("The handshake took"),
        "a paragraph of its own"
    );
}

#[test]
fn a_lost_syn_is_not_why_a_small_connection_stalls_or_is_idle_later() {
    let program = Program::Chunks { bytes: 500, every_ns: 2_000 * MS };
    let idle = Setup { program, length_ns: 15_000 * MS, ..Setup::default() };
    let dark =
        Setup { blackout: 1000 * MS..12_000 * MS, length_ns: 20_000 * MS, ..Setup::default() };
    let stalled = Setup { program: Program::Chunks { bytes: 500, every_ns: 3_000 * MS }, ..dark };
    for (setup, cause) in [(idle, Cause::Little), (stalled, Cause::Outage)] {
        let small = of(&after_lost_syns(1, setup));
        let words = small.verdict.text();
        assert!(small.summary.acked < 10_000, "{}", small.summary.acked);
        assert_eq!(small.verdict.cause, cause, "{words}");
        assert!(words.contains("The handshake took 1.00 s"), "{words}");
    }
}

#[test]
fn a_lost_syn_of_a_longer_connection_is_named_and_is_no_loss_of_data() {
    for algorithm in [*b"reno\0", *b"bbr\0\0"] {
        let mut events = after_lost_syns(1, Setup { length_ns: 3000 * MS, ..Setup::default() });
        if let Body::Open(open) = &mut events[0].body {
            open.algorithm[..5].copy_from_slice(&algorithm);
        }
        let upload = of(&events);
        let words = upload.verdict.text();
        assert_eq!(upload.summary.loss_share(), 0.0);
        assert_eq!(upload.verdict.cause, Cause::Cwnd, "{words}");
        assert!(words.contains("The handshake took 1.00 s"), "{words}");
        assert!(!words.contains("%)"), "no share of segments: {words}");
    }
}

#[test]
fn a_connection_whose_syn_was_answered_has_no_word_of_it() {
    let upload = of(&after_lost_syns(0, Setup::default()));
    assert!(!upload.verdict.text().contains("handshake"), "{}", upload.verdict.text());
}

/// What came at the end of an upload.
fn ended(end: &[(Kind, [u32; 2])]) -> String {
    let mut events = Sender::new(Setup::default()).run();
    let last = *events.last().unwrap();
    let time_ns = last.time_ns + MS;
    events.extend(end.iter().map(|&(kind, aux)| Event { time_ns, kind, aux, ..last }));
    of(&events).verdict.text()
}

#[test]
fn a_connection_that_did_not_end_in_order_is_told_with_who_ended_it() {
    let reset = |way: Direction| (Kind::Reset, [way as u32, 0]);
    let close = |errno| (Kind::Close, [errno, 0]);
    let there = "It was reset by the other side";
    let here = "This side reset it";
    for (end, words) in [
        (vec![reset(Direction::Received), close(104)], Some(there)),
        (vec![reset(Direction::Sent), close(104)], Some(here)),
        (vec![close(104)], Some("It was reset.")),
        (vec![close(110)], Some("nothing came back (ETIMEDOUT)")),
        (vec![close(0)], None),
        (vec![], None),
    ] {
        let text = ended(&end);
        assert!(text.starts_with("Limited by the congestion window"), "{text}");
        match words {
            Some(words) => assert!(text.contains(words), "{text}"),
            None => assert!(!text.contains("reset") && !text.contains("gave it up"), "{text}"),
        }
    }
}

#[test]
fn a_reset_that_this_side_sends_is_no_refusal() {
    let state = State { tcp_state: TcpState::SynSent as u8, ..State::default() };
    let verdict = |way: Direction| {
        let mut events = vec![open_event(0, 1)];
        let reset = Event {
            time_ns: 500 * MS,
            kind: Kind::Reset,
            aux: [way as u32, 0],
            body: Body::State(state),
            ..events[0]
        };
        events.push(reset);
        of(&events).verdict
    };
    for (way, refused) in [(Direction::Received, true), (Direction::Sent, false)] {
        let verdict = verdict(way);
        assert_eq!(verdict.cause, Cause::Handshake);
        assert_eq!(verdict.text().contains("refused"), refused, "{}", verdict.text());
    }
}
