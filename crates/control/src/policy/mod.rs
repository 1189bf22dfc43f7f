//! A policy: which connections get which algorithm and which window.

mod compile;
mod draft;
mod file;
mod range;
mod syntax;
mod words;

use std::path::PathBuf;
use std::time::Duration;

use transom_event::{Endpoints, Prefix};
use transom_guard::Window;

pub use compile::Compiled;
pub use draft::{Complaint, Draft};
pub use range::Range;
pub use syntax::{fraction, microseconds, milliseconds};
pub use transom_guard::GuardSettings;

use crate::contract::{ONE, Parameters};

/// The least round trip at which `steady` with a target is given where a rule names none:
/// below, it took a third of the throughput (DICOMO 2011, tables 2 and 3; the
/// thesis, section 4: "RTT = 32 ms and above").
pub const LEAST_RTT: Duration = Duration::from_millis(32);

/// Default of `hold`.
pub const HOLD: Duration = Duration::from_secs(10);

/// Default of `backoff`: an eighth.
pub const BACKOFF: u32 = ONE / 8;

#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    pub guard: GuardSettings,
    pub stability: StabilitySettings,
    /// How long a rule is kept though its conditions on RTT, terminals or stability hold no longer.
    pub hold: Duration,
    pub rules: Vec<Rule>,
}

impl Policy {
    /// Rules with the settings that hold where a file says nothing.
    pub fn of(rules: Vec<Rule>) -> Policy {
        Policy {
            guard: GuardSettings::default(),
            stability: StabilitySettings::default(),
            hold: HOLD,
            rules,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    pub name: Option<String>,
    /// Of the file, from 1; 0 = not from a file.
    pub line: usize,
    pub matching: Match,
    pub treatment: Treatment,
}

/// Values of one key are alternatives; all keys given must hold.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Match {
    pub cgroup: Option<PathBuf>,
    pub programs: Vec<String>,
    /// Of either end.
    pub ports: Vec<u16>,
    /// Of the other end.
    pub prefixes: Vec<Prefix>,
    pub interface: Option<String>,
    /// Round trip of the path, µs.
    pub rtt_us: Option<Range>,
    /// Terminals on the access point, this one included.
    pub terminals: Option<Range>,
    pub stability: Option<Stability>,
}

impl Match {
    /// Whether it may hold for a connection of which no more is known than this.
    pub fn may_hold(&self, program: &str, ends: &Endpoints, rtt_us: Option<u32>) -> bool {
        let ports = [ends.local.port(), ends.remote.port()];
        let remote = ends.remote.ip();
        (self.programs.is_empty() || self.programs.iter().any(|name| name == program))
            && (self.ports.is_empty() || self.ports.iter().any(|port| ports.contains(port)))
            && (self.prefixes.is_empty() || self.prefixes.iter().any(|it| it.holds(remote)))
            && rtt_us.is_none_or(|rtt| self.rtt_us.is_none_or(|range| range.holds(rtt)))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stability {
    Stable,
    Unstable,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Treatment {
    /// `None` = the one it has.
    pub algorithm: Option<String>,
    pub parameters: Parameters,
    /// Segments; 0 = the kernel's.
    pub initial_window: u32,
}

impl Treatment {
    /// Whether the guard watches over it.
    pub fn is_aggressive(&self) -> bool {
        self.algorithm.as_deref() == Some(crate::steady::NAME)
    }

    /// Whether it has nothing for those that run.
    pub fn is_for_new_connections(&self) -> bool {
        self.algorithm.is_none() && self.parameters.cap == 0
    }

    /// What the window is for the guard.
    pub fn window(&self) -> Window {
        match (self.is_aggressive(), self.parameters.target) {
            (false, _) => Window::Own,
            (true, 0) => Window::Found,
            (true, _) => Window::Chosen,
        }
    }
}

/// When a connection counts as unstable.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StabilitySettings {
    /// So many falls of the window by a quarter or more …
    pub falls: u32,
    /// … within this time.
    pub within: Duration,
}

impl Default for StabilitySettings {
    fn default() -> StabilitySettings {
        StabilitySettings { falls: 2, within: Duration::from_secs(10) }
    }
}

/// What is wrong with a policy, where, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// From 1; 0 = the file as a whole.
    pub line: usize,
    pub what: String,
    pub remedy: String,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.line > 0 {
            write!(f, "line {}: ", self.line)?;
        }
        write!(f, "{}", self.what)?;
        if !self.remedy.is_empty() {
            write!(f, ": {}", self.remedy)?;
        }
        Ok(())
    }
}

impl std::error::Error for Problem {}
