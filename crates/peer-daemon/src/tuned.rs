//! The same lever as `transom tune`'s: BPF programs on the connections of this network namespace.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::time::Instant;

use anyhow::{Context, Result};
use transom_control::guard::{Guard, Sample, Verdict};
use transom_control::policy::{GuardSettings, Treatment as Tuning};
use transom_control::{Kernel, ONE, Parameters, Scope};
use transom_event::Reason;
use transom_peers::{Algorithm, Treatment};

use crate::act::Act;

/// `steady` gives up an eighth of its window at congestion (thesis, section 4: "a little").
const BACKOFF: u32 = ONE / 8;

pub struct Tuned {
    kernel: Option<Kernel>,
    guards: HashMap<IpAddr, Guard>,
    settings: GuardSettings,
    /// Cookies on `steady`, with what they had sent and sent again at the last look.
    steady: HashMap<u64, (u32, u32)>,
    /// Paths of cookies, as long as they live.
    paths: HashMap<u64, IpAddr>,
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
            paths: HashMap::new(),
        })
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
                self.steady.entry(*cookie).or_insert((u32::MAX, 0));
            } else {
                self.steady.remove(cookie);
            }
        }
        Ok(())
    }

    /// Looks at the connections only while there is something to guard.
    fn withdrawn(&mut self) -> Result<BTreeSet<u64>> {
        let is_quiet = self.guards.values().all(|guard| guard.verdict() == Verdict::Allowed);
        let Some(kernel) = self.kernel.as_mut().filter(|_| !self.steady.is_empty() || !is_quiet)
        else {
            return Ok(BTreeSet::new());
        };
        let mut samples: HashMap<IpAddr, Sample> = HashMap::new();
        self.paths.clear();
        for seen in kernel.observe()? {
            let path = seen.open.endpoints().remote.ip();
            self.paths.insert(seen.cookie, path);
            let guarded = self.guards.get(&path).is_some_and(|g| g.verdict() != Verdict::Allowed);
            let Some(before) = self.steady.get_mut(&seen.cookie) else {
                if guarded {
                    samples.entry(path).or_default();
                }
                continue;
            };
            let now = (seen.sent, seen.retransmitted);
            let (sent, again) = std::mem::replace(before, now);
            if sent == u32::MAX {
                continue;
            }
            let sample = samples.entry(path).or_default();
            let newly = u64::from(now.0.wrapping_sub(sent));
            sample.sent += newly;
            sample.retransmitted += u64::from(now.1.wrapping_sub(again));
            if newly > 0 && seen.min_rtt_us != u32::MAX {
                let inflation = f64::from(seen.srtt_us) / f64::from(seen.min_rtt_us.max(1));
                let least = sample.inflation;
                sample.inflation = if least == 0.0 { inflation } else { least.min(inflation) };
            }
        }
        self.steady.retain(|cookie, _| self.paths.contains_key(cookie));
        let now = Instant::now();
        for (path, sample) in &samples {
            let guard = self.guards.entry(*path).or_insert_with(|| Guard::new(now));
            guard.look(now, *sample, &self.settings);
        }
        for (path, guard) in &mut self.guards {
            if !samples.contains_key(path) {
                guard.look(now, Sample::default(), &self.settings);
            }
        }
        self.guards.retain(|path, g| samples.contains_key(path) || g.verdict() != Verdict::Allowed);
        let guards = &self.guards;
        let hurts = |path| guards.get(path).is_some_and(|g| g.verdict() != Verdict::Allowed);
        Ok(self.paths.iter().filter(|(_, path)| hurts(path)).map(|(&cookie, _)| cookie).collect())
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
