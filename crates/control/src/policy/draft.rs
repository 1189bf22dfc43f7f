//! A rule as it was written, and the one check that makes a [`Rule`] of it: for policy files,
//! `transom tune set`, `transom peer` and the lab.

use std::path::PathBuf;

use transom_event::Prefix;

use super::range::Range;
use super::syntax::{fraction, microseconds};
use super::{BACKOFF, LEAST_RTT, Match, Rule, Stability, Treatment};
use crate::contract::{ONE, PROGRAMS, Parameters, VALUES};

/// Largest window that a rule may name, segments: 1.4 GB at the usual size.
const MOST_WINDOW: i64 = 1_000_000;
/// Largest initial window, segments; an action event has eight bits for it.
const MOST_INITIAL: i64 = 255;
/// Largest gain, segments per round trip.
const MOST_GAIN: f64 = 64.0;
/// A program's name, as the kernel keeps it.
const MOST_NAME: usize = 15;

/// Not checked yet; `None` = not written. Field names are the keys of a policy file.
#[derive(Clone, Debug, Default)]
pub struct Draft {
    pub name: Option<String>,
    /// Of the file, from 1; 0 = not from a file.
    pub line: usize,
    pub cgroup: Option<PathBuf>,
    pub program: Option<Vec<String>>,
    pub port: Option<Vec<i64>>,
    pub remote: Option<Vec<String>>,
    pub interface: Option<String>,
    pub rtt: Option<String>,
    pub terminals: Option<String>,
    pub stability: Option<Stability>,
    pub algorithm: Option<String>,
    pub target: Option<i64>,
    pub cap: Option<i64>,
    pub backoff: Option<String>,
    pub gain: Option<f64>,
    pub initial_window: Option<i64>,
}

/// What is wrong with a draft.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    /// Field of [`Draft`]; empty = the rule as a whole.
    pub key: &'static str,
    pub what: String,
    pub remedy: String,
}

impl std::fmt::Display for Complaint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.remedy.is_empty() {
            true => write!(f, "{}", self.what),
            false => write!(f, "{}: {}", self.what, self.remedy),
        }
    }
}

#[derive(Default)]
struct Check(Vec<Complaint>);

impl Check {
    fn wrong(&mut self, key: &'static str, what: impl Into<String>, remedy: impl Into<String>) {
        self.0.push(Complaint { key, what: what.into(), remedy: remedy.into() });
    }

    fn parsed<T>(&mut self, key: &'static str, result: Result<T, String>) -> Option<T> {
        result.map_err(|error| self.wrong(key, format!("{key}: {error}"), "")).ok()
    }

    fn few(&mut self, key: &'static str, number: usize, most: usize) {
        if number == 0 || number > most {
            self.wrong(key, format!("{key} has {number} values"), format!("give 1 to {most}"));
        }
    }

    fn whole(&mut self, key: &'static str, value: Option<i64>, least: i64, most: i64) -> u32 {
        match value {
            None => 0,
            Some(number) if (least..=most).contains(&number) => number as u32,
            Some(number) => {
                self.wrong(key, format!("{key} = {number}"), format!("give {least} to {most}"));
                0
            }
        }
    }

    fn programs(&mut self, programs: &[String]) -> Vec<String> {
        self.few("program", programs.len(), PROGRAMS);
        for name in programs {
            if name.is_empty() {
                self.wrong("program", "program ''", "give the name of a program");
            } else if name.len() > MOST_NAME {
                let remedy = format!("the kernel keeps {MOST_NAME} bytes: write {}", kept(name));
                self.wrong("program", format!("program '{name}' is too long"), remedy);
            }
        }
        programs.to_vec()
    }

    fn ports(&mut self, ports: &[i64]) -> Vec<u16> {
        self.few("port", ports.len(), VALUES);
        let mut good = Vec::new();
        for &port in ports {
            match u16::try_from(port) {
                Ok(port) if port > 0 => good.push(port),
                _ => self.wrong("port", format!("port {port}"), "give 1 to 65535"),
            }
        }
        good
    }

    fn prefixes(&mut self, prefixes: &[String]) -> Vec<Prefix> {
        self.few("remote", prefixes.len(), VALUES);
        let mut good = Vec::new();
        for prefix in prefixes {
            match prefix.parse::<Prefix>() {
                Ok(prefix) => good.push(prefix),
                Err(error) => {
                    let remedy = "give an address or a prefix such as 10.0.0.0/8";
                    self.wrong("remote", format!("remote: {error:#}"), remedy);
                }
            }
        }
        good
    }

    fn matching(&mut self, draft: &Draft) -> Match {
        let count = |text: &str| match text.trim().parse() {
            Ok(number) if number > 0 => Ok(number),
            _ => Err(format!("'{text}' is no number of terminals such as 4 or 2..4")),
        };
        let rtt = draft.rtt.as_deref().map(|text| Range::parse(text, microseconds));
        let terminals = draft.terminals.as_deref().map(|text| Range::parse(text, count));
        Match {
            cgroup: draft.cgroup.clone(),
            programs: draft.program.as_ref().map(|it| self.programs(it)).unwrap_or_default(),
            ports: draft.port.as_ref().map(|it| self.ports(it)).unwrap_or_default(),
            prefixes: draft.remote.as_ref().map(|it| self.prefixes(it)).unwrap_or_default(),
            interface: draft.interface.clone(),
            rtt_us: rtt.and_then(|range| self.parsed("rtt", range)),
            terminals: terminals.and_then(|range| self.parsed("terminals", range)),
            stability: draft.stability,
        }
    }

    fn parameters(&mut self, draft: &Draft) -> Parameters {
        let backoff = draft.backoff.as_deref().map(fraction);
        let backoff = backoff.and_then(|share| self.parsed("backoff", share)).unwrap_or(BACKOFF);
        let segments = draft.gain.unwrap_or(1.0);
        if !(1.0 / f64::from(ONE)..=MOST_GAIN).contains(&segments) {
            let remedy = "give segments per round trip, from 0.001 to 64";
            self.wrong("gain", format!("gain = {segments}"), remedy);
        }
        let parameters = Parameters {
            target: self.whole("target", draft.target, 2, MOST_WINDOW),
            cap: self.whole("cap", draft.cap, 2, MOST_WINDOW),
            backoff,
            gain: (segments * f64::from(ONE)) as u32,
        };
        let steady = draft.algorithm.as_deref() == Some(crate::steady::NAME);
        if steady && draft.gain.is_some() && draft.target.is_none() {
            let remedy = "give a target, too: without one, steady finds what the path holds";
            self.wrong("gain", "gain is the growth beyond a target", remedy);
        }
        if parameters.cap > 0 && parameters.target > parameters.cap {
            let what = format!("target {} is above the cap {}", parameters.target, parameters.cap);
            self.wrong("cap", what, "raise the cap or lower the target");
        }
        parameters
    }

    fn treatment(&mut self, draft: &Draft, algorithms: &[String]) -> Treatment {
        if let Some(wanted) = draft.algorithm.as_ref().filter(|name| !algorithms.contains(name)) {
            let remedy = format!(
                "there are {}; a module brings others: modprobe tcp_{wanted}",
                algorithms.join(", ")
            );
            self.wrong("algorithm", format!("the kernel has no algorithm '{wanted}'"), remedy);
        }
        let of_steady = [
            ("target", draft.target.is_some()),
            ("backoff", draft.backoff.is_some()),
            ("gain", draft.gain.is_some()),
        ];
        let is_steady = draft.algorithm.as_deref() == Some(crate::steady::NAME);
        for (key, written) in of_steady {
            if written && !is_steady {
                let remedy = format!("give the algorithm steady, too, or leave {key} out");
                self.wrong(key, format!("{key} is a parameter of steady"), remedy);
            }
        }
        if draft.algorithm.is_none() && draft.cap.is_none() && draft.initial_window.is_none() {
            self.wrong("", "the action does nothing", "give algorithm, cap or initial_window");
        }
        let parameters = self.parameters(draft);
        let initial_window = self.whole("initial_window", draft.initial_window, 1, MOST_INITIAL);
        if parameters.cap > 0 && initial_window > parameters.cap {
            let what =
                format!("initial_window {initial_window} is above the cap {}", parameters.cap);
            self.wrong("initial_window", what, "raise the cap or lower the initial window");
        }
        Treatment { algorithm: draft.algorithm.clone(), parameters, initial_window }
    }
}

impl Draft {
    /// Makes a rule of it. `algorithms` are those that connections can be given.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn check(&self, algorithms: &[String]) -> Result<Rule, Vec<Complaint>> {
        let mut check = Check::default();
        let mut matching = check.matching(self);
        let treatment = check.treatment(self, algorithms);
        if treatment.is_aggressive() && treatment.parameters.target > 0 && self.rtt.is_none() {
            let least = LEAST_RTT.as_micros() as u32;
            matching.rtt_us = Some(Range { least, most: u32::MAX });
        }
        match check.0.is_empty() {
            true => Ok(Rule { name: self.name.clone(), line: self.line, matching, treatment }),
            false => Err(check.0),
        }
    }
}

/// What the kernel keeps of a name, without half a letter at its end.
fn kept(name: &str) -> &str {
    let end = (0..=MOST_NAME).rev().find(|&end| name.is_char_boundary(end));
    &name[..end.unwrap_or(0)]
}
