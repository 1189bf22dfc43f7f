//! Which station on an Ethernet link a packet goes to. The host resolves addresses (ARP, neighbour
//! discovery), we look up: the library itself sees raw IP and asks nobody.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use anyhow::Result;
use transom_link::{ethernet, same_network};
use transom_nic::{Neighbour, Neighbours, Path};

use crate::unreachable::Why;

/// The host forgets what nobody asks for; asked so often, it keeps it fresh.
const ASK_AGAIN: Duration = Duration::from_secs(5);

/// Where a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hop {
    Station([u8; 6]),
    /// The host is asking this one; a later try may know.
    Asking(IpAddr),
    None(Why),
}

pub struct Hops {
    index: u32,
    /// Of the interface's own addresses.
    networks: Vec<(IpAddr, u8)>,
    /// Destinations of the host's routes over it that have no gateway.
    on_link: Vec<(IpAddr, u8)>,
    gateways: Vec<IpAddr>,
    host: Neighbours,
    known: HashMap<IpAddr, (Hop, Instant)>,
}

impl Hops {
    pub fn new(path: &Path) -> Result<Self> {
        let mut hops = Self {
            index: 0,
            networks: Vec::new(),
            on_link: Vec::new(),
            gateways: Vec::new(),
            host: Neighbours::open()?,
            known: HashMap::new(),
        };
        hops.follow(path);
        Ok(hops)
    }

    /// The path has other addresses or gateways now.
    pub fn follow(&mut self, path: &Path) {
        self.index = path.interface.index;
        self.gateways.clone_from(&path.gateways);
        let own = path.interface.addresses.iter().chain(&path.addresses);
        self.networks = own.map(|address| (address.ip, address.prefix)).collect();
        let has_gateway = |ip: &IpAddr| path.gateways.iter().any(|g| g.is_ipv4() == ip.is_ipv4());
        let routes = path.interface.on_link.iter();
        // What goes to all destinations goes to the gateway if there is one.
        let nearer = routes.filter(|(ip, prefix)| *prefix > 0 || !has_gateway(ip));
        self.on_link = nearer.copied().collect();
        self.known.clear();
    }

    /// The station that this packet of IPv4 or IPv6 goes to.
    pub fn of(&mut self, destination: IpAddr) -> Hop {
        if let Some(stations) = self.stations(destination) {
            return Hop::Station(stations);
        }
        match self.next(destination) {
            Some(next) => self.station(next),
            None => Hop::None(Why::NoRoute),
        }
    }

    /// Where it goes to more than one: nobody is asked.
    fn stations(&self, destination: IpAddr) -> Option<[u8; 6]> {
        let is_all_of = |&(own, prefix): &(IpAddr, u8)| is_broadcast(own, destination, prefix);
        let to_all = || self.networks.iter().any(is_all_of).then_some(ethernet::BROADCAST);
        ethernet::group(destination).or_else(to_all)
    }

    /// The station with this address on the link.
    fn station(&mut self, next: IpAddr) -> Hop {
        let now = Instant::now();
        if let Some((hop, asked)) = self.known.get(&next)
            && now.duration_since(*asked) < ASK_AGAIN
        {
            return *hop;
        }
        let hop = match self.host.look_up(self.index, next) {
            Ok(Neighbour::Known(mac)) => Hop::Station(mac),
            // One that did not answer before is asked again, as by Linux.
            Ok(Neighbour::Asked | Neighbour::Unreachable) => Hop::Asking(next),
            Err(_) => Hop::None(Why::NoAnswer),
        };
        self.known.insert(next, (hop, now));
        hop
    }

    /// The host has found out, or given up asking.
    pub fn decided(&mut self, next: IpAddr) -> Hop {
        self.known.remove(&next);
        match self.host.look_up(self.index, next) {
            Ok(Neighbour::Known(mac)) => Hop::Station(mac),
            Ok(Neighbour::Asked) => Hop::Asking(next),
            Ok(Neighbour::Unreachable) | Err(_) => Hop::None(Why::NoAnswer),
        }
    }

    /// What the host has told about one of them changes.
    pub fn forget(&mut self, ip: IpAddr) {
        self.known.remove(&ip);
    }

    fn next(&self, destination: IpAddr) -> Option<IpAddr> {
        let link_scope = matches!(destination, IpAddr::V6(ip) if ip.is_unicast_link_local());
        let mut networks = self.networks.iter().chain(&self.on_link);
        if link_scope || networks.any(|(own, prefix)| same_network(*own, destination, *prefix)) {
            return Some(destination);
        }
        self.gateways.iter().copied().find(|gateway| gateway.is_ipv4() == destination.is_ipv4())
    }
}

/// Whether this is the last address of our network, which means all of it (RFC 919, 7). A network of
/// two addresses has none (RFC 3021).
fn is_broadcast(own: IpAddr, ip: IpAddr, prefix: u8) -> bool {
    let IpAddr::V4(v4) = ip else { return false };
    let within = u32::MAX.checked_shr(prefix.into()).unwrap_or(0);
    prefix < 31 && v4.to_bits() & within == within && same_network(own, ip, prefix)
}

#[cfg(test)]
mod tests {
    use super::is_broadcast;

    #[test]
    fn the_last_address_of_a_network_is_all_of_it() {
        for (own, ip, prefix, all) in [
            ("192.0.2.1", "192.0.2.255", 24, true),
            ("192.0.2.1", "192.0.2.254", 24, false),
            ("192.0.2.1", "192.0.3.255", 24, false),
            ("192.0.2.1", "192.0.3.255", 23, true),
            ("192.0.2.1", "192.0.2.3", 30, true),
            ("192.0.2.0", "192.0.2.1", 31, false),
            ("192.0.2.1", "192.0.2.1", 32, false),
            ("2001:db8::1", "2001:db8::ffff:ffff:ffff:ffff", 64, false),
        ] {
            let of = |text: &str| text.parse().expect("an address");
            assert_eq!(is_broadcast(of(own), of(ip), prefix), all, "{ip} of {own}/{prefix}");
        }
    }
}
