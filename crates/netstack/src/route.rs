//! Interfaces up and down, addresses, routes: rtnetlink.

use std::net::IpAddr;

use transom_link::netlink::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_REPLACE, Request, address_bytes, family,
};

use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::nic::NicId;

const NETLINK_ROUTE: i32 = libc::NETLINK_ROUTE;

// linux/if_addr.h, linux/fib_rules.h
const IFA_FLAGS: u16 = 8;
const FRA_SRC: u16 = 2;
const FRA_TABLE: u16 = 15;
const FR_ACT_TO_TBL: u8 = 1;

// linux/rtnetlink.h
const RTA_METRICS: u16 = 8;
const RTAX_LOCK: u16 = 1;
const RTAX_INITCWND: u16 = 11;
const RTAX_RTO_MIN: u16 = 13;
const RTAX_INITRWND: u16 = 14;
const RTAX_QUICKACK: u16 = 15;
const RTAX_CC_ALGO: u16 = 16;
// linux/neighbour.h
const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;
const NUD_PERMANENT: u16 = 0x80;

/// A route, or one that is to go.
#[derive(Clone, Copy, Debug)]
pub struct Route {
    /// Where to, and how many bits of it count; 0 bits: the default route.
    pub destination: (IpAddr, u8),
    pub gateway: Option<IpAddr>,
    pub nic: NicId,
    /// Of several for one destination the smallest is taken.
    pub metric: Option<u32>,
    /// `None`: the main table; others are for [`Kernel::add_source_rule`].
    pub table: Option<u32>,
}

/// Metrics of a route (`ip route`): what its connections begin with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// Segments.
    pub initcwnd: Option<u32>,
    pub initrwnd: Option<u32>,
    /// Locked, ms.
    pub rto_min_ms: Option<u32>,
    /// The algorithm.
    pub congctl: Option<String>,
    pub quickack: bool,
}

impl Metrics {
    /// The nested `RTAX_*` attributes; empty: none.
    fn attributes(&self) -> Vec<u8> {
        let lock = u32::from(self.rto_min_ms.is_some()) << RTAX_RTO_MIN;
        let numbers = [
            (RTAX_LOCK, (lock != 0).then_some(lock)),
            (RTAX_INITCWND, self.initcwnd),
            (RTAX_RTO_MIN, self.rto_min_ms),
            (RTAX_INITRWND, self.initrwnd),
            (RTAX_QUICKACK, self.quickack.then_some(1)),
        ];
        let mut all = Vec::new();
        for (kind, value) in numbers {
            if let Some(value) = value {
                put(&mut all, kind, &value.to_ne_bytes());
            }
        }
        if let Some(name) = &self.congctl {
            put(&mut all, RTAX_CC_ALGO, &[name.as_bytes(), &[0]].concat());
        }
        all
    }
}

/// An attribute of netlink: its length, kind and value, filled up to 4 bytes.
fn put(to: &mut Vec<u8>, kind: u16, value: &[u8]) {
    to.extend_from_slice(&(value.len() as u16 + 4).to_ne_bytes());
    to.extend_from_slice(&kind.to_ne_bytes());
    to.extend_from_slice(value);
    to.resize(to.len().next_multiple_of(4), 0);
}

/// `struct ifinfomsg`, with a change of `IFF_UP` only.
fn link_body(index: u32, flags: u32, change: u32) -> [u8; 16] {
    let mut body = [0; 16];
    body[4..8].copy_from_slice(&index.to_ne_bytes());
    body[8..12].copy_from_slice(&flags.to_ne_bytes());
    body[12..16].copy_from_slice(&change.to_ne_bytes());
    body
}

impl Kernel {
    /// The kernel's number of an interface: the zone of its addresses of link scope (RFC 4007).
    ///
    /// # Errors
    /// `ENODEV`: it was removed.
    pub fn index_of(&self, nic: NicId) -> Result<u32> {
        self.nic_index(nic).ok_or(Error::new(libc::ENODEV, "interface"))
    }

    fn set_link(&mut self, index: u32, up: bool) -> Result<()> {
        let iff_up = libc::IFF_UP as u32;
        let body = link_body(index, if up { iff_up } else { 0 }, iff_up);
        let request = Request::new(libc::RTM_NEWLINK, NLM_F_ACK, &body);
        self.ask(NETLINK_ROUTE, request, "setting an interface up or down").map(drop)
    }

    /// `ip link set … up`.
    ///
    /// # Errors
    /// `ENODEV`: it was removed.
    pub fn set_up(&mut self, nic: NicId, up: bool) -> Result<()> {
        let index = self.index_of(nic)?;
        self.set_link(index, up)
    }

    /// The loopback interface, with 127.0.0.1 and ::1; down after boot.
    pub fn set_loopback_up(&mut self) -> Result<()> {
        self.set_link(1, true)
    }

    /// `ip link set … multicast off`: the interface sends no packets of its own.
    ///
    /// # Errors
    /// `ENODEV`: it was removed.
    pub fn set_multicast(&mut self, nic: NicId, on: bool) -> Result<()> {
        let flag = libc::IFF_MULTICAST as u32;
        let body = link_body(self.index_of(nic)?, if on { flag } else { 0 }, flag);
        let request = Request::new(libc::RTM_NEWLINK, NLM_F_ACK, &body);
        self.ask(NETLINK_ROUTE, request, "setting an interface's multicast").map(drop)
    }

    /// Bytes of an IP packet.
    ///
    /// # Errors
    /// `EINVAL`: below 68 or above 65535.
    pub fn set_mtu(&mut self, nic: NicId, mtu: u32) -> Result<()> {
        let body = link_body(self.index_of(nic)?, 0, 0);
        let request = Request::new(libc::RTM_NEWLINK, NLM_F_ACK, &body)
            .attribute(libc::IFLA_MTU, &mtu.to_ne_bytes());
        self.ask(NETLINK_ROUTE, request, "setting an MTU").map(drop)
    }

    /// `ip addr add`. IPv6 addresses are used at once, without duplicate address detection (RFC
    /// 4862): that is left to the caller.
    ///
    /// # Errors
    /// `EEXIST`, `ENODEV`, `EINVAL`: more bits than the address has.
    pub fn add_address(&mut self, nic: NicId, address: IpAddr, prefix: u8) -> Result<()> {
        let request = self.address_request(libc::RTM_NEWADDR, nic, address, prefix)?;
        self.ask(NETLINK_ROUTE, request, "adding an address").map(drop)
    }

    /// # Errors
    /// `EADDRNOTAVAIL`: it has not this address.
    pub fn remove_address(&mut self, nic: NicId, address: IpAddr, prefix: u8) -> Result<()> {
        let request = self.address_request(libc::RTM_DELADDR, nic, address, prefix)?;
        self.ask(NETLINK_ROUTE, request, "removing an address").map(drop)
    }

    fn address_request(
        &self,
        kind: u16,
        nic: NicId,
        address: IpAddr,
        prefix: u8,
    ) -> Result<Request> {
        // struct ifaddrmsg
        let mut body = [0; 8];
        body[0] = family(address);
        body[1] = prefix;
        body[4..8].copy_from_slice(&self.index_of(nic)?.to_ne_bytes());
        let flags = if kind == libc::RTM_NEWADDR { NLM_F_ACK | NLM_F_CREATE } else { NLM_F_ACK };
        let request = Request::new(kind, flags, &body)
            .attribute(libc::IFA_LOCAL, &address_bytes(address))
            .attribute(libc::IFA_ADDRESS, &address_bytes(address));
        Ok(match address {
            IpAddr::V4(_) => request,
            IpAddr::V6(_) => request.attribute(IFA_FLAGS, &libc::IFA_F_NODAD.to_ne_bytes()),
        })
    }

    /// `ip route replace`.
    ///
    /// # Errors
    /// `ENETUNREACH`: the gateway is on no interface; `ENETDOWN`, `EINVAL`.
    pub fn add_route(&mut self, route: &Route) -> Result<()> {
        let flags = NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE;
        let request = self.route_request(libc::RTM_NEWROUTE, flags, route)?;
        self.ask(NETLINK_ROUTE, request, "adding a route").map(drop)
    }

    /// The same with metrics.
    ///
    /// # Errors
    /// As [`Kernel::add_route`]; `EINVAL`: no such algorithm.
    pub fn add_route_with(&mut self, route: &Route, metrics: &Metrics) -> Result<()> {
        let flags = NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE;
        let mut request = self.route_request(libc::RTM_NEWROUTE, flags, route)?;
        let attributes = metrics.attributes();
        if !attributes.is_empty() {
            request = request.attribute(RTA_METRICS, &attributes);
        }
        self.ask(NETLINK_ROUTE, request, "adding a route").map(drop)
    }

    /// `ip neigh replace … nud permanent`: nobody has to ask for this address.
    ///
    /// # Errors
    /// `ENODEV`: the interface was removed; `EINVAL`: it has no link addresses.
    pub fn add_neighbour(&mut self, nic: NicId, address: IpAddr, mac: [u8; 6]) -> Result<()> {
        // struct ndmsg
        let mut body = [0; 12];
        body[0] = family(address);
        body[4..8].copy_from_slice(&self.index_of(nic)?.to_ne_bytes());
        body[8..10].copy_from_slice(&NUD_PERMANENT.to_ne_bytes());
        let flags = NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE;
        let request = Request::new(libc::RTM_NEWNEIGH, flags, &body)
            .attribute(NDA_DST, &address_bytes(address))
            .attribute(NDA_LLADDR, &mac);
        self.ask(NETLINK_ROUTE, request, "adding a neighbour").map(drop)
    }

    /// # Errors
    /// `ESRCH`: there is none.
    pub fn remove_route(&mut self, route: &Route) -> Result<()> {
        let request = self.route_request(libc::RTM_DELROUTE, NLM_F_ACK, route)?;
        self.ask(NETLINK_ROUTE, request, "removing a route").map(drop)
    }

    fn route_request(&self, kind: u16, flags: u16, route: &Route) -> Result<Request> {
        let (destination, prefix) = route.destination;
        let v4 = destination.is_ipv4();
        // struct rtmsg
        let mut body = [0; 12];
        body[0] = family(destination);
        body[1] = prefix;
        body[4] = libc::RT_TABLE_MAIN;
        body[5] = libc::RTPROT_STATIC;
        body[6] = if v4 && route.gateway.is_none() {
            libc::RT_SCOPE_LINK
        } else {
            libc::RT_SCOPE_UNIVERSE
        };
        body[7] = libc::RTN_UNICAST;
        let index = self.index_of(route.nic)?;
        let mut request =
            Request::new(kind, flags, &body).attribute(libc::RTA_OIF, &index.to_ne_bytes());
        if prefix > 0 {
            request = request.attribute(libc::RTA_DST, &address_bytes(destination));
        }
        if let Some(gateway) = route.gateway {
            request = request.attribute(libc::RTA_GATEWAY, &address_bytes(gateway));
        }
        if let Some(metric) = route.metric {
            request = request.attribute(libc::RTA_PRIORITY, &metric.to_ne_bytes());
        }
        if let Some(table) = route.table {
            request = request.attribute(libc::RTA_TABLE, &table.to_ne_bytes());
        }
        Ok(request)
    }

    /// Packets from this address look into this table: `ip rule add from … lookup …`. So each path
    /// of a multipath connection leaves through its own interface.
    ///
    /// # Errors
    /// `EEXIST`.
    pub fn add_source_rule(&mut self, source: IpAddr, table: u32) -> Result<()> {
        let request = rule_request(libc::RTM_NEWRULE, NLM_F_ACK | NLM_F_CREATE, source, table);
        self.ask(NETLINK_ROUTE, request, "adding a rule").map(drop)
    }

    /// # Errors
    /// `ENOENT`: there is none.
    pub fn remove_source_rule(&mut self, source: IpAddr, table: u32) -> Result<()> {
        let request = rule_request(libc::RTM_DELRULE, NLM_F_ACK, source, table);
        self.ask(NETLINK_ROUTE, request, "removing a rule").map(drop)
    }
}

fn rule_request(kind: u16, flags: u16, source: IpAddr, table: u32) -> Request {
    // struct fib_rule_hdr
    let mut body = [0; 12];
    body[0] = family(source);
    body[2] = if source.is_ipv4() { 32 } else { 128 };
    body[7] = FR_ACT_TO_TBL;
    Request::new(kind, flags, &body)
        .attribute(FRA_SRC, &address_bytes(source))
        .attribute(FRA_TABLE, &table.to_ne_bytes())
}
