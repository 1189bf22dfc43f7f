//! The form of messages: all that can be said comes back, and nothing else is understood.

mod making;

use making::{any_report, key, report, seal};
use proptest::prelude::*;
use transom_peers::seal::{GroupKey, MOST_SEALED, OVERHEAD, Seal};
use transom_peers::wire::{Answer, MOST_ASKED, MOST_BYTES, Malformed, Message, Session};
use transom_peers::wire::{decode, encode};
use transom_peers::{Absurd, MOST_FLOWS};

fn any_message() -> impl Strategy<Value = Message> {
    let asks = proptest::collection::vec(any::<u32>(), 0..=MOST_ASKED);
    let answer =
        any::<(u64, u32)>().prop_map(|(s, counter)| Answer { session: Session(s), counter });
    let answers = proptest::collection::vec(answer, 0..=MOST_ASKED);
    (any_report(), asks, answers).prop_map(|(report, asks, answers)| Message {
        report,
        asks,
        answers,
    })
}

fn plain() -> Message {
    Message { report: report(1), asks: vec![], answers: vec![] }
}

proptest! {
    #[test]
    fn a_message_comes_back_as_it_was(message in any_message()) {
        let bytes = encode(&message);
        prop_assert!(bytes.len() <= MOST_BYTES, "{} bytes", bytes.len());
        prop_assert_eq!(decode(&bytes), Ok(message));
    }

    #[test]
    fn any_bytes_are_refused_or_are_the_one_form_of_a_message(
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        if let Ok(message) = decode(&bytes) {
            prop_assert_eq!(encode(&message), bytes);
        }
    }

    #[test]
    fn a_damaged_message_is_refused_or_is_the_one_form_of_another(
        message in any_message(), at in any::<proptest::sample::Index>(), bits in 1..=255u8,
    ) {
        let mut bytes = encode(&message);
        let at = at.index(bytes.len());
        bytes[at] ^= bits;
        if let Ok(other) = decode(&bytes) {
            prop_assert_ne!(&other, &message);
            prop_assert_eq!(encode(&other), bytes);
        }
    }

    #[test]
    fn a_part_of_a_message_is_refused(message in any_message(), cut in any::<proptest::sample::Index>()) {
        let bytes = encode(&message);
        let part = &bytes[..cut.index(bytes.len())];
        prop_assert_eq!(decode(part), Err(Malformed::Form));
    }

    #[test]
    fn what_is_sealed_opens_with_the_same_key_only(
        message in any_message(), session in any::<u64>(), counter in any::<u32>(),
        other in any::<[u8; 32]>(),
    ) {
        let bytes = encode(&message);
        let sealed = seal().close(Session(session), counter, &bytes);
        prop_assert_eq!(sealed.len(), bytes.len() + OVERHEAD);
        prop_assert_eq!(seal().open(&sealed), Some((Session(session), counter, bytes)));
        prop_assert_eq!(Seal::new(&GroupKey::new(other), making::AP).open(&sealed), None);
        prop_assert_eq!(Seal::new(&key(), "another access point").open(&sealed), None);
    }

    #[test]
    fn one_changed_bit_anywhere_keeps_a_sealed_message_shut(
        at in any::<proptest::sample::Index>(), bit in 0..8u8,
    ) {
        let mut sealed = seal().close(Session(3), 4, &encode(&plain()));
        let at = at.index(sealed.len());
        sealed[at] ^= 1 << bit;
        prop_assert_eq!(seal().open(&sealed), None);
    }

    #[test]
    fn any_bytes_stay_shut(bytes in proptest::collection::vec(any::<u8>(), 0..MOST_SEALED + 50)) {
        prop_assert_eq!(seal().open(&bytes), None);
    }
}

/// The bytes of `docs/peer.md`; a change of the form needs another version.
#[test]
fn the_form_is_the_documented_one() {
    let mut message = plain();
    message.asks = vec![0x0102_0304];
    message.answers = vec![Answer { session: Session(0x1122_3344_5566_7788), counter: 9 }];
    let expected = [
        &[0][..],                                                         // flags
        &[0, 0, 0, 0, 0, 0, 0, 1],                                        // terminal
        &[6, b'p', b'h', b'o', b'n', b'e', b'1'],                         // name
        &[10],                                                            // class
        &[0x78, 0x56, 0x34, 0x12],                                        // rules
        &[0xa0, 0x9c, 0x01],                                              // air, 20000 kbit/s
        &[1, 4, 3, 2, 1],                                                 // asks
        &[1, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 9, 0, 0, 0], // answers
        &[1, 1, 0, 0, 0],                                                 // one flow, its number
        &[1],                                                             // hungry
        &[50, 40],                                                        // cwnd, ssthresh
        &[0xe0, 0xc5, 0x08, 0xa0, 0x8d, 0x06], // srtt 140 ms, min_rtt 100 ms
        &[0xa8, 0x0b],                         // mss 1448
        &[0xf0, 0x2e],                         // goodput 6000 kbit/s
        &[0, 10, 0],                           // losses, unsteady, no cap
    ];
    assert_eq!(encode(&message), expected.concat());
}

#[test]
fn a_usual_message_takes_a_hundred_bytes() {
    let sealed = seal().close(Session(1), 1, &encode(&plain()));
    assert!(sealed.len() <= 100, "{} bytes", sealed.len());
}

#[test]
fn numbers_that_no_connection_can_have_are_named() {
    let refused = |change: fn(&mut Message)| {
        let mut message = plain();
        change(&mut message);
        decode(&encode(&message)).unwrap_err()
    };
    let absurd = |name| Malformed::Absurd(Absurd(name));
    assert_eq!(refused(|m| m.report.flows[0].cwnd = 0), absurd("cwnd"));
    assert_eq!(refused(|m| m.report.flows[0].cwnd = 3_000_000), absurd("cwnd"));
    assert_eq!(refused(|m| m.report.flows[0].srtt_us = 0), absurd("srtt"));
    assert_eq!(refused(|m| m.report.flows[0].min_rtt_us = 200_000_000), absurd("min_rtt"));
    assert_eq!(refused(|m| m.report.flows[0].mss = 1), absurd("mss"));
    assert_eq!(refused(|m| m.report.flows[0].goodput_kbit = u32::MAX), absurd("goodput"));
    assert_eq!(refused(|m| m.report.flows[0].unsteady = 101), absurd("unsteady"));
    assert_eq!(refused(|m| m.report.class = 0), absurd("class"));
    assert_eq!(refused(|m| m.report.class = 60_000), absurd("class"));
    assert_eq!(refused(|m| m.report.air_kbit = u32::MAX), absurd("air rate"));
    assert_eq!(refused(|m| m.report.name = "a\u{1b}[2J".into()), absurd("name"));
    assert_eq!(refused(|m| m.report.flows.push(m.report.flows[0])), absurd("order of flows"));
}

#[test]
fn a_message_that_claims_more_flows_than_there_may_be_is_refused_unread() {
    let mut bytes = encode(&plain());
    let count = bytes.iter().rposition(|&byte| byte == 1).map(|hungry| hungry - 5).unwrap();
    assert_eq!(bytes[count], 1);
    bytes[count] = MOST_FLOWS as u8 + 1;
    assert_eq!(decode(&bytes), Err(Malformed::Form));
}

#[test]
fn a_key_file_says_the_key_and_what_it_is() {
    let text = key().to_text();
    assert!(text.starts_with("transom-peer-1:0707"));
    assert_eq!(GroupKey::from_text(&format!("{text}\n")), Some(key()));
    assert_eq!(GroupKey::from_text(&text[..text.len() - 2]), None);
    assert_eq!(GroupKey::from_text("transom-peer-2:07"), None);
    assert_eq!(GroupKey::from_text(&text.replace("07", "+7")), None);
    assert_eq!(format!("{:?}", key()), "GroupKey");
}

#[test]
fn topics_tell_access_points_and_groups_apart() {
    let other = GroupKey::new([8; 32]);
    assert_eq!(key().topic("a"), key().topic("a"));
    assert_ne!(key().topic("a"), key().topic("b"));
    assert_ne!(key().topic("a"), other.topic("a"));
    assert_ne!(key().terminal(b"a"), other.terminal(b"a"));
}
