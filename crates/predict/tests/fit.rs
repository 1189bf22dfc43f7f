//! What is fitted is what was built.

#[path = "../../analysis/tests/sender/mod.rs"]
mod sender;

use sender::{Bottleneck, MS, MSS, Program, Setup, only, run};
use transom_analysis::{Recording, analyse_connection};
use transom_event::{Event, Kind};
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
