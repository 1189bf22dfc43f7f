//! A host of the experiment as one of a scenario.

use std::net::IpAddr;

use transom_peers::Rules;
use transom_scenario::{Cellular, Host, Peer, Route};

use super::policy::{self, Treatment};
use crate::experiment::{self, Experiment, Protocol};
use crate::hosts::{self, Place};

const RECOVERY: &str = "ipv4.tcp_recovery";

/// Since 6.17 Linux has no recovery with SACK but RACK and ignores the first bit of this sysctl; the
/// simulated series, which are older, heed it.
fn always_rack(value: &mut String) {
    if let Ok(bits) = value.parse::<u32>() {
        *value = (bits | 1).to_string();
    }
}

pub(super) fn host(experiment: &Experiment, place: &Place) -> Result<Host, String> {
    let own = &experiment.hosts[&place.host];
    let treatments = policy::treatments(experiment, &place.host)?;
    let mut host = Host {
        interface: place.interface.clone(),
        addresses: vec![place.v4.into(), place.v6.into()],
        gso_max_segs: own.gso_max_segs.unwrap_or(1),
        route: Route {
            initcwnd: one(&treatments, |it| it.initial_window, "initial windows", place)?,
            cwnd: one(&treatments, |it| it.largest_window, "caps", place)?,
            ..Route::default()
        },
        cellular: place.cellular.as_ref().map(|it| Cellular {
            interface: it.interface.clone(),
            addresses: vec![IpAddr::from(it.v4), it.v6.into()],
        }),
        peer: own.peer.as_ref().map(|rules| peer(own, rules, place)).transpose()?,
        ..Host::default()
    };
    if let Some(driver) = &own.driver {
        let rate = device_mbit(experiment, place)?;
        (host.device_mbit, host.device_burst) = (Some(rate), Some(hosts::burst(rate)));
        // The frame that waits for its turn in the device is one of the queue's, as in `tbf`.
        host.queue_packets = ring(driver.queue_packets.saturating_sub(1).max(1));
    }
    let algorithm = hosts::algorithm(experiment, &place.host);
    host.sysctl.insert("ipv4.tcp_congestion_control".to_owned(), algorithm.to_owned());
    let parameters = one(&treatments, |it| it.steady, "parameters of `steady`", place)?;
    host.sysctl.extend(parameters.iter().flat_map(policy::sysctls));
    host.guard = one(&treatments, |it| it.guard.clone(), "guards", place)?;
    host.sysctl.extend(hosts::settings(own));
    host.sysctl.entry(RECOVERY.to_owned()).and_modify(always_rack);
    Ok(host)
}

/// What `transom peer run` gets in a real run (`run/peers.rs`).
fn peer(own: &experiment::Host, rules: &toml::Table, place: &Place) -> Result<Peer, String> {
    let text = toml::to_string(rules).map_err(|error| error.to_string())?;
    let rules = Rules::from_toml(&text).map_err(|error| {
        format!("host '{}' has rules (`peer`) that are wrong: {error}", place.host)
    })?;
    Ok(Peer { class: own.class.unwrap_or(1.0), rules, lie: None })
}

/// A ring that holds no fewer packets than the `pfifo` of a real run. The simulated device's queue,
/// `pfifo_fast`, is a ring that gives room back 16 entries at a time (`ptr_ring`), if it has 32 or
/// more.
fn ring(packets: u32) -> u32 {
    const BATCH: u32 = 16;
    if packets < 2 * BATCH { packets } else { packets.saturating_add(BATCH - 1) }
}

/// What all flows that a host sends have in common, since it is a setting of the host.
fn one<T: PartialEq>(
    treatments: &[Treatment],
    of: impl Fn(&Treatment) -> Option<T>,
    what: &str,
    place: &Place,
) -> Result<Option<T>, String> {
    let mut all = treatments.iter().map(of);
    let first = all.next().flatten();
    if all.all(|other| other == first) {
        return Ok(first);
    }
    Err(format!("the flows of host '{}' have different {what}, which are set per host", place.host))
}

/// The device's rate. A rate of its own for UDP has no equivalent, but where all that the host
/// sends is UDP, it is the device's.
fn device_mbit(experiment: &Experiment, place: &Place) -> Result<f64, String> {
    let driver = experiment.hosts[&place.host].driver.clone().unwrap_or_default();
    let Some(udp) = driver.udp_rate_mbit.filter(|udp| *udp < driver.rate_mbit) else {
        return Ok(driver.rate_mbit);
    };
    // Who receives TCP sends ACKs.
    let touches = |flow: &&experiment::Flow| [&flow.from, &flow.to].contains(&&place.host);
    let sends = |protocol| {
        let mut flows = experiment.flows.values().filter(touches);
        flows.any(|flow| {
            flow.protocol == protocol && (protocol == Protocol::Tcp || flow.from == place.host)
        })
    };
    match (sends(Protocol::Tcp), sends(Protocol::Udp)) {
        (true, true) => Err(format!(
            "host '{}' sends TCP and UDP through a device with a rate of its own for UDP \
             (udp_rate_mbit)",
            place.host
        )),
        (false, true) => Ok(udp),
        _ => Ok(driver.rate_mbit),
    }
}

#[cfg(test)]
mod tests {
    use super::ring;

    #[test]
    fn a_ring_holds_no_fewer_packets_than_it_is_asked_for() {
        assert_eq!([ring(1), ring(31), ring(32), ring(100)], [1, 31, 47, 115]);
        assert_eq!(ring(u32::MAX), u32::MAX);
    }
}
