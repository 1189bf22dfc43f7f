//! A policy in force: looks at all connections ten times a second, and acts.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use transom_event::{Action, Algorithm, Endpoints, Reason};

use crate::contract::{Seen, Wish, text16};
use crate::decide::{Surroundings, Tracker};
use crate::guard::{Guard, Sample, Verdict};
use crate::kernel::Kernel;
use crate::policy::Policy;
use crate::scope::Scope;

/// How often the connections are looked at.
pub const TICK: Duration = Duration::from_millis(100);

/// A path, as the guard judges it: from which namespace, to whom.
type Path = (u32, IpAddr);

/// Something that was done to a connection.
#[derive(Clone, Debug)]
pub struct Change {
    pub cookie: u64,
    pub who: Endpoints,
    pub program: String,
    pub action: Action,
    /// The algorithm that the connection has now.
    pub algorithm: String,
    /// Before us; empty if it was not touched.
    pub before: String,
    /// It is not the one that was wished.
    pub refused: bool,
}

impl Change {
    fn of(seen: &Seen) -> Change {
        let wish = &seen.tuned.wish;
        let wished = text16(&wish.algorithm);
        let algorithm = seen.open.algorithm();
        Change {
            cookie: seen.cookie,
            who: seen.open.endpoints(),
            program: seen.open.program(),
            action: action_of(wish),
            refused: wish.restore == 0 && !wished.is_empty() && wished != algorithm,
            before: text16(&seen.tuned.algorithm),
            algorithm,
        }
    }
}

fn action_of(wish: &Wish) -> Action {
    Action {
        algorithm: Algorithm::from_number(wish.named.into()).unwrap_or(Algorithm::Other),
        cap: wish.steady.cap,
        initial_window: wish.initial_window.min(255) as u8,
        rule: wish.rule,
        reason: Reason::from_number(wish.reason.into()),
    }
}

struct Known {
    tracker: Tracker,
    /// The last action that was told.
    action: u32,
    sent: u32,
    retransmitted: u32,
}

/// A policy that holds. [`Engine::stop`] takes all back; what a process that
/// was killed left is taken back by the next start.
pub struct Engine {
    kernel: Kernel,
    policy: Policy,
    terminals: u32,
    known: HashMap<u64, Known>,
    guards: HashMap<Path, Guard>,
}

impl Engine {
    /// Puts the policy in force.
    ///
    /// # Errors
    /// When it names something that is not there, another process tunes the
    /// same connections, or the kernel lacks something.
    pub fn start(policy: Policy, scope: Scope) -> Result<Engine> {
        let compiled = policy.compile(&scope)?;
        let mut kernel = Kernel::open(scope)?;
        if kernel.is_pinned() {
            bail!("`transom tune set` is in force here: `transom tune clear` first");
        }
        kernel.restore()?;
        kernel.set_rules(&compiled.raw)?;
        kernel.attach()?;
        let (known, guards) = (HashMap::new(), HashMap::new());
        Ok(Engine { kernel, policy, terminals: 0, known, guards })
    }

    /// How many terminals share the access point, this one included; 0 = not known.
    pub fn set_terminals(&mut self, terminals: u32) -> Result<()> {
        self.terminals = terminals;
        self.kernel.set_terminals(terminals)
    }

    /// One look at all connections: decides, acts, and tells what was done
    /// since the last look, new connections included.
    pub fn tick(&mut self) -> Result<Vec<Change>> {
        let now = Instant::now();
        let all = self.kernel.observe()?;
        let mut changes = Vec::new();
        self.look_at_paths(&all, now);
        let mut wishes = Vec::new();
        for seen in &all {
            let path = path_of(seen);
            let verdict = self.guards.get(&path).map_or(Verdict::Allowed, Guard::verdict);
            let known = self.known.entry(seen.cookie).or_insert_with(|| Known {
                tracker: Tracker::default(),
                action: 0,
                sent: seen.sent,
                retransmitted: seen.retransmitted,
            });
            if seen.tuned.action != known.action {
                known.action = seen.tuned.action;
                let ours = seen.is_touched() || seen.tuned.wish.restore == 1;
                // What was taken back before we came is no news.
                if ours && seen.tuned.wish.reason != Reason::Cleared as u8 {
                    changes.push(Change::of(seen));
                }
            }
            known.sent = seen.sent;
            known.retransmitted = seen.retransmitted;
            let around = Surroundings { now, terminals: self.terminals, verdict };
            wishes.extend(
                known.tracker.decide(seen, &self.policy, around).map(|wish| (seen.cookie, wish)),
            );
        }
        let alive: HashSet<u64> = all.iter().map(|seen| seen.cookie).collect();
        self.known.retain(|cookie, _| alive.contains(cookie));
        self.kernel.act(&wishes)?;
        Ok(changes)
    }

    /// Tells the guards what the connections of their paths did.
    fn look_at_paths(&mut self, all: &[Seen], now: Instant) {
        let mut samples: HashMap<Path, Sample> = HashMap::new();
        for seen in all {
            let path = path_of(seen);
            let Some(known) = self.known.get(&seen.cookie) else { continue };
            let rule = known.tracker.rule().and_then(|n| self.policy.rules.get(usize::from(n) - 1));
            let aggressive = rule.is_some_and(|rule| rule.treatment.is_aggressive());
            // A path is judged by the window it is judged for, and by all while it is withdrawn.
            let withdrawn =
                self.guards.get(&path).is_some_and(|guard| guard.verdict() != Verdict::Allowed);
            if !aggressive && !withdrawn {
                continue;
            }
            let sent = seen.sent.wrapping_sub(known.sent);
            let retransmitted = seen.retransmitted.wrapping_sub(known.retransmitted);
            samples.entry(path).or_default().add(seen, sent, retransmitted);
        }
        for (path, sample) in &samples {
            let guard = self.guards.entry(*path).or_insert_with(|| Guard::new(now));
            guard.look(now, *sample, &self.policy.guard);
        }
        // A path without connections is remembered while the aggressive window is withdrawn.
        self.guards.retain(|path, guard| {
            if !samples.contains_key(path) {
                guard.look(now, Sample::default(), &self.policy.guard);
            }
            samples.contains_key(path) || guard.verdict() != Verdict::Allowed
        });
    }

    /// Gives every connection back what it had, and leaves nothing behind.
    ///
    /// # Errors
    /// When the walk fails; the next start tries again.
    pub fn stop(mut self) -> Result<()> {
        self.kernel.restore()?;
        self.kernel.forget()
    }
}

/// What the policy would do to the connections that are there now.
///
/// # Errors
/// As [`Engine::start`]; nothing is changed.
pub fn rehearse(policy: &Policy, scope: Scope, terminals: u32) -> Result<Vec<Change>> {
    let compiled = policy.compile(&scope)?;
    let mut kernel = Kernel::look(scope)?;
    kernel.set_rules(&compiled.raw)?;
    kernel.find_owners()?;
    let all = kernel.observe()?;
    let around = Surroundings { now: Instant::now(), terminals, verdict: Verdict::Allowed };
    let would = |seen: &Seen| {
        let untouched = Seen { tuned: Default::default(), ..*seen };
        let wish = Tracker::default().decide(&untouched, policy, around)?;
        Some(Change { action: action_of(&wish), refused: false, ..Change::of(&untouched) })
    };
    Ok(all.iter().filter_map(would).collect())
}

/// What is in force, connection by connection. Also while another process acts.
///
/// # Errors
/// When the kernel lacks something.
pub fn status(scope: &Scope) -> Result<Vec<Change>> {
    let mut kernel = Kernel::look(scope.clone())?;
    kernel.find_owners()?;
    Ok(kernel.observe()?.iter().filter(|seen| seen.is_touched()).map(Change::of).collect())
}

fn path_of(seen: &Seen) -> Path {
    (seen.open.netns, seen.open.endpoints().remote.ip())
}
