//! Which host gets which name, device, addresses and side.

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
    let hosts = experiment.hosts.keys().enumerate();
    hosts
        .map(|(index, host)| {
            let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            ensure!(
                !host.is_empty() && host.len() <= 32 && host.chars().all(plain),
                "'{host}' is no name for a host: use up to 32 of a-z, 0-9 and -"
            );
            let number = index as u8 + 1;
            let side = side(experiment, host);
            let interface = if is_station(experiment, host) { "wlan0" } else { "eth0" };
            Ok(Place {
                host: host.clone(),
                namespace: namespace(lab, host),
                interface: interface.into(),
                // Locally administered; "tx" and zeros.
                mac: [0x02, b't', b'x', 0, 0, number],
                v4: Ipv4Addr::new(10, 77, 0, number),
                v6: Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, number.into()),
                side,
                cellular: experiment.hosts[host].cellular.as_ref().map(|_| Cellular::new(number)),
            })
        })
        .collect()
}

fn is_station(experiment: &Experiment, host: &str) -> bool {
    experiment.hosts[host].station.is_some()
}

/// Stations hang on the air; without air, they and whoever only sends are at the near end, so that
/// the path lies between them and the others. Cellular paths end at the far end, so who has one is
/// at the near one.
fn side(experiment: &Experiment, host: &str) -> Side {
    let moves = |host: &Host| host.station.is_some() || host.cellular.is_some();
    let anyone_moves = experiment.hosts.values().any(moves);
    let only_sends = experiment.flows.values().any(|flow| flow.from == host)
        && experiment.flows.values().all(|flow| flow.to != host);
    match (is_station(experiment, host), experiment.air.is_some()) {
        (true, true) => Side::Air,
        (true, false) => Side::Near,
        (false, _) if moves(&experiment.hosts[host]) => Side::Near,
        (false, true) => Side::Far,
        (false, false) if anyone_moves => Side::Far,
        (false, false) if only_sends => Side::Near,
        (false, false) => Side::Far,
    }
}
