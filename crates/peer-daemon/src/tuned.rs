//! The same lever as `transom tune`'s: BPF programs on the connections of this network namespace.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::time::Instant;

use anyhow::{Context, Result};
use transom_control::guard::{Guard, Sample, Verdict};
use transom_control::policy::{GuardSettings, Treatment as Tuning};
use transom_control::{Kernel, ONE, Parameters, Scope, Seen};
use transom_event::Reason;
use transom_peers::{Algorithm, Treatment};

use crate::act::Act;

/// `steady` gives up an eighth of its window at congestion (thesis, section 4: "a little").
const BACKOFF: u32 = ONE / 8;

pub struct Tuned {
    kernel: Option<Kernel>,
    guards: HashMap<IpAddr, Guard>,
    settings: GuardSettings,
    /// Cookies on `steady`, with what they had sent at the last look.
    steady: HashMap<u64, Option<Sent>>,
}

/// Segments with data, and those of them that were retransmissions.
#[derive(Clone, Copy)]
struct Sent {
    segments: u32,
    again: u32,
}

impl Tuned {
    /// Takes the connections of this namespace, and gives them back what a daemon that was killed
    /// had changed.
    ///
    /// # Errors
    /// When `transom tune` or another daemon has them, or the kernel lacks something.
    pub fn start() -> Result<Tuned> {
        let mut kernel = Kernel::open(Scope::new(Some("/proc/self/ns/net"))?)?;
        kernel.restore().context("taking back what an earlier daemon left")?;
        Ok(Tuned {
            kernel: Some(kernel),
            guards: HashMap::new(),
            settings: GuardSettings::default(),
            steady: HashMap::new(),
        })
    }
}

fn withdraws(guard: &Guard) -> bool {
    guard.verdict() != Verdict::Allowed
}

impl Tuned {
    /// What the connections on `steady` did since the last look, path by path.
    fn sample(&mut self, all: &[Seen]) -> HashMap<IpAddr, Sample> {
        let mut samples: HashMap<IpAddr, Sample> = HashMap::new();
        for seen in all {
            let Some(before) = self.steady.get_mut(&seen.cookie) else { continue };
            let now = Sent { segments: seen.sent, again: seen.retransmitted };
            let Some(last) = before.replace(now) else { continue };
            let path = seen.open.endpoints().remote.ip();
            let sent = now.segments.wrapping_sub(last.segments);
            let again = now.again.wrapping_sub(last.again);
            samples.entry(path).or_default().add(seen, sent, again);
        }
        let alive: BTreeSet<u64> = all.iter().map(|seen| seen.cookie).collect();
        self.steady.retain(|cookie, _| alive.contains(cookie));
        samples
    }

    fn judge(&mut self, samples: &HashMap<IpAddr, Sample>) {
        let now = Instant::now();
        for path in samples.keys() {
            self.guards.entry(*path).or_insert_with(|| Guard::new(now));
        }
        for (path, guard) in &mut self.guards {
            guard.look(now, samples.get(path).copied().unwrap_or_default(), &self.settings);
        }
        // A path without `steady` is remembered while it is kept from it.
        self.guards.retain(|path, guard| samples.contains_key(path) || withdraws(guard));
    }
}

fn wish(treatment: &Treatment) -> transom_control::Wish {
    if treatment.is_none() {
        return transom_control::Wish::restore(0, Reason::Peers);
    }
    let cap = treatment.cap.unwrap_or(0);
    let is_steady = treatment.algorithm == Algorithm::Steady;
    let tuning = Tuning {
        algorithm: is_steady.then(|| "steady".to_owned()),
        parameters: Parameters { target: cap, cap, backoff: BACKOFF, gain: ONE },
        initial_window: 0,
    };
    tuning.wish(0, Reason::Peers)
}

impl Act for Tuned {
    fn treat(&mut self, orders: &[(u64, Treatment)]) -> Result<()> {
        let kernel = self.kernel.as_mut().context("nothing can be done any more")?;
        let wishes: Vec<_> = orders.iter().map(|(cookie, order)| (*cookie, wish(order))).collect();
        kernel.act(&wishes)?;
        for (cookie, treatment) in orders {
            if treatment.algorithm == Algorithm::Steady {
                self.steady.entry(*cookie).or_default();
            } else {
                self.steady.remove(cookie);
            }
        }
        Ok(())
    }

    /// Looks at the connections only while there is something to guard.
    fn withdrawn(&mut self) -> Result<BTreeSet<u64>> {
        if self.steady.is_empty() && !self.guards.values().any(withdraws) {
            return Ok(BTreeSet::new());
        }
        let Some(kernel) = &mut self.kernel else { return Ok(BTreeSet::new()) };
        let all = kernel.observe()?;
        let samples = self.sample(&all);
        self.judge(&samples);
        let path = |seen: &Seen| seen.open.endpoints().remote.ip();
        let hurts = |seen: &&Seen| self.guards.get(&path(seen)).is_some_and(withdraws);
        Ok(all.iter().filter(hurts).map(|seen| seen.cookie).collect())
    }

    fn undo(&mut self) -> Result<()> {
        let Some(mut kernel) = self.kernel.take() else { return Ok(()) };
        kernel.restore()?;
        kernel.forget()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_treatment_becomes_a_wish_of_the_same_lever_as_tunes() {
        let treatment = Treatment { algorithm: Algorithm::Steady, cap: Some(55) };
        let wish = wish(&treatment);
        assert_eq!(&wish.algorithm[..7], b"steady\0");
        assert_eq!((wish.steady.cap, wish.steady.target, wish.restore), (55, 55, 0));
        let capped = super::wish(&Treatment { algorithm: Algorithm::Default, cap: Some(20) });
        assert_eq!((capped.algorithm[0], capped.steady.cap), (0, 20));
    }

    #[test]
    fn no_treatment_takes_back_what_was_done() {
        assert_eq!(wish(&Treatment::default()).restore, 1);
    }
}
