//! The cgroups and interfaces that a policy names. A service that is started again has a cgroup of
//! another number under the same path, and an interface that comes back has another index: while a
//! policy holds, they are looked up again.

use std::time::{Duration, Instant};

use crate::contract::RawRule;
use crate::policy::Policy;
use crate::scope::Scope;

/// How often.
const EACH: Duration = Duration::from_secs(1);

/// What the names of a policy stood for when they were looked up last.
pub struct Names {
    raw: Vec<RawRule>,
    looked_up: Instant,
    /// Of each rule: something that it names is not there.
    missing: Vec<bool>,
    /// What came and went since somebody asked.
    news: Vec<String>,
}

impl Names {
    /// All is there, with these numbers.
    pub fn new(raw: Vec<RawRule>) -> Names {
        let missing = vec![false; raw.len()];
        Names { raw, looked_up: Instant::now(), missing, news: Vec::new() }
    }

    /// The rules, if a name has come to stand for something else. What is gone keeps its number,
    /// which the kernel gives to nothing else: connections may outlive it.
    pub fn changed(&mut self, policy: &Policy, scope: &Scope, now: Instant) -> Option<&[RawRule]> {
        if now.duration_since(self.looked_up) < EACH || !policy.names_things() {
            return None;
        }
        self.looked_up = now;
        let mut is_changed = false;
        for at in 0..self.raw.len().min(policy.rules.len()) {
            match policy.compile_rule(at, scope) {
                Ok(raw) => {
                    is_changed |= self.raw[at] != raw;
                    self.raw[at] = raw;
                    if std::mem::take(&mut self.missing[at]) {
                        self.news.push(format!("rule {}: what it names is there again", at + 1));
                    }
                }
                Err(error) if !self.missing[at] => {
                    self.missing[at] = true;
                    self.news.push(format!("rule {} waits for what it names: {error:#}", at + 1));
                }
                Err(_) => {}
            }
        }
        is_changed.then_some(&self.raw)
    }

    /// What came and went since this was asked last.
    pub fn news(&mut self) -> Vec<String> {
        std::mem::take(&mut self.news)
    }
}
