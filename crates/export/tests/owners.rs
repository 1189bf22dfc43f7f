//! Whose a packet is when addresses and ports are used again, or both ends are recorded.

mod transfer;

use std::net::SocketAddr;

use transfer::{Flow, START_NS};
use transom_event::{Kind, Place};
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
