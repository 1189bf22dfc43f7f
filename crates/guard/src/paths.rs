//! The guards of all paths: which connection counts for which, and as what.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::time::Duration;

use crate::{Counters, Guard, GuardSettings, Progress, Sample, Verdict};

/// How a connection came by its window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// The guard does not watch over it: the window is its algorithm's.
    Own,
    /// `steady` finds it, and gives way where a queue stands.
    Found,
    /// `steady` has a target, which a loss does not take away.
    Chosen,
}

/// One connection as it is now. `P` is what tells paths apart.
#[derive(Clone, Copy, Debug)]
pub struct Connection<P> {
    pub id: u64,
    pub path: P,
    pub window: Window,
    pub now: Counters,
}

#[derive(Debug)]
pub struct Guards<P> {
    guards: HashMap<P, Guard>,
    /// At the last look.
    before: HashMap<u64, Counters>,
}

impl<P> Default for Guards<P> {
    fn default() -> Guards<P> {
        Guards { guards: HashMap::new(), before: HashMap::new() }
    }
}

impl<P: Copy + Eq + Hash> Guards<P> {
    pub fn verdict(&self, path: &P) -> Verdict {
        self.guards.get(path).map_or(Verdict::Allowed, Guard::verdict)
    }

    /// One look at all connections; [`Guards::verdict`] then says what holds.
    pub fn look(&mut self, now: Duration, all: &[Connection<P>], settings: &GuardSettings) {
        let samples = self.samples(all);
        for (path, sample) in &samples {
            let guard = self.guards.entry(*path).or_insert_with(|| Guard::new(now));
            guard.look(now, *sample, settings);
        }
        // A path without connections is remembered while the window is withdrawn.
        self.guards.retain(|path, guard| {
            if !samples.contains_key(path) {
                guard.look(now, Sample::default(), settings);
            }
            samples.contains_key(path) || guard.verdict() != Verdict::Allowed
        });
    }

    /// Of the paths that have a watched connection. While the window is withdrawn, all are watched.
    fn samples(&mut self, all: &[Connection<P>]) -> HashMap<P, Sample> {
        let mut samples: HashMap<P, Sample> = HashMap::new();
        let mut others = Vec::new();
        for connection in all {
            // What it did before the first look says nothing about its window.
            let Some(before) = self.before.insert(connection.id, connection.now) else { continue };
            let progress = Progress::between(&before, &connection.now);
            let withdrawn = self.verdict(&connection.path) != Verdict::Allowed;
            if connection.window == Window::Own && !withdrawn {
                others.push((connection, progress));
                continue;
            }
            let sample = samples.entry(connection.path).or_default();
            sample.add(&connection.now, progress);
            sample.chosen |= connection.window == Window::Chosen;
        }
        for (connection, progress) in others {
            if let Some(sample) = samples.get_mut(&connection.path) {
                sample.beside(&connection.now, progress);
            }
        }
        let alive: HashSet<u64> = all.iter().map(|connection| connection.id).collect();
        self.before.retain(|id, _| alive.contains(id));
        samples
    }
}
