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

/// One in `share` of the first segments, by a hash.
fn one_in(share: u64) -> impl Iterator<Item = u64> {
    (10..2000_u64).filter(move |n| ((n * 2_654_435_761) >> 16).is_multiple_of(share))
}

/// What is told where the least round trip is that of a small segment, and that of all others twice
/// as long.
fn behind_a_slow_link(share: u64) -> Cause {
    let lost = one_in(share).collect();
    let setup = Setup { lost, rtt_ns: 20 * MS, length_ns: 10_000 * MS, ..Setup::default() };
    let mut events = Sender::new(setup).run();
    for event in &mut events {
        if let Body::State(state) = &mut event.body {
            state.min_rtt_us = state.srtt_us / 2;
        }
    }
    of(&events).verdict.cause
}

#[test]
fn a_slow_link_that_is_busy_with_one_segment_is_not_full() {
    assert_eq!(behind_a_slow_link(8), Cause::RandomLoss);
    assert_eq!(behind_a_slow_link(150), Cause::FullPath);
}

#[test]
fn a_long_interruption_is_one_also_where_chance_loses() {
    let length_ns = 40_000 * MS;
    let setup = Setup { blackout: 5000 * MS..30_000 * MS, length_ns, ..at_random() };
    let gone = of(&Sender::new(setup).run()).verdict;
    assert_eq!(gone.cause, Cause::Outage, "{}", gone.text());
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

/// Events in which a queue of `queue_ms` stands for a part of each second.
fn queued(mut events: Vec<Event>, queue_ms: u32) -> Vec<Event> {
    for event in events.iter_mut().filter(|event| event.time_ns % (1000 * MS) > 800 * MS) {
        if let Body::State(state) = &mut event.body {
            state.srtt_us += queue_ms * 1000;
        }
    }
    events
}

#[test]
fn a_path_that_marks_congestion_instead_of_dropping_is_full_if_a_queue_shows() {
    let marks = (1..30).map(|n| n * 300 * MS).collect();
    let setup = Setup { ecn: true, marks, length_ns: 9000 * MS, ..Setup::default() };
    let with_queue = |setup: &Setup| of(&queued(Sender::new(setup.clone()).run(), 10));
    let marked = with_queue(&setup);
    let text = marked.verdict.text();
    assert_eq!(marked.verdict.cause, Cause::FullPath, "{text}");
    assert!(text.contains("marks congestion (ECN): cwnd was reduced 29 times"), "{text}");
    // Marks by chance, or those of a threshold that is far too low.
    let alone = of(&Sender::new(setup.clone()).run());
    let text = alone.verdict.text();
    assert_eq!(alone.verdict.cause, Cause::Cwnd, "{text}");
    assert!(text.contains("29 times") && text.contains("No queue shows"), "{text}");
    assert!(!text.contains("no setting here"), "{text}");
    let few = Setup { marks: vec![300 * MS, 600 * MS], ..setup.clone() };
    assert_eq!(with_queue(&few).verdict.cause, Cause::Cwnd);
    // Reductions for another cause, on a connection without ECN.
    let other = with_queue(&Setup { ecn: false, ..setup });
    assert_eq!(other.verdict.cause, Cause::Cwnd, "{}", other.verdict.text());
}

/// A window that is large for a short time, with many events, and small for most of the time, with few.
#[test]
fn the_window_that_is_told_is_the_one_that_held_most_of_the_time() {
    let setup = Setup { length_ns: 10_000 * MS, hystart_at: Some(10), ..Setup::default() };
    let mut events = Sender::new(setup).run();
    let early = |event: &Event| event.time_ns < 3000 * MS;
    for event in &mut events {
        let cwnd = if early(event) { 90 } else { 30 };
        if let Body::State(state) = &mut event.body {
            (state.cwnd, state.packets_out) = (cwnd, cwnd);
        }
    }
    // Three times as many events while it is large.
    let of_each = |event: &Event| if early(event) { 9 } else { 1 };
    let again = |event: &Event| std::iter::repeat_n(*event, of_each(event)).collect::<Vec<_>>();
    let events: Vec<Event> = events.iter().flat_map(again).collect();
    let text = of(&events).verdict.text();
    assert!(text.contains(": 30 segments ("), "{text}");
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
