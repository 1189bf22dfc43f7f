//! Which hosts have a generation, and when: by a hash of the host, so that nobody keeps a list.

use std::hash::Hasher;

use serde::{Deserialize, Serialize};
use siphasher::sip::SipHasher24;

/// Of a host, in a wave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arm {
    /// It has the generation in the first half of the wave, and is control in the second.
    First,
    /// The other way round.
    Second,
    /// It is not in the wave.
    Outside,
}

/// The waves of a generation. A wave has two halves of `windows` windows each; hosts of both arms
/// are in both, so that treated and control are compared at the same time, and each host with
/// itself. In the last wave there is no control.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Waves {
    /// Shares of the fleet, rising, the last one 1. The first wave is one host, whatever the fleet.
    pub shares: Vec<f64>,
    /// Length of a window, seconds.
    pub window_s: u64,
    /// Windows in each half of a wave.
    pub windows: u32,
}

impl Default for Waves {
    fn default() -> Waves {
        Waves { shares: vec![0.0, 0.01, 0.1, 0.5, 1.0], window_s: 600, windows: 6 }
    }
}

/// Two numbers of a host that differ from generation to generation: its place in the fleet, 0 to 1,
/// and a bit.
fn place(host: &str, generation: u64) -> (f64, bool) {
    let mut hasher = SipHasher24::new_with_keys(generation, 0x7472_616e_736f_6d21);
    hasher.write(host.as_bytes());
    let hash = hasher.finish();
    ((hash >> 11) as f64 / (1u64 << 53) as f64, hash & 1 == 1)
}

impl Waves {
    /// Whether this wave has no control.
    pub fn is_last(&self, wave: usize) -> bool {
        wave + 1 >= self.shares.len()
    }

    /// The host for the first wave: the one whose place comes first.
    pub fn first<'a>(hosts: &[&'a str], generation: u64) -> Option<&'a str> {
        let of = |host: &&str| place(host, generation).0;
        hosts.iter().copied().min_by(|a, b| of(a).total_cmp(&of(b)))
    }

    /// `first`: the one host of the first wave, which the controller has named.
    pub fn arm(&self, host: &str, first: &str, generation: u64, wave: usize) -> Arm {
        let (place, bit) = place(host, generation);
        let share = self.shares.get(wave).copied().unwrap_or(1.0);
        match () {
            () if host != first && place >= share => Arm::Outside,
            () if bit || wave == 0 => Arm::First,
            () => Arm::Second,
        }
    }

    /// Whether the host has the generation in this window of the wave; holding a wave begins it anew.
    pub fn has(&self, arm: Arm, wave: usize, window: u32) -> bool {
        let second_half = (window / self.windows) % 2 == 1;
        match arm {
            Arm::Outside => false,
            _ if self.is_last(wave) => true,
            Arm::First => !second_half,
            Arm::Second => second_half,
        }
    }

    /// What is wrong with it, if something is.
    pub fn fault(&self) -> Option<String> {
        let rising = self.shares.windows(2).all(|two| two[0] < two[1]);
        let ends = (self.shares.first(), self.shares.last());
        match ends {
            (Some(first), Some(last)) if rising && *first >= 0.0 && *last == 1.0 => {}
            _ => return Some("shares rise from 0 to 1, the last one 1".to_owned()),
        }
        if self.windows < 2 || self.window_s < 10 {
            return Some("a half has 2 windows or more, of 10 s or more".to_owned());
        }
        None
    }
}

/// When which wave of a generation began: who had it in which window.
#[derive(Clone, Debug)]
pub struct History {
    pub waves: Waves,
    pub generation: u64,
    /// The host of the first wave.
    pub first: String,
    /// The first window of each wave so far, counted from any moment.
    pub began: Vec<i64>,
}

impl History {
    fn wave_at(&self, window: i64) -> Option<usize> {
        self.began.partition_point(|began| *began <= window).checked_sub(1)
    }

    /// In the wave that is.
    pub fn arm(&self, host: &str) -> Arm {
        self.arm_in(host, self.began.len().saturating_sub(1))
    }

    fn arm_in(&self, host: &str, wave: usize) -> Arm {
        self.waves.arm(host, &self.first, self.generation, wave)
    }

    /// In each wave so far.
    pub(crate) fn arms(&self, host: &str) -> Vec<Arm> {
        (0..self.began.len()).map(|wave| self.arm_in(host, wave)).collect()
    }

    /// Whether the host had the generation in this window.
    pub fn had(&self, host: &str, window: i64) -> bool {
        self.had_in(&self.arms(host), window)
    }

    /// The same of a host with these arms.
    pub(crate) fn had_in(&self, arms: &[Arm], window: i64) -> bool {
        self.wave_at(window).is_some_and(|wave| self.in_wave(arms[wave], wave, window))
    }

    /// Whether it would have had it, if it had been in this arm of the wave that is and in none before.
    pub fn would_have(&self, arm: Arm, window: i64) -> bool {
        let wave = self.wave_at(window);
        wave.is_some_and(|wave| wave + 1 == self.began.len() && self.in_wave(arm, wave, window))
    }

    fn in_wave(&self, arm: Arm, wave: usize, window: i64) -> bool {
        let window = u32::try_from(window - self.began[wave]).unwrap_or(u32::MAX);
        self.waves.has(arm, wave, window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts() -> impl Iterator<Item = String> {
        (0..10_000).map(|n| format!("host-{n}"))
    }

    #[test]
    fn waves_are_of_their_size_grow_and_half_of_each_is_control() {
        let waves = Waves::default();
        for (wave, share) in [(1, 100), (2, 1000), (3, 5000)] {
            let arms: Vec<Arm> = hosts().map(|h| waves.arm(&h, "host-0", 7, wave)).collect();
            let count = |arm| arms.iter().filter(|it| **it == arm).count();
            let inside = count(Arm::First) + count(Arm::Second);
            assert!(inside.abs_diff(share) < share / 4 + 10, "{wave}: {inside}");
            assert!(count(Arm::First).abs_diff(count(Arm::Second)) < inside / 4, "{wave}");
            let stays = |host: &String| {
                let before = waves.arm(host, "host-0", 7, wave - 1);
                before == Arm::Outside || waves.arm(host, "host-0", 7, wave) != Arm::Outside
            };
            assert!(hosts().all(|host| stays(&host)), "{wave}: who is in stays in");
        }
        assert!(hosts().all(|host| waves.arm(&host, "host-0", 7, 4) != Arm::Outside));
    }

    #[test]
    fn the_first_wave_is_one_host() {
        let waves = Waves::default();
        let inside = hosts().filter(|h| waves.arm(h, "host-9", 7, 0) != Arm::Outside);
        assert_eq!(inside.collect::<Vec<_>>(), ["host-9"]);
        assert!(waves.has(Arm::First, 0, 0));
    }

    #[test]
    fn the_host_that_begins_differs_from_generation_to_generation_and_stays_in() {
        let names: Vec<String> = hosts().take(500).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let firsts: Vec<&str> = (1..9).filter_map(|n| Waves::first(&names, n)).collect();
        assert!(firsts.windows(2).any(|two| two[0] != two[1]), "{firsts:?}");
        assert_ne!(Waves::default().arm(firsts[0], "", 1, 1), Arm::Outside);
        assert_eq!(Waves::first(&[], 1), None);
    }

    #[test]
    fn in_each_half_one_arm_has_it_and_in_the_last_wave_all() {
        let waves = Waves::default();
        for window in 0..24 {
            let [first, second] = [Arm::First, Arm::Second].map(|arm| waves.has(arm, 2, window));
            assert_ne!(first, second);
            assert_eq!(first, (window / 6) % 2 == 0);
            assert!(!waves.has(Arm::Outside, 2, window));
            assert!(waves.has(Arm::Second, 4, window));
        }
    }

    #[test]
    fn another_generation_begins_with_other_hosts() {
        let waves = Waves::default();
        let of = |generation| -> Vec<String> {
            hosts().filter(|h| waves.arm(h, "", generation, 1) != Arm::Outside).collect()
        };
        let (one, other) = (of(1), of(2));
        let both = one.iter().filter(|host| other.contains(host)).count();
        assert!(both < 10, "{both}");
    }

    #[test]
    fn waves_that_make_no_sense_are_told() {
        let of = |shares: &[f64]| Waves { shares: shares.to_vec(), ..Waves::default() }.fault();
        assert_eq!(Waves::default().fault(), None);
        for wrong in [&[][..], &[0.5, 0.1, 1.0], &[0.1, 0.5], &[-0.1, 1.0]] {
            assert!(of(wrong).is_some(), "{wrong:?}");
        }
        assert!(Waves { windows: 1, ..Waves::default() }.fault().is_some());
    }
}
