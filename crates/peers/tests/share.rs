//! `share`: what it leaves alone, what it gives back, and what it holds.

mod making;

use making::{flow, report};
use transom_peers::rules::Share;
use transom_peers::{
    Algorithm, Flow, Function, Opening, Report, Rules, Treatment, Why, decide, openings,
};

fn rules() -> Rules {
    Rules { function: Function::Share, ..Rules::default() }
}

/// Hungry phones of equal classes on a path of so many ms with these goodputs, Mbit/s; the packets
/// of all wait for 40 ms, and together they have reached 20 Mbit/s.
fn phones(rtt_ms: u32, goodputs: &[f64]) -> Vec<Report> {
    let phone = |(number, mbit): (u64, &f64)| {
        let mut report = report(number);
        let own = report.flows[0];
        report.flows[0] = Flow {
            goodput_kbit: (mbit * 1000.0) as u32,
            min_rtt_us: rtt_ms * 1000,
            srtt_us: (rtt_ms + 40) * 1000,
            cwnd: 60,
            ..own
        };
        report
    };
    (1..).zip(goodputs).map(phone).collect()
}

fn decided(group: &[Report]) -> Vec<Treatment> {
    let verdict = decide(&rules(), group);
    verdict.decisions.iter().map(|decision| decision.flows[0].treatment).collect()
}

fn caps_by(share: Share, group: &[Report]) -> Vec<Option<u32>> {
    let verdict = decide(&Rules { share, ..rules() }, group);
    verdict.decisions.iter().map(|decision| decision.flows[0].treatment.cap).collect()
}

fn caps(group: &[Report]) -> Vec<Option<u32>> {
    decided(group).iter().map(|treatment| treatment.cap).collect()
}

fn none() -> Treatment {
    Treatment::default()
}

#[test]
fn where_the_air_is_full_and_nobody_starves_nothing_is_done() {
    assert_eq!(decided(&phones(32, &[10.0, 10.0])), [none(); 2]);
    assert_eq!(decided(&phones(256, &[5.2, 14.8])), [none(); 2], "more than half of its part");
    let mut queues = phones(32, &[9.5, 10.5]);
    queues.iter_mut().for_each(|report| report.flows[0].srtt_us += 300_000);
    assert_eq!(decided(&queues), [none(); 2], "a long queue alone is no reason");
    let strict = Share { waits_below: 80, ..rules().share };
    assert_ne!(
        caps_by(strict, &phones(256, &[5.2, 14.8])),
        [None, None],
        "unless the rules say so"
    );
}

#[test]
fn only_those_with_more_than_their_part_are_held_while_another_starves() {
    // 10 Mbit/s × (32 + 30) ms / 1448 bytes are 54; the first has 60 and gives a 16th.
    assert_eq!(caps(&phones(32, &[16.0, 4.0])), [Some(57), None]);
    let mut wide = phones(32, &[16.0, 4.0]);
    wide[0].flows[0].cwnd = 20;
    assert_eq!(caps(&wide), [Some(54), None], "no cap is below what the path holds for the part");
    let three = caps(&phones(32, &[12.0, 6.6, 1.4]));
    assert!(three[0].is_some() && three[1..] == [None, None], "{three:?}");
}

#[test]
fn nobody_is_held_for_the_sake_of_one_whom_that_would_not_help() {
    let mut own_window = phones(32, &[16.0, 4.0]);
    own_window[1].flows[0].srtt_us = 34_000;
    assert_eq!(caps(&own_window), [None, None], "its packets do not wait");
    let mut own_link = phones(32, &[16.0, 4.0]);
    own_link[1].flows[0].unstable = true;
    assert_eq!(caps(&own_link), [None, None], "its own link loses");
}

#[test]
fn nobody_is_held_while_the_group_gets_less_than_the_air_carries() {
    assert_eq!(caps(&phones(32, &[12.0, 4.0])), [None, None]);
    assert_eq!(caps(&phones(32, &[15.8, 4.0])), [None, None], "19.8 of 20 Mbit/s");
    assert_ne!(caps(&phones(32, &[15.9, 4.0])), [None, None], "the control: 19.9");
}

/// One of class 1 and one of the other class: the goodputs, Mbit/s, and the caps.
fn of_class(class: f64, believe_class: bool, goodputs: [f64; 2]) -> Vec<Option<u32>> {
    let mut group = phones(32, &goodputs);
    group[1].class = (class * 10.0) as u16;
    caps_by(Share { believe_class, ..rules().share }, &group)
}

#[test]
fn nobody_is_held_for_the_sake_of_a_larger_class() {
    assert_eq!(of_class(9.0, false, [14.0, 6.0]), [None, None]);
    assert_eq!(of_class(9.0, false, [16.0, 4.0]), of_class(1.0, false, [16.0, 4.0]));
    assert_ne!(of_class(9.0, true, [14.0, 6.0])[0], None, "the control: one that is believed");
}

#[test]
fn a_larger_class_protects_up_to_twice_the_median() {
    let held = |class, goodputs| of_class(class, false, goodputs)[1].is_some();
    assert!(held(1.0, [3.0, 17.0]), "the control: of equal classes");
    assert!(!held(2.0, [5.5, 14.5]), "a third and an eighth more than two thirds");
    assert!(held(2.0, [3.0, 17.0]) && held(9.0, [3.0, 17.0]));
}

/// The caps after so many decisions, with the same reports but for the cap of the first.
fn next_caps(group: &mut [Report], decisions: usize) -> Vec<Option<u32>> {
    let next = |_| {
        let cap = caps(group)[0];
        group[0].flows[0].treatment.cap = cap;
        group[0].flows[0].cwnd = cap.unwrap_or(60);
        cap
    };
    (0..decisions).map(next).collect()
}

fn held(goodputs: [f64; 2], cap: u32) -> Vec<Report> {
    let mut group = phones(32, &goodputs);
    group[0].flows[0].treatment.cap = Some(cap);
    group[0].flows[0].cwnd = cap;
    group
}

#[test]
fn a_cap_shrinks_while_its_flow_has_too_much_and_another_too_little() {
    let of = |goodputs| next_caps(&mut held(goodputs, 53), 3);
    assert_eq!(of([14.0, 6.0]), [Some(52), Some(51), Some(50)], "below what it should hold, too");
    assert_eq!(of([12.4, 7.6]), [Some(53); 3], "three quarters are enough");
    let fixed = Share { correct_caps: false, ..rules().share };
    assert_eq!(caps_by(fixed, &held([14.0, 6.0], 64))[0], Some(54), "the formula alone");
}

#[test]
fn a_cap_grows_and_ends_where_the_air_is_not_full_or_not_used() {
    let mut idle = held([10.0, 5.0], 64);
    let grown = next_caps(&mut idle, 12);
    assert_eq!(grown[..2], [Some(72), Some(81)]);
    assert_eq!(grown.last(), Some(&None), "{grown:?}");
    let mut queueless = held([10.0, 10.0], 64);
    queueless.iter_mut().for_each(|report| report.flows[0].srtt_us = 33_000);
    assert_eq!(next_caps(&mut queueless, 1), [Some(72)]);
    let mut unused = held([10.0, 5.0], 64);
    unused[0].flows[0].cwnd = 30;
    assert_eq!(caps(&unused)[0], Some(64), "one that is not used does not grow");
}

#[test]
fn a_cap_ends_when_its_flow_has_too_little_or_is_alone() {
    assert_eq!(caps(&held([8.0, 12.0], 64))[0], None);
    let mut alone = held([14.0, 6.0], 64);
    alone[1].flows[0].hungry = false;
    assert_eq!(caps(&alone)[0], None);
}

#[test]
fn a_terminals_part_is_divided_among_its_hungry_flows() {
    let mut group = phones(100, &[16.0, 4.0]);
    let of =
        |number, goodput_kbit| Flow { goodput_kbit, srtt_us: 140_000, cwnd: 10, ..flow(number) };
    group[0].flows = vec![of(1, 11_000), of(2, 4_000), Flow { hungry: false, ..of(3, 1_000) }];
    let verdict = decide(&rules(), &group);
    // 5 Mbit/s × 130 ms / 1448 bytes
    let given: Vec<_> = verdict.decisions[0].flows.iter().map(|it| it.treatment.cap).collect();
    assert_eq!(given, [Some(57), None, None]);
}

/// A flow that has lost on the air, on steady with this cap or not yet.
fn loser(rtt_ms: u32, cap: Option<u32>) -> Vec<Report> {
    let mut group = phones(rtt_ms, &[3.0, 3.0]);
    group.iter_mut().for_each(|report| report.flows[0].srtt_us = rtt_ms * 1000 + 2000);
    let own = &mut group[0].flows[0];
    (own.unstable, own.cwnd, own.ssthresh) = (true, 40, Some(70));
    if cap.is_some() {
        own.treatment = Treatment { algorithm: Algorithm::Steady, cap };
    }
    group
}

#[test]
fn a_flow_that_lost_on_the_air_of_a_long_path_gets_its_window_back() {
    // CUBIC's threshold is seven tenths of the window before the loss.
    let back = Treatment { algorithm: Algorithm::Steady, cap: Some(105) };
    assert_eq!(decided(&loser(256, None)), [back, none()], "and one that lost nothing is left");
    assert_eq!(decided(&loser(63, None)), [none(); 2], "on a short path it comes back by itself");
    let mut stable = loser(256, None);
    stable[0].flows[0].unstable = false;
    assert_eq!(decided(&stable), [none(); 2]);
    let verdict = decide(&rules(), &loser(256, None));
    assert_eq!(verdict.decisions[0].flows[0].why, Why::LostOnAir { min_rtt_us: 256_000 });
}

#[test]
fn of_more_than_a_few_none_gets_its_window_back() {
    let mut group = loser(256, None);
    let other = group[1].clone();
    group.extend((3..=7).map(|number| Report { terminal: making::id(number), ..other.clone() }));
    assert_eq!(decided(&group)[0], none());
    assert_eq!(decided(&group[..6])[0].algorithm, Algorithm::Steady);
}

#[test]
fn a_path_at_the_limit_does_not_go_to_and_fro() {
    let algorithm = |group: &[Report]| decided(group)[0].algorithm;
    assert_eq!(algorithm(&loser(60, Some(50))), Algorithm::Steady);
    assert_eq!(algorithm(&loser(60, None)), Algorithm::Default);
    assert_eq!(algorithm(&loser(50, Some(50))), Algorithm::Default);
}

#[test]
fn a_window_given_back_grows_by_half_while_it_is_filled_and_nothing_waits() {
    let grown = |cwnd: u32, cap: u32, goodput_kbit: u32, waits_ms: u32| {
        let mut group = loser(256, Some(cap));
        let own = &mut group[0].flows[0];
        (own.cwnd, own.goodput_kbit) = (cwnd, goodput_kbit);
        own.srtt_us = 256_000 + waits_ms * 1000;
        caps(&group)[0]
    };
    // 70 segments of 1448 bytes in 256 ms are 3.17 Mbit/s.
    assert_eq!(grown(70, 70, 3000, 2), Some(105));
    assert_eq!(grown(70, 70, 2000, 2), Some(70), "it is not filled yet");
    assert_eq!(grown(70, 70, 3000, 20), Some(70), "packets wait");
    assert_eq!(grown(76, 105, 3400, 2), Some(105), "something else bounds it");
}

#[test]
fn a_window_given_back_is_held_to_its_part_where_the_air_is_full() {
    let mut group = phones(256, &[14.0, 6.0]);
    let own = &mut group[0].flows[0];
    own.unstable = true;
    own.treatment = Treatment { algorithm: Algorithm::Steady, cap: Some(400) };
    // 10 Mbit/s × (256 + 30) ms / 1448 bytes
    assert_eq!(caps(&group)[0], Some(247));
}

#[test]
fn new_connections_are_left_alone_unless_the_rules_say_so() {
    let of = |rules: &Rules, group: &[Report]| openings(rules, group, &group[0]);
    let mut group: Vec<Report> = (1..=6).map(report).collect();
    assert_eq!(of(&rules(), &group), []);
    let mut open = rules();
    open.share.open_steady = true;
    let steady = Treatment { algorithm: Algorithm::Steady, cap: None };
    let opening = Opening { from_us: 64_000, to_us: u32::MAX, treatment: steady };
    assert_eq!(of(&open, &group), [opening]);
    let kept = |group: &[Report]| decide(&open, group).decisions[0].flows[0].treatment;
    assert_eq!(kept(&group), steady, "and it stays");
    group.push(report(7));
    assert_eq!(of(&open, &group), [], "six others are hungry: this would be the seventh");
    assert_eq!(of(&open, &group[..1]), [], "alone");
}
