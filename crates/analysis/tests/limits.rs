//! Each cause alone, made by a sender that has nothing else to wait for.

mod sender;

use sender::{MS, MSS, Program, Setup, analysis, only, run};
use transom_analysis::{Analysis, Limit, Limits, Recording, analyse};
use transom_event::{Body, Event, Kind, LossCause, State, flags};

fn most(analysis: &Analysis) -> (Limit, f64) {
    let limits = &analysis.limits;
    let largest = Limit::ALL.into_iter().max_by_key(|&limit| limits.time_ns(limit)).unwrap();
    (largest, limits.share(largest))
}

#[track_caller]
fn assert_mostly(setup: Setup, limit: Limit, share: f64) -> Analysis {
    let analysis = analysis(setup);
    let found = most(&analysis);
    assert!(found.0 == limit && found.1 >= share, "{found:?}: {:?}", analysis.limits.total_ns);
    analysis
}

#[test]
fn a_bulk_sender_on_a_clean_path_waits_for_its_congestion_window() {
    let setup = Setup::default();
    assert_mostly(setup, Limit::Cwnd, 0.95);
}

#[test]
fn a_small_window_of_the_other_side_is_the_receivers() {
    let setup = Setup { receiver_window: 16 * MSS, ..Setup::default() };
    assert_mostly(setup, Limit::ReceiverWindow, 0.9);
}

#[test]
fn a_window_too_small_for_a_segment_is_the_receivers_even_if_the_kernel_did_not_say_so() {
    let setup = Setup { receiver_window: 16 * MSS, ..Setup::default() };
    let mut events = sender::Sender::new(setup).run();
    for event in &mut events {
        if let transom_event::Body::State(state) = &mut event.body {
            state.flags &= !(3 << transom_event::flags::CHRONO_SHIFT);
        }
    }
    let recording = transom_analysis::Recording::from_iter(&events);
    let limits = Limits::of(only(&recording), &[]);
    assert!(limits.share(Limit::ReceiverWindow) > 0.9, "{:?}", limits.total_ns);
}

/// Its timer sends them: no ACK comes before.
#[test]
fn the_wait_for_a_probe_of_a_closed_window_is_the_receivers() {
    let mut events = sender::Sender::new(Setup::default()).run();
    let last = *events.last().unwrap();
    let ack = *events.iter().rev().find(|event| event.kind == Kind::Ack).unwrap();
    let Body::State(state) = ack.body else { panic!("an ack has a state") };
    // The ACK that closes the window still meets the open one.
    let probes = [(0, Kind::Ack, 50 * MSS)];
    let probes = probes.into_iter().chain([4, 8, 16].map(|at| (at, Kind::Send, MSS / 2)));
    for (second, kind, snd_wnd) in probes {
        let body = Body::State(State {
            snd_una: state.snd_nxt,
            packets_out: 0,
            snd_wnd,
            unsent: 50 * MSS,
            flags: 0,
            ..state
        });
        let time_ns = last.time_ns + (second * 1000 + 1) * MS;
        events.push(Event { time_ns, kind, aux: [0, 0], body, ..ack });
    }
    let limits = analyse(&Recording::from_iter(&events)).remove(0).limits;
    assert!(limits.time_ns(Limit::LocalDevice) < 2 * MS, "{:?}", limits.total_ns);
    assert!(limits.time_ns(Limit::ReceiverWindow) >= 16_000 * MS, "{:?}", limits.total_ns);
}

#[test]
fn a_small_send_buffer_is_the_senders_own() {
    let setup = Setup { send_buffer: 16 * u64::from(MSS), ..Setup::default() };
    assert_mostly(setup, Limit::SendBuffer, 0.9);
}

#[test]
fn a_program_that_writes_little_is_the_limit_itself() {
    let program = Program::Chunks { bytes: 3000, every_ns: 20 * MS };
    assert_mostly(Setup { program, ..Setup::default() }, Limit::Application, 0.95);
}

#[test]
fn a_program_that_is_silent_for_seconds_is_idle() {
    let program = Program::Chunks { bytes: 3000, every_ns: 3000 * MS };
    let setup = Setup { program, length_ns: 30_000 * MS, ..Setup::default() };
    assert_mostly(setup, Limit::Idle, 0.9);
}

#[test]
fn a_rate_below_what_the_windows_allow_is_pacing() {
    let setup = Setup { pacing: Some(100_000), ..Setup::default() };
    assert_mostly(setup, Limit::Pacing, 0.9);
}

#[test]
fn a_paced_sender_whose_window_is_full_still_waits_for_the_window() {
    let setup = Setup { pacing: Some(100_000_000), hystart_at: Some(20), ..Setup::default() };
    assert_mostly(setup, Limit::Cwnd, 0.9);
}

#[test]
fn a_slow_device_that_holds_enough_is_the_local_device() {
    // 100 segments/s over 50 ms are 5 segments in flight: cwnd (10) is never full.
    let setup = Setup { device: Some(100_000), ..Setup::default() };
    assert_mostly(setup, Limit::LocalDevice, 0.9);
}

#[test]
fn a_window_that_the_local_device_made_small_is_the_devices() {
    let refusals = (1..20).map(|i| i * 100 * MS).collect();
    let setup = Setup { refusals, ..Setup::default() };
    assert_mostly(setup, Limit::LocalDevice, 0.8);
}

#[test]
fn a_path_that_goes_away_is_a_wait_for_the_timer() {
    let setup = Setup { blackout: 500 * MS..1500 * MS, ..Setup::default() };
    let analysis = analysis(Setup { ..setup });
    let repair = analysis.limits.share(Limit::Repair);
    assert!((0.4..0.8).contains(&repair), "{:?}", analysis.limits.total_ns);
}

#[test]
fn the_time_is_split_without_gap_or_overlap() {
    let setup = Setup { lost: vec![100, 300, 700], ..Setup::default() };
    let recording = run(setup);
    let limits = Limits::of(only(&recording), &recording.lost);
    let mut at = only(&recording).first_ns;
    for span in &limits.spans {
        assert_eq!(span.start_ns, at);
        at = span.end_ns;
    }
    assert_eq!(at, only(&recording).last_ns);
    assert_eq!(limits.total_ns.values().sum::<u64>(), limits.duration_ns);
}

#[test]
fn a_long_wait_across_lost_events_is_not_explained() {
    let program = Program::Chunks { bytes: 3000, every_ns: 500 * MS };
    let recording = run(Setup { program, ..Setup::default() });
    let lost = [(700 * MS, transom_event::LossCause::Ring, 9)];
    let limits = Limits::of(only(&recording), &lost);
    assert!(limits.time_ns(Limit::Unknown) >= 400 * MS, "{:?}", limits.total_ns);
}

/// Segments without an event are counted for the whole recording; whose they were shows in its numbers.
#[test]
fn segments_that_another_connection_sent_unseen_leave_a_wait_explained() {
    let program = Program::Chunks { bytes: 3000, every_ns: 500 * MS };
    let setup = Setup { program, ..Setup::default() };
    let lost = [(700 * MS, LossCause::UnseenSend, 9)];
    let limits = Limits::of(only(&run(setup.clone())), &lost);
    assert_eq!(limits.time_ns(Limit::Unknown), 0, "{:?}", limits.total_ns);

    let mut events = sender::Sender::new(setup).run();
    events.retain(|event| event.kind != Kind::Send || event.time_ns < 400 * MS);
    let limits = Limits::of(only(&Recording::from_iter(&events)), &lost);
    assert!(limits.time_ns(Limit::Unknown) >= 400 * MS, "{:?}", limits.total_ns);
}

#[test]
fn many_losses_and_many_waits_take_no_more_than_both() {
    let program = Program::Chunks { bytes: 3000, every_ns: 500 * MS };
    let recording = run(Setup { program, length_ns: 5_000_000 * MS, ..Setup::default() });
    let end = only(&recording).last_ns;
    let lost: Vec<_> = (1..1_000_000).map(|n| (end + n, LossCause::Ring, 1)).collect();
    let start = std::time::Instant::now();
    let limits = Limits::of(only(&recording), &lost);
    assert!(start.elapsed().as_secs() < 5, "{:?}", start.elapsed());
    assert_eq!(limits.time_ns(Limit::Unknown), 0);
}

#[test]
fn a_loss_that_is_told_late_still_explains_the_wait() {
    let program = Program::Chunks { bytes: 3000, every_ns: 500 * MS };
    let mut recording = run(Setup { program, ..Setup::default() });
    recording.push(&Event::lost(LossCause::Ring, 9, 9_000 * MS));
    recording.push(&Event::lost(LossCause::Ring, 9, 700 * MS));
    let limits = Limits::of(only(&recording), &recording.lost);
    assert!(limits.time_ns(Limit::Unknown) >= 400 * MS, "{:?}", limits.total_ns);
}

/// A recorder that was held up tells its losses when it goes on, after events that waited for it.
#[test]
fn a_loss_that_is_told_after_the_gap_explains_no_wait_in_which_data_left() {
    let mut events = sender::Sender::new(Setup::default()).run();
    let lost = [(1900 * MS, LossCause::Ring, 9)];
    let whole = Recording::from_iter(&events);
    assert_eq!(Limits::of(only(&whole), &lost).time_ns(Limit::Unknown), 0, "nothing is missing");
    events.retain(|event| !(500 * MS..1500 * MS).contains(&event.time_ns));
    let gap = Recording::from_iter(&events);
    let limits = Limits::of(only(&gap), &lost);
    assert!(limits.time_ns(Limit::Unknown) >= 900 * MS, "{:?}", limits.total_ns);
    let told_of_nothing = Limits::of(only(&gap), &[]);
    assert_eq!(told_of_nothing.time_ns(Limit::Unknown), 0, "{:?}", told_of_nothing.total_ns);
}

#[test]
fn one_ack_in_ten_still_names_the_same_limit() {
    use transom_event::Kind;
    for (setup, limit) in [
        (Setup::default(), Limit::Cwnd),
        (Setup { receiver_window: 16 * MSS, ..Setup::default() }, Limit::ReceiverWindow),
        (Setup { send_buffer: 16 * u64::from(MSS), ..Setup::default() }, Limit::SendBuffer),
    ] {
        let mut n = 0;
        let mut events = sender::Sender::new(setup).run();
        events.retain(|event| {
            n += 1;
            !matches!(event.kind, Kind::Ack | Kind::Send) || event.kind == Kind::Ack && n % 10 == 0
        });
        let recording = transom_analysis::Recording::from_iter(&events);
        let analysis = transom_analysis::analyse_connection(only(&recording), &recording);
        assert!(analysis.summary.coverage.sampled);
        assert_eq!(most(&analysis).0, limit, "{:?}", analysis.limits.total_ns);
    }
}

/// BBR turns pacing on and does not turn it off when another algorithm takes its place.
#[test]
fn a_pacing_rate_above_cwnd_is_not_what_a_full_device_waits_for() {
    // ACKs come between the segments that leave, so that both kinds of wait are judged.
    let setup = Setup { device: Some(100_000), rtt_ns: 55 * MS, ..Setup::default() };
    let mut events = sender::Sender::new(setup).run();
    for event in &mut events {
        if let Body::State(state) = &mut event.body {
            let per_rtt = u64::from(state.cwnd) * u64::from(MSS);
            state.pacing_rate = per_rtt * 1_200_000 / u64::from(state.srtt_us);
            state.flags |= flags::PACED;
        }
    }
    let limits = Limits::of(only(&Recording::from_iter(&events)), &[]);
    assert!(limits.share(Limit::LocalDevice) > 0.9, "{:?}", limits.total_ns);
}
