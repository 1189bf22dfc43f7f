//! How sure a verdict is, and how it is told: doubts, text and JSON.

mod sender;

use sender::{MS, Program, Sender, Setup, analysis, one};
use transom_analysis::{Cause, Confidence, Recording, analyse, text};
use transom_event::{Body, Event, Kind, LossCause, Origin, Place, flags};

#[test]
fn a_few_segments_without_an_event_are_told_and_raise_no_doubt_and_many_do() {
    let verdict = |unseen: u32| {
        let mut events = Sender::new(Setup::default()).run();
        let aux = [LossCause::UnseenSend as u32, unseen];
        events.push(Event { kind: Kind::Lost, aux, body: Body::None, ..events[1] });
        analyse(&Recording::from_iter(&events)).remove(0).verdict
    };
    let few = verdict(3);
    assert_eq!(few.caveats, ["3 segments of the recording were sent without an event"]);
    assert_eq!(verdict(1).caveats, ["1 segment of the recording was sent without an event"]);
    assert_eq!(few.confidence, Confidence::High);
    assert_eq!(verdict(100_000).confidence, Confidence::Medium);
}

#[test]
fn doubts_are_said() {
    let mut events = Sender::new(Setup::default()).run();
    events[0].aux[0] = 3;
    events.push(Event {
        kind: Kind::Lost,
        aux: [LossCause::Ring as u32, 17],
        body: Body::None,
        ..events[1]
    });
    let mut recording = Recording::from_iter(&events);
    recording.cut = true;
    let verdict = analyse(&recording).remove(0).verdict;
    assert_eq!(verdict.confidence, Confidence::Medium);
    let caveats = verdict.caveats.join("; ");
    for word in ["17 events", "cut", "before the recording began"] {
        assert!(caveats.contains(word), "{caveats}");
    }
}

#[test]
fn polled_states_alone_are_a_guess() {
    let mut events = Sender::new(Setup { receiver_window: 16_000, ..Setup::default() }).run();
    events.retain(|event| event.kind == Kind::Open || event.kind == Kind::Ack);
    let mut n = 0;
    events.retain(|event| {
        n += 1;
        event.kind == Kind::Open || n % 30 == 0
    });
    for event in &mut events {
        if let Body::State(state) = &mut event.body {
            (event.kind, event.place, event.aux) = (Kind::Sample, Place::SockDiag, [0, 0]);
            state.flags &= !(3 << flags::CHRONO_SHIFT);
        }
    }
    // The poll tells the end, too, when the connection is no longer there.
    let last = events.last().copied().expect("a sample");
    let end = Event { kind: Kind::Close, time_ns: last.time_ns + 100 * MS, ..last };
    for events in [events.clone(), [events, vec![end]].concat()] {
        let analysis = one(&events);
        assert_eq!(analysis.verdict.confidence, Confidence::Low);
        assert_eq!(analysis.verdict.cause, Cause::ReceiverWindow);
        assert!(analysis.summary.coverage.polled, "{:?}", analysis.verdict.caveats);
    }
}

/// A poll finds each connection after its beginning, those of a program that was started for it, too.
#[test]
fn a_polled_connection_is_not_said_to_be_older_than_the_recording() {
    let mut events = Sender::new(Setup::default()).run();
    events[0].aux[0] = Origin::Existing as u32;
    let existed = "the connection existed before the recording began";
    assert_eq!(one(&events).verdict.caveats, [existed]);
    events.retain(|event| event.kind == Kind::Open || event.kind == Kind::Ack);
    for event in &mut events[1..] {
        (event.kind, event.place, event.aux) = (Kind::Sample, Place::SockDiag, [0, 0]);
    }
    let caveats = one(&events).verdict.caveats;
    assert!(caveats.len() == 1 && caveats[0].starts_with("only polled states"), "{caveats:?}");
}

#[test]
fn the_text_has_the_numbers_the_bars_the_story_and_the_verdict() {
    let setup = Setup {
        receiver_window: 60_000,
        lost: vec![400],
        hystart_at: None,
        length_ns: 10_000 * MS,
        ..Setup::default()
    };
    let text = text::explain(&[analysis(setup)], false, text::ANY_WIDTH);
    println!("{text}");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "iperf [42] 10.0.0.1:4000 > 10.0.0.2:5201 reno");
    assert!(lines[1].starts_with("  9.95 s, 11.1 MiB up at 9.3 Mbit/s, RTT 50 ms"), "{}", lines[1]);
    assert!(
        text.contains("\n  receiver window      89%  ####################################\n"),
        "{text}"
    );
    assert!(text.contains("  fast recovery: cwnd "), "{text}");
    assert!(text.contains("  > Limited by the receiver's window "), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
}

#[test]
fn small_connections_share_a_line_unless_all_are_wanted() {
    let program = Program::Chunks { bytes: 1000, every_ns: 5000 * MS };
    let small = analysis(Setup { program, ..Setup::default() });
    let line = text::explain(std::slice::from_ref(&small), false, text::ANY_WIDTH);
    assert_eq!(
        line,
        "1 connection with less than 10000 bytes each, 1000 B in all (--all shows them)\n"
    );
    assert!(text::explain(&[small], true, text::ANY_WIDTH).contains("nothing limited it"));
    assert_eq!(text::explain(&[], false, text::ANY_WIDTH), "No connection in this recording.\n");
}

/// Hundreds of connections that are alike do not hide the few that are not.
#[test]
fn of_many_connections_a_few_of_each_cause_have_a_paragraph_and_the_others_are_counted() {
    let usual = analysis(Setup { hystart_at: None, receiver_window: 60_000, ..Setup::default() });
    let rare =
        analysis(Setup { length_ns: 9000 * MS, blackout: 500 * MS..9000 * MS, ..Setup::default() });
    assert_eq!(
        (usual.verdict.cause, rare.verdict.cause),
        (Cause::ReceiverWindow, Cause::PeerVanished)
    );
    let mut all = vec![usual.clone(); 400];
    all.push(rare);
    let paragraphs = |text: &str| text.lines().filter(|line| line.starts_with("iperf")).count();
    let told = text::explain(&all, false, text::ANY_WIDTH);
    assert_eq!(paragraphs(&told), 6, "{told}");
    assert!(told.contains("NAT"), "{told}");
    let last = told.lines().last().unwrap();
    assert!(last.starts_with("395 more connections, "), "{last}");
    assert!(last.ends_with(" in all: 395 receiver_window (--all shows them)"), "{last}");
    assert_eq!(paragraphs(&text::explain(&all, true, text::ANY_WIDTH)), 401);
    let few = text::explain(&all[..30], false, text::ANY_WIDTH);
    assert_eq!(paragraphs(&few), 30);
}

#[test]
fn the_result_is_json() {
    let analysis =
        analysis(Setup { receiver_window: 60_000, hystart_at: None, ..Setup::default() });
    let value = serde_json::to_value(&analysis).unwrap();
    assert_eq!(value["verdict"]["cause"], "receiver_window");
    assert!(value["limits"]["total_ns"]["receiver_window"].as_u64().unwrap() > 0);
    assert_eq!(value["episodes"][0]["episode"], "slow_start");
}

#[test]
fn a_narrow_terminal_gets_the_same_words_in_lines_that_it_can_show() {
    let setup = Setup { lost: vec![400, 900, 1400], length_ns: 10_000 * MS, ..Setup::default() };
    let analyses = [analysis(setup.clone()), analysis(Setup { length_ns: 100 * MS, ..setup })];
    let words = |columns: usize| {
        let text = text::explain(&analyses, true, columns);
        let widest = text.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= columns, "{columns}: {widest}\n{text}");
        let words = text.split_whitespace().filter(|word| !word.trim_matches('#').is_empty());
        words.map(str::to_owned).collect::<Vec<_>>()
    };
    let all = words(text::ANY_WIDTH);
    for columns in [40, 60, 80] {
        assert_eq!(words(columns), all, "{columns}");
    }
}
