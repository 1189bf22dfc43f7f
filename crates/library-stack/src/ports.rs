//! Which ports are ours: a range for connections that go out, and those that servers listen on.
//!
//! A server's port is held until the end, for its connections outlive its listener.

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;

use anyhow::Result;
use transom_nic::{HeldPort, Ports, Transport};
use transom_supervisor::Errno;

use crate::card::Shared;

/// As many connections to one server as may be open or in TIME-WAIT at once.
const OUTGOING: u16 = 2048;

pub struct OurPorts {
    outgoing: Ports,
    servers: HashSet<(Transport, u16)>,
    held: Vec<((Transport, u16), HeldPort)>,
}

impl OurPorts {
    pub fn claim() -> Result<Self> {
        let outgoing = Ports::claim(OUTGOING)?;
        Ok(Self { outgoing, servers: HashSet::new(), held: Vec::new() })
    }

    /// For `net.ipv4.ip_local_port_range`.
    pub fn range(&self) -> String {
        let range = self.outgoing.range();
        format!("{} {}", range.start(), range.end())
    }

    /// All that the host is to be kept away from.
    pub fn all(&self) -> impl Iterator<Item = (Transport, RangeInclusive<u16>)> {
        let servers = self.servers.iter().map(|&(transport, port)| (transport, port..=port));
        self.outgoing.of_both().into_iter().chain(servers)
    }

    /// A program binds to a port: it must be free on the host, and from now on it is ours. Whether it
    /// has only now become ours.
    pub fn serve(
        &mut self,
        transport: Transport,
        at: SocketAddr,
        own: &[IpAddr],
        cards: &[Shared],
    ) -> Result<bool, Errno> {
        // An IPv6 socket may be bound to an IPv4 address (RFC 4291, section 2.5.5.2).
        let (ip, port) = (at.ip().to_canonical(), at.port());
        let key = (transport, port);
        let ours = ip.is_unspecified() || own.contains(&ip);
        if port == 0
            || !ours
            || self.outgoing.range().contains(&port)
            || self.servers.contains(&key)
        {
            return Ok(false);
        }
        // As an IPv4 one, for the host may have IPv6 sockets that take no others (`bindv6only`).
        let at = if ip == at.ip() { at } else { SocketAddr::new(ip, port) };
        let held = HeldPort::hold(at, transport).map_err(|e| Errno(e.raw_os_error()))?;
        for card in cards {
            let added = card.card().nic.divert_mut().add_ports(transport, port..=port);
            added.map_err(|_| Errno(libc::ENOMEM))?;
        }
        self.held.push((key, held));
        self.servers.insert(key);
        Ok(true)
    }

    /// The program has not bound to it after all.
    pub fn give_back(&mut self, transport: Transport, port: u16, cards: &[Shared]) {
        for card in cards {
            let removed = card.card().nic.divert_mut().remove_ports(transport, port..=port);
            // One that stays ours keeps the host from its packets: so the port stays ours as well.
            if removed.is_err() {
                return;
            }
        }
        self.held.retain(|(key, _)| *key != (transport, port));
        self.servers.remove(&(transport, port));
    }
}
