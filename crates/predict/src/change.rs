//! Another setting of the sender.

use std::collections::BTreeMap;

use serde::Serialize;

/// What is set differently; nothing: as it was recorded.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Change {
    /// Congestion control algorithm.
    pub algorithm: Option<String>,
    /// Segments.
    pub initial_window: Option<u32>,
    /// Upper limit of cwnd, segments.
    pub cap: Option<u32>,
    /// Without the leading `net.`.
    pub sysctl: BTreeMap<String, String>,
}

impl Change {
    pub fn is_none(&self) -> bool {
        *self == Change::default()
    }

    /// `bbr, initial window 30`.
    pub fn label(&self) -> String {
        let mut parts: Vec<String> = self.algorithm.iter().cloned().collect();
        parts.extend(self.initial_window.map(|it| format!("initial window {it}")));
        parts.extend(self.cap.map(|it| format!("cap {it}")));
        parts.extend(self.sysctl.iter().map(|(key, value)| format!("{key}={value}")));
        if parts.is_empty() { "as recorded".to_owned() } else { parts.join(", ") }
    }

    /// Whether a policy of `tune` can make it.
    pub fn is_policy(&self) -> bool {
        !self.is_none() && self.sysctl.is_empty()
    }
}

/// Algorithms that every kernel of Transom's library has.
const ALGORITHMS: [&str; 3] = ["cubic", "bbr", "reno"];
/// Initial windows that are in use (RFC 6928 and large content networks), segments.
const INITIAL_WINDOWS: [u32; 2] = [20, 40];

/// What one would usually try on a connection of this algorithm that sends so many bytes: other
/// algorithms, larger initial windows, and a cap at what the path holds, in segments.
pub fn usual(algorithm: &str, holds: u32) -> Vec<Change> {
    let others = ALGORITHMS.iter().filter(|name| **name != algorithm);
    let mut all: Vec<Change> = others
        .map(|name| Change { algorithm: Some((*name).to_owned()), ..Change::default() })
        .collect();
    all.extend(
        INITIAL_WINDOWS.map(|window| Change { initial_window: Some(window), ..Change::default() }),
    );
    all.push(Change { cap: Some(holds.max(4)), ..Change::default() });
    all
}
