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

/// A generation, and the file that says so.
struct Opened {
    generation: Generation,
    file: Vec<u8>,
}

struct Believed {
    current: Current,
    file: Vec<u8>,
    generation: Opened,
    /// `None`: there is none. Why it cannot be had matters only to who is to have it.
    before: Option<Result<Opened>>,
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

    pub fn keys(&self) -> &[VerifyingKey] {
        &self.keys
    }

    /// These keys are trusted from now on: what none of them signed is believed no longer.
    pub fn trust(&mut self, keys: Vec<VerifyingKey>) {
        self.keys = keys;
        let Some(believed) = self.believed.take() else { return };
        let Believed { current, file, generation, before, seen_boot_s } = believed;
        let again = |it: Opened| self.open(it.generation.number, it.file);
        let (Ok(_), Ok(generation)) = (Current::from_bytes(&file, &self.keys), again(generation))
        else {
            return;
        };
        let before = before.map(|before| before.and_then(again));
        self.believed = Some(Believed { current, file, generation, before, seen_boot_s });
    }

    fn open(&self, number: u64, file: Vec<u8>) -> Result<Opened> {
        Ok(Opened { generation: Generation::from_bytes(&file, number, &self.keys)?, file })
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
        file: &[u8],
        read: impl Fn(u64) -> Result<Vec<u8>>,
        now: Now,
    ) -> Result<()> {
        let current = Current::from_bytes(file, &self.keys)?;
        let mut known = self.known;
        if let Err(reason) = current.believe(now.wall_s, &mut known) {
            bail!("generation {}: {reason}", current.generation);
        }
        let open =
            |number| self.open(number, read(number).with_context(|| generation_name(number))?);
        let generation = open(current.generation)?;
        let mut before = (current.before != 0).then(|| open(current.before));
        let waves = &generation.generation.waves;
        let turn = current.turn(waves, &self.name, now.wall_s, &mut known.clone());
        if turn == Turn::Have(current.before) {
            before = before.transpose()?.map(Ok);
        }
        let is_renewal = known != self.known;
        self.known = known;
        let seen_boot_s = match &self.believed {
            Some(believed) if !is_renewal => believed.seen_boot_s,
            _ => now.boot_s,
        };
        let file = file.to_owned();
        self.believed = Some(Believed { current, file, generation, before, seen_boot_s });
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
        let waves = &believed.generation.generation.waves;
        let turn = current.turn(waves, &self.name, now.wall_s, &mut known);
        match turn {
            Turn::Nothing(reason) => {
                Wanted::Nothing(format!("{}: {reason}", of(current.generation)))
            }
            Turn::Have(0) => Wanted::Nothing(format!(
                "this host has no turn in {}, and there is none before it",
                of(current.generation)
            )),
            Turn::Have(number) => {
                let opened = match &believed.before {
                    Some(before) if number != current.generation => before.as_ref(),
                    _ => Ok(&believed.generation),
                };
                match opened.map(|it| it.generation.policy.clone()) {
                    Ok(Some(text)) => Wanted::Policy { generation: number, text },
                    Ok(None) => Wanted::Nothing(format!("{} is to have none", of(number))),
                    Err(error) => {
                        Wanted::Nothing(format!("it is the turn of {}: {error:#}", of(number)))
                    }
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

    /// Generation 5 by the key 2, over one that the key 1 has signed.
    fn show_after_a_change_of_keys(host: &mut Host, wave: usize, now: Now) -> Result<()> {
        let read = |number| {
            let (old, trusted) = (generation(number), [key(1).verifying_key()]);
            if number < 5 {
                return Ok(old);
            }
            Generation::from_bytes(&old, number, &trusted)?.to_bytes(&key(2))
        };
        let current = current(5, wave, now.wall_s);
        host.take(&current.to_bytes(&key(2))?, read, now)
    }

    #[test]
    fn a_generation_before_it_that_cannot_be_had_matters_only_to_who_is_to_have_it() {
        let host = |name| Host::new(name, vec![key(2).verifying_key()], Known::default());
        let (mut first, mut other) = (host("a"), host("b"));
        show_after_a_change_of_keys(&mut first, 0, at(0)).unwrap();
        assert_eq!(has(&first, at(1)), Some(5));
        let refused = show_after_a_change_of_keys(&mut other, 0, at(0)).unwrap_err();
        let refused = format!("{refused:#}");
        assert!(refused.starts_with("gen-4: ") && refused.contains("not trusted"), "{refused}");
        // In the other half of the wave it is the turn of the one before on the first host, too.
        let half = Waves::default().window_s * u64::from(Waves::default().windows);
        show_after_a_change_of_keys(&mut first, 0, at(half - 1)).unwrap();
        assert_eq!(has(&first, at(half - 1)), Some(5));
        let Wanted::Nothing(why) = first.wanted(at(half)) else { panic!() };
        assert!(why.starts_with("it is the turn of generation 4: gen-4: "), "{why}");
        // When all have it, nobody needs the one before.
        show_after_a_change_of_keys(&mut other, 1, at(half)).unwrap();
        assert_eq!(has(&other, at(half)), Some(5));
    }

    #[test]
    fn what_was_signed_with_a_key_that_is_trusted_no_longer_is_believed_no_longer() {
        let mut host = host("a");
        show(&mut host, &current(5, 1, START), 1, at(0)).unwrap();
        host.trust(vec![key(2).verifying_key(), key(1).verifying_key()]);
        assert_eq!(has(&host, at(1)), Some(5), "another one beside it changes nothing");
        show_after_a_change_of_keys(&mut host, 1, at(2)).unwrap();
        host.trust(vec![key(2).verifying_key()]);
        assert_eq!(has(&host, at(3)), Some(5));
        host.trust(vec![key(3).verifying_key()]);
        assert_eq!(has(&host, at(3)), None);
        assert!(show_after_a_change_of_keys(&mut host, 1, at(4)).is_err());
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
