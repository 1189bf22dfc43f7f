//! A policy as the kernel takes it, with the things it names looked up.

use anyhow::{Context, Result, bail};
use transom_event::Prefix;
use transom_event::{Algorithm, Reason};
use transom_machine::{cgroup, namespace};

use super::{Match, Policy, Range, Rule, Stability, Treatment};
use crate::contract::{RULES, RawPrefix, RawRule, Wish, name16, text16};
use crate::scope::Scope;

/// The rules in both forms, in the same order.
#[derive(Clone, Debug)]
pub struct Compiled {
    pub rules: Vec<Rule>,
    pub raw: Vec<RawRule>,
}

impl Treatment {
    /// What is done for this reason under the rule of this number (from 1; 0 = none).
    pub fn wish(&self, rule: u8, reason: Reason) -> Wish {
        let algorithm = self.algorithm.as_deref().unwrap_or_default();
        let named = match algorithm {
            "" => Algorithm::Before,
            name => Algorithm::from_name(name).unwrap_or(Algorithm::Other),
        };
        Wish {
            algorithm: name16(algorithm),
            steady: self.parameters,
            initial_window: self.initial_window,
            rule,
            reason: reason as u8,
            named: named as u8,
            restore: 0,
        }
    }
}

impl Treatment {
    /// Whether this wish is its.
    pub fn is_of(&self, wish: &Wish) -> bool {
        let same = self.wish(0, Reason::ByHand);
        (same.algorithm, same.steady, 0) == (wish.algorithm, wish.steady, wish.restore)
    }
}

impl Wish {
    /// The same without a rule's number: `transom tune set` has none.
    pub fn by_hand(self) -> Wish {
        let matched = [Reason::NewConnection as u8, Reason::RuleMatched as u8];
        let reason =
            if matched.contains(&self.reason) { Reason::ByHand as u8 } else { self.reason };
        Wish { rule: 0, reason, ..self }
    }

    /// Everything as it was before us.
    pub fn restore(rule: u8, reason: Reason) -> Wish {
        Wish { rule, reason: reason as u8, restore: 1, ..Wish::default() }
    }
}

impl Policy {
    /// # Errors
    /// When a cgroup or an interface is not there, with the rule's line; when there are too many rules.
    pub fn compile(&self, scope: &Scope) -> Result<Compiled> {
        if self.rules.len() > RULES {
            bail!("{} rules: the most is {RULES}", self.rules.len());
        }
        let raw = (0..self.rules.len()).map(|at| self.compile_rule(at, scope));
        Ok(Compiled { rules: self.rules.clone(), raw: raw.collect::<Result<_>>()? })
    }

    /// The rule at this place.
    pub(crate) fn compile_rule(&self, at: usize, scope: &Scope) -> Result<RawRule> {
        let rule = &self.rules[at];
        let wish = rule.treatment.wish(at as u8 + 1, Reason::NewConnection);
        raw_rule(&rule.matching, wish, scope).with_context(|| match rule.line {
            0 => String::from("the rule"),
            line => format!("line {line}"),
        })
    }

    /// Whether a rule is about something that may go and come back under the same name.
    pub(crate) fn names_things(&self) -> bool {
        let all = self.rules.iter().map(|rule| &rule.matching);
        all.into_iter().any(|it| it.cgroup.is_some() || it.interface.is_some())
    }
}

impl From<&RawRule> for Rule {
    /// What is decided while a connection lives, and what is done; the kernel keeps the rest.
    fn from(raw: &RawRule) -> Rule {
        let all = raw.rtt_least_us == 0 && raw.rtt_most_us == u32::MAX;
        let rtt_us = Range { least: raw.rtt_least_us, most: raw.rtt_most_us };
        let terminals = Range { least: raw.terminals_least, most: raw.terminals_most };
        let algorithm = text16(&raw.wish.algorithm);
        Rule {
            name: None,
            line: 0,
            matching: Match {
                rtt_us: (!all).then_some(rtt_us),
                terminals: (terminals.least > 0).then_some(terminals),
                stability: match raw.stability {
                    1 => Some(Stability::Stable),
                    2 => Some(Stability::Unstable),
                    _ => None,
                },
                ..Match::default()
            },
            treatment: Treatment {
                algorithm: (!algorithm.is_empty()).then_some(algorithm),
                parameters: raw.wish.steady,
                initial_window: raw.wish.initial_window,
            },
        }
    }
}

fn raw_rule(matching: &Match, wish: Wish, scope: &Scope) -> Result<RawRule> {
    let rtt = matching.rtt_us.map_or((0, u32::MAX), |range| (range.least, range.most));
    let terminals = matching.terminals.map_or((0, 0), |range| (range.least.max(1), range.most));
    let mut raw = RawRule {
        netns: scope.inode,
        used: 1,
        programs: matching.programs.len() as u32,
        ports: matching.ports.len() as u32,
        prefixes: matching.prefixes.len() as u32,
        rtt_least_us: rtt.0,
        rtt_most_us: rtt.1,
        terminals_least: terminals.0,
        terminals_most: terminals.1,
        stability: match matching.stability {
            None => 0,
            Some(Stability::Stable) => 1,
            Some(Stability::Unstable) => 2,
        },
        wish,
        ..RawRule::default()
    };
    for (to, from) in raw.program.iter_mut().zip(&matching.programs) {
        *to = name16(from);
    }
    for (to, from) in raw.port.iter_mut().zip(&matching.ports) {
        *to = *from;
    }
    for (to, from) in raw.prefix.iter_mut().zip(&matching.prefixes) {
        *to = raw_prefix(from);
    }
    if let Some(name) = &matching.interface {
        let netns = scope.netns.as_deref().map(namespace::path).transpose()?;
        (raw.netns, raw.ifindex) = namespace::interface(name, netns.as_deref())?;
    }
    if let Some(path) = &matching.cgroup {
        raw.cgroup = cgroup::id(path)?;
    }
    Ok(raw)
}

fn raw_prefix(prefix: &Prefix) -> RawPrefix {
    let (family, addr) = prefix.family_and_bytes();
    RawPrefix { addr, family, length: prefix.length.into() }
}
