//! A number that was fitted, with what the trace leaves open and why.

use serde::Serialize;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Parameter {
    pub value: f64,
    /// The trace agrees with all from here …
    pub low: f64,
    /// … to here; none: with any greater value.
    pub high: Option<f64>,
    pub reason: String,
}

impl Parameter {
    pub fn new(value: f64, low: f64, high: Option<f64>, reason: impl Into<String>) -> Parameter {
        Parameter { value, low, high, reason: reason.into() }
    }

    pub fn holds(&self, value: f64) -> bool {
        value >= self.low && self.high.is_none_or(|high| value <= high)
    }
}
