//! A policy in force: looks at all connections ten times a second, and acts.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use transom_event::{Action, Algorithm, Endpoints, Reason};
use transom_guard::{Connection, Guards, Verdict, Window};

use crate::contract::{RawRule, Seen, Wish, text16};
use crate::decide::{Surroundings, Tracker};
use crate::hand;
use crate::kernel_scope::KernelScope;
use crate::names::Names;
use crate::policy::{Policy, Rule};
use crate::routes;
use crate::scope::Scope;

/// How often the connections are looked at.
pub const TICK: Duration = transom_guard::EACH;

/// A path, as the guard judges it: from which namespace and address, to whom. Two interfaces have
/// two addresses.
type Path = (u32, IpAddr, IpAddr);

/// Something that was done to a connection.
#[derive(Clone, Debug)]
pub struct Change {
    pub cookie: u64,
    pub who: Endpoints,
    pub program: String,
    pub action: Action,
    /// Of `steady`, segments; 0 = none.
    pub target: u32,
    /// The algorithm that the connection has now.
    pub algorithm: String,
    /// Before us; empty if it was not touched.
    pub before: String,
    pub outcome: Outcome,
}

/// What became of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    InForce,
    /// The kernel did not take the algorithm.
    Refused,
    /// The program has chosen another algorithm since.
    ProgramChose,
    /// The guard has taken it back for a while.
    Withdrawn,
}

impl Outcome {
    fn of(seen: &Seen) -> Outcome {
        if seen.is_touched() && seen.tuned.refused != 0 {
            Outcome::Refused
        } else if seen.chose_itself() {
            Outcome::ProgramChose
        } else if is_withdrawn(seen) {
            Outcome::Withdrawn
        } else {
            Outcome::InForce
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Outcome::InForce => "in_force",
            Outcome::Refused => "refused",
            Outcome::ProgramChose => "program_chose",
            Outcome::Withdrawn => "withdrawn",
        }
    }
}

impl Change {
    fn of(seen: &Seen) -> Change {
        Change {
            cookie: seen.cookie,
            who: seen.open.endpoints(),
            program: seen.open.program(),
            action: action_of(&seen.tuned.wish),
            target: seen.tuned.wish.steady.target,
            outcome: Outcome::of(seen),
            before: text16(&seen.tuned.algorithm),
            algorithm: seen.open.algorithm(),
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

#[derive(Default)]
struct Known {
    tracker: Tracker,
    /// The last action that was reported.
    action: u32,
}

/// A policy that holds. [`Engine::stop`] takes all back; what a process that
/// was killed left is taken back by the next start.
pub struct Engine {
    kernel: KernelScope,
    policy: Policy,
    names: Names,
    terminals: u32,
    known: HashMap<u64, Known>,
    guards: Guards<Path>,
    started: Instant,
}

impl Engine {
    /// Puts the policy in force.
    ///
    /// # Errors
    /// When it names something that is not there, another process tunes the
    /// same connections, or the kernel lacks something.
    pub fn start(policy: Policy, scope: Scope) -> Result<Engine> {
        let compiled = policy.compile(&scope)?;
        let mut kernel = KernelScope::open(scope)?;
        if kernel.is_pinned() {
            bail!("`transom tune set` is in force here: `transom tune clear` first");
        }
        routes::take_back(kernel.scope())?;
        kernel.restore()?;
        kernel.set_rules(&compiled.raw)?;
        kernel.attach()?;
        Ok(Engine::over(kernel, policy, compiled.raw))
    }

    fn over(kernel: KernelScope, policy: Policy, raw: Vec<RawRule>) -> Engine {
        Engine {
            kernel,
            policy,
            names: Names::new(raw),
            terminals: 0,
            known: HashMap::new(),
            guards: Guards::default(),
            started: Instant::now(),
        }
    }

    /// Watches over rules that are in force already: what runs is looked at, and guarded.
    ///
    /// # Errors
    /// When the kernel lacks something.
    pub fn watch(raw: &[RawRule], scope: Scope) -> Result<Engine> {
        let mut kernel = KernelScope::look(scope)?;
        kernel.set_rules(raw)?;
        kernel.follow_owners()?;
        Ok(Engine::over(kernel, Policy::of(raw.iter().map(Rule::from).collect()), raw.to_vec()))
    }

    /// How many terminals share the access point, this one included; 0 = not known.
    pub fn set_terminals(&mut self, terminals: u32) -> Result<()> {
        self.terminals = terminals;
        self.kernel.set_terminals(terminals)
    }

    /// One look at all connections: decides, acts, and reports what was done
    /// since the last look, new connections included.
    ///
    /// # Errors
    /// When the scope's namespace is gone, or the kernel lacks something.
    pub fn tick(&mut self) -> Result<Vec<Change>> {
        self.look(|wish| wish)
    }

    /// The same for rules that were set by hand: they have no number.
    pub fn tick_by_hand(&mut self) -> Result<Vec<Change>> {
        self.look(Wish::by_hand)
    }

    /// Cgroups and interfaces of the policy that went and came back since the last time, in words.
    pub fn names_news(&mut self) -> Vec<String> {
        self.names.news()
    }

    /// What was done since the last look; nothing is done: the last words before the end.
    ///
    /// # Errors
    /// As [`Engine::tick`].
    pub fn done_since(&mut self) -> Result<Vec<Change>> {
        let all = self.kernel.observe()?;
        Ok(self.news(&all))
    }

    fn news(&mut self, all: &[Seen]) -> Vec<Change> {
        let mut changes = Vec::new();
        for seen in all {
            let known = self.known.entry(seen.cookie).or_default();
            if seen.tuned.action == known.action {
                continue;
            }
            known.action = seen.tuned.action;
            let ours = seen.is_touched() || seen.tuned.wish.restore == 1;
            // What was taken back before we came is no news.
            if ours && seen.tuned.wish.reason != Reason::Cleared as u8 {
                changes.push(Change::of(seen));
            }
        }
        changes
    }

    fn look(&mut self, as_given: impl Fn(Wish) -> Wish) -> Result<Vec<Change>> {
        let now = Instant::now();
        if let Some(raw) = self.names.changed(&self.policy, self.kernel.scope(), now) {
            self.kernel.set_rules(raw)?;
        }
        let all = self.kernel.observe()?;
        let changes = self.news(&all);
        self.guard(&all, now);
        let mut wishes = Vec::new();
        for seen in &all {
            let verdict = self.guards.verdict(&path_of(seen));
            let known = self.known.entry(seen.cookie).or_default();
            let around = Surroundings { now, terminals: self.terminals, verdict };
            let wish = known.tracker.decide(seen, &self.policy, around);
            wishes.extend(wish.map(|wish| (seen.cookie, as_given(wish))));
        }
        let alive: HashSet<u64> = all.iter().map(|seen| seen.cookie).collect();
        self.known.retain(|cookie, _| alive.contains(cookie));
        self.kernel.act(&wishes)?;
        Ok(changes)
    }

    /// Shows the guard all connections.
    fn guard(&mut self, all: &[Seen], now: Instant) {
        let window = |seen: &Seen| {
            let number = self.known.get(&seen.cookie)?.tracker.rule()?;
            Some(self.policy.rules.get(usize::from(number) - 1)?.treatment.window())
        };
        let connection = |seen: &Seen| Connection {
            id: seen.cookie,
            path: path_of(seen),
            window: window(seen).unwrap_or(Window::Own),
            now: seen.counters(),
        };
        let all: Vec<_> = all.iter().map(connection).collect();
        self.guards.look(now - self.started, &all, &self.policy.guard);
    }

    /// Gives every connection back what it had, and leaves nothing behind.
    ///
    /// # Errors
    /// When the walk fails; the next start tries again.
    pub fn stop(self) -> Result<()> {
        self.kernel.give_back()
    }
}

/// What the policy would do to the connections that are there now.
///
/// # Errors
/// As [`Engine::start`]; nothing is changed.
pub fn rehearse(policy: &Policy, scope: Scope, terminals: u32) -> Result<Vec<Change>> {
    let compiled = policy.compile(&scope)?;
    let mut kernel = KernelScope::look(scope)?;
    kernel.set_rules(&compiled.raw)?;
    kernel.find_owners()?;
    let all = kernel.observe()?;
    let would = |seen: &Seen| {
        let wish = first_wish(seen, policy, terminals)?;
        let untouched = Seen { tuned: Default::default(), ..*seen };
        let untouched = Change::of(&untouched);
        Some(Change { action: action_of(&wish), target: wish.steady.target, ..untouched })
    };
    Ok(all.iter().filter_map(would).collect())
}

/// What a policy would do to a connection that nothing was done to.
pub(crate) fn first_wish(seen: &Seen, policy: &Policy, terminals: u32) -> Option<Wish> {
    let around = Surroundings { now: Instant::now(), terminals, verdict: Verdict::Allowed };
    let untouched = Seen { tuned: Default::default(), ..*seen };
    Tracker::default().decide(&untouched, policy, around)
}

/// What is in force, connection by connection, and what the guard has withdrawn for a while. Also
/// while another process acts.
///
/// # Errors
/// When the kernel lacks something.
pub fn status(scope: &Scope) -> Result<Vec<Change>> {
    let mut kernel = KernelScope::look(scope.clone())?;
    kernel.find_owners()?;
    // Without rules by hand, or a process that holds a policy, what a guard did is over.
    let is_guarded = !hand::in_force(scope)?.is_empty() || scope.holder()?.is_some();
    let is_told = |seen: &&Seen| seen.is_touched() || (is_guarded && is_withdrawn(seen));
    Ok(kernel.observe()?.iter().filter(is_told).map(Change::of).collect())
}

fn is_withdrawn(seen: &Seen) -> bool {
    const BY_GUARD: [Reason; 3] = [Reason::GuardLoss, Reason::GuardInflation, Reason::GuardShare];
    let wish = &seen.tuned.wish;
    wish.restore == 1 && BY_GUARD.iter().any(|&reason| wish.reason == reason as u8)
}

fn path_of(seen: &Seen) -> Path {
    let ends = seen.open.endpoints();
    (seen.open.netns, ends.local.ip(), ends.remote.ip())
}
