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

#[test]
fn one_that_comes_back_after_it_made_room_is_known_and_one_that_ends_meanwhile_is_not_shown() {
    let mut model = Model::new(32);
    for cookie in 1..=33 {
        model.push(&opened(cookie * MS, cookie));
    }
    assert!(model.connection(1).is_none() && model.connection(2).is_none(), "both made room");
    assert_eq!(model.not_kept(), 2);
    model.push(&event(SECOND, 2, Kind::Close, [0, 0], established()));
    model.push(&event(SECOND, 2, Kind::Reset, [1, 0], established()));
    assert!(model.connection(2).is_none());
    model.push(&ack(SECOND, 1, 0, 0));
    let c = model.connection(1).expect("it had an event");
    assert_eq!((c.program(), c.tgid), ("upload".to_owned(), 7));
    assert_eq!(c.endpoints().map(|ends| ends.local.port()), Some(1));
    assert_eq!(model.not_kept(), 0);
}

/// One round of a poll: of the connections 1 to 150, those above 100 carry 1 MB/s, the others
/// 10 kB/s.
fn poll(model: &mut Model, round: u64) {
    for cookie in 1..=150 {
        let time_ns = SECOND + round * 100 * MS + cookie;
        if round == 0 {
            model.push(&Event { place: Place::SockDiag, ..opened(time_ns, cookie) });
        }
        let each = if cookie > 100 { 100_000 } else { 1000 };
        let sample = ack(time_ns, cookie, round as u32 * each, 0);
        model.push(&Event { kind: Kind::Sample, place: Place::SockDiag, ..sample });
    }
}

#[test]
fn of_more_polled_connections_than_are_kept_the_most_active_have_names_and_rates() {
    let mut model = Model::new(100);
    for round in 0..=10 {
        poll(&mut model, round);
    }
    for round in 11..40 {
        model.tick(SECOND + round * 100 * MS);
        assert_eq!((model.len(), model.not_kept()), (100, 50));
        let (mut fast, now_ns) = (0, model.now_ns());
        for c in model.connections() {
            assert!(c.endpoints().is_some() && c.rates(now_ns).0 > 5e3, "{}", c.cookie);
            fast += usize::from(c.rates(now_ns).0 > 5e5);
        }
        assert_eq!(fast, 50, "all of them, after {round} rounds");
        poll(&mut model, round);
    }
}
