//! The sentences: the right cause, its numbers, its remedy.

mod sender;

use sender::{Bottleneck, MS, MSS, Program, Sender, Setup, analysis, assert_says, one};
use transom_analysis::{Analysis, Cause, Confidence, Episode, EpisodeKind, Limit};
use transom_event::{
    Body, CaState, Chrono, Event, Kind, Place, Sack, State, TcpState, WRITE_BLOCKED, fields, flags,
};

#[test]
fn the_receivers_window_and_what_it_caps() {
    let analysis =
        analysis(Setup { receiver_window: 65_536, hystart_at: None, ..Setup::default() });
    let words = ["receiver's window", "64 KiB over 50 ms caps it at 10.5 Mbit/s", "tcp_rmem"];
    assert_says(&analysis, Cause::ReceiverWindow, &words);
    assert_eq!(analysis.verdict.confidence, Confidence::High);
    assert!(analysis.verdict.caveats.is_empty());
}

#[test]
fn the_send_buffer_and_its_sysctl() {
    let analysis = analysis(Setup { send_buffer: 32_000, ..Setup::default() });
    assert_says(&analysis, Cause::SendBuffer, &["send buffer", "31.2 KiB", "tcp_wmem"]);
}

#[test]
fn a_window_that_a_queue_on_the_path_fills_is_not_what_limits() {
    for setup in [
        Setup { receiver_window: 200_000, hystart_at: None, ..Setup::default() },
        Setup { send_buffer: 200_000, hystart_at: None, ..Setup::default() },
    ] {
        let mut events = Sender::new(setup).run();
        for event in &mut events {
            if let Body::State(state) = &mut event.body {
                state.min_rtt_us = state.srtt_us / 2;
            }
        }
        assert_says(&one(&events), Cause::FullPath, &["a queue on the path holds it"]);
    }
}

#[test]
fn the_program() {
    let program = Program::Chunks { bytes: 3000, every_ns: 20 * MS };
    let analysis = analysis(Setup { program, ..Setup::default() });
    assert_says(&analysis, Cause::Application, &["nothing to send", "1.2 Mbit/s"]);
}

/// A program that writes so much every so often, over a path of one segment in 50 ms behind which all of it
/// may wait.
fn over_a_slow_path(bytes: u64, every_ns: u64, length_ns: u64) -> Analysis {
    let program = Program::Chunks { bytes, every_ns };
    let bottleneck = Some(Bottleneck { rate: 20_000, room: 1000, polices: false });
    let mut events =
        Sender::new(Setup { program, bottleneck, length_ns, hystart_at: None, ..Setup::default() })
            .run();
    for event in &mut events {
        if let Body::State(state) = &mut event.body {
            state.srtt_us += 50_000 * state.packets_out;
        }
    }
    one(&events)
}

#[test]
fn what_a_program_wrote_at_once_is_the_paths_until_all_of_it_has_arrived() {
    let all = over_a_slow_path(100_000, 100_000 * MS, 20_000 * MS);
    assert!(all.limits.share(Limit::Application) > 0.4, "{:?}", all.limits.total_ns);
    assert_says(&all, Cause::FullPath, &["100% of the time", "on its way", "The path is full"]);
    assert!(!all.verdict.text().contains("nothing to send"), "{}", all.verdict.text());
    // A program that writes now and then keeps this path waiting, whatever its last piece takes.
    let pieces = over_a_slow_path(2_000, 1000 * MS, 20_500 * MS);
    assert_says(&pieces, Cause::Application, &["nothing to send", "would have carried more"]);
}

#[test]
fn a_transfer_of_one_round_trip_is_limited_by_nothing_else() {
    let of = |bytes: u64, every_ns: u64| {
        let program = Program::Chunks { bytes, every_ns };
        analysis(Setup { program, length_ns: 20_000 * MS, ..Setup::default() })
    };
    let once = of(10_000, 100_000 * MS);
    assert_says(&once, Cause::Little, &["100% of the 50 ms", "nothing but the round trip"]);
    assert!(once.verdict.remedy.is_none());
    assert_says(&of(50_000, 100_000 * MS), Cause::SlowStart, &["raise the initial window"]);
    assert_says(&of(10_000, 1000 * MS), Cause::Application, &["nothing to send", "slow disk"]);
}

/// A connection that was open for a while before its data, and stays open for a while after it.
fn among_silence(setup: Setup, before_ns: u64, after_ns: u64) -> Analysis {
    let mut events = Sender::new(setup).run();
    let mut opened = events[1];
    if let Body::State(state) = &mut opened.body {
        state.unsent = 0;
    }
    let aux = [TcpState::SynSent as u32, TcpState::Established as u32];
    events[1..].iter_mut().for_each(|event| event.time_ns += before_ns);
    events.insert(1, Event { kind: Kind::State, aux, ..opened });
    let last = events[events.len() - 1];
    let aux = [TcpState::Established as u32, TcpState::FinWait1 as u32];
    let Body::State(mut state) = last.body else { panic!("an ACK has a state") };
    (state.snd_una, state.packets_out) = (state.snd_nxt, 0);
    let (time_ns, body) = (last.time_ns + after_ns, Body::State(state));
    events.push(Event { time_ns, kind: Kind::State, aux, body, ..last });
    one(&events)
}

#[test]
fn a_program_is_not_blamed_for_the_time_before_and_after_its_data() {
    let of = |bytes: u64, every_ns: u64, after_ns: u64| {
        let program = Program::Chunks { bytes, every_ns };
        let setup = Setup { program, length_ns: 3_200 * MS, ..Setup::default() };
        among_silence(setup, 300 * MS, after_ns)
    };
    let when = ["300 ms before its first data", "2.00 s after its last had arrived"];
    let at_once = of(10_000, 100_000 * MS, 2_000 * MS);
    assert_says(&at_once, Cause::Little, &["arrived within 50 ms", "nothing limited it"]);
    assert_says(&at_once, Cause::Little, &when);
    // What the path let through in several round trips was limited while it lasted.
    let in_turns = of(100_000, 100_000 * MS, 2_000 * MS);
    assert_says(&in_turns, Cause::Application, &["In between, 97.7 KiB took 200 ms"]);
    assert_says(&in_turns, Cause::Application, &when);
    for verdict in [&at_once.verdict, &in_turns.verdict] {
        assert_eq!(verdict.remedy, None, "{}", verdict.text());
    }
    // One that writes a piece a second let the connection wait in between.
    let pieces = of(10_000, 1000 * MS, 2_000 * MS);
    let words = ["in 3 waits of 1.00 s between pieces of 9.8 KiB (medians)", "slow disk"];
    assert_says(&pieces, Cause::Application, &words);
}

/// A path of 100 segments of bandwidth-delay product with room for so many more.
fn limited(room: u64, polices: bool) -> Analysis {
    let bottleneck = Some(Bottleneck { rate: 2_000_000, room, polices });
    analysis(Setup { bottleneck, length_ns: 40_000 * MS, ..Setup::default() })
}

#[test]
fn a_short_queue_is_told_from_random_loss_by_the_load_at_the_losses() {
    let analysis = limited(10, false);
    assert_says(&analysis, Cause::ShallowBuffer, &["queue is longest", "overflows"]);
    assert!(!analysis.verdict.text().contains("Westwood"));
}

/// As a kernel shows a sender that closes, or whose peer does, after a part of the time: no ACK has an
/// event any more.
fn closed_after(events: &mut Vec<Event>, share: f64) {
    let [first, last] = [events[0].time_ns, events.last().unwrap().time_ns];
    let left_ns = first + ((last - first) as f64 * share) as u64;
    let ends = [Kind::Ack, Kind::DupAck, Kind::Sack];
    events.retain(|event| event.time_ns < left_ns || !ends.contains(&event.kind));
    let at = events.partition_point(|event| event.time_ns < left_ns);
    let aux = [TcpState::Established as u32, TcpState::FinWait1 as u32];
    let left = Event { time_ns: left_ns, kind: Kind::State, aux, ..events[at - 1] };
    events.insert(at, left);
}

#[test]
fn what_a_connection_lost_before_one_side_closed_is_told_as_ever_and_no_recorder_is_blamed() {
    let bottleneck = Some(Bottleneck { rate: 2_000_000, room: 10, polices: false });
    let setup = Setup { bottleneck, length_ns: 40_000 * MS, ..Setup::default() };
    let mut events = Sender::new(setup).run();
    closed_after(&mut events, 0.6);
    let analysis = one(&events);
    assert_says(&analysis, Cause::ShallowBuffer, &["queue is longest", "overflows"]);
    let coverage = &analysis.summary.coverage;
    assert!(coverage.closed_early && !coverage.sampled);
    let caveats = analysis.verdict.caveats.join(" ");
    assert!(caveats.contains("one side closed long before the end"), "{caveats}");
    assert!(!caveats.contains("many ACKs"), "{caveats}");
}

#[test]
fn a_policer_is_told_from_a_short_queue_by_the_rtt() {
    assert_says(
        &limited(10, true),
        Cause::Policer,
        &["They follow the load", "Shape to that rate"],
    );
}

#[test]
fn two_losses_say_nothing_about_their_kind() {
    let setup = Setup { lost: vec![300, 900], length_ns: 3000 * MS, ..Setup::default() };
    assert_says(&analysis(setup), Cause::UnclearLoss, &["cannot be told"]);
}

/// As over a radio link, which is busy or away now and then: the second is lost while the round trip is
/// long by itself.
#[test]
fn two_losses_where_the_round_trip_varies_by_itself_make_no_full_path() {
    let (lost, pauses) = (vec![300, 580], Some((430 * MS, 40 * MS)));
    let unclear = analysis(Setup { lost, length_ns: 4000 * MS, pauses, ..Setup::default() });
    let (delay, inflation) = (unclear.losses.delay, unclear.losses.inflation());
    assert!(delay.losses == 1 && delay.mean < 0.1 && inflation > 1.5, "{:?}", unclear.losses);
    assert_says(&unclear, Cause::UnclearLoss, &["cannot be told"]);
}

#[test]
fn a_writer_that_is_blocked_is_limited_by_its_buffer_though_the_kernels_clock_says_busy() {
    let mut events = Sender::new(Setup { send_buffer: 32_000, ..Setup::default() }).run();
    for event in &mut events {
        if let Body::State(state) = &mut event.body
            && state.chrono() == Chrono::SendBuffer
        {
            state.flags = state.flags & !(3 << flags::CHRONO_SHIFT) | 1 << flags::CHRONO_SHIFT;
            state.send_buffer = 64 | WRITE_BLOCKED;
        }
    }
    assert_says(&one(&events), Cause::SendBuffer, &["own send buffer", "64 KiB of memory"]);
}

#[test]
fn loss_is_named_whatever_the_cause() {
    let program = Program::Chunks { bytes: 1000, every_ns: 20 * MS };
    let (lost, length_ns) = (vec![60, 120], 4000 * MS);
    let analysis = analysis(Setup { program, lost, length_ns, ..Setup::default() });
    assert_says(&analysis, Cause::Application, &["segments were retransmitted ("]);
}

#[test]
fn an_algorithms_rate_stands_beside_what_was_achieved() {
    let mut events = Sender::new(Setup { pacing: Some(125_000), ..Setup::default() }).run();
    let mut n = 0;
    for event in &mut events {
        match &mut event.body {
            Body::State(state) => {
                n += 1;
                state.pacing_rate = 125_000 + 1000 * (n % 7);
            }
            Body::Open(open) => open.algorithm[..4].copy_from_slice(b"bbr\0"),
            _ => {}
        }
    }
    let words = ["the rate at which bbr paces", "its estimate of the path", "were achieved"];
    assert_says(&one(&events), Cause::FullPath, &words);
}

#[test]
fn random_loss_is_told_from_a_full_path_by_the_rtt() {
    let setup = Setup { lost: at_random(150), length_ns: 10_000 * MS, ..Setup::default() };
    let analysis = analysis(setup.clone());
    assert_says(
        &analysis,
        Cause::RandomLoss,
        &["retransmitted", "do not follow the load", "bears loss (BBR)"],
    );
    let mut events = Sender::new(setup).run();
    for event in &mut events {
        if let Body::State(state) = &mut event.body {
            state.srtt_us = 2 * state.min_rtt_us;
        }
    }
    assert_says(&one(&events), Cause::FullPath, &["RTT ", ", minimum ", "its rate"]);
}

/// One in `share`, by a hash.
fn at_random(share: u64) -> Vec<u64> {
    (100..9000_u64).filter(|n| ((n * 2_654_435_761) >> 16).is_multiple_of(share)).collect()
}

#[test]
fn segments_that_come_late_are_not_lost() {
    let setup = Setup { lost: at_random(150), length_ns: 10_000 * MS, ..Setup::default() };
    let mut events = Sender::new(setup).run();
    assert_eq!(one(&events).verdict.cause, Cause::RandomLoss);
    let d_sack = |event: &Event| Event {
        kind: Kind::Sack,
        aux: [1, 1],
        body: Body::Sack(Sack::default()),
        ..*event
    };
    let late: Vec<_> =
        events.iter().filter(|event| event.kind == Kind::Retransmit).map(d_sack).collect();
    events.extend(late);
    assert_says(&one(&events), Cause::Reordering, &["late, not lost", "tcp_reordering"]);
}

#[test]
fn bbr_behind_a_policer_is_told_from_a_full_path_by_the_queue_that_its_probes_make() {
    let setup = Setup { lost: at_random(40), length_ns: 10_000 * MS, ..Setup::default() };
    let bbr = |setup: &Setup, probed_rtt: f64| {
        let mut events = Sender::new(setup.clone()).run();
        for (n, event) in events.iter_mut().enumerate() {
            match &mut event.body {
                Body::Open(open) => open.algorithm[..4].copy_from_slice(b"bbr\0"),
                Body::State(state) if n % 8 == 0 => {
                    state.srtt_us = (f64::from(state.min_rtt_us) * probed_rtt) as u32;
                }
                _ => {}
            }
        }
        one(&events)
    };
    let once = Program::Chunks { bytes: 12_000, every_ns: 100_000 * MS };
    let once = Setup { program: once, lost: vec![4], length_ns: 20_000 * MS, ..Setup::default() };
    assert_says(&bbr(&setup, 1.0), Cause::Policer, &["no queue grows", "Shape to that rate"]);
    assert_says(&bbr(&setup, 1.5), Cause::FullPath, &["its rate"]);
    // A segment of ten is no rate above which a path drops.
    assert_says(&bbr(&once, 1.0), Cause::UnclearLoss, &["1 segment retransmitted"]);
}

#[test]
fn a_clamp_is_named() {
    let analysis = analysis(Setup { clamp: Some(30), hystart_at: None, ..Setup::default() });
    assert_says(&analysis, Cause::Saturated, &["clamp of 30 segments"]);
}

/// As BBR does, which is back at its clamp when the loss is repaired.
#[test]
fn a_clamp_is_named_though_losses_end_every_stay_there() {
    let setup = Setup { lost: at_random(30), length_ns: 8000 * MS, ..Setup::default() };
    let mut events = Sender::new(setup).run();
    for event in &mut events {
        if let Body::State(state) = &mut event.body {
            state.clamp = 12;
            state.cwnd = if state.ca() == Some(CaState::Open) { 12 } else { 8 };
            state.flags |= flags::CWND_LIMITED;
        }
    }
    let analysis = one(&events);
    let is_stay = |e: &Episode| matches!(e.kind, EpisodeKind::Saturated { .. });
    assert!(!analysis.episodes.iter().any(is_stay), "no stay is long");
    assert_says(&analysis, Cause::Saturated, &["clamp of 12 segments"]);
}

#[test]
fn a_short_transfer_never_leaves_slow_start() {
    let analysis = analysis(Setup { length_ns: 220 * MS, hystart_at: None, ..Setup::default() });
    assert_says(&analysis, Cause::SlowStart, &["slow start", "initcwnd"]);
}

/// A window that doubles each round trip lets through more at the end than at its median.
#[test]
fn a_window_that_let_more_through_than_it_would_cap_is_not_told_to_cap_it() {
    let setup = Setup { length_ns: 420 * MS, hystart_at: None, ..Setup::default() };
    let mut events = Sender::new(setup).run();
    let small = |event: &mut Event| {
        if let Body::State(state) = &mut event.body {
            state.cwnd = state.cwnd.min(20);
        }
    };
    events.iter_mut().for_each(small);
    let analysis = one(&events);
    assert_says(&analysis, Cause::SlowStart, &["(19.5 KiB over 50 ms)"]);
    assert!(!analysis.verdict.text().contains("caps it"), "{}", analysis.verdict.text());
}

#[test]
fn a_window_that_closes_at_its_best_has_not_shrunk() {
    let setup = Setup { receiver_window: 16 * MSS, hystart_at: None, ..Setup::default() };
    let mut events = Sender::new(setup).run();
    let (last, at) = (*events.last().unwrap(), events.last().unwrap().time_ns + MS);
    let mut state = *last.state().unwrap();
    (state.snd_una, state.packets_out, state.unsent) = (state.snd_nxt, 0, 50 * MSS);
    let aux = [transom_event::Direction::Received as u32, 0];
    let closed = Body::State(State { snd_wnd: 0, ..state });
    events.push(Event {
        time_ns: at,
        kind: Kind::ZeroWindow,
        aux,
        body: Body::State(state),
        ..last
    });
    for (ms, body) in [(1, closed), (8000, closed), (8001, Body::State(state))] {
        events.push(Event { time_ns: at + ms * MS, kind: Kind::Ack, aux: [0, 10], body, ..last });
    }
    let analysis = one(&events);
    assert_says(
        &analysis,
        Cause::PeerReadsSlowly,
        &["it has 15.6 KiB at most, it was closed 1 time"],
    );
}

#[test]
fn the_local_device_and_its_queue() {
    let refusals = (1..20).map(|i| i * 100 * MS).collect();
    let refused = analysis(Setup { refusals, hystart_at: Some(40), ..Setup::default() });
    assert_says(&refused, Cause::LocalDevice, &["refused 19 segments", "txqueuelen"]);
    let slow = analysis(Setup { device: Some(100_000), ..Setup::default() });
    assert_says(&slow, Cause::LocalDevice, &["TCP small queues"]);
}

/// `steady` gives up an eighth of its window, Scalable TCP too: that is no collapse.
#[test]
fn a_small_cut_for_each_refusal_holds_the_connection_as_a_large_one_does() {
    let refusals = (1..20).map(|i| i * 100 * MS).collect();
    let setup = Setup { refusals, cut: (7, 8), hystart_at: Some(40), ..Setup::default() };
    let refused = analysis(setup);
    let words = ["refused 19 segments and cwnd was made or kept small for that", "txqueuelen"];
    assert_says(&refused, Cause::LocalDevice, &words);
    assert!(!refused.verdict.text().contains("no window did"), "{}", refused.verdict.text());
}

#[test]
fn a_queue_that_holds_the_connection_most_of_the_time_is_told_with_the_cut_that_it_made() {
    let setup = Setup { device: Some(100_000), refusals: vec![800 * MS], ..Setup::default() };
    let analysis = analysis(setup);
    let collapses = |e: &&Episode| matches!(e.kind, EpisodeKind::WindowCollapse { .. });
    assert_eq!(analysis.episodes.iter().filter(collapses).count(), 1);
    let words =
        ["TCP small queues", "of that time it was cwnd", "refused 1 segment", "The link here"];
    assert_says(&analysis, Cause::LocalDevice, &words);
}

/// The events with a segment that a queue here dropped when TCP was no longer there to see it: cwnd is
/// not reduced for that.
fn dropped_unseen(mut events: Vec<Event>, at: usize, cwnd: u32) -> Analysis {
    let Body::State(state) = events[at].body else { panic!("an event with a state") };
    let (kind, place, body) =
        (Kind::LocalCongestion, Place::QdiscDrop, Body::State(State { cwnd, ..state }));
    events.insert(at + 1, Event { kind, place, aux: [64, MSS], body, ..events[at] });
    one(&events)
}

#[test]
fn a_refusal_that_cwnd_did_not_fall_for_is_not_what_limits() {
    let slow = Sender::new(Setup { device: Some(100_000), ..Setup::default() }).run();
    let slow = dropped_unseen(slow, 40, 10);
    let words = ["TCP small queues", "refused 1 segment, too", "The link here"];
    assert_says(&slow, Cause::LocalDevice, &words);
    assert!(!slow.verdict.text().contains("0 times"), "{}", slow.verdict.text());
    // The program paused after it, and cwnd began anew.
    let fast = Sender::new(Setup::default()).run();
    let fast = dropped_unseen(fast, 40, 1000);
    assert!(fast.limits.time_ns(Limit::LocalDevice) < MS, "{:?}", fast.limits.total_ns);
    assert_says(&fast, Cause::Cwnd, &["Limited by the congestion window"]);
}

/// The events as they are where this machine's own queue dropped what was lost, or each so-manieth of it.
fn dropped_here(mut events: Vec<Event>, each: usize) -> Vec<Event> {
    let lost = events.iter().filter(|event| event.kind == Kind::Retransmit);
    let lost: Vec<u32> = lost.step_by(each).map(|it| fields::retransmitted_seq(it.aux)).collect();
    for seq in lost {
        let begins = |event: &Event| event.state().is_some_and(|state| state.snd_nxt == seq);
        let sent = events.iter().position(|event| event.kind == Kind::Send && begins(event));
        let Some(at) = sent else { continue };
        let (kind, place, aux) = (Kind::LocalCongestion, Place::QdiscDrop, [64, MSS]);
        events.insert(at + 1, Event { kind, place, aux, ..events[at] });
    }
    events
}

#[test]
fn what_this_machines_own_queue_dropped_is_not_lost_by_the_path() {
    let bottleneck = Some(Bottleneck { rate: 2_000_000, room: 10, polices: false });
    let setup = Setup { bottleneck, length_ns: 40_000 * MS, ..Setup::default() };
    let events = Sender::new(setup).run();
    let here = one(&dropped_here(events.clone(), 1));
    assert_says(&here, Cause::LocalDevice, &["most of what was lost", "txqueuelen"]);
    assert!(!here.verdict.text().contains("path"), "{}", here.verdict.text());
    let few = one(&dropped_here(events, 3));
    assert_says(&few, Cause::ShallowBuffer, &["queue is longest"]);
}

/// As netem does, which the kernel tells as it tells a queue that overflows.
#[test]
fn what_this_machines_own_queue_drops_at_any_load_makes_it_no_bottleneck() {
    let lossy = |lost, length_ns| {
        let events = Sender::new(Setup { lost, length_ns, ..Setup::default() }).run();
        one(&dropped_here(events, 1))
    };
    let many = lossy(at_random(150), 10_000 * MS);
    assert!(many.losses.are_here(), "{:?}", many.losses);
    assert_says(&many, Cause::RandomLoss, &["not at the greatest loads", "netem", "tc -s qdisc"]);
    let few = lossy(vec![300, 900], 3000 * MS);
    assert!(few.losses.are_here(), "{:?}", few.losses);
    assert_says(&few, Cause::UnclearLoss, &["most of what was lost. Whether", "cannot be told"]);
}

/// Several flows of BBR in one queue: it overflows at any load of each, and is never empty.
#[test]
fn this_machines_own_queue_that_bbr_fills_with_others_is_the_bottleneck() {
    let setup = Setup { lost: at_random(40), length_ns: 10_000 * MS, ..Setup::default() };
    let behind = |queue: u32| {
        let mut events = dropped_here(Sender::new(setup.clone()).run(), 1);
        for event in &mut events {
            match &mut event.body {
                Body::Open(open) => open.algorithm[..4].copy_from_slice(b"bbr\0"),
                Body::State(state) => state.srtt_us = queue * state.min_rtt_us,
                _ => {}
            }
        }
        one(&events)
    };
    let words = ["behind a queue most of the time", "others may fill it", "txqueuelen"];
    assert_says(&behind(3), Cause::LocalDevice, &words);
    assert_says(&behind(1), Cause::RandomLoss, &["netem"]);
}

#[test]
fn a_path_that_goes_away_and_comes_back() {
    let length_ns = 2500 * MS;
    let analysis = analysis(Setup { blackout: 300 * MS..1700 * MS, length_ns, ..Setup::default() });
    assert_says(&analysis, Cause::Outage, &["Nothing came back for", "1 interruption"]);
}

#[test]
fn an_interruption_that_is_not_the_main_cause_is_named_besides() {
    let (length_ns, blackout) = (5000 * MS, 300 * MS..1300 * MS);
    let program = Program::Chunks { bytes: 1000, every_ns: 20 * MS };
    let analysis = analysis(Setup { program, blackout, length_ns, ..Setup::default() });
    assert_says(&analysis, Cause::Application, &["1 interruption."]);
}

#[test]
fn an_estimate_that_a_send_buffer_holds_down_is_the_buffers() {
    let mut events = Sender::new(Setup { send_buffer: 32_000, ..Setup::default() }).run();
    let mut n = 0;
    for event in &mut events {
        let Body::State(state) = &mut event.body else { continue };
        n += 1;
        state.pacing_rate = 800_000 + 1000 * (n % 7);
        if n % 3 != 0 {
            (state.unsent, state.cwnd, state.flags) = (5 * MSS, 1000, flags::PACED);
        }
    }
    let analysis = one(&events);
    let share = |limit| analysis.limits.share(limit);
    assert!(share(Limit::Pacing) > share(Limit::SendBuffer), "{:?}", analysis.limits.total_ns);
    let paced =
        format!("({:.0}% by the pacing rate, which that keeps low)", share(Limit::Pacing) * 100.0);
    assert_says(&analysis, Cause::SendBuffer, &["own send buffer", &paced]);
}

#[test]
fn a_peer_that_vanishes_is_no_radio_link() {
    let length_ns = 24_000 * MS;
    let analysis = analysis(Setup { blackout: 300 * MS..length_ns, length_ns, ..Setup::default() });
    assert_says(&analysis, Cause::PeerVanished, &["Nothing came back in the last", "timeouts"]);
    assert!(!analysis.verdict.text().contains("radio"));
}

/// Timeouts of a connection that one side has closed while data is in flight, and what was
/// acknowledged before each: the ACKs themselves have no events then.
fn draining(in_state: TcpState, acknowledged: u32) -> Analysis {
    let mut events = Sender::new(Setup::default()).run();
    let last = *events.last().unwrap();
    let mut state = State {
        tcp_state: in_state as u8,
        snd_nxt: last.state().unwrap().snd_una.wrapping_add(40 * MSS),
        unsent: MSS,
        ..*last.state().unwrap()
    };
    for second in 1..=4 {
        state.snd_una = state.snd_una.wrapping_add(acknowledged);
        let (time_ns, body) = (last.time_ns + second * 1000 * MS, Body::State(state));
        let place = Place::EnterLoss;
        events.push(Event { time_ns, kind: Kind::Rto, place, aux: [1, 1], body, ..last });
    }
    one(&events)
}

#[test]
fn a_peer_that_acknowledges_after_one_side_has_closed_is_there() {
    for in_state in [TcpState::FinWait1, TcpState::CloseWait] {
        assert_ne!(draining(in_state, 5 * MSS).verdict.cause, Cause::PeerVanished);
        let gone = draining(in_state, 0);
        assert_says(&gone, Cause::PeerVanished, &["Nothing came back in the last", "4 timeouts"]);
    }
}
