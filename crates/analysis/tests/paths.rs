//! What the path does, told from less than everything.

mod sender;

use sender::{Bottleneck, MS, Sender, Setup};
use transom_analysis::{Analysis, Cause, Recording, analyse};
use transom_event::Event;

fn of(events: &[Event]) -> Analysis {
    analyse(&Recording::from_iter(events)).remove(0)
}

/// A path of 100 segments of bandwidth-delay product with room for so many more.
fn limited(room: u64, polices: bool) -> Setup {
    let bottleneck = Some(Bottleneck { rate: 2_000_000, room, polices });
    Setup { bottleneck, length_ns: 40_000 * MS, ..Setup::default() }
}

/// One in 150, by a hash.
fn at_random() -> Setup {
    let lost =
        (100..9000_u64).filter(|n| ((n * 2_654_435_761) >> 16).is_multiple_of(150)).collect();
    Setup { lost, length_ns: 10_000 * MS, ..Setup::default() }
}

#[test]
fn the_kind_of_loss_is_the_same_where_the_recording_began_in_the_middle() {
    for (setup, cause) in [
        (limited(10, false), Cause::ShallowBuffer),
        (limited(10, true), Cause::Policer),
        (at_random(), Cause::RandomLoss),
    ] {
        let from = 5000 * MS;
        let events = Sender::new(setup).run();
        let whole = of(&events);
        assert_eq!(whole.verdict.cause, cause);
        let part = analyse(&Recording::from_iter(&events).between(from..=u64::MAX)).remove(0);
        let late: Vec<Event> =
            events.iter().filter(|event| event.time_ns >= from).copied().collect();
        for later in [part, of(&late)] {
            assert_eq!(later.verdict.cause, cause, "{}", later.verdict.text());
            let [base, later] = [&whole, &later].map(|analysis| analysis.losses.base_us);
            assert!(later.abs_diff(base) <= base / 50, "{later} us, and {base} us of the whole");
        }
    }
}
