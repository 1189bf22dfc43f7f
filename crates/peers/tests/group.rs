//! Which terminals are believed, and which are not.

mod making;

use std::time::Duration;

use making::{AP, Terminal, acquainted, id, ms, report, round, seal};
use proptest::prelude::*;
use transom_peers::seal::{GroupKey, Seal};
use transom_peers::wire::{Message, Session, encode};
use transom_peers::{EXPIRY, Group, Heard, MOST_REMEMBERED, MOST_TERMINALS};

fn hear_all(terminal: &mut Terminal, now: Duration, said: &[Vec<u8>]) {
    for sealed in said {
        terminal.hear(now, sealed);
    }
}

fn three() -> Vec<Terminal> {
    (1..=3).map(Terminal::new).collect()
}

#[test]
fn terminals_that_hear_each_other_believe_each_other_after_a_question_and_an_answer() {
    let mut all = three();
    round(ms(0), &mut all);
    assert_eq!(all[0].sees(), []);
    round(ms(500), &mut all);
    round(ms(1000), &mut all);
    assert_eq!(all[0].sees(), [id(2), id(3)]);
    assert_eq!(all[2].sees(), [id(1), id(2)]);
}

#[test]
fn a_settled_group_asks_nothing_until_proofs_grow_old() {
    let mut all = three();
    let now = acquainted(&mut all);
    let settled = all[0].speak(now).len();
    let plain = encode(&Message { report: report(1), asks: vec![], answers: vec![] });
    assert_eq!(settled, plain.len() + transom_peers::seal::OVERHEAD);
}

#[test]
fn a_silent_terminal_is_forgotten_within_three_seconds() {
    let mut all = three();
    let now = acquainted(&mut all);
    all.pop();
    let mut when = now;
    while all[0].sees().contains(&id(3)) {
        when += ms(100);
        round(when, &mut all);
    }
    assert!(when - now <= EXPIRY && EXPIRY < ms(3000), "{:?}", when - now);
    assert_eq!(all[0].sees(), [id(2)]);
}

#[test]
fn a_terminal_that_leaves_is_forgotten_at_once() {
    let mut all = three();
    let now = acquainted(&mut all);
    all[2].report.leaving = true;
    let last = all[2].speak(now);
    assert_eq!(all[0].hear(now, &last), Heard::Believed);
    assert_eq!(all[0].sees(), [id(2)]);
}

#[test]
fn a_terminal_that_restarts_is_not_counted_twice() {
    let mut all = three();
    let now = acquainted(&mut all);
    all[2] = Terminal::with_session(3, Session(0xdead_beef_0000_0099));
    for n in 1..=3 {
        round(now + ms(n * 300), &mut all);
        assert_eq!(all[0].sees(), [id(2), id(3)], "round {n}");
    }
    assert_eq!(all[2].sees(), [id(1), id(2)]);
}

#[test]
fn what_was_heard_before_is_not_heard_again() {
    let mut all = three();
    let now = acquainted(&mut all);
    let said = all[1].speak(now);
    assert_eq!(all[0].hear(now, &said), Heard::Believed);
    assert_eq!(all[0].hear(now, &said), Heard::Replayed);
    assert_eq!(all[0].group.counters().replayed, 1);
}

#[test]
fn messages_that_overtake_each_other_leave_the_newest_in_force() {
    let mut all = three();
    let now = acquainted(&mut all);
    let older = all[1].speak(now);
    all[1].report.class = 20;
    let newer = all[1].speak(now);
    assert_eq!(all[0].hear(now, &newer), Heard::Believed);
    assert_eq!(all[0].hear(now, &older), Heard::Replayed);
    assert_eq!(all[0].group.members(now)[0].report.class, 20);
}

/// All that was ever said in a group, replayed to a terminal that has restarted.
#[test]
fn a_recording_makes_no_terminal_appear() {
    let mut all = three();
    let mut recording = Vec::new();
    for n in 0..40 {
        let now = ms(n * 900);
        let said: Vec<_> = all.iter_mut().map(|t| t.speak(now)).collect();
        all.iter_mut().for_each(|t| hear_all(t, now, &said));
        recording.extend(said);
    }
    let mut fresh = Terminal::with_session(1, Session(77));
    for (n, said) in recording.iter().enumerate() {
        let now = ms(n as u64 * 100);
        fresh.group.expire(now);
        assert_ne!(fresh.hear(now, said), Heard::Believed);
        fresh.speak(now);
    }
    assert_eq!(fresh.sees(), []);
    assert!(fresh.group.counters().unproven > 0);
}

/// A recording of a terminal's answers to this very terminal, played after it has gone.
#[test]
fn a_recording_brings_nobody_back() {
    let mut all = three();
    let mut kept_back = Vec::new();
    for n in 0..4 {
        let now = ms(n * 500);
        let said: Vec<_> = all.iter_mut().map(|t| t.speak(now)).collect();
        // Terminal 3's third message and later, with all its answers, are caught by somebody.
        if n >= 2 {
            kept_back.push(said[2].clone());
        }
        for (i, terminal) in all.iter_mut().enumerate() {
            let reaches = |from: usize| !(n >= 2 && i == 0 && from == 2);
            said.iter().enumerate().filter(|&(from, _)| reaches(from)).for_each(|(_, s)| {
                terminal.hear(now, s);
            });
        }
    }
    let later = ms(60_000);
    all[0].group.expire(later);
    assert_eq!(all[0].sees(), []);
    for (n, said) in kept_back.iter().enumerate() {
        assert_eq!(all[0].hear(later + ms(n as u64), said), Heard::Unproven);
        all[0].speak(later + ms(n as u64));
    }
    assert_eq!(all[0].sees(), []);
}

/// Each message comes, but each a little later than the one before.
#[test]
fn a_terminal_that_is_held_back_more_and_more_is_no_longer_believed() {
    let mut all = three();
    let begin = acquainted(&mut all);
    let (mut waiting, mut believed_lag) = (Vec::new(), ms(0));
    for n in 1..200 {
        let now = begin + ms(n * 900);
        let said = all[1].speak(now);
        waiting.push((now, said));
        if n % 2 == 0 {
            let (sent, said) = waiting.remove(0);
            all[0].group.expire(now);
            if all[0].hear(now, &said) == Heard::Believed {
                believed_lag = now - sent;
            }
        }
        let asked = all[0].speak(now);
        all[1].hear(now, &asked);
    }
    // Twice the age at which a proof is asked for again, and one expiry.
    assert!(believed_lag <= ms(60_000) + EXPIRY, "{believed_lag:?}");
    assert_eq!(all[0].sees(), []);
}

#[test]
fn a_stranger_is_neither_heard_nor_remembered() {
    let mut all = three();
    let now = acquainted(&mut all);
    let remembered = all[0].group.remembered();
    let strange = Seal::new(&GroupKey::new([9; 32]), AP);
    for n in 0..500 {
        let mut report = report(1000 + n);
        report.flows[0].goodput_kbit = 100_000_000;
        let message = encode(&Message { report, asks: vec![], answers: vec![] });
        assert_eq!(all[0].hear(now, &strange.close(Session(n), 0, &message)), Heard::Foreign);
    }
    assert_eq!(all[0].group.remembered(), remembered);
    assert_eq!(all[0].group.counters().foreign, 500);
    assert_eq!(all[0].sees(), [id(2), id(3)]);
}

#[test]
fn made_up_terminals_do_not_fill_the_memory_nor_push_members_out() {
    let mut all = three();
    let now = acquainted(&mut all);
    for n in 0..5000u64 {
        let when = now + ms(n);
        if n % 900 == 0 {
            round(when, &mut all);
        }
        let mut made_up = Terminal::new(1_000_000 + n);
        all[0].hear(when, &made_up.speak(when));
        assert!(all[0].group.remembered() <= MOST_REMEMBERED);
    }
    assert_eq!(all[0].sees(), [id(2), id(3)]);
}

/// A group of two for two minutes, in which proofs must be renewed, while a stranger replays two
/// messages per second of each of so many sessions that it once recorded. A third terminal joins
/// after a minute; when the first sees it, in ms after its start.
fn joins_during_replays_of(sessions: u64) -> Option<u64> {
    let mut old: Vec<Terminal> = (0..sessions)
        .map(|n| Terminal::with_session(1 + n % 3, Session(n << 32 | 1 << 20 | n)))
        .collect();
    let mut all = vec![Terminal::new(1001), Terminal::new(1002)];
    let (began, mut joined) = (acquainted(&mut all), None);
    for n in 0..1200 {
        let now = began + ms(n * 100);
        for terminal in old.iter_mut().filter(|_| n % 5 == 0) {
            let recorded = terminal.speak(ms(0));
            for terminal in &mut all {
                assert_ne!(terminal.hear(now, &recorded), Heard::Believed);
            }
        }
        if n == 600 {
            all.push(Terminal::new(1003));
        }
        if n % 9 == 0 {
            round(now, &mut all);
        }
        let seen = all[0].sees();
        assert!(seen.contains(&id(1002)), "a member is lost after {n}");
        joined = joined.or(seen.contains(&id(1003)).then(|| (n - 600) * 100));
    }
    joined
}

#[test]
fn replays_of_hundreds_of_sessions_lose_no_member_and_hold_a_newcomer_up_for_seconds() {
    let joined = joins_during_replays_of(400);
    assert!(joined.is_some_and(|ms| ms < 20_000), "{joined:?}");
}

#[test]
fn replays_of_more_sessions_than_are_remembered_lose_no_member() {
    joins_during_replays_of(2 * MOST_REMEMBERED as u64);
}

#[test]
fn more_terminals_than_there_may_be_are_counted_and_not_believed() {
    let mut one = Terminal::new(1);
    let mut others: Vec<_> = (2..MOST_TERMINALS as u64 + 60).map(Terminal::new).collect();
    for n in 0..30 {
        let now = ms(n * 900);
        let asked = one.speak(now);
        for other in &mut others {
            other.hear(now, &asked);
            let said = other.speak(now);
            one.hear(now, &said);
        }
        one.group.expire(now);
    }
    assert_eq!(one.sees().len(), MOST_TERMINALS);
    assert!(one.group.counters().crowded > 0);
}

#[test]
fn a_second_terminal_with_my_identity_is_reported() {
    let mut one = Terminal::new(1);
    let mut twin = Terminal::with_session(1, Session(5));
    assert_eq!(one.hear(ms(0), &twin.speak(ms(0))), Heard::Clash);
    assert_eq!(one.hear(ms(0), &one.group.clone().speak(ms(0), &report(1))), Heard::Own);
}

#[test]
fn both_sides_of_a_partition_see_only_themselves_and_come_together_again() {
    let mut all: Vec<_> = (1..=4).map(Terminal::new).collect();
    let now = acquainted(&mut all);
    for n in 1..=4 {
        let (left, right) = all.split_at_mut(2);
        round(now + ms(n * 900), left);
        round(now + ms(n * 900), right);
    }
    assert_eq!(all[0].sees(), [id(2)]);
    assert_eq!(all[3].sees(), [id(3)]);
    for n in 5..=8 {
        round(now + ms(n * 900), &mut all);
    }
    assert_eq!(all[0].sees(), [id(2), id(3), id(4)]);
}

/// Each has a clock of its own, which began at another time.
#[test]
fn clocks_that_differ_by_years_do_not_matter() {
    let mut all = three();
    let year = 365 * 24 * 3600 * 1000;
    for n in 0..4 {
        let clock = |i: usize| ms(n * 900 + i as u64 * year);
        let said: Vec<_> = all.iter_mut().enumerate().map(|(i, t)| t.speak(clock(i))).collect();
        for (i, terminal) in all.iter_mut().enumerate() {
            terminal.group.expire(clock(i));
            hear_all(terminal, clock(i), &said);
        }
    }
    assert_eq!(all[1].sees(), [id(1), id(3)]);
}

/// One of three messages is lost, at random, for ten minutes.
#[test]
fn with_a_third_of_the_messages_lost_terminals_are_rarely_missed() {
    let (mut all, mut dice, mut missed, mut looks) = (three(), 12345u64, 0, 0);
    for n in 0..667 {
        let now = ms(n * 900);
        let said: Vec<_> = all.iter_mut().map(|t| t.speak(now)).collect();
        for terminal in all.iter_mut() {
            terminal.group.expire(now);
            for sealed in &said {
                dice = dice.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                if dice >> 33 >= (1 << 31) / 3 {
                    terminal.hear(now, sealed);
                }
            }
        }
        if n > 10 {
            looks += 2;
            missed += 2 - all[0].sees().len();
        }
    }
    // Three in a row: (1/3)^3, and then until the proof is renewed.
    assert!(missed * 100 < looks * 15, "{missed} of {looks}");
}

proptest! {
    #[test]
    fn whatever_comes_memory_is_bounded_and_nobody_unproven_counts(
        events in proptest::collection::vec((0..40u64, 0..3000u64, any::<bool>()), 1..400),
    ) {
        let mut group = Group::new(seal(), id(1), Session(1));
        let mut now = ms(0);
        for (number, wait, damage) in events {
            now += ms(wait);
            let mut sealed = Terminal::new(number + 10).speak(now);
            if damage {
                sealed[20] ^= 1;
            }
            let heard = group.hear(now, &sealed);
            prop_assert_ne!(heard, Heard::Believed);
            prop_assert!(group.remembered() <= MOST_REMEMBERED);
        }
        prop_assert!(group.members(now).is_empty());
    }
}
