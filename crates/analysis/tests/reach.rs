//! Whether the other side could be reached, at the start and until the end.

mod sender;

use sender::{MS, MSS, Program, Sender, Setup, assert_says, one, open_event};
use transom_analysis::{Analysis, Cause, Group, Limit, Recording, Series, analyse, text};
use transom_event::errors::{
    EACCES, ECONNREFUSED, ECONNRESET, EHOSTDOWN, EHOSTUNREACH, ENETUNREACH, EPROTO, ETIMEDOUT,
};
use transom_event::{Body, Direction, Event, Kind, LossCause, Origin, Sack, State, TcpState};

#[test]
fn nobody_answers_the_handshake() {
    let state = State { tcp_state: TcpState::SynSent as u8, mss: 500, ..State::default() };
    let mut events = vec![open_event(0, 1)];
    for (ms, kind, aux) in
        [(1000, Kind::Retransmit, [5 | 1 << 8, 1]), (3000, Kind::Close, [110, 0])]
    {
        events.push(Event { time_ns: ms * MS, kind, aux, body: Body::State(state), ..events[0] });
    }
    let analysis = one(&events);
    assert_says(
        &analysis,
        Cause::Handshake,
        &["did not finish in 3.00 s", "SYN was retransmitted 1 time"],
    );
    let analysis = one(&events[..1]);
    assert_says(&analysis, Cause::Handshake, &["had not finished when the recording ended"]);
    assert!(!analysis.verdict.text().contains(" 0 us"));
}

/// An attempt to connect, as it is seen: from its first timeout, or from its end where none came before.
fn attempt(timeouts: &[u64], ended: (u64, u32)) -> Analysis {
    one(&attempted(timeouts, ended))
}

fn attempted(timeouts: &[u64], ended: (u64, u32)) -> Vec<Event> {
    let state = State { tcp_state: TcpState::SynSent as u8, mss: 500, ..State::default() };
    let begin_ns = timeouts.first().copied().unwrap_or(ended.0) * MS;
    let mut events = vec![open_event(begin_ns, 1)];
    let body = Body::State(state);
    for &ms in timeouts {
        events.push(Event { time_ns: ms * MS, kind: Kind::Rto, aux: [1, 0], body, ..events[0] });
    }
    let (ms, errno) = ended;
    let (time_ns, aux) = (ms * MS, [errno, 0]);
    events.push(Event { time_ns, kind: Kind::Close, aux, body, ..events[0] });
    events
}

/// As where no neighbour answers (ARP): what the timer sends again does not even leave.
#[test]
fn a_host_that_cannot_be_reached_is_told_by_the_error_and_not_as_a_dropped_syn() {
    for (errno, name) in [(EHOSTUNREACH, "EHOSTUNREACH"), (ENETUNREACH, "ENETUNREACH")] {
        let analysis = attempt(&[1000, 2000, 3000], (3060, errno));
        assert_says(&analysis, Cause::Handshake, &["could not be reached", name, "ip neigh"]);
    }
}

/// A firewall of IPv6 that refuses, and whatever else an ICMP message ends an attempt with at once.
#[test]
fn an_attempt_that_ended_is_told_by_its_error_and_not_as_cut_by_the_recording() {
    for (errno, words) in [
        (EACCES, ["firewall on the way refused the SYN by a rule", "EACCES"]),
        (EHOSTDOWN, ["could not be reached", "EHOSTDOWN"]),
        (EPROTO, ["ended with an error", "EPROTO"]),
        (ECONNRESET, ["ended on this side before an answer came", "ECONNRESET"]),
        (ETIMEDOUT, ["ended before the handshake had finished", "ETIMEDOUT"]),
        (9999, ["ended with an error", "error 9999"]),
        (0, ["ended before the handshake had finished", "no SYN was retransmitted."]),
    ] {
        let analysis = attempt(&[], (20, errno));
        assert_says(&analysis, Cause::Handshake, &words);
        let text = analysis.verdict.text();
        assert!(!text.contains("recording ended") && !text.contains(" yet"), "{text}");
    }
}

#[test]
fn how_long_an_attempt_took_is_not_told_where_only_its_end_was_seen() {
    let mut events = attempted(&[], (20, 0));
    events.last_mut().unwrap().time_ns += 1200;
    let analysis = one(&events);
    assert_says(&analysis, Cause::Handshake, &["ended before the handshake had finished"]);
    assert!(!analysis.verdict.text().contains(" us"), "{}", analysis.verdict.text());
}

#[test]
fn how_long_a_refusal_took_is_told_only_where_the_beginning_was_seen() {
    let mut events = attempted(&[], (20, ECONNREFUSED));
    let aux = [Direction::Received as u32, 0];
    events.insert(1, Event { kind: Kind::Reset, aux, ..events[1] });
    assert_says(&one(&events), Cause::Handshake, &["refused the connection. Does"]);
}

/// As iptables and nft do where nothing else is said (REJECT, reject).
#[test]
fn what_a_firewall_rejects_is_no_port_without_a_program() {
    let analysis = attempt(&[], (20, ECONNREFUSED));
    let words = ["An ICMP message (port unreachable) refused the connection.", "Which firewall"];
    assert_says(&analysis, Cause::Handshake, &words);
    assert!(!analysis.verdict.text().contains("Does a program"), "{}", analysis.verdict.text());
}

/// Its reset may be what was lost: connections that are refused come in storms.
#[test]
fn of_an_attempt_that_was_refused_while_events_were_lost_both_causes_are_told() {
    let mut events = attempted(&[], (20, ECONNREFUSED));
    let aux = [LossCause::Ring as u32, 3];
    events.push(Event { kind: Kind::Lost, cookie: 0, aux, body: Body::None, ..events[1] });
    let analysis = one(&events);
    let words = ["The connection was refused:", "Does a program listen", "does a firewall reject"];
    assert_says(&analysis, Cause::Handshake, &words);
}

/// A connection whose SYN is lost at 0 s, and is answered when its timer has sent it again.
fn opened_late() -> Vec<Event> {
    let mut events = Sender::new(Setup { length_ns: 2000 * MS, ..Setup::default() }).run();
    for event in &mut events[1..] {
        event.time_ns += 1020 * MS;
    }
    (events[0].time_ns, events[0].aux) = (1000 * MS, [Origin::Connect as u32, 0]);
    let state = *events[1].state().unwrap();
    let tcp_state = TcpState::SynSent as u8;
    let body = Body::State(State { tcp_state, rto_us: 1_000_000, srtt_us: 0, ..state });
    let established = [TcpState::SynSent as u32, TcpState::Established as u32];
    let opening = [
        (1000, Kind::Rto, [1, 1]),
        (1000, Kind::Retransmit, [5 | 1 << 8, 0]),
        (1020, Kind::State, established),
    ];
    let opening =
        opening.map(|(ms, kind, aux)| Event { time_ns: ms * MS, kind, aux, body, ..events[1] });
    events.splice(1..1, opening);
    events
}

#[test]
fn a_handshake_takes_from_its_first_syn_on_though_only_the_second_was_answered() {
    let recording = Recording::from_iter(&opened_late());
    let analysis = analyse(&recording).remove(0);
    assert_eq!(analysis.limits.time_ns(Limit::Handshake), 1020 * MS, "{:?}", analysis.limits);
    assert_eq!((recording.start_ns, analysis.start_ns), (0, 0));
    assert_eq!(Series::of(&recording.connections[0]).start_ns, 0);
    let said = analysis.verdict.text();
    assert!(said.contains("The handshake took 1.02 s of its 2.97 s"), "{said}");
    let whole = recording.clone().between(recording.start_ns..=recording.end_ns);
    assert_eq!(analyse(&whole)[0].limits, analysis.limits);
    let without = recording.between(500 * MS..=3000 * MS);
    let rest = analyse(&without).remove(0);
    assert!(!rest.summary.coverage.begun);
    assert_eq!(rest.limits.time_ns(Limit::Handshake), 20 * MS);
}

/// A connection that this side opens at 1 ms and sends on; nothing of it is acknowledged. Its listener's
/// queue is full, and its SYN-ACK comes again at these times.
fn never_accepted(again_ms: &[u64]) -> Vec<Event> {
    let length_ns = 8000 * MS;
    let program = Program::Chunks { bytes: 100, every_ns: 20_000 * MS };
    let setup = Setup { program, blackout: 0..length_ns, length_ns, ..Setup::default() };
    let mut events = Sender::new(setup).run();
    let first = events[1];
    let mut state = *first.state().unwrap();
    state.tcp_state = TcpState::SynSent as u8;
    let aux = [TcpState::SynSent as u32, TcpState::Established as u32];
    events.insert(1, Event { kind: Kind::State, aux, body: Body::State(state), ..first });
    for &ms in again_ms {
        let at = events.partition_point(|event| event.time_ns <= ms * MS);
        let came = Event { time_ns: ms * MS, kind: Kind::Ack, aux: [0, 1], ..events[at - 1] };
        events.insert(at, came);
    }
    events
}

#[test]
fn a_listener_whose_queue_is_full_is_no_path_that_was_interrupted() {
    for again_ms in [&[][..], &[1010, 3050, 7100]] {
        let analysis = one(&never_accepted(again_ms));
        let words = ["answered the handshake and nothing that followed", "accept", "ss -lt"];
        assert_says(&analysis, Cause::Handshake, &words);
        assert!(!analysis.verdict.text().contains("radio"));
    }
}

#[test]
fn a_connection_that_was_answered_once_is_no_full_queue() {
    let mut events = never_accepted(&[]);
    for event in events.iter_mut().filter(|event| event.time_ns > 1000 * MS) {
        if let Body::State(state) = &mut event.body {
            state.rcv_nxt += 10;
        }
    }
    assert_ne!(one(&events).verdict.cause, Cause::Handshake);
}

/// What the keepalive timer gives up ends with ETIMEDOUT and with a reset, which this side sends.
#[test]
fn a_connection_that_keepalive_gave_up_was_not_aborted_by_its_program() {
    let ended = |errno: u32| {
        let mut events = Sender::new(Setup::default()).run();
        let last = *events.last().unwrap();
        let reset = Event { kind: Kind::Reset, aux: [Direction::Sent as u32, 0], ..last };
        events.extend([reset, Event { kind: Kind::Close, aux: [errno, 0], ..last }]);
        one(&events).verdict.text()
    };
    for (errno, name) in [(ETIMEDOUT, "ETIMEDOUT"), (EHOSTUNREACH, "EHOSTUNREACH")] {
        let text = ended(errno);
        assert!(text.contains(&format!("This side gave it up, since nothing came back ({name})")));
        assert!(!text.contains("aborted"), "{text}");
    }
    assert!(ended(0).contains("its program aborted it"), "{}", ended(0));
}

/// A connection that said little and is then probed in vain is not one of a program with little to say.
#[test]
fn of_a_silent_connection_that_was_given_up_the_program_is_not_to_be_looked_at() {
    let program = Program::Chunks { bytes: 60_000, every_ns: 60_000 * MS };
    let setup = Setup { program, length_ns: 20_000 * MS, ..Setup::default() };
    let mut events = Sender::new(setup).run();
    let last = *events.last().unwrap();
    let mut state = *last.state().unwrap();
    (state.snd_una, state.packets_out) = (state.snd_nxt, 0);
    for errno in [ETIMEDOUT, 0] {
        let (time_ns, aux, body) = (20_000 * MS, [errno, 0], Body::State(state));
        events.push(Event { kind: Kind::Close, time_ns, aux, body, ..last });
        let analysis = one(&events);
        assert_says(&analysis, Cause::Application, &["nothing to send"]);
        let text = analysis.verdict.text();
        let is_gone = text.contains("NAT, firewall") && !text.contains("slow disk");
        assert_eq!(is_gone, errno == ETIMEDOUT, "{text}");
        events.pop();
    }
}

/// Three pieces of so many bytes that are answered, and then a number of others, which nobody answers
/// until the fifth timeout.
fn then_silence(answered: u32, unanswered: &[u32]) -> Vec<Event> {
    let mut events = vec![open_event(0, 1)];
    let mut state = State { tcp_state: TcpState::Established as u8, cwnd: 40, ..State::default() };
    (state.mss, state.ssthresh, state.rto_us) = (MSS as u16, u32::MAX, 200_000);
    let mut tell = |ms: u64, kind, aux, state| {
        let (time_ns, body) = (ms * MS, Body::State(state));
        events.push(Event { time_ns, kind, aux, body, ..events[0] });
    };
    for ms in [100, 200, 300] {
        tell(ms, Kind::Send, [answered, 1], state);
        (state.snd_nxt, state.packets_out) = (state.snd_nxt + answered, 1);
        tell(ms + 10, Kind::Ack, [answered, 0], state);
        (state.snd_una, state.packets_out) = (state.snd_nxt, 0);
    }
    for &bytes in unanswered {
        tell(400, Kind::Send, [bytes, bytes.div_ceil(MSS)], state);
        state.snd_nxt += bytes;
        state.packets_out += bytes.div_ceil(MSS);
    }
    for in_a_row in 1..=5 {
        tell(400 + (200 << in_a_row), Kind::Rto, [in_a_row, 0], state);
    }
    events
}

/// A recording that begins when the other side is gone long since: a single timeout is all that it has.
#[test]
fn a_recording_that_saw_only_timeouts_tells_of_nothing_that_came_back() {
    let length_ns = 24_000 * MS;
    let setup = Setup { blackout: 300 * MS..length_ns, length_ns, ..Setup::default() };
    let events = Sender::new(setup).run();
    let is_timer = |event: &&Event| event.kind == Kind::Rto;
    let last = events.iter().rfind(is_timer).unwrap();
    for in_a_row in [7, 2] {
        let mut only = Event { aux: [in_a_row, last.aux[1]], ..*last };
        if let Body::State(state) = &mut only.body {
            state.srtt_us *= 3;
        }
        let mut open = events[0];
        (open.time_ns, open.aux[0]) = (last.time_ns, Origin::Existing as u32);
        let analysis = one(&[open, only]);
        let text = analysis.verdict.text();
        let is_gone = analysis.verdict.cause == Cause::PeerVanished
            && text.contains("7 timeouts in a row had passed by its end (the timer has grown to");
        assert_eq!(is_gone, in_a_row == 7, "{text}");
        assert!(!text.contains("path is full"), "{text}");
    }
}

/// Full segments are lost, whose length nothing on the path has said to be too much; what is shorter
/// arrives. Where full ones arrived before, or short ones do not, nothing points at the length.
#[test]
fn a_path_that_loses_what_is_long_is_told_from_one_that_is_gone() {
    for (answered, unanswered, is_long) in [
        (300, &[MSS, MSS][..], true),
        (300, &[3 * MSS + 100], true),
        (300, &[200; 10], false),
        (300, &[200, MSS, MSS], false),
        (MSS, &[MSS, MSS], false),
    ] {
        let analysis = one(&then_silence(answered, unanswered));
        assert_eq!(analysis.verdict.cause, Cause::PeerVanished);
        let text = analysis.verdict.text();
        let says = text.contains("no segment of full length (1000 bytes)")
            && text.contains("MTU of the path is");
        assert_eq!((says, text.contains("NAT")), (is_long, !is_long), "{unanswered:?}: {text}");
        let asks = text.contains("MTU of the path may");
        assert_eq!(asks, answered == MSS, "{unanswered:?}: {text}");
    }
}

/// The other side closes after the fifth timeout, and has all that was sent, or none of what waits.
fn then_given_up(mut events: Vec<Event>, has_all: bool) -> Vec<Event> {
    let last = *events.last().unwrap();
    let mut state = *last.state().unwrap();
    let mut tell = |ms: u64, kind, aux, state| {
        let time_ns = last.time_ns + ms * MS;
        events.push(Event { time_ns, kind, aux, body: Body::State(state), ..last });
    };
    tell(100, Kind::Ack, [0, 0], state);
    if has_all {
        (state.snd_una, state.packets_out) = (state.snd_nxt, 0);
    }
    state.rcv_nxt += 1;
    tell(100, Kind::State, [TcpState::Established as u32, TcpState::CloseWait as u32], state);
    state.tcp_state = TcpState::CloseWait as u8;
    tell(101, Kind::State, [TcpState::CloseWait as u32, TcpState::LastAck as u32], state);
    events
}

/// A program there that waits for an answer in vain closes in the end: that is no answer.
#[test]
fn a_side_that_gives_up_has_not_answered() {
    let long = one(&then_given_up(then_silence(300, &[MSS, MSS]), false));
    let words =
        ["Nothing was acknowledged for", "until the other side closed", "MTU of the path is"];
    assert_says(&long, Cause::Outage, &words);
    let short = one(&then_given_up(then_silence(300, &[200; 10]), false));
    assert_says(&short, Cause::Outage, &["what is sent does not arrive there", "a firewall"]);
    let answered = one(&then_given_up(then_silence(300, &[MSS, MSS]), true));
    let text = answered.verdict.text();
    assert!(!text.contains("Nothing was acknowledged") && !text.contains("MTU"), "{text}");
}

/// A program there that closes its side when it has asked for all (`nc -N`) waits on for the answer.
#[test]
fn a_side_that_closed_before_the_silence_has_not_given_up() {
    for (unanswered, word) in [(&[MSS, MSS][..], "MTU of the path is"), (&[200; 10], "NAT")] {
        let mut events = then_silence(300, unanswered);
        let at = events.iter().position(|event| event.kind == Kind::Rto).unwrap();
        let silent = events.split_off(at);
        let mut closed = then_given_up(events, false);
        closed.retain(|event| !is_last_ack(event));
        let state = *closed.last().unwrap().state().unwrap();
        closed.extend(silent.into_iter().map(|event| Event {
            body: Body::State(State {
                tcp_state: TcpState::CloseWait as u8,
                rcv_nxt: state.rcv_nxt,
                ..*event.state().unwrap()
            }),
            ..event
        }));
        assert_says(&one(&closed), Cause::PeerVanished, &["Nothing came back in the last", word]);
    }
}

fn is_last_ack(event: &Event) -> bool {
    event.kind == Kind::State && event.aux[1] == TcpState::LastAck as u32
}

/// A path whose MTU becomes smaller in mid-flow: short messages overtake the long one that is stuck. Where
/// a full segment has overtaken it, too, its length is not why it is stuck.
#[test]
fn a_path_that_no_longer_carries_what_is_long_is_told_by_what_overtook_it() {
    let una = u32::MAX - 500;
    let state = |outstanding: u32| State {
        snd_una: una,
        snd_nxt: una.wrapping_add(outstanding),
        packets_out: outstanding.div_ceil(MSS),
        mss: MSS as u16,
        rto_us: 1_600_000,
        tcp_state: TcpState::Established as u8,
        ..State::default()
    };
    let told = |second: u32| {
        let at = |ms: u64, kind, aux, body| Event {
            time_ns: ms * MS,
            kind,
            aux,
            body,
            ..open_event(0, 1)
        };
        let of = |outstanding| Body::State(state(outstanding));
        let [left, right] = [MSS, MSS + second].map(|ahead| una.wrapping_add(ahead));
        let sack = Sack {
            blocks: [[left, right], [0; 2], [0; 2], [0; 2]],
            snd_una: una,
            ..Sack::default()
        };
        let mut events = vec![
            open_event(0, 1),
            at(1, Kind::Ack, [0, 10], of(0)),
            at(2, Kind::Send, [MSS, 1], of(0)),
            at(3, Kind::Send, [second, 1], of(MSS)),
            at(50, Kind::Sack, [1, 0], Body::Sack(sack)),
            at(50, Kind::Ack, [0, 10], of(MSS + second)),
        ];
        for (n, ms) in [(1, 250), (2, 650), (3, 1450)] {
            events.push(at(ms, Kind::Rto, [n, 0], of(MSS + second)));
        }
        one(&events)
    };
    let short = told(100);
    let words = [
        "shorter segments came through (SACK) and none of full length (1000 bytes)",
        "MTU of the path is",
    ];
    assert_says(&short, Cause::PeerVanished, &words);
    let full = told(MSS);
    assert_says(&full, Cause::PeerVanished, &["is gone", "NAT"]);
    assert!(!full.verdict.text().contains("SACK"), "{}", full.verdict.text());
}

/// The path is away for a moment when the program has something to say again after a long silence.
#[test]
fn silence_before_the_data_that_was_lost_is_no_interruption() {
    let program = Program::Chunks { bytes: 20_000, every_ns: 20_000 * MS };
    let blackout = 20_000 * MS..20_500 * MS;
    let setup = Setup { program, blackout, length_ns: 22_000 * MS, ..Setup::default() };
    let all = Sender::new(setup).run();
    // The other side probes in the silence, and what comes next are events that could not be recorded:
    // what was sent is missed from its first timeout on, 200 ms later.
    let mut unseen = all.clone();
    unseen.retain(|event| {
        !matches!(event.kind, Kind::Send | Kind::Rto) || event.time_ns < 20_000 * MS
    });
    let again = unseen.partition_point(|event| event.time_ns < 20_000 * MS);
    let mut probe =
        Event { kind: Kind::Ack, time_ns: 19_900 * MS, aux: [0, 10], ..unseen[again - 1] };
    if let Body::State(state) = &mut probe.body {
        (state.snd_una, state.packets_out) = (state.snd_nxt, 0);
    }
    unseen.insert(again, probe);
    for (events, stalled) in [(all, "650 ms"), (unseen, "450 ms")] {
        let analysis = one(&events);
        assert_says(&analysis, Cause::Application, &["nothing to send"]);
        let shown = text::explain(&[analysis], true, text::ANY_WIDTH);
        assert!(shown.contains(&format!("2 timeouts in a row: stalled {stalled}")), "{shown}");
    }
}

#[test]
fn what_was_sent_again_is_a_share_of_the_segments_that_were_sent_however_short() {
    let program = Program::Chunks { bytes: 1000, every_ns: 20 * MS };
    let setup = Setup { program, lost: vec![60, 120], length_ns: 4000 * MS, ..Setup::default() };
    let mut events = Sender::new(setup).run();
    for event in &mut events {
        if let Body::State(state) = &mut event.body {
            state.mss = 40 * MSS as u16;
        }
    }
    let analysis = analyse(&Recording::from_iter(&events)).remove(0);
    let share = analysis.summary.loss_share();
    assert!((0.009..0.011).contains(&share), "{share}");
    // So it is where recordings are compared.
    assert_eq!(Group::of([&analysis]).loss_share, share);
}

/// What was sent before was all answered long ago: only what left since then waits for an answer.
#[test]
fn a_silence_before_the_last_data_left_is_none_of_the_other_side() {
    let program = Program::Chunks { bytes: 30_000, every_ns: 9_000 * MS };
    let (length_ns, blackout) = (15_000 * MS, 8_000 * MS..15_000 * MS);
    let mut events = Sender::new(Setup { program, blackout, length_ns, ..Setup::default() }).run();
    let end = *events.last().unwrap();
    let state = State { tcp_state: TcpState::Close as u8, ..*end.state().unwrap() };
    let gave_up = [ETIMEDOUT, 0];
    events.push(Event { kind: Kind::Close, aux: gave_up, body: Body::State(state), ..end });
    let silent = format!("in the last {:.2} s", (end.time_ns - 9_000 * MS) as f64 / 1e9);
    let words = [silent.as_str(), "This side gave it up", "ETIMEDOUT"];
    assert_says(&one(&events), Cause::PeerVanished, &words);
}
