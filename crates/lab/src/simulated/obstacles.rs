//! What of an experiment cannot be simulated, and why.

use super::{host, traffic};
use crate::experiment::algorithms::SIMULATED;
use crate::experiment::{Experiment, Flow, Protocol, Stack};
use crate::{flows, hosts};

/// One sentence each; none: all of it can be.
pub fn obstacles(experiment: &Experiment) -> Vec<String> {
    let mut found = Vec::new();
    if experiment.cpu_bound {
        found
            .push("it measures processors (`cpu_bound`), and simulated hosts have none".to_owned());
    }
    for (name, host) in &experiment.hosts {
        if host.stack == Stack::Library {
            let why = "has `stack = \"library\"`: every simulated host is that library";
            found.push(format!("host '{name}' {why}"));
        }
        if host.mptcp {
            found.push(format!("host '{name}' has `mptcp`, whose path manager is not simulated"));
        }
    }
    found.extend(unsettled(experiment));
    found
}

/// What only the whole mapping shows.
fn unsettled(experiment: &Experiment) -> Vec<String> {
    let Ok(places) = hosts::places("x", experiment) else { return Vec::new() };
    let of_hosts = places.iter().filter_map(|place| host::host(experiment, place).err());
    let ports = flows::FIRST_PORT..;
    let of_flows = experiment.flows.values().zip(ports);
    let of_flows = of_flows.filter_map(|(flow, port)| runs(experiment, flow, port).err());
    let mut found: Vec<String> = Vec::new();
    for problem in of_hosts.chain(of_flows) {
        if !found.contains(&problem) {
            found.push(problem);
        }
    }
    found
}

/// Whether its congestion control is settled, and there.
fn runs(experiment: &Experiment, flow: &Flow, port: u16) -> Result<(), String> {
    let name = traffic::algorithm(experiment, flow, port)?;
    if flow.protocol == Protocol::Tcp && !SIMULATED.contains(&name.as_str()) {
        return Err(format!(
            "a flow of '{}' has the congestion control '{name}': the simulated kernel has {}",
            flow.from,
            SIMULATED.join(", ")
        ));
    }
    Ok(())
}
