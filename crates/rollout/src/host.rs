//! What a host makes of the files it is shown: what it believes, and what it is to have now.

use anyhow::{Context, Result, bail};
use ed25519_dalek::VerifyingKey;

use crate::generation::{Current, Generation, Known, Reason, Turn};
use crate::stored::generation_name;

/// Two clocks: one that others may set, and one that only counts on while the machine runs.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// Seconds since 1970.
    pub wall_s: u64,
    /// Seconds since the machine was started.
    pub boot_s: u64,
}

/// What is to be in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// The policy of this generation.
    Policy { generation: u64, text: String },
    /// Nothing, and why.
    Nothing(String),
}

struct Believed {
    current: Current,
    generation: Generation,
    before: Option<Generation>,
    /// When this host saw it first: a clock that is set back makes no lease longer.
    seen_boot_s: u64,
}

/// A host of a fleet.
pub struct Host {
    name: String,
    keys: Vec<VerifyingKey>,
    known: Known,
    believed: Option<Believed>,
}

impl Host {
    /// `known`: what it has seen when it ran before.
    pub fn new(name: &str, keys: Vec<VerifyingKey>, known: Known) -> Host {
        Host { name: name.to_owned(), keys, known, believed: None }
    }

    /// To be kept for the next start.
    pub fn known(&self) -> Known {
        self.known
    }

    /// Takes a file `current`; `read` gives the file of a generation.
    ///
    /// # Errors
    /// It is not believed, and why. What was believed before still is, until its lease ends.
    pub fn take(
        &mut self,
        current: &[u8],
        read: impl Fn(u64) -> Result<Vec<u8>>,
        now: Now,
    ) -> Result<()> {
        let current = Current::from_bytes(current, &self.keys)?;
        let mut known = self.known;
        if let Err(reason) = current.believe(now.wall_s, &mut known) {
            bail!("generation {}: {reason}", current.generation);
        }
        let open = |number| {
            let bytes = read(number).with_context(|| generation_name(number))?;
            Generation::from_bytes(&bytes, number, &self.keys)
        };
        let generation = open(current.generation)?;
        let before = (current.before != 0).then(|| open(current.before)).transpose()?;
        let is_renewal = known != self.known;
        self.known = known;
        let seen_boot_s = match &self.believed {
            Some(believed) if !is_renewal => believed.seen_boot_s,
            _ => now.boot_s,
        };
        self.believed = Some(Believed { current, generation, before, seen_boot_s });
        Ok(())
    }

    pub fn wanted(&self, now: Now) -> Wanted {
        let Some(believed) = &self.believed else {
            return Wanted::Nothing("nothing has come that it believes".to_owned());
        };
        let current = &believed.current;
        let of = |generation: u64| format!("generation {generation}");
        let ran_s = now.boot_s.saturating_sub(believed.seen_boot_s);
        if let Some(since_s) = ran_s.checked_sub(current.lease_s) {
            let reason = Reason::LeaseOver { since_s };
            return Wanted::Nothing(format!("{}: {reason}", of(current.generation)));
        }
        let mut known = self.known;
        let turn = current.turn(&believed.generation.waves, &self.name, now.wall_s, &mut known);
        match turn {
            Turn::Nothing(reason) => {
                Wanted::Nothing(format!("{}: {reason}", of(current.generation)))
            }
            Turn::Have(0) => Wanted::Nothing(format!(
                "this host has no turn in {}, and there is none before it",
                of(current.generation)
            )),
            Turn::Have(number) => {
                let is_new = number == current.generation;
                let generation =
                    if is_new { Some(&believed.generation) } else { believed.before.as_ref() };
                match generation.and_then(|generation| generation.policy.clone()) {
                    Some(text) => Wanted::Policy { generation: number, text },
                    None => Wanted::Nothing(format!("{} is to have none", of(number))),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FORMAT, Progress, SigningKey, Waves};

    const START: u64 = 1_800_000_000;

    fn key(seed: u8) -> SigningKey {
        SigningKey::from_bytes(&[seed; 32])
    }

    fn generation(number: u64) -> Vec<u8> {
        let policy = (number != 6).then(|| format!("policy {number}"));
        let waves = Waves { shares: vec![0.0, 1.0], ..Waves::default() };
        let generation =
            Generation { format: FORMAT, number, policy, waves, gates: vec![], expected: vec![] };
        generation.to_bytes(&key(1)).unwrap()
    }

    fn current(generation: u64, wave: usize, written_s: u64) -> Current {
        Current {
            format: FORMAT,
            generation,
            before: generation - 1,
            wave,
            first: "a".to_owned(),
            began_s: START,
            written_s,
            lease_s: 600,
            progress: Progress::default(),
        }
    }

    fn at(seconds: u64) -> Now {
        Now { wall_s: START + seconds, boot_s: 50 + seconds }
    }

    fn host(name: &str) -> Host {
        Host::new(name, vec![key(1).verifying_key()], Known::default())
    }

    fn show(host: &mut Host, current: &Current, seed: u8, now: Now) -> Result<()> {
        host.take(&current.to_bytes(&key(seed))?, |number| Ok(generation(number)), now)
    }

    fn has(host: &Host, now: Now) -> Option<u64> {
        match host.wanted(now) {
            Wanted::Policy { generation, text } => {
                assert_eq!(text, format!("policy {generation}"));
                Some(generation)
            }
            Wanted::Nothing(_) => None,
        }
    }

    #[test]
    fn the_first_host_has_the_new_one_and_others_the_one_before() {
        for (name, first, all) in [("a", Some(5), Some(5)), ("b", Some(4), Some(5))] {
            let mut host = host(name);
            assert_eq!(has(&host, at(0)), None);
            show(&mut host, &current(5, 0, START), 1, at(0)).unwrap();
            assert_eq!(has(&host, at(1)), first);
            show(&mut host, &current(5, 1, START + 2), 1, at(2)).unwrap();
            assert_eq!(has(&host, at(3)), all);
        }
    }

    #[test]
    fn a_generation_without_a_policy_takes_all_back() {
        let mut host = host("a");
        show(&mut host, &current(6, 0, START), 1, at(0)).unwrap();
        let Wanted::Nothing(why) = host.wanted(at(1)) else { panic!() };
        assert_eq!(why, "generation 6 is to have none");
    }

    #[test]
    fn what_is_not_believed_changes_nothing() {
        let mut host = host("a");
        show(&mut host, &current(5, 1, START), 1, at(0)).unwrap();
        let mut refused = |current: &Current, seed, words: &str| {
            let said = format!("{:#}", show(&mut host, current, seed, at(10)).unwrap_err());
            assert!(said.contains(words), "{said}");
            assert_eq!(has(&host, at(10)), Some(5), "{words}");
        };
        refused(&current(6, 1, START + 5), 2, "not trusted");
        refused(&current(5, 0, START - 1), 1, "replayed?");
        refused(&current(4, 1, START + 5), 1, "replayed?");
        refused(&current(6, 1, START + 9_999), 1, "a clock is wrong");
        refused(&Current { format: 2, ..current(6, 1, START + 5) }, 1, "upgrade it");
        let missing = host.take(
            &current(7, 1, START + 5).to_bytes(&key(1)).unwrap(),
            |_| bail!("not there"),
            at(10),
        );
        assert_eq!(format!("{:#}", missing.unwrap_err()), "gen-7: not there");
        assert_eq!(has(&host, at(10)), Some(5));
        assert_eq!(host.known(), Known { generation: 5, written_s: START });
    }

    #[test]
    fn a_lease_ends_by_either_clock_and_begins_anew_when_it_is_renewed() {
        let mut host = host("a");
        show(&mut host, &current(5, 1, START), 1, at(0)).unwrap();
        assert_eq!(has(&host, at(599)), Some(5));
        assert_eq!(has(&host, at(600)), None);
        let set_back = Now { wall_s: START, boot_s: 50 + 600 };
        assert_eq!(has(&host, set_back), None, "a clock that was set back helps nobody");
        // The same file once more is no renewal.
        show(&mut host, &current(5, 1, START), 1, set_back).unwrap();
        assert_eq!(has(&host, set_back), None);
        show(&mut host, &current(5, 1, START + 600), 1, at(600)).unwrap();
        assert_eq!(has(&host, at(700)), Some(5));
    }

    #[test]
    fn a_host_that_was_started_again_believes_nothing_older_than_before() {
        let mut first = host("a");
        show(&mut first, &current(5, 1, START + 9), 1, at(10)).unwrap();
        let mut again = Host::new("a", vec![key(1).verifying_key()], first.known());
        assert!(show(&mut again, &current(5, 1, START), 1, at(11)).is_err());
        show(&mut again, &current(5, 1, START + 9), 1, at(11)).unwrap();
        assert_eq!(has(&again, at(11)), Some(5));
    }
}
