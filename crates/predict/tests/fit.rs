//! What is fitted is what was built.

#[path = "../../analysis/tests/sender/mod.rs"]
mod sender;

use sender::{Bottleneck, MS, MSS, Program, Sender, Setup, only, run};
use transom_analysis::{Recording, analyse_connection};
use transom_event::{Body, Event, Kind};
use transom_predict::{Model, Program as Fitted, Unfit, fit};

fn fitted(recording: &Recording) -> Result<Model, Unfit> {
    let connection = only(recording);
    let analysis = analyse_connection(connection, recording);
    fit(connection, &analysis, recording).map(|models| models[0].clone())
}

fn model(setup: Setup) -> Model {
    fitted(&run(setup)).expect("it can be fitted")
}

/// The senders here put no headers on their segments; a path is fitted to IP packets.
fn payload(model: &Model, rate: f64) -> f64 {
    rate * f64::from(MSS) / model.packet
}

fn bottleneck(rate: u64, room: u64) -> Option<Bottleneck> {
    Some(Bottleneck { rate, room, polices: false })
}

#[test]
fn a_path_is_found_with_its_round_trip_rate_and_queue() {
    for (rate, rtt_ms, room) in [(250_000, 20, 8), (1_000_000, 50, 60), (4_000_000, 10, 25)] {
        let setup = Setup {
            rtt_ns: rtt_ms * MS,
            length_ns: 20_000 * MS,
            bottleneck: bottleneck(rate, room),
            ..Setup::default()
        };
        let model = model(setup);
        let path = &model.path;
        let found = payload(&model, path.rate.value);
        assert!((found / rate as f64 - 1.0).abs() < 0.01, "{rate}: {path:?}");
        let round_trip = path.rtt_s.value * 1e3 / rtt_ms as f64;
        assert!((round_trip - 1.0).abs() < 0.05, "{rtt_ms} ms: {path:?}");
        assert!((path.queue.value - room as f64).abs() <= 1.5, "{room} packets: {path:?}");
        assert!(path.policer.is_none(), "{path:?}");
        assert_eq!(path.loss.value, 0.0, "a full queue is no chance: {path:?}");
        assert_eq!(model.program, Fitted::Endless);
    }
}

#[test]
fn losses_away_from_a_full_queue_are_chance() {
    // One in two hundred, and a queue that is never full.
    let lost: Vec<u64> = (1..60).map(|i| i * 200 + i * i % 97).collect();
    let setup = Setup {
        length_ns: 10_000 * MS,
        lost,
        bottleneck: bottleneck(1_000_000, 10_000),
        ..Setup::default()
    };
    let model = model(setup);
    assert!(model.path.loss.holds(0.005), "{:?}", model.path.loss);
    assert!(model.path.queue.high.is_none(), "its end was never met: {:?}", model.path.queue);
}

#[test]
fn where_every_segment_meets_a_full_queue_losses_by_chance_stay_open() {
    let lossy = |room| {
        let length_ns = 20_000 * MS;
        model(Setup { length_ns, bottleneck: bottleneck(500_000, room), ..Setup::default() })
    };
    let short = lossy(1);
    assert_eq!((short.path.loss.value, short.path.loss.high), (0.0, None), "{:?}", short.path.loss);
    let losses: Vec<f64> = (0..6).map(|i| short.variant(i).path.loss.value).collect();
    assert!(losses[0] == 0.0 && losses[1..].iter().all(|&it| it > 0.0), "{losses:?}");
    let long = lossy(60);
    assert!(long.path.loss.high.is_some(), "the control: {:?}", long.path.loss);
    assert_eq!(long.variant(1).path.loss.value, 0.0);
}

#[test]
fn a_policer_is_told_from_a_queue_by_the_round_trips() {
    let setup = Setup {
        length_ns: 20_000 * MS,
        hystart_at: Some(20),
        bottleneck: Some(Bottleneck { rate: 500_000, room: 30, polices: true }),
        ..Setup::default()
    };
    let model = model(setup);
    let path = &model.path;
    let policer = path.policer.as_ref().unwrap_or_else(|| panic!("a policer: {path:?}"));
    let found = payload(&model, policer.rate.value);
    assert!((found / 500_000.0 - 1.0).abs() < 0.03, "{policer:?}");
}

#[test]
fn a_rate_that_was_never_reached_stays_open() {
    let setup = Setup { clamp: Some(4), length_ns: 4_000 * MS, ..Setup::default() };
    let model = model(setup);
    assert_eq!(model.path.rate.high, None);
    assert_eq!(model.sender.cap, Some(4));
    assert!(!model.is_certain(), "other rates agree with it as well");
}

#[test]
fn a_rate_that_stays_the_same_may_be_the_programs_or_that_of_an_algorithm_that_paces() {
    let pacing = |algorithm: &[u8], rate| {
        let setup = Setup { pacing: rate, length_ns: 4_000 * MS, ..Setup::default() };
        let mut events = Sender::new(setup).run();
        for event in &mut events {
            if let Body::Open(open) = &mut event.body {
                open.algorithm[..algorithm.len()].copy_from_slice(algorithm);
            }
        }
        let recording = Recording::from_iter(&events);
        let connection = only(&recording);
        let analysis = analyse_connection(connection, &recording);
        let models = fit(connection, &analysis, &recording).unwrap();
        models.iter().map(|model| model.sender.pacing).collect::<Vec<_>>()
    };
    let rate = Some(200_000);
    assert_eq!(pacing(b"bbr\0", rate)[..2], [None, rate], "a replay tells whether it is needed");
    assert!(pacing(b"reno", rate).iter().all(|&it| it == rate), "the control: it has none");
    assert!(pacing(b"bbr\0", None).iter().all(Option::is_none));
}

#[test]
fn a_window_that_never_grew_may_be_the_next_limit_if_the_path_holds_more() {
    let windows = |receiver_window| {
        let bottleneck = bottleneck(1_000_000, 60);
        let clamp = Some(10);
        let length_ns = 6_000 * MS;
        let recording =
            run(Setup { receiver_window, clamp, bottleneck, length_ns, ..Setup::default() });
        let connection = only(&recording);
        let analysis = analyse_connection(connection, &recording);
        let models = fit(connection, &analysis, &recording).unwrap();
        let of = |model: &Model| model.receiver.window.as_ref().map(|it| it.value as u32);
        models.iter().filter_map(of).collect::<Vec<u32>>()
    };
    assert_eq!(windows(30_000), [30_000], "in a second model: nothing was held back by it");
    assert!(windows(1_000_000_000).is_empty(), "the control: the path holds less");
}

#[test]
fn writes_are_found_with_their_times_and_sizes() {
    let every_ns = 400 * MS;
    let setup = Setup {
        program: Program::Chunks { bytes: 50_000, every_ns },
        length_ns: 6_000 * MS,
        bottleneck: bottleneck(1_000_000, 100),
        ..Setup::default()
    };
    let Fitted::Writes { writes } = model(setup).program else {
        panic!("it waits for its program")
    };
    for (i, (at_s, bytes)) in writes.iter().enumerate() {
        assert_eq!(*bytes, 50_000, "write {i}");
        assert!((at_s - i as f64 * 0.4).abs() < 0.002, "write {i} at {at_s} s");
    }
}

#[test]
fn small_writes_are_found_though_one_wait_for_the_program_spans_them() {
    let setup = Setup {
        rtt_ns: 130 * MS,
        program: Program::Chunks { bytes: 3_000, every_ns: 900 * MS },
        length_ns: 8_000 * MS,
        ..Setup::default()
    };
    let program = model(setup).program;
    let Fitted::Writes { writes } = &program else { panic!("it waits: {program:?}") };
    assert!(writes.len() >= 8, "{writes:?}");
}

#[test]
fn of_a_short_queue_and_a_policer_that_both_explain_the_losses_both_are_replayed() {
    let setup =
        Setup { length_ns: 20_000 * MS, bottleneck: bottleneck(500_000, 3), ..Setup::default() };
    let recording = run(setup);
    let connection = only(&recording);
    let analysis = analyse_connection(connection, &recording);
    let models = fit(connection, &analysis, &recording).expect("it can be fitted");
    let policed: Vec<bool> = models.iter().map(|model| model.path.policer.is_some()).collect();
    assert!(policed.contains(&true) && policed.contains(&false), "{models:?}");
}

/// The send buffer that is found where it holds `segments`, and whether it grew to that; recorded
/// are these sizes, KiB, each from the event of that number on.
fn buffer_of(segments: u64, sizes: &[(usize, u16)]) -> (Option<u32>, bool) {
    let send_buffer = segments * u64::from(MSS);
    let mut events =
        sender::Sender::new(Setup { send_buffer, length_ns: 4_000 * MS, ..Setup::default() }).run();
    for (i, event) in events.iter_mut().enumerate() {
        if let Body::State(state) = &mut event.body {
            let at = sizes.iter().rfind(|(from, _)| *from <= i).expect("a size from the beginning");
            state.send_buffer = at.1;
        }
    }
    let sender = fitted(&events.iter().collect()).expect("it can be fitted").sender;
    (sender.send_buffer, sender.send_buffer_grew)
}

/// What a new socket has, KiB: ten segments.
const NEW: u16 = 85;
/// Segments that the buffer holds: it is a limit, or it is none.
const FEW: u64 = 16;
const ENOUGH: u64 = 100_000;

#[test]
fn a_send_buffer_that_a_program_sets_is_the_programs_at_whatever_time_it_does() {
    let bytes = |kib: u32| (Some(kib << 10 >> 1), false);
    assert_eq!(buffer_of(FEW, &[(0, 64)]), bytes(64), "before the handshake");
    assert_eq!(buffer_of(ENOUGH, &[(0, 64)]), bytes(64), "before the handshake, and no limit");
    assert_eq!(buffer_of(FEW, &[(0, NEW), (9, 256)]), bytes(256), "a larger one after it");
    assert_eq!(buffer_of(FEW, &[(0, NEW), (9, 32)]), bytes(32), "a smaller one after it");
    assert_eq!(buffer_of(FEW, &[(0, 16), (2, NEW), (9, 256)]), bytes(256), "seen in SYN-SENT, too");
}

#[test]
fn a_send_buffer_that_grew_in_steps_is_the_kernels() {
    let steps = [(0, NEW), (5, 93), (7, 102), (9, 128)];
    assert_eq!(buffer_of(FEW, &steps), (Some(64 << 10), true));
    assert_eq!(buffer_of(ENOUGH, &steps), (None, false), "and is none where it was no limit");
    assert_eq!(buffer_of(ENOUGH, &[(0, NEW)]), (None, false), "it never had to grow");
}

#[test]
fn a_send_buffer_of_which_the_kernel_takes_is_nobodys_setting() {
    let taken = [(0, NEW), (5, 80), (7, 70), (9, 60)];
    assert_eq!(buffer_of(FEW, &taken), (None, false));
}

#[test]
fn what_is_missing_is_named() {
    let setup = || Setup { bottleneck: bottleneck(1_000_000, 60), ..Setup::default() };
    let without = |keep: fn(usize, &Event) -> bool| -> String {
        let events = sender::Sender::new(setup()).run();
        let kept = events.iter().enumerate().filter(|(i, event)| keep(*i, event));
        let recording = kept.map(|(_, event)| event).collect();
        fitted(&recording).expect_err("it cannot be fitted").to_string()
    };
    let sampled = without(|i, event| event.kind != Kind::Ack || i % 20 == 0);
    assert!(sampled.contains("--rate"), "{sampled}");
    let late = without(|_, event| event.kind != Kind::Open);
    assert!(late.contains("Record from its beginning"), "{late}");
    let short = without(|_, event| event.time_ns < 53 * MS);
    assert!(short.contains("too few"), "{short}");
}
