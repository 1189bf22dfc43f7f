//! What `explain` says of paths that Linux's own TCP went over, and whose truth is known.

mod bed;

use bed::{host, run, scenario, seconds};
use transom_analysis::{Cause, analyse};
use transom_emulator::plan::{Direction, Handover};
use transom_scenario::Scenario;

/// Ten seconds of bulk over a path of this rate and queue, which loses this share of the segments at
/// random behind it.
fn lossy(mbit: f64, rtt_ms: f64, queue: u32, loss: f64) -> Scenario {
    let mut scenario = scenario(mbit, rtt_ms, seconds(10.0));
    let up = &mut scenario.links.path.up;
    up.queue_packets = Some(queue);
    up.stages = vec![Direction { loss, ..Direction::default() }];
    scenario
}

#[track_caller]
fn assert_told(scenario: &Scenario, algorithm: &str, cause: Cause) -> f64 {
    let mut scenario = scenario.clone();
    let key = "ipv4.tcp_congestion_control".to_owned();
    host(&mut scenario, "a").sysctl.insert(key, algorithm.to_owned());
    let ran = run(&scenario);
    assert!(ran.output.status.success(), "{:?}", ran.output);
    let analysis = analyse(&ran.recording("a")).remove(0);
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
