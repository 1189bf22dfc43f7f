//! Where a kind of event ends before the connection does.

mod sender;

use sender::{MS, Setup};
use transom_analysis::Recording;
use transom_event::{Kind, TcpState};

#[test]
fn acknowledgments_are_seen_until_the_connection_leaves_established() {
    let mut events = sender::Sender::new(Setup::default()).run();
    let before = Recording::from_iter(&events);
    assert_eq!(before.connections[0].acks_end_ns(), None, "it was not closed");
    let mut close = *events.iter().rev().find(|event| event.kind == Kind::Ack).unwrap();
    let step = |old: TcpState, new: TcpState| (Kind::State, [old as u32, new as u32]);
    let left_ns = events.last().unwrap().time_ns + MS;
    let steps = [
        step(TcpState::SynSent, TcpState::Established),
        step(TcpState::Established, TcpState::FinWait1),
        step(TcpState::FinWait1, TcpState::Close),
    ];
    for (n, (kind, aux)) in (0..).zip(steps) {
        (close.time_ns, close.kind, close.aux) = (left_ns + n * MS, kind, aux);
        events.push(close);
    }
    let after = Recording::from_iter(&events);
    assert_eq!(after.connections[0].acks_end_ns(), Some(left_ns + MS));
}
