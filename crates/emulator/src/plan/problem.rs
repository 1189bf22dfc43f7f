//! What is wrong with a plan, and the remedy.

use std::fmt;

/// One thing that cannot be emulated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Dotted, as in an experiment file: `path.up.discipline.target_ms`.
    pub key: String,
    pub what: String,
    pub remedy: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}; {}", self.key, self.what, self.remedy)
    }
}

/// Collects problems of the keys below `at`.
pub(super) struct Problems<'a> {
    pub at: &'a str,
    pub found: Vec<Problem>,
}

impl<'a> Problems<'a> {
    pub fn below(at: &'a str) -> Problems<'a> {
        Problems { at, found: Vec::new() }
    }

    pub fn add(&mut self, key: &str, what: impl Into<String>, remedy: impl Into<String>) {
        let key = format!("{}.{key}", self.at);
        self.found.push(Problem { key, what: what.into(), remedy: remedy.into() });
    }

    /// `value`, if it is given, must lie in `from..=to`.
    pub fn within(&mut self, key: &str, value: Option<f64>, from: f64, to: f64, unit: &str) {
        if let Some(value) = value.filter(|value| !(from..=to).contains(value)) {
            let remedy = format!("give a number from {from} to {to} {unit}");
            self.add(key, format!("{value} is impossible"), remedy.trim_end());
        }
    }
}
