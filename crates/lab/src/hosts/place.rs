//! Which host gets which name, device, addresses and side.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};

use crate::experiment::{Experiment, Host};

/// Hosts a lab may have: each is the last octet of an address.
pub const MOST_HOSTS: usize = 200;

/// One host and where it lives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    pub host: String,
    /// As `ip netns` lists it.
    pub namespace: String,
    /// `wlan0` on the air, `eth0` on a wire.
    pub interface: String,
    pub mac: [u8; 6],
    pub v4: Ipv4Addr,
    pub v6: Ipv6Addr,
    pub side: Side,
    /// Its second interface.
    #[serde(default)]
    pub cellular: Option<Cellular>,
}

/// An interface of raw IP, as a phone's cellular one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cellular {
    pub interface: String,
    /// Of the gateway, which answers for the host: it has no link address itself.
    pub mac: [u8; 6],
    pub v4: Ipv4Addr,
    pub v6: Ipv6Addr,
}

impl Cellular {
    fn new(number: u8) -> Cellular {
        Cellular {
            interface: "rmnet0".into(),
            mac: [0x02, b't', b'x', 0, 1, number],
            v4: Ipv4Addr::new(10, 78, 0, number),
            v6: Ipv6Addr::new(0xfd78, 0, 0, 0, 0, 0, 0, number.into()),
        }
    }
}

/// Where a host hangs on the emulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    Air,
    /// Wired, on the access point's side of the path.
    Near,
    /// Wired, at the other end of the path.
    Far,
}

impl Place {
    /// Its addresses and who answers for them, the first interface's first.
    pub fn addresses(&self) -> Vec<(IpAddr, [u8; 6])> {
        let cellular =
            self.cellular.iter().flat_map(|it| [(it.v4.into(), it.mac), (it.v6.into(), it.mac)]);
        [(self.v4.into(), self.mac), (self.v6.into(), self.mac)]
            .into_iter()
            .chain(cellular)
            .collect()
    }

    /// Its devices, the first first.
    pub fn interfaces(&self) -> impl Iterator<Item = &str> {
        let cellular = self.cellular.iter().map(|it| it.interface.as_str());
        std::iter::once(self.interface.as_str()).chain(cellular)
    }
}

/// As `ip` writes it.
pub fn mac(bytes: [u8; 6]) -> String {
    bytes.map(|byte| format!("{byte:02x}")).join(":")
}

/// Namespace names of a lab; each begins with this.
pub fn namespace(lab: &str, host: &str) -> String {
    format!("tx-{lab}-{host}")
}

/// In the order of the hosts' names, the same every time.
///
/// # Errors
/// If a name cannot be part of a namespace's name, or there are too many hosts.
pub fn places(lab: &str, experiment: &Experiment) -> Result<Vec<Place>> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    ensure!(
        !lab.is_empty() && lab.len() <= 100 && lab.chars().all(plain),
        "'{lab}' is no name for an experiment's file: use up to 100 letters, digits, -, _ and ."
    );
    let count = experiment.hosts.len();
    ensure!(count <= MOST_HOSTS, "{count} hosts: a lab holds at most {MOST_HOSTS}");
    let sides = sides(experiment);
    let hosts = experiment.hosts.keys().enumerate();
    hosts
        .map(|(index, host)| {
            let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            ensure!(
                !host.is_empty() && host.len() <= 32 && host.chars().all(plain),
                "'{host}' is no name for a host: use up to 32 of a-z, 0-9 and -"
            );
            let number = index as u8 + 1;
            let interface = if is_station(experiment, host) { "wlan0" } else { "eth0" };
            Ok(Place {
                host: host.clone(),
                namespace: namespace(lab, host),
                interface: interface.into(),
                // Locally administered; "tx" and zeros.
                mac: [0x02, b't', b'x', 0, 0, number],
                v4: Ipv4Addr::new(10, 77, 0, number),
                v6: Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, number.into()),
                side: sides[host.as_str()],
                cellular: experiment.hosts[host].cellular.as_ref().map(|_| Cellular::new(number)),
            })
        })
        .collect()
}

fn is_station(experiment: &Experiment, host: &str) -> bool {
    experiment.hosts[host].station.is_some()
}

/// Which side each host is on. Whoever only sends is at the near end and whoever only receives at the
/// far one, so that the path lies between them. A host that does both is across from those that it
/// has flows with, as far as these agree.
fn sides(experiment: &Experiment) -> BTreeMap<&str, Side> {
    let hosts = experiment.hosts.keys();
    let mut sides: BTreeMap<&str, Side> =
        hosts.filter_map(|host| Some((host.as_str(), plain_side(experiment, host)?))).collect();
    let flows: Vec<(&str, &str)> =
        experiment.flows.values().map(|flow| (&*flow.from, &*flow.to)).collect();
    // One more has a side after each round.
    while let Some((host, side)) = next_side(&flows, &sides) {
        sides.insert(host, side);
    }
    sides
}

/// A host that has no side yet, and its side: first those across from one that has; where none has,
/// the sender of a flow begins.
fn next_side<'a>(
    flows: &[(&'a str, &'a str)],
    sides: &BTreeMap<&str, Side>,
) -> Option<(&'a str, Side)> {
    let both_ways = flows.iter().flat_map(|&(from, to)| [(from, to), (to, from)]);
    let mut open = both_ways.filter(|(host, _)| !sides.contains_key(host)).peekable();
    let first = open.peek().map(|(host, _)| (*host, Side::Near));
    let across = open.find_map(|(host, other)| match sides.get(other)? {
        Side::Far => Some((host, Side::Near)),
        Side::Near | Side::Air => Some((host, Side::Far)),
    });
    across.or(first)
}

/// The side of a host as far as it does not depend on the others' flows. Stations hang on the air;
/// without air, they are at the near end. Cellular paths end at the far end, so who has one is at the
/// near one.
fn plain_side(experiment: &Experiment, host: &str) -> Option<Side> {
    let moves = |host: &Host| host.station.is_some() || host.cellular.is_some();
    let anyone_moves = experiment.hosts.values().any(moves);
    let sends = experiment.flows.values().any(|flow| flow.from == host);
    let receives = experiment.flows.values().any(|flow| flow.to == host);
    match (is_station(experiment, host), experiment.air.is_some()) {
        (true, true) => Some(Side::Air),
        (true, false) => Some(Side::Near),
        (false, _) if moves(&experiment.hosts[host]) => Some(Side::Near),
        (false, true) => Some(Side::Far),
        (false, false) if anyone_moves => Some(Side::Far),
        (false, false) if sends && receives => None,
        (false, false) if sends => Some(Side::Near),
        (false, false) => Some(Side::Far),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::parse;

    /// The sides of wired hosts with these flows, each `from to`, by the hosts' names.
    fn sides_of(hosts: &[&str], flows: &[&str]) -> Vec<Side> {
        let mut text = String::from(
            "title = \"t\"\nsource = \"s\"\nquestion = \"q\"\nduration_s = 5\nrepeats = 1\n\
             [path]\nrtt_ms = 40\n",
        );
        text.extend(hosts.iter().map(|host| format!("[hosts.{host}]\n")));
        text.extend(flows.iter().enumerate().map(|(n, flow)| {
            let (from, to) = flow.split_once(' ').unwrap();
            format!("[flows.f{n}]\nfrom = \"{from}\"\nto = \"{to}\"\n")
        }));
        let experiment = parse("x.toml".as_ref(), text).unwrap().experiment;
        places("x", &experiment).unwrap().iter().map(|place| place.side).collect()
    }

    #[test]
    fn the_path_lies_between_who_sends_and_who_receives() {
        use Side::{Far, Near};
        assert_eq!(sides_of(&["a", "b"], &["a b"]), [Near, Far]);
        assert_eq!(sides_of(&["a", "b"], &["b a"]), [Far, Near]);
        assert_eq!(sides_of(&["a", "b", "idle"], &["a b"]), [Near, Far, Far]);
    }

    #[test]
    fn it_also_lies_between_hosts_with_flows_both_ways() {
        use Side::{Far, Near};
        assert_eq!(sides_of(&["a", "b"], &["a b", "b a"]), [Near, Far]);
        assert_eq!(sides_of(&["a", "b"], &["b a", "a b"]), [Far, Near]);
        // Whoever does both is across from those whose side is plain.
        assert_eq!(sides_of(&["a", "b", "c"], &["a b", "b a", "c b"]), [Near, Far, Near]);
        assert_eq!(sides_of(&["a", "b", "c"], &["a b", "b a", "b c"]), [Far, Near, Far]);
        // In two pairs, each begins anew.
        let pairs = sides_of(&["a", "b", "c", "d"], &["a b", "b a", "d c", "c d"]);
        assert_eq!(pairs, [Near, Far, Far, Near]);
    }

    #[test]
    fn hosts_in_a_row_cannot_all_be_across_from_one_another() {
        use Side::{Far, Near};
        assert_eq!(sides_of(&["a", "b", "c"], &["a b", "b c"]), [Near, Far, Far]);
    }
}
