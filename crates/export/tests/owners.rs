//! Whose a packet is when addresses and ports are used again, or both ends are recorded.

mod transfer;

use std::net::SocketAddr;

use transfer::{Flow, START_NS};
use transom_event::{Body, Event, Kind, Place};
use transom_export::{Owner, Owners};

fn cookie(owner: Option<Owner>) -> Option<u64> {
    owner.map(|owner| owner.cookie)
}

fn ends() -> (SocketAddr, SocketAddr) {
    ("10.0.0.1:40000".parse().unwrap(), "10.0.0.2:5201".parse().unwrap())
}

#[test]
fn a_port_that_is_used_again_belongs_to_the_connection_of_that_time() {
    let mut owners = Owners::default();
    for (cookie, opened_s, closed_s) in [(7, 10, 20), (8, 30, 40)] {
        let mut flow = Flow::new(cookie, 40_000);
        flow.after(opened_s * 1_000_000).open();
        flow.after((closed_s - opened_s) * 1_000_000);
        flow.state_event(Kind::Close, Place::SetState, [0, 0]);
        flow.events.iter().for_each(|event| owners.learn(event));
    }
    let (local, remote) = ends();
    let at = |s: u64| cookie(owners.of(local, remote, true, START_NS + s * 1_000_000_000));
    assert_eq!(at(9), Some(7), "its handshake");
    assert_eq!(at(15), Some(7));
    assert_eq!(at(29), Some(8), "the handshake of the next");
    assert_eq!(at(50), Some(8), "late, after its end");
}

#[test]
fn a_packet_is_of_the_end_that_saw_it_and_of_none_between_other_ends() {
    let (mut owners, mut flow) = (Owners::default(), Flow::new(7, 40_000));
    flow.open();
    owners.learn(&flow.events[0]);
    let (local, remote) = ends();
    for (source, destination, outgoing) in [(local, remote, true), (remote, local, false)] {
        assert_eq!(cookie(owners.of(source, destination, outgoing, START_NS)), Some(7));
    }
    let other: SocketAddr = "10.0.0.1:40001".parse().unwrap();
    assert_eq!(owners.of(other, remote, true, START_NS), None);
}

/// What a container sends comes in at the bridge of its host.
#[test]
fn who_sent_a_packet_is_told_by_its_addresses_wherever_it_was_seen() {
    let (mut owners, mut flow) = (Owners::default(), Flow::new(7, 40_000));
    flow.open();
    owners.learn(&flow.events[0]);
    let (local, remote) = ends();
    for outgoing in [false, true] {
        let sent = |source, destination| owners.of(source, destination, outgoing, START_NS);
        assert_eq!(sent(local, remote), Some(Owner { cookie: 7, sent: true }));
        assert_eq!(sent(remote, local), Some(Owner { cookie: 7, sent: false }));
    }
}

/// A connection with those ends that opens in this network namespace, and ends if it does.
fn in_namespace(cookie: u64, netns: u32, opened_s: u64, closed_s: Option<u64>) -> Vec<Event> {
    let mut flow = Flow::new(cookie, 40_000);
    flow.after(opened_s * 1_000_000).open();
    if let Body::Open(open) = &mut flow.events[0].body {
        open.netns = netns;
    }
    if let Some(closed_s) = closed_s {
        flow.after((closed_s - opened_s) * 1_000_000);
        flow.state_event(Kind::Close, Place::SetState, [0, 0]);
    }
    flow.events
}

/// What was recorded, in the order of time.
fn learned(netns: u32, connections: &[Vec<Event>]) -> Owners {
    let mut owners = Owners::seen_in(netns);
    let mut events = connections.concat();
    events.sort_by_key(|event| event.time_ns);
    events.iter().for_each(|event| owners.learn(event));
    owners
}

/// Two containers, say: whose packets pass an interface here is told by who is here.
#[test]
fn of_equal_ends_in_two_namespaces_those_where_the_packet_is_seen_come_first() {
    let (ours, theirs) = (in_namespace(7, 1, 10, Some(20)), in_namespace(8, 2, 15, None));
    let owners = learned(1, &[ours, theirs.clone()]);
    let (local, remote) = ends();
    let at = |s: u64| cookie(owners.of(local, remote, true, START_NS + s * 1_000_000_000));
    assert_eq!(at(17), Some(7), "both are open");
    assert_eq!(at(25), Some(8), "ours has ended, and theirs may pass here, too");
    let elsewhere = learned(3, &[theirs]);
    let owner = elsewhere.of(local, remote, true, START_NS + 17_000_000_000);
    assert_eq!(cookie(owner), Some(8));
}

#[test]
fn of_equal_ends_in_two_other_namespaces_the_one_that_goes_on_has_the_packet() {
    let owners = learned(3, &[in_namespace(7, 1, 10, Some(30)), in_namespace(8, 2, 15, Some(20))]);
    let (local, remote) = ends();
    let at = |s: u64| cookie(owners.of(local, remote, true, START_NS + s * 1_000_000_000));
    assert_eq!(at(12), Some(7), "the other one has not begun");
    assert_eq!(at(17), Some(8), "both are open");
    assert_eq!(at(25), Some(7), "the later one has ended");
    assert_eq!(at(40), Some(7), "late, of the one that ended last");
}

#[test]
fn a_port_that_is_used_again_is_of_the_newer_connection_though_the_end_of_the_older_was_lost() {
    let owners = learned(1, &[in_namespace(7, 1, 10, None), in_namespace(8, 1, 30, Some(40))]);
    let (local, remote) = ends();
    let at = |s: u64| cookie(owners.of(local, remote, true, START_NS + s * 1_000_000_000));
    assert_eq!([at(20), at(35), at(45)], [Some(7), Some(8), Some(8)]);
}
