//! The interfaces of the host that the library uses, and what becomes of them.

use std::net::IpAddr;

use anyhow::{Context, Result, bail};
use transom_netstack::{Endpoint, EndpointFlags, Kernel, NicId, Route};
use transom_nic::{Attach, Divert, Event, Options, PacketNic, Path, PathSpec};
use transom_supervisor::Arguments;

use crate::card::Shared;
use crate::ports::OurPorts;

/// Tables of the library's own: each path's routes, for packets from its addresses.
const FIRST_TABLE: u32 = 100;

/// A path as the library has it.
pub struct Leg {
    pub path: Path,
    pub card: Shared,
    pub nic: NicId,
    table: u32,
    metric: u32,
    pub backup: bool,
    up: bool,
}

/// Those that `--path` names, else those of the host's default routes.
pub fn asked_for(arguments: &Arguments) -> Result<Vec<PathSpec>> {
    let named = arguments.paths.iter().map(|path| PathSpec {
        interface: path.interface.clone(),
        address: path.address.map(|(ip, _)| ip),
        gateway: path.gateway,
    });
    let mut specs: Vec<PathSpec> = named.collect();
    if specs.is_empty() {
        let interfaces = default_interfaces();
        let most = if arguments.mptcp { interfaces.len() } else { 1 };
        specs.extend(interfaces.into_iter().take(most).map(|interface| PathSpec {
            interface,
            address: None,
            gateway: None,
        }));
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

impl Leg {
    /// Makes the interface one of the library's, with its addresses and routes.
    pub fn attach(
        kernel: &mut Kernel,
        spec: &PathSpec,
        number: u32,
        ports: &OurPorts,
        backup: bool,
    ) -> Result<Self> {
        let path = spec.resolve()?;
        let name = path.interface.name.clone();
        let mut divert = Divert::attach(&path.interface, Attach::Best)
            .with_context(|| format!("keeping the host away from our packets on {name}"))?;
        for address in &path.addresses {
            divert.add_address(address.ip)?;
        }
        let nic = PacketNic::open(&path.interface, divert, Options::default())?;
        let card = Shared::new(&path, nic)?;
        ports.divert(&card)?;
        let nic = kernel
            .add_nic(&card.parameters(name.clone()), Box::new(card.clone()))
            .with_context(|| format!("the library's interface {name}"))?;
        let (table, metric) = (FIRST_TABLE + number, number + 1);
        let leg = Self { path, card, nic, table, metric, backup, up: true };
        leg.configure(kernel).with_context(|| format!("the library's interface {name}"))?;
        Ok(leg)
    }

    fn configure(&self, kernel: &mut Kernel) -> transom_netstack::Result<()> {
        kernel.set_up(self.nic, true)?;
        for address in &self.path.addresses {
            kernel.add_address(self.nic, address.ip, address.prefix)?;
            kernel.add_source_rule(address.ip, self.table)?;
        }
        self.add_routes(kernel)
    }

    /// All goes out here: which station is next, the card knows.
    fn add_routes(&self, kernel: &mut Kernel) -> transom_netstack::Result<()> {
        for address in &self.path.addresses {
            let any: IpAddr = if address.ip.is_ipv4() {
                std::net::Ipv4Addr::UNSPECIFIED.into()
            } else {
                std::net::Ipv6Addr::UNSPECIFIED.into()
            };
            let main = Route {
                destination: (any, 0),
                gateway: None,
                nic: self.nic,
                metric: Some(self.metric),
                table: None,
            };
            kernel.add_route(&main)?;
            kernel.add_route(&Route { table: Some(self.table), ..main })?;
        }
        Ok(())
    }

    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.path.addresses.iter().map(|address| address.ip)
    }

    /// The host says that it can carry something.
    pub fn is_up(&self) -> bool {
        self.up
    }

    /// MPTCP connections use it.
    pub fn add_endpoints(&self, kernel: &mut Kernel) -> transom_netstack::Result<()> {
        for address in self.addresses() {
            let flags = EndpointFlags { subflow: true, backup: self.backup, ..Default::default() };
            kernel.add_endpoint(self.nic, &Endpoint { address, id: 0, flags })?;
        }
        Ok(())
    }

    fn remove_endpoints(&self, kernel: &mut Kernel) -> transom_netstack::Result<()> {
        for endpoint in kernel.endpoints()? {
            if self.addresses().any(|own| own == endpoint.address) {
                kernel.remove_endpoint(&endpoint)?;
            }
        }
        Ok(())
    }

    /// What the host says of its interface.
    pub fn hear(&mut self, event: &Event, kernel: &mut Kernel, mptcp: bool) {
        let index = self.path.interface.index;
        match event {
            Event::Link { index: of, up, running, .. } if *of == index => {
                self.turn_to(*up && *running, kernel, mptcp);
            }
            Event::Gone { index: of } if *of == index => self.turn_to(false, kernel, mptcp),
            Event::Neighbour { index: of, ip, .. } if *of == index => {
                if let Some(hops) = &mut self.card.card().hops {
                    hops.forget(*ip);
                }
            }
            _ => {}
        }
    }

    fn turn_to(&mut self, up: bool, kernel: &mut Kernel, mptcp: bool) {
        if up == self.up {
            return;
        }
        self.up = up;
        let name = &self.path.interface.name;
        eprintln!("transom run: {name} is {}", if up { "up again" } else { "down" });
        let done = if up { self.come_back(kernel, mptcp) } else { self.go_away(kernel, mptcp) };
        if let Err(error) = done {
            eprintln!("transom run: {name}: {error}");
        }
    }

    fn go_away(&self, kernel: &mut Kernel, mptcp: bool) -> transom_netstack::Result<()> {
        if mptcp {
            self.remove_endpoints(kernel)?;
        }
        kernel.set_carrier(self.nic, false);
        Ok(())
    }

    fn come_back(&self, kernel: &mut Kernel, mptcp: bool) -> transom_netstack::Result<()> {
        kernel.set_carrier(self.nic, true);
        self.add_routes(kernel)?;
        if mptcp { self.add_endpoints(kernel) } else { Ok(()) }
    }
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
