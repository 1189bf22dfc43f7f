//! What processes on one host must not use twice: ports, and places for filters.
//!
//! A claim is a socket with an abstract name: it belongs to the network namespace, and is gone with
//! the process, however that ends.

use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::os::fd::OwnedFd;

use anyhow::{Context, Result, bail};
use rustix::io::Errno;
use rustix::net::sockopt::{set_ipv6_v6only, set_socket_reuseaddr};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, socket_with};

use crate::divert::Transport;
use crate::ports::{self, BLOCK, LEAST};

/// Held until it is dropped.
#[derive(Debug)]
pub(crate) struct Lock(#[allow(dead_code)] OwnedFd);

impl Lock {
    /// None: another process, or another part of this one, has it.
    pub(crate) fn take(name: &str) -> Result<Option<Lock>> {
        let way = SocketType::DGRAM;
        let socket = socket_with(AddressFamily::UNIX, way, SocketFlags::CLOEXEC, None)
            .context("making a socket")?;
        let address = SocketAddrUnix::new_abstract_name(format!("transom/{name}").as_bytes())?;
        match bind(&socket, &address) {
            Ok(()) => Ok(Some(Lock(socket))),
            Err(Errno::ADDRINUSE) => Ok(None),
            Err(error) => Err(error).with_context(|| format!("claiming {name}")),
        }
    }
}

/// A range of local ports that neither the host nor another process of Transom uses: for
/// `net.ipv4.ip_local_port_range` of the stack.
#[derive(Debug)]
pub struct Ports {
    range: RangeInclusive<u16>,
    _locks: Vec<Lock>,
    /// Of those that the host would pick.
    _bound: Vec<OwnedFd>,
}

impl Ports {
    /// `count` ports, rounded up to a multiple of 256, none of them in use. Outside the host's own
    /// `ip_local_port_range`, so that the host never picks one: above it or below it, at random, for
    /// a server may still have connections of the last run in TIME-WAIT. Where the host's range
    /// leaves no room, they are bound on the host as long as they are ours. Nothing of the host is
    /// changed.
    ///
    /// # Errors
    /// No room: others use them; too few descriptors to bind them.
    pub fn claim(count: u16) -> Result<Ports> {
        let host = ports::host_range()?;
        let blocks = count.div_ceil(BLOCK).max(1);
        if let Some(free) = free_of(&ports::candidates(&host, blocks), blocks, |_| Ok(Vec::new()))?
        {
            return Ok(free);
        }
        let bound = free_of(&ports::everywhere(blocks), blocks, bind_all)?;
        bound.with_context(|| {
            format!("no {count} free ports in a row: end other runs, or programs with many sockets")
        })
    }

    /// Exactly these ports. Those in the host's own range must be in
    /// `net.ipv4.ip_local_reserved_ports`, so that the host does not pick them.
    ///
    /// # Errors
    /// An empty range, ports below 1024; one of them in use by the host, or by another process of
    /// Transom (in blocks of 256), or not reserved.
    pub fn claim_range(range: RangeInclusive<u16>) -> Result<Ports> {
        let (first, last) = (*range.start(), *range.end());
        if first > last || first < LEAST {
            bail!("ports {first}-{last}: give a range from {LEAST} to 65535");
        }
        if let Some(port) = ports::used().range(first..=last).next() {
            bail!("port {port} of {first}-{last} is in use on this host (see `ss -an`)");
        }
        let host = ports::host_range()?;
        let reserved = ports::reserved()?;
        let open = |port: &u16| host.contains(port) && !reserved.contains(port);
        if let Some(port) = range.clone().find(open) {
            bail!(
                "the host may pick port {port} of {first}-{last} itself: choose ports outside \
                 {}-{}, or add them to net.ipv4.ip_local_reserved_ports",
                host.start(),
                host.end()
            );
        }
        match lock(first / BLOCK * BLOCK, last)? {
            Some(locks) => Ok(Ports { range, _locks: locks, _bound: Vec::new() }),
            None => bail!("another transom uses some of the ports {first}-{last}"),
        }
    }

    pub fn range(&self) -> RangeInclusive<u16> {
        self.range.clone()
    }

    /// For TCP and UDP, as [`PacketNic::on_path`](crate::PacketNic::on_path) takes them.
    pub fn of_both(&self) -> [(Transport, RangeInclusive<u16>); 2] {
        [Transport::Tcp, Transport::Udp].map(|transport| (transport, self.range()))
    }
}

/// The first of these places, in a random order, that is free, and that `hold` can have.
fn free_of(
    places: &[u16],
    blocks: u16,
    hold: impl Fn(RangeInclusive<u16>) -> Result<Vec<OwnedFd>, Errno>,
) -> Result<Option<Ports>> {
    // The administrator has reserved these for another program.
    let mut busy = ports::reserved()?;
    busy.extend(ports::used());
    for first in shuffled(places, blocks) {
        let last = first + (blocks * BLOCK - 1);
        if busy.range(first..=last).next().is_some() {
            continue;
        }
        let Some(locks) = lock(first, last)? else { continue };
        match hold(first..=last) {
            Ok(bound) => {
                return Ok(Some(Ports { range: first..=last, _locks: locks, _bound: bound }));
            }
            // Somebody has just come.
            Err(Errno::ADDRINUSE) => {}
            Err(error) => {
                return Err(error).context(
                    "keeping ports from the host, whose net.ipv4.ip_local_port_range leaves none: \
                     raise the limit of open files (ulimit -n), or narrow that range",
                );
            }
        }
    }
    Ok(None)
}

/// The host picks no port that somebody has bound, of either family.
fn bind_all(range: RangeInclusive<u16>) -> Result<Vec<OwnedFd>, Errno> {
    let ways = [SocketType::STREAM, SocketType::DGRAM];
    let all = range.flat_map(|port| ways.map(|way| (port, way)));
    all.map(|(port, way)| {
        match socket_with(AddressFamily::INET6, way, SocketFlags::CLOEXEC, None) {
            Ok(socket) => {
                set_ipv6_v6only(&socket, false)?;
                bind(&socket, &SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)))?;
                Ok(socket)
            }
            Err(Errno::AFNOSUPPORT) => {
                let socket = socket_with(AddressFamily::INET, way, SocketFlags::CLOEXEC, None)?;
                bind(&socket, &SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)))?;
                Ok(socket)
            }
            Err(error) => Err(error),
        }
    })
    .collect()
}

/// First those that leave no gaps between them, beginning anywhere, then all.
fn shuffled(places: &[u16], blocks: u16) -> Vec<u16> {
    let mut apart: Vec<u16> = places.iter().copied().step_by(usize::from(blocks)).collect();
    if !apart.is_empty() {
        // The standard library's only source of randomness.
        let chance = RandomState::new().hash_one(std::process::id());
        let middle = chance as usize % apart.len();
        apart.rotate_left(middle);
    }
    apart.extend(places);
    apart
}

/// All blocks from `first` to the one of `last`, or none.
fn lock(first: u16, last: u16) -> Result<Option<Vec<Lock>>> {
    (first..=last)
        .step_by(usize::from(BLOCK))
        .map(|block| Lock::take(&format!("ports/{block}")))
        .collect()
}

/// One port of the host that a server on the stack listens on: bound on the host, so that no
/// other program gets it. Close it after the [`Divert`](crate::Divert) no longer has the port.
#[derive(Debug)]
pub struct HeldPort {
    _socket: OwnedFd,
    port: u16,
}

impl HeldPort {
    /// # Errors
    /// As `bind` on the host would fail: EADDRINUSE, EADDRNOTAVAIL, EACCES. Connections in TIME-WAIT
    /// have done with the port.
    pub fn hold(at: SocketAddr, transport: Transport) -> Result<HeldPort, Errno> {
        let family = match at {
            SocketAddr::V4(_) => AddressFamily::INET,
            SocketAddr::V6(_) => AddressFamily::INET6,
        };
        let way = match transport {
            Transport::Tcp => SocketType::STREAM,
            Transport::Udp => SocketType::DGRAM,
        };
        let socket = socket_with(family, way, SocketFlags::CLOEXEC, None)?;
        match bind(&socket, &at) {
            Err(Errno::ADDRINUSE)
                if transport == Transport::Tcp && ports::has_only_waiting(at.port()) =>
            {
                // As a server does that is started again. Then no other server can listen: we do not
                // share what we have.
                set_socket_reuseaddr(&socket, true)?;
                bind(&socket, &at)?;
                set_socket_reuseaddr(&socket, false)?;
            }
            other => other?,
        }
        Ok(HeldPort { _socket: socket, port: at.port() })
    }

    pub fn port(&self) -> u16 {
        self.port
    }
}
