//! What happened, told from the events alone.

mod sender;

use sender::{MS, MSS, Program, Sender, Setup, analysis};
use transom_analysis::{
    Analysis, CollapseCause, EpisodeKind, Recording, ResendCause, SlowStartEnd, WindowSide, analyse,
};
use transom_event::{
    Body, CaState, Direction, Event, Kind, Place, RtoCause, State, TcpState, UNSET,
};

fn kinds(analysis: &Analysis) -> Vec<&EpisodeKind> {
    analysis.episodes.iter().map(|episode| &episode.kind).collect()
}

fn ended(analysis: &Analysis) -> Option<SlowStartEnd> {
    kinds(analysis).into_iter().find_map(|kind| match kind {
        EpisodeKind::SlowStart { end, .. } => Some(*end),
        _ => None,
    })
}

fn collapses(analysis: &Analysis) -> Vec<(u32, u32, CollapseCause)> {
    let collapse = |kind: &EpisodeKind| match *kind {
        EpisodeKind::WindowCollapse { cwnd_before, cwnd_after, cause } => {
            Some((cwnd_before, cwnd_after, cause))
        }
        _ => None,
    };
    kinds(analysis).into_iter().filter_map(collapse).collect()
}

/// The events of a run with every state changed by `change(time, state)`.
fn changed(setup: Setup, change: impl Fn(u64, &mut transom_event::State)) -> Vec<Event> {
    let mut events = Sender::new(setup).run();
    for event in &mut events {
        if let Body::State(state) = &mut event.body {
            change(event.time_ns, state);
        }
    }
    events
}

fn analysis_of(events: &[Event]) -> Analysis {
    analyse(&Recording::from_iter(events)).remove(0)
}

fn with_algorithm(mut events: Vec<Event>, name: &[u8]) -> Vec<Event> {
    for event in &mut events {
        if let Body::Open(open) = &mut event.body {
            open.algorithm[..name.len()].copy_from_slice(name);
        }
    }
    events
}

#[test]
fn slow_start_ends_by_loss() {
    let analysis = analysis(Setup { lost: vec![100], hystart_at: None, ..Setup::default() });
    assert_eq!(ended(&analysis), Some(SlowStartEnd::Loss));
}

#[test]
fn only_cubic_leaves_slow_start_by_delay() {
    let events = Sender::new(Setup::default()).run();
    assert_eq!(ended(&analysis_of(&events)), Some(SlowStartEnd::Algorithm));
    let analysis = analysis_of(&with_algorithm(events, b"cubic\0"));
    assert_eq!(ended(&analysis), Some(SlowStartEnd::Delay));
    let EpisodeKind::SlowStart { cwnd_from, cwnd_to, .. } = *kinds(&analysis)[0] else {
        panic!("{:?}", analysis.episodes)
    };
    assert_eq!((cwnd_from, cwnd_to), (10, 40));
}

#[test]
fn slow_start_ends_at_an_ssthresh_that_was_there_before() {
    let events = changed(Setup::default(), |_, state| {
        state.ssthresh = 40;
    });
    assert_eq!(ended(&analysis_of(&events)), Some(SlowStartEnd::Threshold));
}

#[test]
fn slow_start_ends_at_the_clamp_and_cwnd_stays_there() {
    let analysis = analysis(Setup { clamp: Some(30), hystart_at: None, ..Setup::default() });
    assert_eq!(ended(&analysis), Some(SlowStartEnd::Clamp));
    let saturated = EpisodeKind::Saturated { cwnd: 30, at_clamp: true };
    assert!(kinds(&analysis).contains(&&saturated), "{:?}", analysis.episodes);
}

/// A receiver sends little, and each little segment makes its window larger all the same.
#[test]
fn a_window_that_grows_and_carries_nothing_is_no_slow_start() {
    for (bytes, is_one) in [(30, false), (MSS, true)] {
        let mut events = vec![sender::open_event(0, 1)];
        for n in 0..8 {
            let (snd_una, snd_nxt) = (1 + n * bytes, 1 + (n + 1) * bytes);
            let state = State {
                cwnd: 10 + n,
                ssthresh: i32::MAX as u32,
                clamp: UNSET,
                packets_out: 1,
                mss: MSS as u16,
                tcp_state: TcpState::Established as u8,
                snd_una,
                snd_nxt,
                ..State::default()
            };
            let (time_ns, body) = (u64::from(n + 1) * 50 * MS, Body::State(state));
            events.push(Event {
                time_ns,
                kind: Kind::Ack,
                aux: [bytes, 10 + n],
                body,
                ..events[0]
            });
        }
        let found = sender::one(&events).episodes;
        let has_one = found.iter().any(|e| matches!(e.kind, EpisodeKind::SlowStart { .. }));
        assert_eq!(has_one, is_one, "{found:?}");
    }
}

#[test]
fn slow_start_ends_by_the_local_device_or_by_marks() {
    let refused =
        analysis(Setup { refusals: vec![160 * MS], hystart_at: None, ..Setup::default() });
    assert_eq!(ended(&refused), Some(SlowStartEnd::LocalCongestion));
    let marked =
        analysis(Setup { marks: vec![160 * MS], ecn: true, hystart_at: None, ..Setup::default() });
    assert_eq!(ended(&marked), Some(SlowStartEnd::Ecn));
}

#[test]
fn slow_start_can_still_go_on_at_the_end() {
    let analysis = analysis(Setup { length_ns: 180 * MS, hystart_at: None, ..Setup::default() });
    assert_eq!(ended(&analysis), Some(SlowStartEnd::Still));
}

#[test]
fn a_loss_is_one_fast_recovery_with_its_segments() {
    let setup = Setup { lost: vec![1000], ..Setup::default() };
    let analysis = analysis(setup);
    let recoveries: Vec<_> = kinds(&analysis)
        .into_iter()
        .filter(|kind| matches!(kind, EpisodeKind::FastRecovery { .. }))
        .collect();
    let [EpisodeKind::FastRecovery { cwnd_before, cwnd_after, retransmitted, undone }] =
        recoveries[..]
    else {
        panic!("{:?}", analysis.episodes)
    };
    assert!((40..70).contains(cwnd_before), "{cwnd_before}");
    assert_eq!(*cwnd_after, cwnd_before * 7 / 10);
    assert_eq!((*retransmitted, *undone), (1, false));
    assert!(collapses(&analysis).is_empty(), "a loss explains the fall: {:?}", analysis.episodes);
}

#[test]
fn a_recovery_whose_windows_come_back_was_undone() {
    let mut over = false;
    let mut events = Sender::new(Setup { lost: vec![1000], ..Setup::default() }).run();
    let mut before = (0, 0);
    for event in &mut events {
        let Body::State(state) = &mut event.body else { continue };
        if event.kind == Kind::CaState && event.aux[1] == 3 {
            before = (state.cwnd, 40);
        }
        if over {
            (state.cwnd, state.ssthresh) = before;
        }
        over |= event.kind == Kind::CaState && event.aux == [3, 0];
    }
    let analysis = analysis_of(&events);
    let undone =
        |kind: &&EpisodeKind| matches!(kind, EpisodeKind::FastRecovery { undone: true, .. });
    assert_eq!(kinds(&analysis).into_iter().filter(undone).count(), 1, "{:?}", analysis.episodes);
}

#[test]
fn timeouts_in_a_row_are_one_episode_with_the_time_they_cost() {
    let blackout = 500 * MS..1500 * MS;
    let analysis = analysis(Setup { blackout, ..Setup::default() });
    let all: Vec<_> = kinds(&analysis)
        .into_iter()
        .filter_map(|kind| match kind {
            EpisodeKind::Timeout { timeouts, stalled_ns, cwnd_before, .. } => {
                Some((*timeouts, *stalled_ns, *cwnd_before))
            }
            _ => None,
        })
        .collect();
    // The RTO is 200 ms and doubles: 700, 1100, 1900 ms.
    let [(3, stalled_ns, cwnd_before)] = all[..] else { panic!("{all:?}") };
    assert!((1350 * MS..1500 * MS).contains(&stalled_ns), "{stalled_ns}");
    assert!(cwnd_before >= 40);
}

#[test]
fn the_window_is_taken_back_after_silence() {
    let program = Program::Chunks { bytes: 60_000, every_ns: 900 * MS };
    let analysis = analysis(Setup { program, ..Setup::default() });
    let restart = kinds(&analysis).into_iter().find_map(|kind| match kind {
        EpisodeKind::IdleRestart { idle_ns, cwnd_before, cwnd_after } => {
            Some((*idle_ns, *cwnd_before, *cwnd_after))
        }
        _ => None,
    });
    let (idle_ns, before, after) = restart.expect("a restart after idle");
    assert!(idle_ns > 500 * MS && before > after, "{:?}", analysis.episodes);
}

/// A window that falls behind a gap in the recording, in which the program wrote on.
#[test]
fn data_that_left_without_its_events_is_no_silence() {
    let program = Program::Chunks { bytes: 10_000, every_ns: 100 * MS };
    let fall = |time: u64, state: &mut transom_event::State| {
        state.cwnd = if time < 1000 * MS { 20 } else { 15 };
    };
    let restarts = |events: &[Event]| {
        let analysis = analysis_of(events);
        let is_restart = |kind: &&EpisodeKind| matches!(kind, EpisodeKind::IdleRestart { .. });
        kinds(&analysis).into_iter().filter(is_restart).count()
    };
    let mut events = with_algorithm(changed(Setup { program, ..Setup::default() }, fall), b"bbr\0");
    events.retain(|event| !(400 * MS..1395 * MS).contains(&event.time_ns));
    assert_eq!(restarts(&events), 0);
    // Of a program that did not write meanwhile, it is one.
    let mut went_back = 0;
    for event in &mut events {
        let Body::State(state) = &mut event.body else { continue };
        if event.time_ns < 400 * MS {
            went_back = state.snd_nxt;
        }
    }
    let after = events.iter().find(|event| event.time_ns >= 1395 * MS).unwrap();
    let Body::State(first) = after.body else { panic!("no state: {after:?}") };
    let missing = first.snd_nxt.wrapping_sub(went_back);
    for event in events.iter_mut().filter(|event| event.time_ns >= 1395 * MS) {
        let Body::State(state) = &mut event.body else { continue };
        state.snd_nxt = state.snd_nxt.wrapping_sub(missing);
        state.snd_una = state.snd_una.wrapping_sub(missing);
    }
    assert_eq!(restarts(&events), 1);
}

#[test]
fn a_window_that_is_not_used_is_taken_back_bit_by_bit() {
    let program = Program::Chunks { bytes: 3000, every_ns: 20 * MS };
    let events = changed(Setup { program, ..Setup::default() }, |time, state| {
        state.cwnd = 80 >> (time / (500 * MS)).min(2);
    });
    let validation = EpisodeKind::CwndValidation { cwnd_before: 80, cwnd_after: 20 };
    assert_eq!(kinds(&analysis_of(&events)), [&validation]);
}

#[test]
fn a_collapse_names_the_local_device_marks_or_nothing() {
    let setup = Setup::default();
    let refused = analysis(Setup { refusals: vec![800 * MS], ..setup.clone() });
    assert_eq!(collapses(&refused)[0].2, CollapseCause::LocalCongestion);
    let marked = analysis(Setup { marks: vec![800 * MS], ecn: true, ..setup.clone() });
    assert_eq!(collapses(&marked)[0].2, CollapseCause::Ecn);
    let unknown = analysis(Setup { marks: vec![800 * MS], ..setup.clone() });
    assert_eq!(collapses(&unknown)[0].2, CollapseCause::Unknown);
    for analysis in [refused, marked, unknown] {
        let [(before, after, _)] = collapses(&analysis)[..] else { panic!() };
        assert_eq!(after, before * 7 / 10);
    }
}

#[test]
fn a_fall_in_open_state_is_a_collapse_of_unknown_cause_by_an_algorithm_that_measures_or_of_a_policy()
 {
    let setup = Setup::default();
    let fall = |time: u64, state: &mut transom_event::State| {
        state.cwnd = if time < 1000 * MS { 60 } else { 20 };
    };
    let mut events = changed(setup, fall);
    assert_eq!(collapses(&analysis_of(&events)), [(60, 20, CollapseCause::Unknown)]);
    let of_model = with_algorithm(events.clone(), b"bbr\0");
    assert_eq!(collapses(&analysis_of(&of_model)), [(60, 20, CollapseCause::Algorithm)]);

    let at = events.iter().position(|event| event.time_ns >= 999 * MS).unwrap();
    events.insert(at, Event { kind: Kind::Clamp, aux: [100, 20], ..events[at] });
    assert_eq!(collapses(&analysis_of(&events)), [(60, 20, CollapseCause::Policy)]);
}

#[test]
fn a_closed_window_lasts_until_it_opens() {
    let close = 500 * MS..900 * MS;
    let events = changed(Setup::default(), |time, state| {
        state.snd_wnd = if close.contains(&time) { 0 } else { state.snd_wnd };
    });
    let analysis = analysis_of(&events);
    let closed: Vec<_> = analysis
        .episodes
        .iter()
        .filter(|e| e.kind == EpisodeKind::ZeroWindow { by: WindowSide::Other })
        .collect();
    let [episode] = closed[..] else { panic!("{:?}", analysis.episodes) };
    assert!(episode.length_ns().abs_diff(400 * MS) <= 60 * MS, "{episode:?}");
}

#[test]
fn a_zero_window_that_this_side_sends_is_its_own() {
    let mut events = Sender::new(Setup::default()).run();
    let event = Event {
        kind: Kind::ZeroWindow,
        place: Place::RcvEstablished,
        aux: [Direction::Sent as u32, 0],
        ..events[20]
    };
    events.insert(21, event);
    let own = EpisodeKind::ZeroWindow { by: WindowSide::Here };
    assert!(kinds(&analysis_of(&events)).contains(&&own));
}

/// The other side closes its window at 1 s and opens it 5.25 s later. The segment that closes it
/// is recorded as it arrives: both of its events show the window of before.
#[test]
fn the_segment_that_closes_the_window_does_not_end_the_zero_window() {
    let mut events = Sender::new(Setup { length_ns: 1000 * MS, ..Setup::default() }).run();
    let last = *events.iter().rev().find(|event| event.kind == Kind::Ack).unwrap();
    let at = |time_ns, kind, aux, snd_wnd| {
        let Body::State(state) = last.body else { panic!("an ack has a state") };
        let body = Body::State(transom_event::State { snd_wnd, ..state });
        Event { time_ns, kind, aux, body, ..last }
    };
    let closed = events.last().unwrap().time_ns + MS;
    let received = [Direction::Received as u32, 0];
    events.extend([
        at(closed, Kind::ZeroWindow, received, 30_000),
        at(closed + 4_000, Kind::Ack, [0, 10], 30_000),
        at(closed + 900 * MS, Kind::ZeroWindow, received, 0),
        at(closed + 900 * MS + 4_000, Kind::Ack, [0, 10], 0),
        at(closed + 5250 * MS, Kind::Ack, [0, 10], 0),
        at(closed + 5250 * MS + 9_000, Kind::Send, [MSS, 1], 30_000),
    ]);
    let analysis = analysis_of(&events);
    let zero: Vec<u64> = analysis
        .episodes
        .iter()
        .filter(|episode| matches!(episode.kind, EpisodeKind::ZeroWindow { .. }))
        .map(|episode| episode.length_ns() / MS)
        .collect();
    assert_eq!(zero, [5250]);
}

#[test]
fn a_window_flat_at_its_greatest_without_a_clamp_is_saturated() {
    // The papers' phones: "saturated at 66".
    let events = changed(
        Setup { hystart_at: Some(66), length_ns: 4000 * MS, ..Setup::default() },
        |_, state| {
            state.cwnd = state.cwnd.min(66);
        },
    );
    let saturated = EpisodeKind::Saturated { cwnd: 66, at_clamp: false };
    assert!(kinds(&analysis_of(&events)).contains(&&saturated));
    let growing =
        analysis(Setup { hystart_at: Some(66), length_ns: 4000 * MS, ..Setup::default() });
    let flat = |kind: &&EpisodeKind| matches!(kind, EpisodeKind::Saturated { .. });
    assert_eq!(kinds(&growing).into_iter().find(flat), None);
    assert_eq!(MSS, 1000);
}

/// A bulk of data, then a long silence: cwnd is flat, and nothing waits for it.
#[test]
fn a_window_that_nothing_waits_for_is_not_saturated() {
    let program = Program::Chunks { bytes: 60_000, every_ns: 100_000 * MS };
    let mut events = Sender::new(Setup { program, hystart_at: None, ..Setup::default() }).run();
    let last = *events.iter().rev().find(|event| event.kind == Kind::Ack).unwrap();
    let mut state = *last.state().unwrap();
    (state.snd_una, state.packets_out) = (state.snd_nxt, 0);
    for probe in 1..=10 {
        let (time_ns, body) = (last.time_ns + probe * 1000 * MS, Body::State(state));
        events.push(Event { time_ns, kind: Kind::Ack, aux: [0, 10], body, ..last });
    }
    let limited = |event: &mut Event| {
        if let Body::State(state) = &mut event.body {
            state.flags |= transom_event::flags::CWND_LIMITED;
        }
    };
    events.iter_mut().for_each(limited);
    let analysis = analysis_of(&events);
    let flat = |kind: &&EpisodeKind| matches!(kind, EpisodeKind::Saturated { .. });
    assert_eq!(kinds(&analysis).into_iter().find(flat), None);
}

/// The other side probes, or is probed, while nothing is outstanding: that is no silence, and the
/// kernel takes the window back as after one, since no data has left for so long.
#[test]
fn a_restart_after_idle_is_told_though_something_came_meanwhile() {
    let program = Program::Chunks { bytes: 60_000, every_ns: 900 * MS };
    let mut events = Sender::new(Setup { program, ..Setup::default() }).run();
    let again = events.iter().rposition(|event| event.time_ns < 1800 * MS).unwrap();
    let last = events[again];
    let mut state = *last.state().unwrap();
    (state.snd_una, state.packets_out) = (state.snd_nxt, 0);
    let probes = (last.time_ns / MS + 100..1799).step_by(100).chain([1799]);
    let probes: Vec<Event> = probes
        .map(|ms| Event {
            time_ns: ms * MS,
            kind: Kind::Ack,
            aux: [0, 10],
            body: Body::State(state),
            ..last
        })
        .collect();
    events.splice(again + 1..again + 1, probes);
    let analysis = analysis_of(&events);
    let restarts = kinds(&analysis).into_iter().filter(
        |kind| matches!(kind, EpisodeKind::IdleRestart { idle_ns, .. } if *idle_ns > 300 * MS),
    );
    assert_eq!(restarts.count(), 2, "{:?}", analysis.episodes);
    assert_eq!(collapses(&analysis), []);
}

/// The kernel counts from the last data that left (`tcp_slow_start_after_idle_check`): of a pause that is
/// hardly longer than the RTO the last round trip is a part.
#[test]
fn the_silence_before_a_restart_begins_when_data_left_last() {
    let (every_ns, rtt_ns) = (450 * MS, 200 * MS);
    let program = Program::Chunks { bytes: 10_000, every_ns };
    let mut events = Sender::new(Setup { program, rtt_ns, ..Setup::default() }).run();
    for event in &mut events {
        let Body::State(state) = &mut event.body else { continue };
        state.rto_us = 400_000;
        // Each burst meets half of the window that the last one left.
        state.cwnd = if event.kind == Kind::Send { 20 } else { 40 };
    }
    let analysis = analysis_of(&events);
    let restarts = kinds(&analysis).into_iter().filter_map(|kind| match kind {
        EpisodeKind::IdleRestart { idle_ns, .. } => Some(*idle_ns),
        _ => None,
    });
    assert_eq!(restarts.collect::<Vec<u64>>(), [every_ns; 4], "{:?}", analysis.episodes);
}

/// `tcp_end_cwnd_reduction` comes after the change of the state that tells the end of a recovery. Where the
/// last segments of a connection were repaired, cwnd is still far below ssthresh in it.
#[test]
fn the_end_of_a_recovery_is_no_slow_start() {
    let mut events = Sender::new(Setup { lost: vec![300], ..Setup::default() }).run();
    let open = [CaState::Recovery as u32, CaState::Open as u32];
    let is_end = |event: &&mut Event| event.kind == Kind::CaState && event.aux == open;
    let ends = events.iter_mut().filter(is_end);
    assert_eq!(
        ends.map(|end| if let Body::State(state) = &mut end.body {
            state.cwnd /= 4
        })
        .count(),
        1
    );
    let analysis = analysis_of(&events);
    let slow_starts = |kind: &&EpisodeKind| matches!(kind, EpisodeKind::SlowStart { .. });
    assert_eq!(
        kinds(&analysis).into_iter().filter(slow_starts).count(),
        1,
        "{:?}",
        analysis.episodes
    );
    let recovered = kinds(&analysis).into_iter().find_map(|kind| match kind {
        EpisodeKind::FastRecovery { cwnd_before, cwnd_after, .. } => {
            Some((*cwnd_before, *cwnd_after))
        }
        _ => None,
    });
    let (before, after) = recovered.unwrap();
    assert_eq!(after, before * 7 / 10);
}

/// On a short path each burst is over before the next poll: no sample has anything outstanding.
#[test]
fn between_polls_that_see_no_burst_the_silence_lasts_from_burst_to_burst() {
    let events = Sender::new(Setup::default()).run();
    let state = *events[1].state().unwrap();
    let sample = |poll: u64| {
        let burst = poll / 10;
        let snd_nxt = state.snd_nxt + 30_000 * burst as u32;
        let cwnd = [40, 30][(burst % 2) as usize];
        let state = State { snd_nxt, snd_una: snd_nxt, packets_out: 0, cwnd, ..state };
        let time_ns = events[0].time_ns + poll * 100 * MS;
        let (kind, place) = (Kind::Sample, Place::SockDiag);
        Event { time_ns, kind, place, aux: [0, 0], body: Body::State(state), ..events[0] }
    };
    let events: Vec<Event> = events[..1].iter().copied().chain((0..60).map(sample)).collect();
    let analysis = analysis_of(&events);
    let silences: Vec<u64> = kinds(&analysis)
        .into_iter()
        .filter_map(|kind| match kind {
            EpisodeKind::IdleRestart { idle_ns, .. } => Some(*idle_ns),
            _ => None,
        })
        .collect();
    assert_eq!(silences, [1000 * MS; 3], "{:?}", analysis.episodes);
}

/// All in flight is sent again at once: the path has said that its segments are too large, or the
/// other side has taken back what it had acknowledged selectively.
#[test]
fn what_is_sent_again_without_a_timer_is_no_timeout() {
    for (cause, in_a_row, resend) in [
        (RtoCause::Pmtu, 1, Some(ResendCause::PathMtu)),
        (RtoCause::Reneging, 1, Some(ResendCause::Reneging)),
        (RtoCause::Reneging, 2, None),
        (RtoCause::Timer, 1, None),
    ] {
        let mut events = Sender::new(Setup { lost: vec![1000], ..Setup::default() }).run();
        for event in &mut events {
            let into_recovery = event.kind == Kind::CaState && event.aux == [0, 3];
            let in_recovery = event.state().is_some_and(|s| s.ca() == Some(CaState::Recovery));
            match &mut event.body {
                Body::State(state) if in_recovery => state.ca_state = CaState::Loss as u8,
                _ => {}
            }
            if event.kind == Kind::CaState {
                event.aux = if into_recovery { [0, 4] } else { [4, 0] };
            }
        }
        let entry = events.iter().position(|event| event.kind == Kind::CaState).unwrap();
        let (place, aux) = (Place::SetCaState, [in_a_row, cause as u32]);
        events.insert(entry, Event { kind: Kind::Rto, place, aux, ..events[entry] });
        let analysis = analysis_of(&events);
        let found = kinds(&analysis).into_iter().find_map(|kind| match *kind {
            EpisodeKind::Resend { cause, retransmitted, .. } => Some((cause, retransmitted)),
            _ => None,
        });
        assert_eq!(found, resend.map(|cause| (cause, 1)), "{:?}", analysis.episodes);
        let timeouts = kinds(&analysis)
            .into_iter()
            .filter(|kind| matches!(kind, EpisodeKind::Timeout { .. }))
            .count();
        let expected = usize::from(resend.is_none());
        assert_eq!((timeouts, analysis.summary.timeouts), (expected, expected as u64), "{cause:?}");
        let text =
            transom_analysis::text::explain(&[analysis], false, transom_analysis::text::ANY_WIDTH);
        assert_eq!(text.contains("sent again"), resend.is_some(), "{text}");
        assert_eq!(text.contains("1 timeout:"), resend.is_none(), "{text}");
    }
}
