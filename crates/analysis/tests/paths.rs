//! What the path does, told from less than everything.

mod sender;

use std::ops::Range;

use sender::{Bottleneck, MS, Sender, Setup};
use transom_analysis::{Analysis, Cause, Episode, EpisodeKind, Recording, analyse};
use transom_event::{Body, CaState, Event, flags};

fn of(events: &[Event]) -> Analysis {
    analyse(&Recording::from_iter(events)).remove(0)
}

/// A path of 100 segments of bandwidth-delay product with room for so many more.
fn limited(room: u64, polices: bool) -> Setup {
    let bottleneck = Some(Bottleneck { rate: 2_000_000, room, polices });
    Setup { bottleneck, length_ns: 40_000 * MS, ..Setup::default() }
}

/// One in 150, by a hash.
fn at_random() -> Setup {
    let lost =
        (100..9000_u64).filter(|n| ((n * 2_654_435_761) >> 16).is_multiple_of(150)).collect();
    Setup { lost, length_ns: 10_000 * MS, ..Setup::default() }
}

#[test]
fn the_kind_of_loss_is_the_same_where_the_recording_began_in_the_middle() {
    for (setup, cause) in [
        (limited(10, false), Cause::ShallowBuffer),
        (limited(10, true), Cause::Policer),
        (at_random(), Cause::RandomLoss),
    ] {
        let from = 5000 * MS;
        let events = Sender::new(setup).run();
        let whole = of(&events);
        assert_eq!(whole.verdict.cause, cause);
        let part = analyse(&Recording::from_iter(&events).between(from..=u64::MAX)).remove(0);
        let late: Vec<Event> =
            events.iter().filter(|event| event.time_ns >= from).copied().collect();
        for later in [part, of(&late)] {
            assert_eq!(later.verdict.cause, cause, "{}", later.verdict.text());
            let [base, later] = [&whole, &later].map(|analysis| analysis.losses.base_us);
            assert!(later.abs_diff(base) <= base / 50, "{later} us, and {base} us of the whole");
        }
    }
}

/// A clamp of so many segments at these times, whatever the path lets through otherwise.
fn clamped(setup: Setup, at: &[Range<u64>], segments: u32) -> Analysis {
    let mut events = Sender::new(setup).run();
    for event in &mut events {
        let holds = at.iter().any(|range| range.contains(&event.time_ns));
        if let Body::State(state) = &mut event.body
            && holds
        {
            (state.clamp, state.cwnd) = (segments, segments);
            (state.ca_state, state.flags) = (CaState::Open as u8, flags::CWND_LIMITED);
        }
    }
    of(&events)
}

fn stays(analysis: &Analysis) -> Vec<u64> {
    let is_stay = |episode: &&Episode| matches!(episode.kind, EpisodeKind::Saturated { .. });
    analysis.episodes.iter().filter(is_stay).map(|stay| stay.length_ns() / MS).collect()
}

#[test]
fn a_clamp_that_was_taken_away_soon_is_not_why_the_rest_was_slow() {
    let until = |end_ms: u64| {
        let stay = 500 * MS..end_ms * MS;
        clamped(limited(10, false), std::slice::from_ref(&stay), 66)
    };
    let short = until(2500);
    assert!(!stays(&short).is_empty(), "{:?}", short.episodes);
    assert_eq!(short.verdict.cause, Cause::ShallowBuffer, "{}", short.verdict.text());
    let long = until(30_000);
    assert_eq!(long.verdict.cause, Cause::Saturated, "{}", long.verdict.text());
}

#[test]
fn two_stays_at_a_clamp_have_a_length_each() {
    let setup = Setup { length_ns: 9000 * MS, ..Setup::default() };
    let both = clamped(setup, &[1000 * MS..2000 * MS, 7000 * MS..8000 * MS], 66);
    let stays = stays(&both);
    assert_eq!(stays.len(), 2, "{stays:?}");
    assert!(stays.iter().all(|length| (900..1100).contains(length)), "{stays:?}");
}

#[test]
fn a_path_that_marks_congestion_instead_of_dropping_is_full() {
    let marks = (1..30).map(|n| n * 300 * MS).collect();
    let setup = Setup { ecn: true, marks, length_ns: 9000 * MS, ..Setup::default() };
    let marked = of(&Sender::new(setup.clone()).run());
    let text = marked.verdict.text();
    assert_eq!(marked.verdict.cause, Cause::FullPath, "{text}");
    assert!(text.contains("marks congestion (ECN): cwnd was reduced 29 times"), "{text}");
    let few = Setup { marks: vec![300 * MS, 600 * MS], ..setup.clone() };
    assert_eq!(of(&Sender::new(few).run()).verdict.cause, Cause::Cwnd);
    // Reductions for another cause, on a connection without ECN.
    let other = of(&Sender::new(Setup { ecn: false, ..setup }).run());
    assert_eq!(other.verdict.cause, Cause::Cwnd, "{}", other.verdict.text());
}

/// An algorithm whose reductions are too small for an episode each, as those of DCTCP.
#[test]
fn small_reductions_for_marks_count_too() {
    let marks = (1..30).map(|n| n * 300 * MS).collect();
    let mut events =
        Sender::new(Setup { ecn: true, marks, length_ns: 9000 * MS, ..Setup::default() }).run();
    for event in &mut events {
        if let Body::State(state) = &mut event.body {
            state.cwnd = 40;
        }
    }
    let marked = of(&events);
    let collapses = |episode: &Episode| matches!(episode.kind, EpisodeKind::WindowCollapse { .. });
    assert!(!marked.episodes.iter().any(collapses), "{:?}", marked.episodes);
    assert_eq!(marked.summary.congestion_marks, 29);
}
