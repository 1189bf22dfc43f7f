//! Subflows of one Multipath TCP connection are told together, other connections as ever.

mod sender;

use sender::{MS, Sender, Setup};
use transom_analysis::{Multipath, Recording, analyse, families, text};
use transom_event::{Body, Event, Token};

/// A bulk transfer of its own cookie, from 10.0.COOKIE.1.
fn transfer(cookie: u64, mptcp: u32, rtt_ms: u64) -> Vec<Event> {
    let mut events = Sender::new(Setup { rtt_ns: rtt_ms * MS, ..Setup::default() }).run();
    for event in &mut events {
        event.cookie = cookie;
        event.time_ns += cookie * MS;
        if let Body::Open(open) = &mut event.body {
            open.mptcp = mptcp;
            open.local_addr[2] = cookie as u8;
        }
    }
    events
}

/// A connection of two paths and one that is faster than each, but not than both.
fn recording() -> Recording {
    let events = [transfer(1, 0xbeef, 50), transfer(2, 0, 45), transfer(3, 0xbeef, 50)];
    events.iter().flatten().collect()
}

#[test]
fn the_sum_is_that_of_the_subflows_over_the_time_of_both() {
    let analyses = analyse(&recording());
    let families: Vec<_> = families(&analyses, |a| a.mptcp).collect();
    let [subflows, [_single]] = families[..] else { panic!("{}", families.len()) };
    assert_eq!(subflows.iter().map(|a| a.cookie).collect::<Vec<_>>(), [1, 3]);
    let sum = Multipath::of(subflows).unwrap();
    assert_eq!((sum.token, sum.subflows), (Token(0xbeef), 2));
    assert_eq!(sum.acked, subflows[0].summary.acked + subflows[1].summary.acked);
    assert_eq!(sum.duration_ns, subflows[0].summary.duration_ns + 2 * MS, "begun 2 ms apart");
    let rate = sum.acked as f64 * 8.0e9 / sum.duration_ns as f64;
    assert!((sum.goodput_up - rate).abs() < 1.0);
    assert_eq!(Multipath::of(&analyses), None, "not all of one connection");
}

#[test]
fn subflows_are_indented_under_the_sum_and_share_its_bytes() {
    let analyses = analyse(&recording());
    let text = text::explain(&analyses, false, text::ANY_WIDTH);
    let heads: Vec<&str> = text
        .lines()
        .filter(|line| line.contains("MPTCP") || line.contains(" > 10.0.0.2:5201"))
        .collect();
    let expected = [
        "iperf [42] MPTCP 0000beef, 2 subflows",
        "  10.0.1.1:4000 > 10.0.0.2:5201 reno, 50% of the bytes",
        "  10.0.3.1:4000 > 10.0.0.2:5201 reno, 50% of the bytes",
        "iperf [42] 10.0.2.1:4000 > 10.0.0.2:5201 reno",
    ];
    assert_eq!(heads, expected, "{text}");
    let alone = text::connection(&analyses[0], text::ANY_WIDTH);
    let first = alone.lines().next().unwrap();
    assert_eq!(first, "iperf [42] 10.0.1.1:4000 > 10.0.0.2:5201 reno, subflow of MPTCP 0000beef");
    for line in alone.lines().skip(1) {
        assert!(text.contains(&format!("  {line}\n")), "{line:?} in\n{text}");
    }
}

#[test]
fn without_a_token_nothing_changes() {
    let events = [transfer(1, 0, 50), transfer(2, 0, 45), transfer(3, 0, 50)];
    let recording: Recording = events.iter().flatten().collect();
    let text = text::explain(&analyse(&recording), false, text::ANY_WIDTH);
    assert!(!text.contains("MPTCP"));
    assert_eq!(text.lines().filter(|l| l.starts_with("iperf [42] 10.0.")).count(), 3);
    assert_eq!(text.matches("\n\n").count(), 2, "one empty line between two");
}
