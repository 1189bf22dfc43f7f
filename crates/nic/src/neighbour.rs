//! Looks up the host's neighbour table (ARP, RFC 826; neighbour discovery, RFC 4861). The host
//! resolves.

use std::net::IpAddr;

use anyhow::Result;
use rustix::io::Errno;

use transom_link::netlink::{
    Message, NLM_F_CREATE, Netlink, Request, address, address_bytes, family,
};

/// Bytes of struct ndmsg.
const NDMSG: usize = 12;

/// What the host knows of an address on an interface's link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Neighbour {
    /// Its MAC address.
    Known([u8; 6]),
    /// The host is resolving it; [`InterfaceEvents`](crate::InterfaceEvents) reports the result.
    Asked,
    /// The host got no answer (EHOSTUNREACH), and has been made to resolve it again.
    Unreachable,
}

/// Asks the host.
#[derive(Debug)]
pub struct Neighbours {
    netlink: Netlink,
}

impl Neighbours {
    /// # Errors
    /// No descriptors left.
    pub fn open() -> Result<Neighbours> {
        Ok(Neighbours { netlink: Netlink::open()? })
    }

    /// Where `ip` is on the link of interface `index`. What the host does not know, or has not
    /// confirmed for a while (STALE), it is made to resolve, as if it had a packet to send there.
    ///
    /// # Errors
    /// No CAP_NET_ADMIN, or the interface is gone (ENODEV).
    pub fn look_up(&mut self, index: u32, ip: IpAddr) -> Result<Neighbour, Errno> {
        let question = request(libc::RTM_GETNEIGH, 0, index, ip, 0);
        let (state, mac) = match self.netlink.request(question) {
            Ok(Some(answer)) => (answer.u16(8), mac(&answer)),
            Ok(None) | Err(Errno::NOENT) => (libc::NUD_NONE, None),
            Err(error) => return Err(error),
        };
        let sure = libc::NUD_REACHABLE | libc::NUD_PERMANENT | libc::NUD_NOARP;
        let asking = libc::NUD_INCOMPLETE | libc::NUD_DELAY | libc::NUD_PROBE;
        if state & (sure | asking) == 0 {
            self.kick(index, ip)?;
        }
        let failed = state & libc::NUD_FAILED != 0;
        Ok(match mac.filter(|_| !failed && state & libc::NUD_INCOMPLETE == 0) {
            Some(mac) => Neighbour::Known(mac),
            None if failed => Neighbour::Unreachable,
            None => Neighbour::Asked,
        })
    }

    fn kick(&mut self, index: u32, ip: IpAddr) -> Result<(), Errno> {
        let kick = request(libc::RTM_NEWNEIGH, NLM_F_CREATE, index, ip, libc::NTF_USE);
        self.netlink.request(kick).map(drop)
    }
}

fn request(kind: u16, flags: u16, index: u32, ip: IpAddr, entry_flags: u8) -> Request {
    let mut body = vec![family(ip), 0, 0, 0];
    body.extend(index.to_ne_bytes());
    body.extend([0, 0, entry_flags, 0]);
    Request::new(kind, flags, &body).attribute(libc::NDA_DST, &address_bytes(ip))
}

fn mac(message: &Message) -> Option<[u8; 6]> {
    let mut found = message.attributes(NDMSG).filter(|&(kind, _)| kind == libc::NDA_LLADDR);
    found.next()?.1.try_into().ok()
}

/// The interface, address and MAC address (if it is known) that a neighbour message is about.
pub(crate) fn from_neighbour(message: &Message) -> Option<(u32, IpAddr, Option<[u8; 6]>)> {
    let (_, ip) = message.attributes(NDMSG).find(|&(kind, _)| kind == libc::NDA_DST)?;
    let unknown = libc::NUD_INCOMPLETE | libc::NUD_FAILED;
    let known = message.u16(8) & unknown == 0;
    Some((message.u32(4), address(ip)?, mac(message).filter(|_| known)))
}
