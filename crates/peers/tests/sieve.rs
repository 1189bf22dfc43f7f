//! What is worth decrypting: members get through, whatever strangers send.

mod making;

use making::{ms, seal};
use proptest::prelude::*;
use transom_peers::seal::{GroupKey, Seal};
use transom_peers::wire::Session;
use transom_peers::{Dropped, Sieve};

fn message(session: u64, counter: u32) -> Vec<u8> {
    seal().close(Session(session), counter, b"a report")
}

#[test]
fn a_message_passes_once_and_older_ones_of_its_session_never() {
    let mut sieve = Sieve::new(seal());
    assert_eq!(sieve.sift(ms(0), &message(1, 5)), Ok(()));
    assert_eq!(sieve.sift(ms(9), &message(1, 5)), Err(Dropped::Replayed));
    assert_eq!(sieve.sift(ms(9), &message(1, 4)), Err(Dropped::Replayed));
    assert_eq!(sieve.sift(ms(9), &message(1, 6)), Ok(()));
    assert_eq!(sieve.sift(ms(9), &message(2, 0)), Ok(()), "each session counts by itself");
}

#[test]
fn another_key_or_access_point_is_foreign() {
    let mut sieve = Sieve::new(seal());
    for other in
        [Seal::new(&GroupKey::new([8; 32]), making::AP), Seal::new(&making::key(), "other")]
    {
        let sealed = other.close(Session(1), 0, b"a report");
        assert_eq!(sieve.sift(ms(0), &sealed), Err(Dropped::Foreign));
    }
}

#[test]
fn no_forgery_however_many_takes_a_members_place() {
    let mut sieve = Sieve::new(seal());
    let mut forged = message(1, 9);
    *forged.last_mut().unwrap() ^= 1;
    for counter in 0..5 {
        for _ in 0..10_000 {
            assert_eq!(sieve.sift(ms(0), &forged), Err(Dropped::Foreign));
        }
        assert_eq!(sieve.sift(ms(0), &message(1, counter)), Ok(()));
    }
}

#[test]
fn a_member_that_says_too_much_is_cut_off_alone_and_until_the_next_second() {
    let mut sieve = Sieve::new(seal());
    let said: Vec<_> = (0..100).map(|n| sieve.sift(ms(10), &message(1, n))).collect();
    assert!(said[..5].iter().all(Result::is_ok), "an honest one says at most five");
    assert_eq!(said.last(), Some(&Err(Dropped::Flood)));
    assert_eq!(sieve.sift(ms(20), &message(2, 0)), Ok(()));
    assert_eq!(sieve.sift(ms(1000), &message(1, 100)), Ok(()));
}

#[test]
fn sessions_of_old_recordings_do_not_fill_the_memory_for_ever() {
    let mut sieve = Sieve::new(seal());
    let passed = (0..5000).filter(|&n| sieve.sift(ms(0), &message(n, 0)).is_ok()).count();
    assert_eq!(passed, 4096);
    assert_eq!(sieve.sift(ms(5000), &message(6000, 0)), Ok(()));
}

proptest! {
    #[test]
    fn a_message_with_any_bit_changed_or_cut_anywhere_is_foreign(
        session: u64, counter: u32, at in 0..1000usize, bit in 0..8u8,
    ) {
        let sealed = message(session, counter);
        let mut changed = sealed.clone();
        let length = changed.len();
        changed[at % length] ^= 1 << bit;
        let mut sieve = Sieve::new(seal());
        prop_assert_eq!(sieve.sift(ms(0), &changed), Err(Dropped::Foreign));
        prop_assert_eq!(sieve.sift(ms(0), &sealed[..at % length]), Err(Dropped::Foreign));
        prop_assert_eq!(sieve.sift(ms(0), &sealed), Ok(()));
    }
}
