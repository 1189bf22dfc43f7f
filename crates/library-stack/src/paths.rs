//! Which interfaces of the host the library uses.

use anyhow::{Context, Result, bail, ensure};
use transom_nic::PathSpec;
use transom_supervisor::Arguments;

/// Those that `--path` names, else those of the host's default routes.
pub fn asked_for(arguments: &Arguments) -> Result<Vec<PathSpec>> {
    let named = arguments.paths.iter().map(|text| text.parse().context("--path"));
    let mut specs: Vec<PathSpec> = named.collect::<Result<_>>()?;
    for spec in &specs {
        ensure!(!spec.backup || arguments.mptcp, "--path {spec}: a spare path needs --mptcp");
        ensure!(
            !spec.signal || arguments.mptcp,
            "--path {spec}: only with --mptcp are clients told"
        );
    }
    for (at, spec) in specs.iter().enumerate() {
        let name = &spec.interface;
        let is_new = specs[..at].iter().all(|other| other.interface != *name);
        ensure!(is_new, "--path {spec}: {name} is a path already: name each interface once");
    }
    if specs.is_empty() {
        let interfaces = default_interfaces();
        let most = if arguments.mptcp { interfaces.len() } else { 1 };
        specs.extend(interfaces.into_iter().take(most).map(PathSpec::of));
    }
    if specs.is_empty() {
        bail!(
            "the host has no default route: name an interface with --path IF[,ADDRESS[,GATEWAY]]"
        );
    }
    Ok(specs)
}

/// Of the IPv4 default routes, then of the IPv6 ones, the preferred first, each once.
fn default_interfaces() -> Vec<String> {
    let read = |file: &str| std::fs::read_to_string(file).unwrap_or_default();
    let mut found = default_routes_v4(&read("/proc/net/route"));
    found.extend(default_routes_v6(&read("/proc/net/ipv6_route")));
    let mut interfaces: Vec<String> = Vec::new();
    for name in found {
        if !interfaces.contains(&name) {
            interfaces.push(name);
        }
    }
    interfaces
}

/// `/proc/net/route`: interface, destination, gateway, flags, …, metric (7th), mask (8th).
fn default_routes_v4(table: &str) -> Vec<String> {
    let mut found: Vec<(u32, &str)> = Vec::new();
    for line in table.lines().skip(1) {
        let fields: Vec<&str> = line.split_whitespace().collect();
        if let [name, "00000000", _, _, _, _, metric, "00000000", ..] = fields[..] {
            found.push((metric.parse().unwrap_or(u32::MAX), name));
        }
    }
    found.sort_by_key(|(metric, _)| *metric);
    found.into_iter().map(|(_, name)| name.to_owned()).collect()
}

/// `/proc/net/ipv6_route`: destination, its length, source, its length, next hop, metric, …, flags
/// (9th), interface. A reject route (`lo`) is no way out.
fn default_routes_v6(table: &str) -> Vec<String> {
    let mut found: Vec<(u32, &str)> = Vec::new();
    for line in table.lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        if let [_, "00", _, "00", _, metric, _, _, _, name] = fields[..]
            && name != "lo"
        {
            found.push((u32::from_str_radix(metric, 16).unwrap_or(u32::MAX), name));
        }
    }
    found.sort_by_key(|(metric, _)| *metric);
    found.into_iter().map(|(_, name)| name.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::{default_routes_v4, default_routes_v6};

    #[test]
    fn default_routes_are_found_the_preferred_first() {
        let table = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n\
            rmnet0\t00000000\t0100000A\t0003\t0\t0\t200\t00000000\t0\t0\t0\n\
            wlan0\t00000000\t0102000A\t0003\t0\t0\t100\t00000000\t0\t0\t0\n\
            wlan0\t0002000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n";
        assert_eq!(default_routes_v4(table), ["wlan0", "rmnet0"]);
        assert!(default_routes_v4("").is_empty());
    }

    #[test]
    fn a_reject_route_of_ipv6_is_no_way_out() {
        let zeros = "0".repeat(32);
        let line = |metric: &str, name: &str| {
            format!("{zeros} 00 {zeros} 00 {zeros} {metric} 00000001 00000000 00000003 {name}\n")
        };
        let table = line("ffffffff", "lo") + &line("00000400", "eth1") + &line("00000064", "eth0");
        assert_eq!(default_routes_v6(&table), ["eth0", "eth1"]);
    }
}
