//! Which connections the model keeps, and that each of them is known by its ends.

use super::*;

fn opened(time_ns: u64, cookie: u64) -> Event {
    let mut open = Open { family: 2, local_port: cookie as u16, ..Open::default() };
    open.comm[..6].copy_from_slice(b"upload");
    let body = Body::Open(open);
    Event { body, ..event(time_ns, cookie, Kind::Open, [1, 0], established()) }
}

#[test]
fn a_socket_that_connects_again_is_a_new_connection_that_stays() {
    let mut model = Model::default();
    model.push(&opened(SECOND, 1));
    model.push(&ack(SECOND, 1, 0, 0));
    model.push(&ack(SECOND, 1, 5000, 0));
    model.push(&event(2 * SECOND, 1, Kind::Close, [0, 0], established()));
    model.push(&opened(3 * SECOND, 1));
    model.push(&ack(3 * SECOND, 1, 900, 0));
    model.tick(9 * SECOND);
    let c = model.connection(1).expect("it is open");
    assert_eq!((c.tcp(), c.program()), (Some(TcpState::Established), "upload".to_owned()));
    assert!(c.endpoints().is_some());
    assert_eq!((c.live.acked(), c.first_ns), (0, 3 * SECOND), "nothing of the one before");
}
