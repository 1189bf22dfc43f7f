//! What `explain` says of paths that Linux's own TCP went over, and whose truth is known.

mod bed;

use bed::{flow, host, run, scenario, seconds};
use transom_analysis::{Analysis, Cause, analyse};
use transom_emulator::plan::{Direction, Handover};
use transom_scenario::{Scenario, Traffic};

/// Ten seconds of bulk over a path of this rate and queue, which loses this share of the segments at
/// random behind it.
fn lossy(mbit: f64, rtt_ms: f64, queue: u32, loss: f64) -> Scenario {
    let mut scenario = scenario(mbit, rtt_ms, seconds(10.0));
    let up = &mut scenario.links.path.up;
    up.queue_packets = Some(queue);
    up.stages = vec![Direction { loss, ..Direction::default() }];
    scenario
}

/// What the sender of such a scenario is told.
#[track_caller]
fn told(scenario: &Scenario, host_name: &str) -> Analysis {
    let ran = run(scenario);
    assert!(ran.output.status.success(), "{:?}", ran.output);
    analyse(&ran.recording(host_name)).remove(0)
}

fn with_algorithm(mut scenario: Scenario, algorithm: &str) -> Scenario {
    let key = "ipv4.tcp_congestion_control".to_owned();
    host(&mut scenario, "a").sysctl.insert(key, algorithm.to_owned());
    scenario
}

#[track_caller]
fn assert_told(scenario: &Scenario, algorithm: &str, cause: Cause) -> f64 {
    let analysis = told(&with_algorithm(scenario.clone(), algorithm), "a");
    assert_eq!(analysis.verdict.cause, cause, "{}", analysis.verdict.text());
    analysis.summary.goodput_up / 1e6 / scenario.links.path.up.rate_mbit.unwrap()
}

#[test]
fn a_slow_link_that_loses_at_any_load_is_not_called_full() {
    for (mbit, rtt_ms, queue, loss) in
        [(6.48, 11.1, 2, 0.1), (4.95, 2.7, 4, 0.1), (6.38, 9.3, 2, 0.05), (0.38, 2.4, 20, 0.3)]
    {
        for algorithm in ["cubic", "reno"] {
            let path = lossy(mbit, rtt_ms, queue, loss);
            let used = assert_told(&path, algorithm, Cause::RandomLoss);
            assert!(used < 0.8, "{used} of the rate: the path was full");
        }
    }
}

#[test]
fn a_slow_link_that_is_full_is_called_so_whether_it_loses_at_random_or_not() {
    for (mbit, rtt_ms, queue, loss) in
        [(0.46, 11.5, 4, 0.0), (1.62, 1.1, 8, 0.0), (2.96, 1.9, 2, 0.0), (2.44, 6.9, 60, 0.01)]
    {
        for algorithm in ["cubic", "reno"] {
            let path = lossy(mbit, rtt_ms, queue, loss);
            let used = assert_told(&path, algorithm, Cause::FullPath);
            assert!(used > 0.8, "{used} of the rate: the path was not full");
        }
    }
}

#[test]
fn timeouts_in_a_row_by_chance_are_no_interruption_of_the_path() {
    for (mbit, rtt_ms, queue, loss) in [(2.08, 2.4, 60, 0.3), (7.07, 1.1, 2, 0.3)] {
        assert_told(&lossy(mbit, rtt_ms, queue, loss), "reno", Cause::RandomLoss);
    }
    let mut away = lossy(10.0, 30.0, 60, 0.01);
    let gone = |at_s| Handover { at_s, outage_ms: 2000.0, lose: true, ..Handover::default() };
    away.links.path.up.handovers = vec![gone(2.0), gone(6.0)];
    assert_told(&away, "reno", Cause::Outage);
}

#[test]
fn what_waits_while_a_link_is_away_is_not_taken_for_the_queue_that_overflows() {
    let mut path = lossy(35.6, 104.0, 102, 0.0);
    let away = Handover { at_s: 3.0, outage_ms: 800.0, ..Handover::default() };
    path.links.path.up.handovers = vec![away];
    let used = assert_told(&path, "cubic", Cause::ShallowBuffer);
    assert!(used < 0.8, "{used} of the rate: the path was full");
}

#[test]
fn a_queue_that_never_drains_is_told_as_a_full_path_though_only_the_first_round_trips_miss_it() {
    let mut path = lossy(1184.15, 0.354, 71, 0.0);
    flow(&mut path).traffic = seconds(0.5);
    let used = assert_told(&path, "cubic", Cause::FullPath);
    assert!(used > 0.9, "{used} of the rate: the path was not full");
}

#[test]
fn a_round_trip_that_a_timestamp_makes_too_short_is_no_queue_that_bbr_found() {
    let mut policed = scenario(1.0, 10.898_580, seconds(6.0));
    policed.links.path.up = Direction {
        police_mbit: Some(88.99),
        police_burst_bytes: Some(114_859),
        ..Direction::default()
    };
    let analysis = told(&with_algorithm(policed, "bbr"), "a");
    assert_eq!(analysis.verdict.cause, Cause::Policer, "{}", analysis.verdict.text());
    let least_us = analysis.summary.rtt.unwrap().min_us;
    assert!((10_800..11_000).contains(&least_us), "{least_us}");
}

#[test]
fn the_last_piece_of_an_answer_that_nagle_holds_back_is_no_answer_of_its_own() {
    let traffic = Traffic::Requests { request: 112, response: 752_896, think_s: 0.0, count: 31 };
    let mut path = scenario(221.0, 22.47, traffic);
    let links = &mut path.links.path;
    links.down = std::mem::take(&mut links.up);
    links.down.queue_packets = Some(788);
    let verdict = told(&path, "b").verdict;
    assert!(verdict.text().starts_with("Both sides talk in turn."), "{}", verdict.text());
    assert_eq!(verdict.cause, Cause::FullPath);
}

/// Requests and answers over a path of these rates, up and down.
fn exchange(sizes: (u64, u64), count: u64, rtt_ms: f64, rates: (f64, f64)) -> Scenario {
    let (request, response) = sizes;
    let traffic = Traffic::Requests { request, response, think_s: 0.0, count };
    let mut path = scenario(rates.0, rtt_ms, traffic);
    path.links.path.down = Direction { rate_mbit: Some(rates.1), ..path.links.path.up.clone() };
    path
}

#[test]
fn a_round_trip_that_takes_longer_than_the_path_to_carry_is_what_there_is_to_save() {
    let verdict = told(&exchange((17_485, 8_684), 28, 285.0, (0.73, 52.6)), "a").verdict;
    assert_eq!(verdict.cause, Cause::Application, "{}", verdict.text());
    assert!(verdict.text().contains("ask for more at once"), "{}", verdict.text());
    let verdict = told(&exchange((17_485, 8_684), 28, 85.0, (0.73, 52.6)), "a").verdict;
    assert_eq!(verdict.cause, Cause::FullPath, "{}", verdict.text());
}

#[test]
fn who_receives_more_but_takes_longer_to_send_is_judged_as_a_sender() {
    let path = exchange((1_079_075, 74_579), 3, 2.2, (52.3, 0.565));
    let verdict = told(&path, "b").verdict;
    assert_eq!(verdict.cause, Cause::FullPath, "{}", verdict.text());
    let path = exchange((1_079_075, 7_457), 3, 2.2, (5.23, 0.565));
    let verdict = told(&path, "b").verdict;
    assert_eq!(verdict.cause, Cause::OtherSide, "{}", verdict.text());
}

#[test]
fn a_reader_that_bbr_does_not_swamp_is_slow_all_the_same() {
    let mut path = with_algorithm(scenario(18.2, 2.55, seconds(10.0)), "bbr");
    flow(&mut path).receiver.receive_buffer = Some(27_468);
    let cause = |path: &Scenario| told(path, "b").verdict.cause;
    assert_ne!(cause(&path), Cause::SlowReader, "it reads at once");
    flow(&mut path).read_mbit = Some(7.01);
    assert_eq!(cause(&path), Cause::SlowReader);
}

#[test]
fn a_window_that_a_slow_reader_leaves_more_than_half_open_is_the_readers() {
    let mut path = with_algorithm(scenario(15.77, 93.5, seconds(10.0)), "reno");
    flow(&mut path).receiver.receive_buffer = Some(123_632);
    let cause = |path: &Scenario| told(path, "a").verdict.cause;
    assert_eq!(cause(&path), Cause::ReceiverWindow, "it reads at once");
    flow(&mut path).read_mbit = Some(4.41);
    assert_eq!(cause(&path), Cause::PeerReadsSlowly);
}
