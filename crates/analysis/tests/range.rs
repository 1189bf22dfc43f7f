//! A part of a recording's time.

mod sender;

use sender::{MS, MSS, Setup, only, run};
use transom_analysis::{Limit, Recording, analyse};
use transom_event::{Event, Kind};

fn bytes(recording: &Recording) -> u64 {
    analyse(recording).iter().map(|analysis| analysis.summary.acked).sum()
}

#[test]
fn the_parts_have_the_bytes_of_the_whole() {
    let whole = run(Setup::default());
    let begin = whole.start_ns;
    let cut = begin + 700 * MS + 1;
    let (first, second) = (begin..=cut - 1, cut..=u64::MAX);
    let (first, second) = (whole.clone().between(first), whole.clone().between(second));
    assert!(bytes(&first) > 0 && bytes(&second) > 0);
    assert_eq!(bytes(&first) + bytes(&second), bytes(&whole));
    let events = |recording: &Recording| only(recording).events;
    assert_eq!(events(&first) + events(&second), events(&whole));
}

#[test]
fn times_are_still_told_from_where_it_began() {
    let whole = run(Setup::default());
    let part = whole.clone().between(whole.start_ns + 500 * MS..=whole.start_ns + 900 * MS);
    assert_eq!(part.start_ns, whole.start_ns);
    assert_eq!(part.duration_ns(), 400 * MS);
    let analysis = &analyse(&part)[0];
    assert_eq!(analysis.start_ns, whole.start_ns + 500 * MS);
    assert_eq!(analysis.summary.duration_ns, 400 * MS);
    assert!(!analysis.summary.coverage.begun, "its begin was left out");
    assert_eq!(analysis.limits.total_ns.values().sum::<u64>(), 400 * MS);
}

#[test]
fn a_connection_that_is_silent_meanwhile_is_there_with_its_state() {
    let whole = run(Setup { blackout: 600 * MS..1900 * MS, ..Setup::default() });
    // No event at all between two timeouts.
    let times: Vec<u64> = only(&whole).points.iter().map(|point| point.time_ns).collect();
    let gap = times.windows(2).max_by_key(|pair| pair[1] - pair[0]).unwrap();
    let (from, to) = (gap[0] + MS, gap[1] - MS);
    assert!(to - from > 100 * MS);
    let part = whole.between(from..=to);
    let analysis = &analyse(&part)[0];
    assert_eq!(analysis.summary.duration_ns, to - from);
    assert_eq!((analysis.summary.acked, only(&part).events), (0, 0));
    assert!(analysis.limits.share(Limit::Repair) > 0.9, "{:?}", analysis.limits.total_ns);
    assert!(!analysis.summary.coverage.polled, "what was carried over is no sample");
}

#[test]
fn what_was_closed_before_or_opened_later_is_not_there() {
    let mut events = sender::Sender::new(Setup { length_ns: 200 * MS, ..Setup::default() }).run();
    let last = *events.last().unwrap();
    events.push(Event { kind: Kind::Close, time_ns: last.time_ns + MS, ..last });
    let later = |event: &Event| Event { cookie: 8, time_ns: event.time_ns + 5000 * MS, ..*event };
    let both: Vec<Event> = events.iter().copied().chain(events.iter().map(later)).collect();
    let whole = Recording::from_iter(&both);
    let cookies = |from: u64, to: u64| -> Vec<u64> {
        let part = whole.clone().between(whole.start_ns + from * MS..=whole.start_ns + to * MS);
        part.connections.iter().map(|connection| connection.cookie).collect()
    };
    assert_eq!(cookies(0, 4000), [7]);
    assert_eq!(cookies(1000, 4000), [0; 0]);
    assert_eq!(cookies(1000, 9000), [8]);
    assert_eq!(cookies(0, 9000), [7, 8]);
    let part = whole.clone().between(whole.start_ns + 1000 * MS..=u64::MAX);
    assert!(part.connection(8).is_some() && part.connection(7).is_none());
    assert!(bytes(&part) >= u64::from(MSS));
}
