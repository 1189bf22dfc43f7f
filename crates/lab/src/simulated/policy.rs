//! What `transom tune` would do to the connections of a host under its policy, as far as it is
//! settled before the first packet: which rule applies, and what that sets.

use transom_control::policy::{Match, Rule};
use transom_control::{Parameters, Policy};
use transom_scenario::Guarded;

use super::round_trip;
use crate::experiment::{Experiment, Flow, Over, Protocol, Tool};
use crate::flows;
use crate::hosts::{self, Place};

/// `steady`, as policies name it.
const STEADY: &str = "steady";

/// What a connection has, by its host's settings and by the rule that applies to it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Treatment {
    /// None: the one that it asks for itself.
    pub algorithm: Option<String>,
    pub initial_window: Option<u32>,
    pub largest_window: Option<u32>,
    pub steady: Option<Parameters>,
    pub guard: Option<Guarded>,
}

/// Of all TCP flows that a host sends; one without a rule if it sends none.
pub(super) fn treatments(experiment: &Experiment, host: &str) -> Result<Vec<Treatment>, String> {
    let flows = experiment.flows.values().zip(flows::FIRST_PORT..);
    let sent = flows.filter(|(flow, _)| flow.from == host && flow.protocol == Protocol::Tcp);
    let all = sent.map(|(flow, port)| treatment(experiment, flow, port));
    let all: Vec<Treatment> = all.collect::<Result<_, _>>()?;
    Ok(if all.is_empty() { vec![plain(experiment, host)] } else { all })
}

fn plain(experiment: &Experiment, host: &str) -> Treatment {
    let host = &experiment.hosts[host];
    Treatment {
        initial_window: host.initial_window,
        largest_window: host.largest_window,
        ..Treatment::default()
    }
}

/// Of one flow.
pub(super) fn treatment(
    experiment: &Experiment,
    flow: &Flow,
    port: u16,
) -> Result<Treatment, String> {
    let mut treatment = plain(experiment, &flow.from);
    let policy = &experiment.hosts[&flow.from].policy;
    let Some(table) = policy.as_ref().filter(|_| flow.protocol == Protocol::Tcp) else {
        return Ok(treatment);
    };
    let of_host = |why: String| format!("host '{}' has a policy {why}", flow.from);
    let policy = parsed(table).map_err(of_host)?;
    let Some(rule) = applies(&policy, experiment, flow, port).map_err(of_host)? else {
        return Ok(treatment);
    };
    let given = &rule.treatment;
    let own = hosts::algorithm(experiment, &flow.from);
    let runs = given.algorithm.as_deref().or(flow.algorithm.as_deref()).unwrap_or(own);
    if runs == STEADY {
        treatment.guard = guarded(&policy, experiment, flow, port).map_err(of_host)?;
        treatment.steady = Some(given.parameters);
    } else if given.parameters.cap > 0 {
        treatment.largest_window = Some(given.parameters.cap);
    }
    treatment.algorithm = given.algorithm.clone();
    if given.initial_window > 0 {
        treatment.initial_window = Some(given.initial_window);
    }
    Ok(treatment)
}

/// What the guard does there, if it is on: while it withdraws `steady`, the flow has its own
/// algorithm.
fn guarded(
    policy: &Policy,
    experiment: &Experiment,
    flow: &Flow,
    port: u16,
) -> Result<Option<Guarded>, String> {
    if !policy.guard.on {
        return Ok(None);
    }
    let others = policy.rules.iter().filter(|rule| !rule.treatment.is_aggressive());
    let others = Policy { rules: others.cloned().collect(), ..policy.clone() };
    if applies(&others, experiment, flow, port)?.is_some() {
        return Err("whose guard would leave it to another rule, which is not simulated".to_owned());
    }
    let applied = applies(policy, experiment, flow, port)?;
    let own = flow.algorithm.as_deref().unwrap_or(hosts::algorithm(experiment, &flow.from));
    Ok(Some(Guarded {
        settings: policy.guard,
        instead: own.to_owned(),
        chosen: applied.is_some_and(|rule| rule.treatment.parameters.target > 0),
    }))
}

/// The parameters of `steady` as the simulated kernel has them.
pub(super) fn sysctls(parameters: &Parameters) -> [(String, String); 4] {
    let Parameters { target, cap, backoff, gain } = *parameters;
    let named = |name: &str, value: u32| (format!("ipv4.tcp_steady_{name}"), value.to_string());
    [named("target", target), named("cap", cap), named("backoff", backoff), named("gain", gain)]
}

fn parsed(table: &toml::Table) -> Result<Policy, String> {
    let text = toml::to_string(table).map_err(|error| format!("that is no table: {error}"))?;
    Policy::parse_for_elsewhere(&text).map_err(|problems| {
        let all: Vec<String> = problems.iter().map(ToString::to_string).collect();
        format!("that is wrong: {}", all.join(", "))
    })
}

/// The first rule that matches a flow's connections.
fn applies<'a>(
    policy: &'a Policy,
    experiment: &Experiment,
    flow: &Flow,
    port: u16,
) -> Result<Option<&'a Rule>, String> {
    for (n, rule) in policy.rules.iter().enumerate() {
        let matches = matches(&rule.matching, experiment, flow, port);
        if matches.map_err(|why| format!("whose rule {} {why}", n + 1))? {
            return Ok(Some(rule));
        }
    }
    Ok(None)
}

fn matches(
    matching: &Match,
    experiment: &Experiment,
    flow: &Flow,
    port: u16,
) -> Result<bool, String> {
    let places = hosts::places("x", experiment).map_err(|error| format!("{error:#}"))?;
    let place = |host: &str| {
        let place = places.iter().find(|place| place.host == host);
        place.ok_or_else(|| format!("names the host '{host}', which is none"))
    };
    let (from, to) = (place(&flow.from)?, place(&flow.to)?);
    let program = if flow.tool == Tool::Iperf { "iperf" } else { "iperf3" };
    let programs = &matching.programs;
    // The lab gives `tune` no number of terminals, without which the key matches nothing.
    if matching.terminals.is_some()
        || !programs.is_empty() && !programs.iter().any(|it| it == program)
        || !matching.ports.is_empty() && !matching.ports.contains(&port)
    {
        return Ok(false);
    }
    let over = |place: &Place| place.cellular.clone().filter(|_| flow.over == Over::Cellular);
    let (near, far) = (over(from), over(to));
    let device = near.as_ref().map_or(&from.interface, |it| &it.interface);
    if matching.interface.as_ref().is_some_and(|it| it != device) {
        return Ok(false);
    }
    let address = far.as_ref().map_or(to.v4, |it| it.v4);
    let prefixes = &matching.prefixes;
    if !prefixes.is_empty() && !prefixes.iter().any(|it| it.holds(address.into())) {
        return Ok(false);
    }
    if matching.cgroup.is_some() {
        return Err("asks for a cgroup, which simulated programs have not".to_owned());
    }
    if matching.stability.is_some() {
        return Err("follows the stability of a running connection".to_owned());
    }
    let Some(range) = matching.rtt_us else { return Ok(true) };
    let [least_ms, most_ms] = round_trip::of_handshake(experiment, flow, from, to);
    let inside = [least_ms, most_ms].map(|ms| range.holds((ms * 1e3) as u32));
    if inside[0] != inside[1] {
        return Err(format!(
            "begins or ends at a round trip near {} ms, that of the path",
            (10.0 * least_ms).round() / 10.0
        ));
    }
    Ok(inside[0])
}
