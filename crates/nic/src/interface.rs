//! What the host knows of one of its interfaces.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use anyhow::{Context, Result, bail};
use rustix::io::Errno;

use crate::Kind;
use transom_link::netlink::{Address, Message, Netlink, Request, address, number};
use transom_link::{check_name, same_network};

/// Bytes of the fixed parts: struct ifinfomsg, rtmsg.
const IFINFOMSG: usize = 16;
const RTMSG: usize = 12;

/// linux/if_arp.h
const ARPHRD_ETHER: u16 = 1;
const ARPHRD_PPP: u16 = 512;
const ARPHRD_RAWIP: u16 = 519;
const ARPHRD_LOOPBACK: u16 = 772;
const ARPHRD_NONE: u16 = 0xfffe;

/// An interface as it was when it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    pub name: String,
    pub index: u32,
    /// ARPHRD_*
    hardware: u16,
    mac: Option<[u8; 6]>,
    /// Bytes of an IP packet.
    pub mtu: u32,
    /// The administrator has set it up.
    pub up: bool,
    /// It has carrier.
    pub running: bool,
    pub addresses: Vec<Address>,
    /// Of default routes, the preferred first.
    pub gateways: Vec<IpAddr>,
    /// What default routes over it give as the source, the preferred first. It may be an address of
    /// another interface.
    pub sources: Vec<Address>,
    /// Addresses of the host's other interfaces.
    pub(crate) elsewhere: Vec<Address>,
    /// What it reaches without a gateway: destinations of its routes.
    pub on_link: Vec<(IpAddr, u8)>,
}

impl Interface {
    /// In the network namespace of the calling thread. No privilege is needed.
    ///
    /// # Errors
    /// It does not exist; the error lists those that do.
    pub fn find(name: &str) -> Result<Interface> {
        check_name(name)?;
        let mut netlink = Netlink::open()?;
        let wanted = Request::new(libc::RTM_GETLINK, 0, &[0; IFINFOMSG]);
        let link = match netlink.request(wanted.text(libc::IFLA_IFNAME, name)) {
            Ok(Some(link)) => link,
            Ok(None) => bail!("the kernel says nothing of the interface {name}"),
            Err(Errno::NODEV) => {
                bail!("there is no interface {name}; there are: {}", names(&mut netlink)?)
            }
            Err(error) => return Err(error).with_context(|| format!("the interface {name}")),
        };
        whole(&mut netlink, &link)
    }

    /// As it is now, whatever its name.
    ///
    /// # Errors
    /// It is gone.
    pub fn again(&self) -> Result<Interface> {
        let mut netlink = Netlink::open()?;
        // struct ifinfomsg: family and type, index, flags, mask of flags
        let body = [0, self.index, 0, 0].map(u32::to_ne_bytes).concat();
        let link = netlink.request(Request::new(libc::RTM_GETLINK, 0, &body))?;
        whole(&mut netlink, &link.with_context(|| format!("the interface {}", self.name))?)
    }

    /// # Errors
    /// Neither Ethernet nor raw IP: named.
    pub fn kind(&self) -> Result<Kind> {
        let name = &self.name;
        match (self.hardware, self.mac) {
            (ARPHRD_ETHER, Some(mac)) => Ok(Kind::Ethernet { mac }),
            (ARPHRD_NONE | ARPHRD_RAWIP | ARPHRD_PPP, _) => Ok(Kind::RawIp),
            (ARPHRD_LOOPBACK, _) => {
                bail!("{name} is the loopback: leave programs that talk to this host on its stack")
            }
            (other, _) => bail!(
                "{name} is of hardware type {other}, neither Ethernet nor raw IP (see \
                 /sys/class/net/{name}/type)"
            ),
        }
    }

    /// Whether it needs no gateway to send to this address, or is one of the host's own gateways.
    pub(crate) fn reaches(&self, ip: IpAddr) -> bool {
        let has_link = matches!(self.kind(), Ok(Kind::Ethernet { .. }));
        let link_scope = matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local());
        let addresses = self.addresses.iter().map(|address| (address.ip, address.prefix));
        let mut networks = addresses.chain(self.on_link.iter().copied());
        !has_link
            || link_scope
            || self.gateways.contains(&ip)
            || networks.any(|(own, prefix)| same_network(own, ip, prefix))
    }

    pub(crate) fn is_ppp(&self) -> bool {
        self.hardware == ARPHRD_PPP
    }

    /// # Errors
    /// No CAP_NET_ADMIN, or it is gone.
    pub(crate) fn set_up(&self) -> Result<()> {
        let up = libc::IFF_UP as u32;
        // struct ifinfomsg: family and type, index, flags, mask of flags
        let body = [0, self.index, up, up].map(u32::to_ne_bytes).concat();
        Netlink::open()?
            .request(Request::new(libc::RTM_NEWLINK, 0, &body))
            .map(drop)
            .with_context(|| format!("setting {} up", self.name))
    }
}

/// The interface that a link message describes: an answer or a notification.
pub(crate) fn from_link(link: &Message) -> Interface {
    let flags = link.u32(8) as i32;
    let mut interface = Interface {
        name: String::new(),
        index: link.u32(4),
        hardware: link.u16(2),
        mac: None,
        mtu: 0,
        up: flags & libc::IFF_UP != 0,
        running: flags & libc::IFF_RUNNING != 0,
        addresses: Vec::new(),
        gateways: Vec::new(),
        sources: Vec::new(),
        elsewhere: Vec::new(),
        on_link: Vec::new(),
    };
    for (kind, value) in link.attributes(IFINFOMSG) {
        match kind {
            libc::IFLA_ADDRESS => interface.mac = value.try_into().ok(),
            libc::IFLA_IFNAME => {
                let name = value.strip_suffix(&[0]).unwrap_or(value);
                interface.name = String::from_utf8_lossy(name).into_owned();
            }
            libc::IFLA_MTU => interface.mtu = number(value),
            _ => {}
        }
    }
    interface
}

fn whole(netlink: &mut Netlink, link: &Message) -> Result<Interface> {
    let mut interface = from_link(link);
    for (of, address) in Address::all(netlink)? {
        match of == interface.index {
            true => interface.addresses.push(address),
            // Only the interface itself shares a network with an address.
            false => interface.elsewhere.push(address.alone()),
        }
    }
    let routes = routes(netlink, interface.index)?;
    interface.on_link = routes.iter().filter_map(Route::on_link).collect();
    let mut defaults: Vec<Route> = routes.into_iter().filter(|route| route.prefix == 0).collect();
    defaults.sort_by_key(|route| route.rank);
    interface.gateways = defaults.iter().filter_map(|route| route.gateway).collect();
    let all = || interface.addresses.iter().chain(&interface.elsewhere);
    let sources = defaults.iter().filter_map(|route| route.source);
    interface.sources = sources.filter_map(|ip| all().find(|a| a.ip == ip).copied()).collect();
    Ok(interface)
}

fn names(netlink: &mut Netlink) -> Result<String> {
    let links = netlink.dump(Request::new(libc::RTM_GETLINK, 0, &[0; IFINFOMSG]))?;
    let names: Vec<String> = links.iter().map(|link| from_link(link).name).collect();
    Ok(names.join(", "))
}

fn routes(netlink: &mut Netlink, index: u32) -> Result<Vec<Route>> {
    let mut found = Vec::new();
    for family in [libc::AF_INET, libc::AF_INET6] {
        let mut body = [0; RTMSG];
        body[0] = family as u8;
        // A kernel without IPv6 has no such table.
        let routes = netlink.dump(Request::new(libc::RTM_GETROUTE, 0, &body)).unwrap_or_default();
        found.extend(routes.iter().filter_map(Route::of).filter(|route| route.over == index));
    }
    Ok(found)
}

/// A way out for packets to some destinations.
pub(crate) struct Route {
    /// The interface.
    pub over: u32,
    destination: IpAddr,
    pub prefix: u8,
    gateway: Option<IpAddr>,
    /// Its gateway is of the other family (RFC 8950), which we do not use.
    has_other_gateway: bool,
    source: Option<IpAddr>,
    /// The least is preferred; other tables than `main` last.
    rank: (bool, u32),
}

impl Route {
    /// None: one that leads nowhere, or to this host.
    pub(crate) fn of(message: &Message) -> Option<Route> {
        let any: IpAddr = match i32::from(message.u8(0)) {
            libc::AF_INET => Ipv4Addr::UNSPECIFIED.into(),
            _ => Ipv6Addr::UNSPECIFIED.into(),
        };
        let mut table = u32::from(message.u8(4));
        let (mut over, mut metric, mut destination) = (0, 0, any);
        let (mut gateway, mut has_other_gateway, mut source) = (None, false, None);
        for (kind, value) in message.attributes(RTMSG) {
            match kind {
                libc::RTA_OIF => over = number(value),
                libc::RTA_DST => destination = address(value)?,
                libc::RTA_GATEWAY => gateway = address(value),
                libc::RTA_VIA => has_other_gateway = true,
                libc::RTA_PREFSRC => source = address(value),
                libc::RTA_PRIORITY => metric = number(value),
                libc::RTA_TABLE => table = number(value),
                _ => {}
            }
        }
        let rank = (table != u32::from(libc::RT_TABLE_MAIN), metric);
        let prefix = message.u8(1);
        let route = Route { over, destination, prefix, gateway, has_other_gateway, source, rank };
        (message.u8(7) == libc::RTN_UNICAST).then_some(route)
    }

    fn on_link(&self) -> Option<(IpAddr, u8)> {
        let is_direct = self.gateway.is_none() && !self.has_other_gateway;
        is_direct.then_some((self.destination, self.prefix))
    }
}
