//! Two recordings of one connection: the traffic relates their clocks.

mod sender;

use proptest::prelude::*;
use sender::{MS, Setup, only, run};
use transom_analysis::{ClockRelation, ClockSource, Connection, RecorderClock, Recording, bounds};
use transom_event::{Body, Event, Kind, Place, State, TcpState};

/// One way of the path.
const DELAY: u64 = 25 * MS;

/// What the receiver's recorder saw of what the sender sent, by a clock that is `behind` by so much.
fn receiver(sender: &Connection, behind_ns: i64) -> Recording {
    let mut events = Vec::new();
    let mut rcv_nxt = None;
    for point in sender.points.iter().filter(|point| point.kind == Kind::Send) {
        let state = State {
            rcv_nxt: rcv_nxt.unwrap_or(point.state.snd_nxt),
            tcp_state: TcpState::Established as u8,
            ..State::default()
        };
        // As the sender: what arrives is told by the event after it.
        rcv_nxt = Some(point.state.snd_nxt.wrapping_add(point.aux[0]));
        events.push(Event {
            time_ns: (point.time_ns + DELAY).wrapping_add_signed(-behind_ns),
            cookie: 9,
            tgid: 1,
            cpu: 0,
            kind: Kind::Ack,
            place: Place::RcvEstablished,
            aux: [0, 10],
            body: Body::State(state),
        });
    }
    Recording::from_iter(&events)
}

fn clock(boot_id: &str, realtime_offset_ns: i64) -> RecorderClock {
    RecorderClock { boot_id: boot_id.to_owned(), realtime_offset_ns }
}

fn lossless() -> Recording {
    run(Setup { rtt_ns: 2 * DELAY, receiver_window: 40_000, ..Setup::default() })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_true_offset_is_always_among_those_that_the_traffic_allows(
        offset in -1_000_000_000..1_000_000_000i64,
        seen in 1..6u32,
    ) {
        let mut ours = lossless();
        // Of some segments no event is recorded.
        let mut n = 0;
        ours.connections[0].points.retain(|point| {
            n += u32::from(point.kind == Kind::Send);
            point.kind != Kind::Send || n % seen == 0
        });
        let theirs = receiver(only(&lossless()), offset);
        let found = bounds(only(&ours), only(&theirs));
        prop_assert!(found.least_ns <= offset && offset <= found.greatest_ns, "{found:?}");
    }
}

#[test]
fn the_traffic_bounds_the_offset_by_about_a_round_trip() {
    let (ours, theirs) = (lossless(), receiver(only(&lossless()), 3_000_000_000));
    let found = bounds(only(&ours), only(&theirs));
    assert!(found.greatest_ns - found.least_ns <= 3 * DELAY as i64, "{found:?}");
}

#[test]
fn wall_clocks_that_agree_with_the_traffic_are_believed() {
    let offset = 5_000_000_000;
    let (ours, theirs) = (lossless(), receiver(only(&lossless()), offset));
    let pairs = [(only(&ours), only(&theirs))];
    let relation = ClockRelation::of(&clock("a", 1_000), &clock("b", 1_000 + offset), &pairs);
    assert_eq!((relation.offset_ns, relation.source), (offset, ClockSource::WallClock));
    assert!(relation.error_ns.is_some_and(|error| error > 0 && error <= 3 * DELAY), "{relation:?}");
    assert_eq!(relation.disagreement_ns, None);
}

#[test]
fn wall_clocks_that_the_traffic_refutes_are_not() {
    let offset = 5_000_000_000;
    let (ours, theirs) = (lossless(), receiver(only(&lossless()), offset));
    let pairs = [(only(&ours), only(&theirs))];
    let wrong = clock("b", 1_000 + offset + 2_000_000_000);
    let relation = ClockRelation::of(&clock("a", 1_000), &wrong, &pairs);
    assert_eq!(relation.source, ClockSource::Traffic);
    let error = relation.error_ns.unwrap();
    assert!(relation.offset_ns.abs_diff(offset) <= error, "{relation:?}");
    let disagreement = relation.disagreement_ns.unwrap();
    assert!(disagreement.abs_diff(2_000_000_000) <= error, "{relation:?}");
}

#[test]
fn one_machine_has_one_clock() {
    let relation = ClockRelation::of(&clock("a", 5), &clock("a", 99), &[]);
    assert_eq!((relation.offset_ns, relation.error_ns), (0, Some(0)));
    assert_eq!(relation.source, ClockSource::SameClock);
}

#[test]
fn without_traffic_of_both_the_error_is_not_known() {
    let relation = ClockRelation::of(&clock("a", 5), &clock("b", 99), &[]);
    assert_eq!((relation.offset_ns, relation.error_ns), (94, None));
}
