//! The same lever as `transom tune`'s: BPF programs on the connections of this network namespace.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};
use transom_control::guard::{Guard, Sample, Verdict};
use transom_control::policy::{GuardSettings, Treatment as Tuning};
use transom_control::{Kernel, ONE, Parameters, RULES, RawRule, Scope, Seen};
use transom_event::Reason;
use transom_machine::namespace::interface_index;
use transom_peers::{Algorithm, Opening, Treatment};

use crate::act::Act;

/// `steady` gives nothing up (DICOMO 2011, section 6.2): caps hold its window where the air is full,
/// and the guard takes it away where losses are more than the air's.
const BACKOFF: u32 = 0;

/// Share of segments sent again that the guard bears unless the air is full all the time: links that fade
/// lose a tenth at times. More is no path for `steady`, whatever the reason.
const AIRS_OWN_LOSS: f64 = 0.25;

/// Not what /sys shows, which may be another namespace's.
const HERE: &str = "/proc/self/ns/net";

pub struct Tuned {
    kernel: Option<Kernel>,
    scope: Scope,
    /// Index of the interface to the access point.
    interface: u32,
    /// Where `steady` begins if no cap says it, segments.
    first_window: u32,
    /// Whether new connections reach us.
    attached: bool,
    guards: HashMap<IpAddr, Guard>,
    settings: GuardSettings,
    /// Since when the air has been full.
    full_since: Option<Instant>,
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
    pub fn start(interface: &str, first_window: u32) -> Result<Tuned> {
        let scope = Scope::new(Some(HERE))?;
        let interface = interface_index(interface, Some(Path::new(HERE)))?;
        let mut kernel = Kernel::open(scope.clone())?;
        kernel.restore().context("taking back what an earlier daemon left")?;
        Ok(Tuned {
            kernel: Some(kernel),
            scope,
            interface,
            first_window,
            attached: false,
            guards: HashMap::new(),
            settings: GuardSettings::default(),
            full_since: None,
            steady: HashMap::new(),
        })
    }
}

fn withdraws(guard: &Guard) -> bool {
    guard.verdict() != Verdict::Allowed
}

/// What a connection is under.
fn given(seen: &Seen) -> (u64, Treatment) {
    let wish = &seen.tuned.wish;
    let is_steady = wish.named == transom_event::Algorithm::Steady as u8;
    let algorithm = if is_steady { Algorithm::Steady } else { Algorithm::Default };
    let cap = Some(wish.steady.cap).filter(|&cap| cap > 0);
    (seen.cookie, Treatment { algorithm, cap })
}

impl Tuned {
    /// New connections through our interface, of these round-trip times.
    fn rule(&self, opening: &Opening) -> RawRule {
        RawRule {
            netns: self.scope.inode,
            ifindex: self.interface,
            used: 1,
            rtt_least_us: opening.from_us,
            rtt_most_us: opening.to_us,
            wish: wish(&opening.treatment, self.first_window),
            ..RawRule::default()
        }
    }

    fn note(&mut self, orders: &[(u64, Treatment)]) {
        for (cookie, treatment) in orders {
            if treatment.algorithm == Algorithm::Steady {
                self.steady.entry(*cookie).or_default();
            } else {
                self.steady.remove(cookie);
            }
        }
    }

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

    fn judge(&mut self, samples: &HashMap<IpAddr, Sample>, full: bool) {
        let now = Instant::now();
        if !full {
            self.full_since = None;
        }
        let since = *self.full_since.get_or_insert(now);
        let is_congestion = full && now - since >= self.settings.after;
        let loss = if is_congestion { self.settings.loss } else { AIRS_OWN_LOSS };
        let settings = GuardSettings { loss, ..self.settings };
        for path in samples.keys() {
            self.guards.entry(*path).or_insert_with(|| Guard::new(now));
        }
        for (path, guard) in &mut self.guards {
            guard.look(now, samples.get(path).copied().unwrap_or_default(), &settings);
        }
        // A path without `steady` is remembered while it is kept from it.
        self.guards.retain(|path, guard| samples.contains_key(path) || withdraws(guard));
    }
}

fn wish(treatment: &Treatment, first_window: u32) -> transom_control::Wish {
    if treatment.is_none() {
        return transom_control::Wish::restore(0, Reason::Peers);
    }
    let (cap, target) = (treatment.cap.unwrap_or(0), treatment.cap.unwrap_or(first_window));
    let is_steady = treatment.algorithm == Algorithm::Steady;
    let tuning = Tuning {
        algorithm: is_steady.then(|| "steady".to_owned()),
        parameters: Parameters { target, cap, backoff: BACKOFF, gain: ONE },
        initial_window: 0,
    };
    tuning.wish(0, Reason::Peers)
}

impl Act for Tuned {
    fn treat(&mut self, orders: &[(u64, Treatment)]) -> Result<()> {
        let kernel = self.kernel.as_mut().context("nothing can be done any more")?;
        let wish = |order: &Treatment| wish(order, self.first_window);
        let wishes: Vec<_> = orders.iter().map(|(cookie, order)| (*cookie, wish(order))).collect();
        kernel.act(&wishes)?;
        self.note(orders);
        Ok(())
    }

    fn open_with(&mut self, openings: &[Opening]) -> Result<()> {
        let rules: Vec<RawRule> = openings.iter().take(RULES).map(|it| self.rule(it)).collect();
        let kernel = self.kernel.as_mut().context("nothing can be done any more")?;
        kernel.set_rules(&rules)?;
        if !self.attached && !rules.is_empty() {
            kernel.attach().context("reaching new connections")?;
            self.attached = true;
        }
        Ok(())
    }

    fn opened(&mut self) -> Result<Vec<(u64, Treatment)>> {
        let Some(kernel) = &mut self.kernel else { return Ok(Vec::new()) };
        let all = kernel.observe()?;
        let given: Vec<_> = all.iter().filter(|seen| seen.is_touched()).map(given).collect();
        self.note(&given);
        Ok(given)
    }

    /// Looks at the connections only while there is something to guard.
    fn withdrawn(&mut self, full: bool) -> Result<BTreeSet<u64>> {
        if self.steady.is_empty() && !self.guards.values().any(withdraws) {
            return Ok(BTreeSet::new());
        }
        let Some(kernel) = &mut self.kernel else { return Ok(BTreeSet::new()) };
        let all = kernel.observe()?;
        let samples = self.sample(&all);
        self.judge(&samples, full);
        let path = |seen: &Seen| seen.open.endpoints().remote.ip();
        let hurts = |seen: &&Seen| self.guards.get(&path(seen)).is_some_and(withdraws);
        Ok(all.iter().filter(hurts).map(|seen| seen.cookie).collect())
    }

    fn undo(&mut self) -> Result<()> {
        let Some(mut kernel) = self.kernel.take() else { return Ok(()) };
        kernel.set_rules(&[])?;
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
        let wish = wish(&treatment, 70);
        assert_eq!(&wish.algorithm[..7], b"steady\0");
        assert_eq!((wish.steady.cap, wish.steady.target, wish.restore), (55, 55, 0));
        let capped = super::wish(&Treatment { algorithm: Algorithm::Default, cap: Some(20) }, 70);
        assert_eq!((capped.algorithm[0], capped.steady.cap), (0, 20));
    }

    #[test]
    fn no_treatment_takes_back_what_was_done() {
        assert_eq!(wish(&Treatment::default(), 70).restore, 1);
    }

    #[test]
    fn steady_without_a_cap_begins_with_the_first_window() {
        let free = wish(&Treatment { algorithm: Algorithm::Steady, cap: None }, 70);
        assert_eq!((free.steady.target, free.steady.cap), (70, 0));
    }
}
