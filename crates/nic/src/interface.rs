//! What the host knows of one of its interfaces.

use std::net::IpAddr;

use anyhow::{Context, Result, bail};
use rustix::io::Errno;

use crate::Kind;
use transom_link::check_name;
use transom_link::netlink::{Address, Message, Netlink, Request, address, number};

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
    interface.addresses = addresses(netlink, interface.index)?;
    interface.gateways = gateways(netlink, interface.index)?;
    Ok(interface)
}

fn names(netlink: &mut Netlink) -> Result<String> {
    let links = netlink.dump(Request::new(libc::RTM_GETLINK, 0, &[0; IFINFOMSG]))?;
    let names: Vec<String> = links.iter().map(|link| from_link(link).name).collect();
    Ok(names.join(", "))
}

fn addresses(netlink: &mut Netlink, index: u32) -> Result<Vec<Address>> {
    let of_this = Address::all(netlink)?.into_iter().filter(|&(of, _)| of == index);
    Ok(of_this.map(|(_, address)| address).collect())
}

fn gateways(netlink: &mut Netlink, index: u32) -> Result<Vec<IpAddr>> {
    let mut found = Vec::new();
    for family in [libc::AF_INET, libc::AF_INET6] {
        let mut body = [0; RTMSG];
        body[0] = family as u8;
        // A kernel without IPv6 has no such table.
        let routes = netlink.dump(Request::new(libc::RTM_GETROUTE, 0, &body)).unwrap_or_default();
        let over_it = routes.iter().filter_map(default_route).filter(|&(over, ..)| over == index);
        found.extend(over_it.filter_map(|(_, rank, gateway)| Some((rank, gateway?))));
    }
    found.sort_by_key(|&(rank, _)| rank);
    Ok(found.into_iter().map(|(_, gateway)| gateway).collect())
}

/// A default route: its interface, rank (other tables than `main` last) and gateway.
pub(crate) fn default_route(route: &Message) -> Option<(u32, (bool, u32), Option<IpAddr>)> {
    let (to_all, unicast) = (route.u8(1) == 0, route.u8(7) == libc::RTN_UNICAST);
    let mut table = u32::from(route.u8(4));
    let (mut over, mut metric, mut gateway) = (0, 0, None);
    for (kind, value) in route.attributes(RTMSG) {
        match kind {
            libc::RTA_OIF => over = number(value),
            libc::RTA_GATEWAY => gateway = address(value),
            libc::RTA_PRIORITY => metric = number(value),
            libc::RTA_TABLE => table = number(value),
            _ => {}
        }
    }
    let rank = (table != u32::from(libc::RT_TABLE_MAIN), metric);
    (to_all && unicast).then_some((over, rank, gateway))
}
