//! Addresses of interfaces (rtnetlink(7)).

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

use anyhow::Result;

use super::{Message, Netlink, Request, address, number};

/// struct ifaddrmsg
const IFADDRMSG: usize = 8;
/// linux/if_addr.h
const IFA_FLAGS: u16 = 8;

/// An address of an interface, with its prefix length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    pub ip: IpAddr,
    pub prefix: u8,
    flags: u32,
    scope: u8,
}

impl Address {
    /// Those of all interfaces, each with the number of its interface.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn all(netlink: &mut Netlink) -> Result<Vec<(u32, Address)>> {
        let all = netlink.dump(Request::new(libc::RTM_GETADDR, 0, &[0; IFADDRMSG]))?;
        Ok(all.iter().filter_map(Address::of_message).collect())
    }

    /// The interface and address that an address message is about.
    pub fn of_message(message: &Message) -> Option<(u32, Address)> {
        let mut found = Address {
            ip: Ipv4Addr::UNSPECIFIED.into(),
            prefix: message.u8(1),
            flags: u32::from(message.u8(2)),
            scope: message.u8(3),
        };
        let (mut local, mut peer) = (None, None);
        for (kind, value) in message.attributes(IFADDRMSG) {
            match kind {
                libc::IFA_LOCAL => local = address(value),
                libc::IFA_ADDRESS => peer = address(value),
                IFA_FLAGS => found.flags = number(value),
                _ => {}
            }
        }
        // On a point-to-point interface IFA_ADDRESS is the other end.
        found.ip = local.or(peer)?;
        Some((message.u32(4), found))
    }

    /// Global, and neither being tested (RFC 4862), nor found to be double, nor deprecated.
    pub fn is_usable(&self) -> bool {
        self.scope == libc::RT_SCOPE_UNIVERSE && self.is_sound()
    }

    /// Of IPv6 and link scope (RFC 4291, section 2.5.6), and otherwise as [`Address::is_usable`] has it.
    pub fn is_usable_on_link(&self) -> bool {
        matches!(self.ip, IpAddr::V6(ip) if ip.is_unicast_link_local()) && self.is_sound()
    }

    /// The same, on a network of its own.
    #[must_use]
    pub fn alone(self) -> Address {
        Address { prefix: if self.ip.is_ipv4() { 32 } else { 128 }, ..self }
    }

    fn is_sound(&self) -> bool {
        let bad = libc::IFA_F_TENTATIVE | libc::IFA_F_DADFAILED | libc::IFA_F_DEPRECATED;
        // A tentative address may be used at once if it is optimistic (RFC 4429).
        let bad = if self.flags & libc::IFA_F_OPTIMISTIC != 0 {
            bad & !libc::IFA_F_TENTATIVE
        } else {
            bad
        };
        self.flags & bad == 0
    }

    /// Will change by itself (RFC 8981).
    pub fn is_temporary(&self) -> bool {
        self.ip.is_ipv6() && self.flags & libc::IFA_F_TEMPORARY != 0
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.ip, self.prefix)
    }
}
