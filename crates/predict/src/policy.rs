//! The best setting as a policy of `transom tune`, with the reason in it.

use transom_event::Endpoints;

use crate::change::{Change, Steady};
use crate::model::Model;
use crate::whatif::Prediction;

/// What is known of the connection that the policy is for.
#[derive(Clone, Debug)]
pub struct For<'a> {
    pub program: &'a str,
    pub ends: Endpoints,
    /// Whether this side is the server: its own port names the service.
    pub serves: bool,
    /// The trace that it comes from.
    pub trace: &'a str,
    /// The command that writes it.
    pub command: &'a str,
    /// The file that it is written to.
    pub policy: &'a str,
}

impl For<'_> {
    /// Of the service.
    pub fn port(&self) -> u16 {
        if self.serves { self.ends.local.port() } else { self.ends.remote.port() }
    }
}

/// A rule with `steady` holds from this round trip on, unless it names another, s (docs/policy.md).
const FLOOR_S: f64 = 0.032;
/// Above the floor by less than this factor, a path may be measured below it.
const NEAR: f64 = 1.25;

/// Keys of a rule with their values, as TOML has them: its action, and what it matches.
pub(crate) fn keys(of: &For, change: &Change, model: &Model) -> [Vec<(&'static str, String)>; 2] {
    let mut action: Vec<(&str, String)> =
        change.algorithm.iter().map(|name| ("algorithm", format!("{name:?}"))).collect();
    action.extend(change.steady.map_or(Vec::new(), Steady::keys));
    action.extend(change.initial_window.map(|window| ("initial_window", window.to_string())));
    action.extend(change.cap.map(|cap| ("cap", cap.to_string())));
    let mut matching = Vec::new();
    if !of.serves {
        matching.push(("remote", format!("\"{}\"", of.ends.remote.ip())));
    }
    matching.push(("port", of.port().to_string()));
    let is_steady = change.algorithm.as_deref() == Some(Steady::NAME);
    if is_steady && model.path.rtt_s.value < NEAR * FLOOR_S {
        matching.push(("rtt", "\"0ms..\"".to_owned()));
    }
    [action, matching]
}

/// A policy file (docs/policy.md); none: `tune` cannot make that change.
pub fn policy(of: &For, prediction: &Prediction, model: &Model) -> Option<String> {
    if !prediction.change.is_policy() {
        return None;
    }
    let [action, matching] = keys(of, &prediction.change, model).map(|keys| {
        let assigned: Vec<String> =
            keys.iter().map(|(key, value)| format!("{key} = {value}")).collect();
        assigned.join(", ")
    });
    let gain = prediction.gain;
    Some(format!(
        "# Written by `{command}` from {trace} ({program}).\n\
         # {label}: {value:.2} times the goodput that was recorded ({low:.2} to {high:.2} in {runs} simulations),\n\
         # {after} Mbit/s instead of {was} Mbit/s; round trip {rtt:.0} ms (95th percentile).\n\
         # After it was applied and the connection recorded again, `transom whatif --verify {trace} AFTER` compares.\n\
         \n\
         [[rule]]\n\
         name = {label:?}\n\
         match = {{ {matching} }}\n\
         action = {{ {action} }}\n",
        command = of.command,
        trace = of.trace,
        program = if of.program.is_empty() { "a program not known" } else { of.program },
        label = prediction.label,
        value = gain.value,
        low = gain.low,
        high = gain.high,
        runs = prediction.runs,
        after = rounded(prediction.goodput_mbit.value),
        was = rounded(prediction.goodput_mbit.value / gain.value.max(1e-9)),
        rtt = prediction.rtt_p95_s.value * 1e3,
    ))
}

fn rounded(mbit: f64) -> String {
    if mbit < 10.0 { format!("{mbit:.2}") } else { format!("{mbit:.1}") }
}
