//! Hosts that are terminals of a group: they hear each other over the simulated network, decide as
//! the daemon does, and act on the simulated kernel's sockets.

mod bed;

use std::fs;

use bed::{Ran, run, seconds};
use transom_emulator::plan::{Air, Direction, Fading, Path, Plan, Port, Side, Station};
use transom_scenario::{Flow, Host, Lie, Outcome, Peer, Scenario, trace_file};

/// Phones of these classes on one air; each uploads to a server behind a path of this rate.
fn phones(classes: &[f64], mbit: f64, rtt_ms: f64) -> Scenario {
    let mut made = Scenario { seed: 3, most_seconds: 60.0, ..Scenario::default() };
    let host = |made: &mut Scenario, number: u8, name: &str, side: Side, peer: Option<Peer>| {
        let addresses = vec![[10, 77, 0, number].into()];
        made.hosts.insert(name.to_owned(), Host { addresses, peer, ..Host::default() });
        made.links.ports.push(Port { name: name.into(), mac: [2, 0, 0, 0, 0, number], side });
    };
    for (class, number) in classes.iter().zip(1..) {
        let name = format!("phone{number}");
        let peer = Peer { class: *class, ..Peer::default() };
        host(&mut made, number, &name, Side::Air(Station::default()), Some(peer));
        let flow = Flow {
            from: name.clone(),
            to: "server".into(),
            port: 5000 + u16::from(number),
            traffic: seconds(20.0),
            ..Flow::default()
        };
        made.flows.insert(name, flow);
    }
    host(&mut made, 100, "server", Side::Far, None);
    let up = Direction { rate_mbit: Some(mbit), queue_packets: Some(100), ..Direction::default() };
    let path = Path { rtt_ms, up, ..Path::default() };
    made.links = Plan { path, air: Some(Air::default()), ..made.links };
    made
}

fn without(mut scenario: Scenario) -> Scenario {
    scenario.hosts.values_mut().for_each(|host| host.peer = None);
    scenario
}

fn goodputs(ran: &Ran) -> Vec<f64> {
    let outcome = ran.outcome();
    assert_eq!(outcome.failures, []);
    outcome.flows.values().map(|flow| flow.goodput_mbit().unwrap()).collect()
}

/// Jain's index of what each got for its class.
fn fairness(goodputs: &[f64], classes: &[f64]) -> f64 {
    let each: Vec<f64> = goodputs.iter().zip(classes).map(|(mbit, class)| mbit / class).collect();
    let (sum, squares) = (each.iter().sum::<f64>(), each.iter().map(|x| x * x).sum::<f64>());
    sum * sum / (each.len() as f64 * squares)
}

#[test]
fn terminals_hear_each_other_over_the_simulated_network() {
    let group = phones(&[1.0, 1.0, 1.0], 20.0, 20.0);
    let (with, bare) = (run(&group).outcome(), run(&without(group)).outcome());
    assert_eq!(bare.peers.len(), 0);
    assert_eq!(with.peers.keys().collect::<Vec<_>>(), ["phone1", "phone2", "phone3"]);
    for (name, peer) in &with.peers {
        assert_eq!(peer.terminals, 3, "{name}");
        assert!(peer.spoken > 22 && peer.spoken < 60, "{name} spoke {} times", peer.spoken);
        // Each hears two; what collides on the air is lost.
        assert!(peer.believed > 40, "{name} believed {} reports", peer.believed);
    }
}

#[test]
fn a_terminal_that_the_air_brings_nothing_is_alone() {
    let mut deaf = phones(&[1.0, 1.0], 20.0, 20.0);
    let Side::Air(station) = &mut deaf.links.ports[1].side else { unreachable!() };
    station.frame_errors_down = 1.0;
    deaf.flows.remove("phone2");
    let outcome = run(&deaf).outcome();
    let terminals: Vec<usize> = outcome.peers.values().map(|peer| peer.terminals).collect();
    assert_eq!(terminals, [2, 1], "though they had found each other before virtual time began");
}

/// The group believes classes, and moves air for those that have less than 88 % of their parts.
fn strict(mut group: Scenario) -> Scenario {
    for peer in group.hosts.values_mut().filter_map(|host| host.peer.as_mut()) {
        (peer.rules.share.believe_class, peer.rules.share.waits_below) = (true, 88);
    }
    group
}

#[test]
fn share_divides_a_full_air_by_class_if_the_rules_believe_it() {
    let classes = [1.0, 1.0, 2.0, 2.0];
    let group = strict(phones(&classes, 20.0, 20.0));
    let with = goodputs(&run(&group));
    let bare = goodputs(&run(&without(group)));
    let (fair, unfair) = (fairness(&with, &classes), fairness(&bare, &classes));
    assert!(fair > unfair + 0.03, "{with:?}: {fair}; without them {bare:?}: {unfair}");
    let (sum, before) = (with.iter().sum::<f64>(), bare.iter().sum::<f64>());
    assert!(sum > 0.99 * before, "{sum} of {before}");
}

/// What the first phone gets if it reports this ÷ if it reports the truth, and what the others get;
/// over three seeds.
fn lying(group: &Scenario, lie: Lie) -> (f64, f64) {
    let over_seeds = |lie: Option<Lie>| {
        let (mut first, mut others) = (0.0, 0.0);
        for seed in 1..=3 {
            let mut group = Scenario { seed, ..group.clone() };
            group.hosts.get_mut("phone1").unwrap().peer.as_mut().unwrap().lie = lie;
            let got = goodputs(&run(&group));
            first += got[0];
            others += got[1..].iter().sum::<f64>();
        }
        (first, others)
    };
    let (honest, lied) = (over_seeds(None), over_seeds(Some(lie)));
    (lied.0 / honest.0, lied.1 / honest.1)
}

#[test]
fn a_terminal_that_claims_a_larger_class_gains_nothing() {
    let class = Lie { class: Some(10.0), ..Lie::default() };
    let group = phones(&[1.0; 4], 20.0, 20.0);
    let (own, others) = lying(&group, class);
    assert!(own < 1.05 && others > 0.95, "{own} {others}");
    let (own, others) = lying(&strict(group), class);
    assert!(own > 1.1 && others < 0.96, "the control, rules that believe it: {own} {others}");
}

#[test]
fn one_false_report_of_the_air_harms_nobody() {
    // The others have not seen the air full when the first says that it carries next to nothing.
    let little = Lie { air_mbit: Some(1.0), ..Lie::default() };
    let (own, others) = lying(&phones(&[1.0; 3], 20.0, 20.0), little);
    assert!((0.9..1.15).contains(&own) && (0.9..1.1).contains(&others), "{own} {others}");
}

#[test]
fn a_connection_on_a_long_path_opens_with_steady_if_the_rules_say_so() {
    let first = |rtt_ms, open_steady| {
        let mut group = phones(&[1.0, 1.0], 50.0, rtt_ms);
        for peer in group.hosts.values_mut().filter_map(|host| host.peer.as_mut()) {
            peer.rules.share.open_steady = open_steady;
        }
        let outcome = run(&group).outcome();
        let mut actions = outcome.peers["phone1"].actions.clone().into_iter();
        actions.find(|action| action.at_s < 1.0)
    };
    let opened = first(128.0, true).expect("something was done");
    assert!(opened.steady && opened.why == "new" && opened.at_s < 0.3, "{opened:?}");
    assert_eq!(first(16.0, true), None, "the control: a short path");
    assert_eq!(first(128.0, false), None, "the control: rules without it");
}

/// Weak moments of the air: every 2 s, for 0.2 s, 65 % of a phone's frames are not decoded.
fn fade(group: &mut Scenario) {
    let fading = Fading { every_ms: 2000.0, lasts_ms: 200.0, errors_up: 0.65, errors_down: 0.65 };
    for port in &mut group.links.ports {
        if let Side::Air(station) = &mut port.side {
            station.fading = Some(fading);
        }
    }
}

#[test]
fn where_weak_moments_take_windows_away_the_group_gives_them_back() {
    let gain = |faded: bool| {
        let mut group = phones(&[1.0, 1.0], 50.0, 128.0);
        if faded {
            fade(&mut group);
        }
        let sum = |group: &Scenario| goodputs(&run(group)).iter().sum::<f64>();
        let over_seeds = |group: Scenario| {
            (1..=3).map(|seed| sum(&Scenario { seed, ..group.clone() })).sum::<f64>()
        };
        over_seeds(group.clone()) / over_seeds(without(group))
    };
    let (weak, calm) = (gain(true), gain(false));
    assert!(weak > 1.15, "{weak}");
    assert!((0.97..1.05).contains(&calm), "the control, a calm air: {calm}");
}

#[test]
fn the_same_group_and_seed_give_the_same_bytes() {
    let mut group = strict(phones(&[1.0, 2.0], 10.0, 80.0));
    group.record = true;
    let (first, again) = (run(&group), run(&group));
    group.seed = 4;
    let other = run(&group);
    for name in [&trace_file("phone1"), "emulator.json"] {
        let of = |ran: &Ran| fs::read(ran.path(name)).unwrap();
        assert!(of(&first) == of(&again), "{name} differs");
        assert!(of(&first) != of(&other), "{name} does not depend on the seed");
    }
    let of = |ran: &Ran| Outcome { wall_s: 0.0, cpu_s: 0.0, ..ran.outcome() };
    assert_eq!(of(&first), of(&again));
    assert!(of(&first).peers.values().any(|peer| !peer.actions.is_empty()));
}

#[test]
fn rules_that_cannot_be_are_refused_with_their_key() {
    let mut wrong = phones(&[1.0, 1.0], 10.0, 80.0);
    let peer = wrong.hosts.get_mut("phone2").unwrap().peer.as_mut().unwrap();
    peer.rules.share.growth = 1;
    let complaint = run(&wrong).complaint();
    assert!(
        complaint.contains("host 'phone2'") && complaint.contains("share.growth"),
        "{complaint}"
    );
}
