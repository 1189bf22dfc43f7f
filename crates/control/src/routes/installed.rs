//! Routes of ours that are there, in whichever network namespace.

use std::fmt;

use anyhow::Result;
use transom_link::netlink::{Netlink, Request};
use transom_machine::namespace;

use super::{OF_APPLY, OF_SET, OURS, V4, V6, gateway, ip, json, text};
use crate::scope::Scope;

/// A route of ours that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installed {
    pub is_ipv6: bool,
    pub destination: String,
    pub interface: String,
    pub gateway: Option<String>,
    pub algorithm: Option<String>,
    pub initial_window: Option<u64>,
    /// Made by `apply`: it ends with that process, or was left by one that was killed.
    pub is_of_apply: bool,
}

impl fmt::Display for Installed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.destination)?;
        if let Some(gateway) = &self.gateway {
            write!(f, " via {gateway}")?;
        }
        write!(
            f,
            " dev {} proto {}",
            self.interface,
            if self.is_of_apply { OF_APPLY } else { OF_SET }
        )?;
        if let Some(name) = &self.algorithm {
            write!(f, " congctl {name}")?;
        }
        match self.initial_window {
            Some(window) => write!(f, " initcwnd {window}"),
            None => Ok(()),
        }
    }
}

/// Our routes of one namespace: this process's own, if none is named.
///
/// # Errors
/// When `ip` fails.
pub fn installed(scope: &Scope) -> Result<Vec<Installed>> {
    routes_of(&OURS, &scope.netns)
}

fn routes_of(protocols: &[u8], netns: &Option<String>) -> Result<Vec<Installed>> {
    let mut found = Vec::new();
    for family in [V4, V6] {
        for &protocol in protocols {
            let words = ["-j", family, "route", "show", "proto", &protocol.to_string()];
            let routes = json(&ip(&words, netns)?)?;
            found.extend(routes.iter().map(|route| Installed {
                is_ipv6: family == V6,
                destination: text(route, "dst"),
                interface: text(route, "dev"),
                gateway: gateway(route),
                algorithm: route["metrics"][0]["congestion"].as_str().map(str::to_owned),
                initial_window: route["metrics"][0]["initcwnd"].as_u64(),
                is_of_apply: protocol == OF_APPLY,
            }));
        }
    }
    Ok(found)
}

/// Where a scope of all namespaces has routes of ours beside those of this process's own.
pub fn elsewhere(scope: &Scope) -> Vec<Scope> {
    others(scope).filter(|other| are_there(&OURS, other)).collect()
}

/// The namespaces that a scope of all reaches beside this process's own, in the order of their names.
pub(super) fn others(scope: &Scope) -> impl Iterator<Item = Scope> {
    let own = namespace::own().unwrap_or(0);
    let mut all = if scope.is_all() { Scope::each_namespace() } else { Vec::new() };
    all.sort_by(|a, b| a.netns.cmp(&b.netns));
    all.into_iter().filter(move |one| one.inode != own)
}

/// Whether there are routes of these protocols, asked of the kernel itself: `ip` would be run for
/// each namespace, family and protocol. Of what goes meanwhile, or must not be asked, there are none.
pub(super) fn are_there(protocols: &[u8], scope: &Scope) -> bool {
    let found = match &scope.netns {
        None => asked(protocols),
        Some(name) => {
            namespace::path(name).and_then(|path| namespace::inside(&path, || asked(protocols))?)
        }
    };
    found.unwrap_or(false)
}

fn asked(protocols: &[u8]) -> Result<bool> {
    // `struct rtmsg` of linux/rtnetlink.h, and its `rtm_protocol`.
    const RTMSG: usize = 12;
    const PROTOCOL: usize = 5;
    let mut netlink = Netlink::open_strict()?;
    for (family, &protocol) in [libc::AF_INET, libc::AF_INET6]
        .into_iter()
        .flat_map(|family| protocols.iter().map(move |protocol| (family, protocol)))
    {
        let mut body = [0; RTMSG];
        body[0] = family as u8;
        body[PROTOCOL] = protocol;
        // A kernel without IPv6 has no such table; one before 4.20 tells all routes.
        let all = netlink.dump(Request::new(libc::RTM_GETROUTE, 0, &body)).unwrap_or_default();
        if all.iter().any(|route| route.u8(PROTOCOL) == protocol) {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_are_found_by_their_protocol() {
        // Loopback's own, which the kernel made.
        const RTPROT_KERNEL: u8 = 2;
        const NOBODYS: u8 = 118;
        let here = Scope::default();
        assert!(are_there(&[NOBODYS, RTPROT_KERNEL], &here));
        assert!(!are_there(&[NOBODYS], &here));
    }
}
