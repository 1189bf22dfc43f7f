//! The same lever as `transom tune`'s: BPF programs on the connections of this network namespace.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use transom_control::guard::{Counters, Guard, Progress, Sample, Verdict};
use transom_control::policy::{GuardSettings, Rule};
use transom_control::{Draft, KernelScope, Policy, RawRule, Scope, Seen, available_algorithms};
use transom_event::Reason;
use transom_machine::namespace::interface_index;
use transom_peers::{Algorithm, Opening, Treatment};

use crate::act::Act;

/// `steady` gives nothing up (DICOMO 2011, section 6.2): caps hold its window where the air is full,
/// and the guard takes it away where losses are more than the air's.
const BACKOFF: &str = "0";

/// Share of retransmissions that the guard bears unless the air is full all the time: links that fade
/// lose a tenth at times. More is no path for `steady`, whatever the reason.
const AIRS_OWN_LOSS: f64 = 0.25;

/// Not what /sys shows, which may be another namespace's.
const HERE: &str = "/proc/self/ns/net";

pub struct Tuned {
    kernel: Option<KernelScope>,
    scope: Scope,
    /// The interface to the access point.
    interface: String,
    /// Where `steady` begins if no cap says it, segments.
    first_window: u32,
    /// Whether new connections reach us.
    attached: bool,
    guards: HashMap<IpAddr, Guard>,
    started: Instant,
    settings: GuardSettings,
    /// Since when the air has been full.
    full_since: Option<Instant>,
    /// Cookies on `steady`, as they were at the last look.
    steady: HashMap<u64, Option<Counters>>,
}

impl Tuned {
    /// Takes the connections of this namespace, and gives them back what a daemon that was killed
    /// had changed.
    ///
    /// # Errors
    /// When `transom tune` or another daemon has them, or the kernel lacks something.
    pub fn start(interface: &str, first_window: u32) -> Result<Tuned> {
        let scope = Scope::new(Some(HERE))?;
        interface_index(interface, Some(Path::new(HERE)))?;
        let mut kernel = KernelScope::open(scope.clone())?;
        kernel.restore().context("taking back what an earlier daemon left")?;
        Ok(Tuned {
            kernel: Some(kernel),
            scope,
            interface: interface.to_owned(),
            first_window,
            attached: false,
            guards: HashMap::new(),
            started: Instant::now(),
            settings: settings(),
            full_since: None,
            steady: HashMap::new(),
        })
    }
}

/// Caps are the group's answer to queues and shares: the guard looks at losses and at round trips
/// that grow by a factor.
fn settings() -> GuardSettings {
    GuardSettings { delay: Duration::MAX, share: 0.0, ..GuardSettings::default() }
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
    fn rules(&self, openings: &[Opening]) -> Result<Vec<RawRule>> {
        let rule = |opening: &Opening| {
            let draft = drafted(&opening.treatment, self.first_window);
            let rtt = match opening.to_us {
                u32::MAX => format!("{}us..", opening.from_us),
                to => format!("{}us..{to}us", opening.from_us),
            };
            checked(Draft { interface: Some(self.interface.clone()), rtt: Some(rtt), ..draft })
        };
        let wanted = openings.iter().filter(|opening| !opening.treatment.is_none());
        let rules = wanted.map(rule).collect::<Result<Vec<Rule>>>()?;
        let wishes: Vec<_> =
            rules.iter().map(|rule| rule.treatment.wish(0, Reason::Peers)).collect();
        let raw = Policy::of(rules).compile(&self.scope)?.raw.into_iter();
        Ok(raw.zip(wishes).map(|(rule, wish)| RawRule { wish, ..rule }).collect())
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
            let now = seen.counters();
            let Some(last) = before.replace(now) else { continue };
            let path = seen.open.endpoints().remote.ip();
            samples.entry(path).or_default().add(&now, Progress::between(&last, &now));
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
        let is_congestion = full && now - since >= self.settings.loss_lasts(Duration::ZERO);
        let loss = if is_congestion { self.settings.loss } else { AIRS_OWN_LOSS };
        let settings = GuardSettings { loss, ..self.settings };
        let now = now - self.started;
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

/// What the group ordered, as a rule of the lever that `transom tune` has, too.
fn drafted(treatment: &Treatment, first_window: u32) -> Draft {
    let cap = treatment.cap.map(i64::from);
    let draft = Draft { cap, ..Draft::default() };
    if treatment.algorithm != Algorithm::Steady {
        return draft;
    }
    Draft {
        algorithm: Some("steady".into()),
        target: Some(cap.unwrap_or(first_window.into())),
        backoff: Some(BACKOFF.into()),
        ..draft
    }
}

fn checked(draft: Draft) -> Result<Rule> {
    draft.check(&available_algorithms()).map_err(|complaints| {
        let said: Vec<String> = complaints.iter().map(ToString::to_string).collect();
        anyhow!("the group's order cannot be carried out: {}", said.join("; "))
    })
}

fn wish(treatment: &Treatment, first_window: u32) -> Result<transom_control::Wish> {
    if treatment.is_none() {
        return Ok(transom_control::Wish::restore(0, Reason::Peers));
    }
    let rule = checked(drafted(treatment, first_window))?;
    Ok(rule.treatment.wish(0, Reason::Peers))
}

impl Act for Tuned {
    fn treat(&mut self, orders: &[(u64, Treatment)]) -> Result<()> {
        let kernel = self.kernel.as_mut().context("nothing can be done any more")?;
        let wish = |(cookie, order): &(u64, Treatment)| {
            wish(order, self.first_window).map(|wish| (*cookie, wish))
        };
        let wishes = orders.iter().map(wish).collect::<Result<Vec<_>>>()?;
        kernel.act(&wishes)?;
        self.note(orders);
        Ok(())
    }

    fn open_with(&mut self, openings: &[Opening]) -> Result<()> {
        let rules = self.rules(openings)?;
        let kernel = self.kernel.as_mut().context("nothing can be done any more")?;
        kernel.set_rules(&rules)?;
        if !self.attached && !rules.is_empty() {
            kernel.attach().context("reaching new connections")?;
            self.attached = true;
        }
        Ok(())
    }

    fn move_to(&mut self, interface: &str) -> Result<()> {
        interface.clone_into(&mut self.interface);
        self.open_with(&[])
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
        self.kernel.take().map_or(Ok(()), KernelScope::give_back)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_treatment_becomes_a_wish_of_the_same_lever_as_tunes() {
        let treatment = Treatment { algorithm: Algorithm::Steady, cap: Some(55) };
        let wish = wish(&treatment, 70).unwrap();
        assert_eq!(&wish.algorithm[..7], b"steady\0");
        assert_eq!((wish.steady.cap, wish.steady.target, wish.restore), (55, 55, 0));
        let capped =
            super::wish(&Treatment { algorithm: Algorithm::Default, cap: Some(20) }, 70).unwrap();
        assert_eq!((capped.algorithm[0], capped.steady.cap), (0, 20));
    }

    #[test]
    fn no_treatment_takes_back_what_was_done() {
        assert_eq!(wish(&Treatment::default(), 70).unwrap().restore, 1);
    }

    #[test]
    fn an_order_that_no_policy_may_give_is_refused() {
        let narrow = Treatment { algorithm: Algorithm::Steady, cap: Some(1) };
        let error = wish(&narrow, 70).unwrap_err().to_string();
        assert!(error.contains("cap = 1: give 2 to 1000000"), "{error}");
    }

    #[test]
    fn steady_without_a_cap_begins_with_the_first_window() {
        let free = wish(&Treatment { algorithm: Algorithm::Steady, cap: None }, 70).unwrap();
        assert_eq!((free.steady.target, free.steady.cap), (70, 0));
    }
}
