//! The best setting as a policy of `transom tune`, with the reason in it.

use transom_event::Endpoints;

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
}

/// A policy file (docs/policy.md); none: `tune` cannot make that change.
pub fn policy(of: &For, prediction: &Prediction) -> Option<String> {
    let change = &prediction.change;
    if !change.is_policy() {
        return None;
    }
    let mut action: Vec<String> =
        change.algorithm.iter().map(|name| format!("algorithm = {name:?}")).collect();
    action.extend(change.initial_window.map(|window| format!("initial_window = {window}")));
    action.extend(change.cap.map(|cap| format!("cap = {cap}")));
    let mut matching = Vec::new();
    if !of.serves {
        matching.push(format!("remote = \"{}\"", of.ends.remote.ip()));
    }
    let port = if of.serves { of.ends.local.port() } else { of.ends.remote.port() };
    matching.push(format!("port = {port}"));
    let gain = prediction.gain;
    Some(format!(
        "# Written by `transom whatif` from {trace} ({program}).\n\
         # {label}: {value:.2} times the goodput that was recorded ({low:.2} to {high:.2} in {runs} simulations),\n\
         # {before} Mbit/s instead of {was} Mbit/s; round trip {rtt:.0} ms (95th percentile).\n\
         # After it was applied and the connection recorded again, `transom whatif --verify {trace} AFTER` compares.\n\
         \n\
         [[rule]]\n\
         name = {label:?}\n\
         match = {{ {matching} }}\n\
         action = {{ {action} }}\n",
        trace = of.trace,
        program = if of.program.is_empty() { "a program not known" } else { of.program },
        label = prediction.label,
        value = gain.value,
        low = gain.low,
        high = gain.high,
        runs = prediction.runs,
        before = rounded(prediction.goodput_mbit.value),
        was = rounded(prediction.goodput_mbit.value / gain.value.max(1e-9)),
        rtt = prediction.rtt_p95_s.value * 1e3,
        matching = matching.join(", "),
        action = action.join(", "),
    ))
}

fn rounded(mbit: f64) -> String {
    if mbit < 10.0 { format!("{mbit:.2}") } else { format!("{mbit:.1}") }
}
