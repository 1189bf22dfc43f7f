//! How a generation begins: with one host, or with all of them at once when one goes back.

use crate::generation::{Current, FORMAT, Generation};
use crate::progress::{Progress, Undone};
use crate::waves::Waves;

impl Current {
    /// The generation that all hosts have when none is under way; 0: none.
    pub fn settled(&self) -> u64 {
        if self.progress.is_done { self.generation } else { self.before }
    }

    /// A roll-out that begins now, in the place of what was `last`.
    pub fn begin(
        generation: u64,
        last: Option<&Current>,
        first: &str,
        now_s: u64,
        lease_s: u64,
    ) -> Current {
        Current {
            format: FORMAT,
            generation,
            before: last.map_or(0, Current::settled),
            wave: 0,
            first: first.to_owned(),
            began_s: now_s,
            written_s: now_s,
            lease_s,
            progress: Progress {
                origin_s: now_s,
                since_s: last.map_or(0, |last| last.changed_s(now_s)),
                began: vec![0],
                ..Progress::default()
            },
        }
    }

    /// All hosts have it from now on, and nothing is asked: one goes back. What gates found last stays
    /// known.
    pub fn for_all(
        generation: u64,
        last: &Current,
        gate: Option<&str>,
        because: &str,
        now_s: u64,
    ) -> Current {
        let mut current = Current::begin(generation, Some(last), "", now_s, last.lease_s);
        current.set_done();
        because.clone_into(&mut current.progress.because);
        current.progress.judged.clone_from(&last.progress.judged);
        current.progress.undone = Some(Undone {
            generation: last.generation,
            wave: last.wave,
            gate: gate.map(str::to_owned),
        });
        current
    }

    /// All hosts have it, and none is asked for the one before, which may be gone, or signed with a key
    /// that nobody trusts any more.
    pub(crate) fn set_done(&mut self) {
        self.progress.is_done = true;
        self.before = 0;
    }

    /// Hosts outside have nothing, since what they had before cannot be had any more.
    #[must_use]
    pub fn without_before(mut self) -> Current {
        self.before = 0;
        self.progress.since_s = self.written_s;
        self
    }

    /// It holds from now on for as long as before.
    pub fn renew(&mut self, now_s: u64) {
        self.written_s = now_s;
        if self.progress.is_done {
            self.set_done();
        }
    }

    /// Since when all hosts have had the same.
    fn changed_s(&self, now_s: u64) -> u64 {
        if now_s >= self.ends_s() {
            // Hosts went back by themselves, each in its time.
            return now_s;
        }
        if self.progress.is_done { self.began_s } else { now_s }
    }
}

impl Generation {
    /// Goes back to the policy of an older one, or to none, on all hosts at once.
    pub fn back_to(number: u64, policy: Option<String>) -> Generation {
        let waves = Waves { shares: vec![1.0], ..Waves::default() };
        Generation { format: FORMAT, number, policy, waves, gates: vec![], expected: vec![] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Known, Turn};

    fn done(generation: u64) -> Current {
        let mut current = Current::begin(generation, None, "a", 1000, 600);
        current.progress.is_done = true;
        current
    }

    #[test]
    fn what_is_before_is_the_last_that_all_hosts_had() {
        let first = Current::begin(1, None, "a", 1000, 600);
        assert_eq!((first.before, first.settled()), (0, 0));
        let over_another = Current::begin(2, Some(&first), "a", 5000, 600);
        assert_eq!(over_another.before, 0, "the first one never reached all");
        assert_eq!(Current::begin(2, Some(&done(1)), "a", 1100, 600).before, 1);
    }

    #[test]
    fn rows_count_from_when_all_hosts_had_the_same() {
        let since = |last: Option<&Current>, now_s| {
            Current::begin(9, last, "a", now_s, 600).progress.since_s
        };
        assert_eq!(since(None, 5000), 0);
        assert_eq!(since(Some(&done(1)), 1500), 1000);
        assert_eq!(since(Some(&done(1)), 1600), 1600, "its lease was over");
        assert_eq!(since(Some(&Current::begin(1, None, "a", 1000, 600)), 1500), 1500);
    }

    #[test]
    fn going_back_reaches_every_host_at_once() {
        let back = Current::for_all(3, &done(2), None, "by hand", 2000);
        let waves = Generation::back_to(3, None).waves;
        assert_eq!(waves.fault(), None);
        assert_eq!(back.progress.undone, Some(Undone { generation: 2, wave: 0, gate: None }));
        for host in ["a", "b", "c"] {
            assert_eq!(back.turn(&waves, host, 2001, &mut Known::default()), Turn::Have(3));
        }
        assert_eq!((back.settled(), back.progress.because.as_str()), (3, "by hand"));
    }

    #[test]
    fn what_all_hosts_have_needs_no_generation_before_it() {
        assert_eq!(Current::for_all(3, &done(2), None, "by hand", 2000).before, 0);
        // Nor when it was written by a program that named one.
        let mut renewed = Current { before: 1, ..done(2) };
        renewed.renew(1200);
        assert_eq!((renewed.before, renewed.ends_s()), (0, 1800));
        let mut under_way = Current::begin(2, Some(&done(1)), "a", 1100, 600);
        under_way.renew(1200);
        assert_eq!(under_way.before, 1);
        let alone = Current::begin(2, Some(&done(1)), "a", 1100, 600).without_before();
        assert_eq!((alone.before, alone.progress.since_s), (0, 1100));
    }
}
