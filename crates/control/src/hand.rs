//! Rules that are set by hand: they stay in force when the process that set them ends, until they
//! are cleared. Where one of them gives `steady`, a process in the background holds the guard.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::contract::{RULES, RawRule};
use crate::engine::{self, Engine};
use crate::kernel_scope::KernelScope;
use crate::policy::{Policy, Rule};
use crate::routes;
use crate::scope::{Held, Scope};

/// How long the guard of cleared rules may take to notice.
const NOTICES: Duration = Duration::from_secs(2);

/// What a setting reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reached {
    pub running: usize,
    /// No process guards the rules, and one must.
    pub needs_guard: bool,
}

/// Puts a rule in force, before all that were set earlier.
///
/// # Errors
/// When it names something that is not there, another process tunes the same connections, or the
/// kernel lacks something; then nothing is in force that was not before.
pub fn set(rule: Rule, scope: Scope) -> Result<Reached> {
    let policy = Policy::of(vec![rule]);
    let mut rules = policy.compile(&scope)?.raw;
    for rule in &mut rules {
        rule.wish = rule.wish.by_hand();
    }
    let mut kernel = KernelScope::open(scope.clone())?;
    routes::take_back(&scope)?;
    rules.extend(kernel.pinned_rules());
    if rules.len() > RULES {
        bail!("{} settings are in force already: transom tune clear", rules.len() - 1);
    }
    if kernel.is_pinned() {
        kernel.unkeep()?;
    } else {
        // What a process that was killed left.
        kernel.restore()?;
    }
    kernel.set_rules(&rules)?;
    match apply(&mut kernel, &policy) {
        Ok(running) => {
            kernel.keep()?;
            let needs_guard = rules.iter().any(is_aggressive) && !is_guarded(&scope)?;
            Ok(Reached { running, needs_guard })
        }
        Err(error) => {
            kernel.give_back()?;
            Err(error)
        }
    }
}

fn apply(kernel: &mut KernelScope, policy: &Policy) -> Result<usize> {
    kernel.attach()?;
    let all = kernel.observe()?;
    let matching = all.iter().filter(|seen| seen.rules & 1 != 0);
    // As the first rule of a policy whose other bits are not looked at.
    let wishes: Vec<_> = matching
        .filter_map(|seen| engine::first_wish(seen, policy, 0).map(|wish| (seen, wish)))
        .map(|(seen, wish)| (seen.cookie, wish.by_hand()))
        .collect();
    kernel.act(&wishes)?;
    Ok(wishes.len())
}

/// The rules that were set by hand and hold for connections of this scope, the newest first.
///
/// # Errors
/// When what is noted cannot be read.
pub fn in_force(scope: &Scope) -> Result<Vec<RawRule>> {
    let others = if scope.is_all() { Scope::noted()? } else { vec![Scope::default()] };
    let all = std::iter::once(scope).chain(&others);
    Ok(all.flat_map(Scope::rules).collect())
}

fn is_aggressive(rule: &RawRule) -> bool {
    Rule::from(rule).treatment.is_aggressive()
}

/// # Errors
/// When the lock cannot be asked for.
pub fn is_guarded(scope: &Scope) -> Result<bool> {
    Ok(scope.guard()?.is_none())
}

/// Whether rules are in force that a process must guard, and none does.
///
/// # Errors
/// When the lock cannot be asked for.
pub fn lacks_guard(scope: &Scope) -> Result<bool> {
    Ok(scope.rules().iter().any(is_aggressive) && !is_guarded(scope)?)
}

/// Guards what is in force by hand, until it is cleared or `stop` says so.
///
/// # Errors
/// When the scope's namespace is gone, or the kernel lacks something.
pub fn guard(scope: &Scope, stop: impl Fn() -> bool) -> Result<()> {
    let Some(_only_one) = scope.guard()? else { return Ok(()) };
    let mut watching: Option<(Vec<RawRule>, Engine)> = None;
    while !stop() {
        // Without the lock, somebody sets or clears just now.
        if let Ok(lock) = scope.lock() {
            let rules = scope.rules();
            if !rules.iter().any(is_aggressive) {
                return Ok(());
            }
            match &mut watching {
                Some((known, engine)) if *known == rules => {
                    engine.tick_by_hand()?;
                }
                _ => {
                    // Loading takes longer than others wait for the lock.
                    drop(lock);
                    let engine = Engine::watch(&rules, scope.clone())?;
                    watching = Some((rules, engine));
                }
            }
        }
        std::thread::sleep(engine::TICK);
    }
    Ok(())
}

/// Gives every connection of the scope back what it had; says which namespaces it left alone,
/// since a running process holds them.
///
/// # Errors
/// When the scope is in another process' hands, or a lock, a pin or a walk fails: the first, after
/// all were tried.
pub fn clear(scope: Scope, mut leaves: impl FnMut(String)) -> Result<()> {
    let scopes = match scope.is_all() && is_held(&scope)? {
        // Processes hold policies in some namespaces: all others are given back one by one.
        true => Scope::each_namespace(),
        false => {
            clear_one(&scope)?;
            match scope.is_all() {
                true => Scope::noted()?,
                false => Vec::new(),
            }
        }
    };
    let mut result = Ok(());
    for one in scopes {
        match clear_one(&one) {
            Err(error) if error.is::<Held>() => leaves(format!("{one} is left alone: {error}")),
            other => result = result.and(other.with_context(|| format!("clearing {one}"))),
        }
    }
    result
}

fn is_held(scope: &Scope) -> Result<bool> {
    match scope.lock() {
        Ok(_) => Ok(false),
        Err(error) if error.is::<Held>() => Ok(true),
        Err(error) => Err(error),
    }
}

fn clear_one(scope: &Scope) -> Result<()> {
    let kernel = KernelScope::take(scope.clone())?;
    let guarded = kernel.is_pinned();
    kernel.unkeep()?;
    kernel.give_back()?;
    let until = Instant::now() + NOTICES;
    while guarded && is_guarded(scope)? && Instant::now() < until {
        std::thread::sleep(engine::TICK / 4);
    }
    Ok(())
}
