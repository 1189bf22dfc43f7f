//! The guard in virtual time: the daemon's decisions on the sockets of a simulated kernel. Each with
//! a guard that is off, or that allows everything.

mod bed;

use std::time::Duration;

use bed::{flow, host, run, scenario, seconds};
use transom_guard::{GuardSettings, Hurt};
use transom_scenario::{GuardAction, GuardOutcome, Guarded, Outcome, Scenario};

/// `steady` under the guard; `target` in segments, 0: it finds its window.
fn guarded(mut scenario: Scenario, target: u32, settings: GuardSettings) -> Scenario {
    flow(&mut scenario).sender.congestion = Some("steady".to_owned());
    let a = host(&mut scenario, "a");
    for (name, value) in [("target", target.to_string()), ("backoff", "0".to_owned())] {
        if target > 0 {
            a.sysctl.insert(format!("ipv4.tcp_steady_{name}"), value);
        }
    }
    a.guard = Some(Guarded { settings, instead: "cubic".to_owned(), chosen: target > 0 });
    scenario.record = false;
    scenario
}

fn outcome(scenario: &Scenario) -> Outcome {
    run(scenario).outcome()
}

fn guard(scenario: &Scenario) -> GuardOutcome {
    outcome(scenario).guards["a"].clone()
}

fn withdrawals(outcome: &GuardOutcome) -> Vec<&GuardAction> {
    outcome.actions.iter().filter(|action| action.withdrawn.is_some()).collect()
}

fn wide() -> GuardSettings {
    GuardSettings {
        loss: 1.0,
        inflation: 1000.0,
        delay: Duration::from_secs(3600),
        share: 0.0,
        ..GuardSettings::default()
    }
}

/// 20 Mbit/s over 40 ms hold 67 packets; 400 more wait where a window of 300 is put in.
fn long_queue() -> Scenario {
    let mut scenario = scenario(20.0, 40.0, seconds(10.0));
    scenario.links.path.up.queue_packets = Some(400);
    scenario
}

#[test]
fn a_window_that_keeps_a_queue_is_withdrawn_within_ten_round_trips_and_the_queue_goes() {
    let under = |settings| run(&guarded(long_queue(), 300, settings));
    let ran = under(GuardSettings::default());
    let guard = ran.outcome().guards["a"].clone();
    let all = withdrawals(&guard);
    assert_eq!(all.len(), 1, "{all:?}");
    assert_eq!(all[0].withdrawn, Some(Hurt::Inflation));
    let round_trips = all[0].at_s / (f64::from(all[0].srtt_us) / 1e6);
    assert!(round_trips < 11.0, "{round_trips} of {} µs from the first packet on", all[0].srtt_us);
    for settings in [GuardSettings { on: false, ..GuardSettings::default() }, wide()] {
        let control = under(settings);
        assert_eq!(control.outcome().guards["a"].actions, [], "the control: {settings:?}");
        assert!(!control.outcome().guards["a"].looks.is_empty(), "it is looked at all the same");
    }
}

/// 20 Mbit/s, 1 ms and a queue of 30 kB. Four segments that wait are 2.4 ms: the round trip is three
/// times the path.
#[test]
fn on_a_path_of_a_millisecond_it_keeps_what_it_finds() {
    let mut short = scenario(20.0, 1.0, seconds(10.0));
    short.links.path.up.queue_packets = Some(20);
    let under = |settings| guard(&guarded(short.clone(), 0, settings));
    let kept = under(GuardSettings::default());
    assert_eq!(kept.actions, []);
    let ran = run(&Scenario { record: true, ..guarded(short.clone(), 0, wide()) });
    let factors: Vec<f64> = ran
        .events("a")
        .iter()
        .filter_map(|event| event.state())
        .filter(|state| state.srtt_us > 0 && state.min_rtt_us != u32::MAX)
        .map(|state| f64::from(state.srtt_us) / f64::from(state.min_rtt_us))
        .collect();
    let long = factors.iter().filter(|factor| **factor > 3.0).count();
    assert!(
        long * 2 > factors.len(),
        "a factor alone would withdraw it: {long} of {}",
        factors.len()
    );
    let strict = GuardSettings { delay: Duration::from_millis(1), ..GuardSettings::default() };
    let strict = guard(&guarded(short, 0, strict));
    assert!(!withdrawals(&strict).is_empty(), "the control: a bound below that queue");
}

#[test]
fn after_its_time_it_is_given_back_where_the_path_looks_well() {
    let mut scenario = long_queue();
    flow(&mut scenario).traffic =
        transom_scenario::Traffic::OnOff { on_s: 2.0, off_s: 2.0, seconds: 30.0 };
    let settings = GuardSettings { retry: Duration::from_secs(2), ..GuardSettings::default() };
    let guard = guard(&guarded(scenario, 300, settings));
    let back = guard.actions.iter().position(|action| action.withdrawn.is_none());
    let back = back.unwrap_or_else(|| panic!("{:?}", guard.actions));
    let pause = guard.actions[back].at_s - guard.actions[back - 1].at_s;
    assert!(pause >= 2.0, "{pause}");
}
