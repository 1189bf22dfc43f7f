//! Whose a packet is when addresses and ports are used again, or both ends are recorded.

mod transfer;

use std::net::SocketAddr;

use transfer::{Flow, START_NS};
use transom_event::{Body, Kind, Place};
use transom_export::Owners;

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
    let at = |s: u64| owners.of(local, remote, true, START_NS + s * 1_000_000_000);
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
        assert_eq!(owners.of(source, destination, outgoing, START_NS), Some(7));
    }
    let other: SocketAddr = "10.0.0.1:40001".parse().unwrap();
    assert_eq!(owners.of(other, remote, true, START_NS), None);
}

/// Two containers, say: whose packets pass an interface here is told by who is here.
#[test]
fn of_equal_ends_in_two_namespaces_those_where_the_packet_is_seen_come_first() {
    let opened = |cookie: u64, netns: u32, at_us: u64| {
        let mut flow = Flow::new(cookie, 40_000);
        flow.after(at_us).open();
        if let Body::Open(open) = &mut flow.events[0].body {
            open.netns = netns;
        }
        flow
    };
    let mut ours = opened(7, 1, 10_000_000);
    ours.after(10_000_000).state_event(Kind::Close, Place::SetState, [0, 0]);
    let theirs = opened(8, 2, 15_000_000);
    let mut owners = Owners::seen_in(1);
    ours.events.iter().chain(&theirs.events).for_each(|event| owners.learn(event));
    let (local, remote) = ends();
    let at = |s: u64| owners.of(local, remote, true, START_NS + s * 1_000_000_000);
    assert_eq!(at(17), Some(7), "both are open");
    assert_eq!(at(25), Some(8), "ours has ended, and theirs may pass here, too");
    let mut elsewhere = Owners::seen_in(3);
    theirs.events.iter().for_each(|event| elsewhere.learn(event));
    assert_eq!(elsewhere.of(local, remote, true, START_NS + 17_000_000_000), Some(8));
}
