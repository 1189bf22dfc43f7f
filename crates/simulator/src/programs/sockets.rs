//! Sockets of the programs: addresses and options as `socket(7)` and `tcp(7)` have them.

use std::net::{IpAddr, SocketAddr};

use anyhow::{Context, Result};
use transom_netstack::{Kernel, SocketId};
use transom_scenario::{Flow, Protocol, Scenario, Socket};

use crate::algorithms;
use crate::world::{self, World};

/// linux/tcp.h, asm-generic/socket.h.
const TCP_WINDOW_CLAMP: i32 = 10;
const SO_MAX_PACING_RATE: i32 = 47;
const BACKLOG: i32 = 4096;

/// `struct sockaddr_in` or `sockaddr_in6`.
pub fn raw(address: SocketAddr) -> Vec<u8> {
    let port = address.port().to_be_bytes();
    let (family, before, ip, after): (i32, &[u8], Vec<u8>, usize) = match address.ip() {
        IpAddr::V4(v4) => (libc::AF_INET, &[], v4.octets().to_vec(), 8),
        IpAddr::V6(v6) => (libc::AF_INET6, &[0; 4], v6.octets().to_vec(), 4),
    };
    let mut bytes = (family as u16).to_ne_bytes().to_vec();
    bytes.extend(port);
    bytes.extend(before);
    bytes.extend(ip);
    bytes.resize(bytes.len() + after, 0);
    bytes
}

/// The port of an address as the kernel writes it.
fn port_of(address: &[u8]) -> u16 {
    address.get(2..4).map_or(0, |bytes| u16::from_be_bytes([bytes[0], bytes[1]]))
}

/// Of a host, of the flow's family.
fn address(scenario: &Scenario, flow: &Flow, host: &str, second: bool) -> Result<IpAddr> {
    let described = &scenario.hosts[host];
    let all = match (&described.cellular, second) {
        (Some(cellular), true) => &cellular.addresses,
        _ => &described.addresses,
    };
    let family = if flow.ipv6 { "IPv6" } else { "IPv4" };
    all.iter()
        .find(|address| address.is_ipv6() == flow.ipv6)
        .copied()
        .with_context(|| format!("'{host}' has no {family} address"))
}

/// Who waits for the connections, or the datagrams, of a flow. The host is in use.
pub fn listen(kernel: &mut Kernel, scenario: &Scenario, flow: &Flow) -> Result<SocketId> {
    let here = address(scenario, flow, flow.listens(), false)?;
    let settings = if flow.reverse { &flow.sender } else { &flow.receiver };
    let socket = open(kernel, scenario, flow, flow.listens(), settings)?;
    let on = 1i32.to_ne_bytes();
    kernel.setsockopt(socket, libc::SOL_SOCKET, libc::SO_REUSEADDR, &on)?;
    let place = SocketAddr::new(here, flow.port);
    kernel.bind(socket, &raw(place)).with_context(|| format!("listening at {place}"))?;
    if flow.protocol != Protocol::Udp {
        kernel.listen(socket, BACKLOG)?;
    }
    Ok(socket)
}

/// Who opens it; a connection is not there yet when this returns. With the local port.
pub fn connect(kernel: &mut Kernel, scenario: &Scenario, flow: &Flow) -> Result<(SocketId, u16)> {
    let there = address(scenario, flow, flow.listens(), false)?;
    let settings = if flow.reverse { &flow.receiver } else { &flow.sender };
    let socket = open(kernel, scenario, flow, flow.opens(), settings)?;
    if flow.over_cellular {
        let here = address(scenario, flow, flow.opens(), true)?;
        kernel.bind(socket, &raw(SocketAddr::new(here, 0)))?;
    }
    let place = SocketAddr::new(there, flow.port);
    match kernel.connect(socket, &raw(place)) {
        Err(error) if !error.would_block() => {
            return Err(error).with_context(|| format!("connecting to {place}"));
        }
        _ => {}
    }
    Ok((socket, port_of(&kernel.getsockname(socket)?)))
}

/// The other side's port.
pub fn peer_port(kernel: &mut Kernel, socket: SocketId) -> Result<u16> {
    Ok(port_of(&kernel.getpeername(socket)?))
}

/// Opens the sockets of every flow, and closes them.
///
/// # Errors
/// What a kernel refuses, with the flow's name.
pub fn open_all(world: &mut World, scenario: &Scenario) -> Result<()> {
    for (name, flow) in &scenario.flows {
        for (host, settings) in [(&flow.from, &flow.sender), (&flow.to, &flow.receiver)] {
            let kernel = world.at(host);
            let socket = open(kernel, scenario, flow, host, settings)
                .with_context(|| format!("flow '{name}'"))?;
            kernel.close(socket);
        }
    }
    Ok(())
}

fn open(
    kernel: &mut Kernel,
    scenario: &Scenario,
    flow: &Flow,
    host: &str,
    settings: &Socket,
) -> Result<SocketId> {
    let family = if flow.ipv6 { libc::AF_INET6 } else { libc::AF_INET };
    let (kind, protocol) = world::protocol(flow.protocol);
    let socket = kernel.socket(family, kind, protocol)?;
    if let Some(algorithm) = settings.congestion.as_ref().filter(|_| kind == libc::SOCK_STREAM) {
        let (level, option) = (libc::IPPROTO_TCP, libc::TCP_CONGESTION);
        if let Err(error) = kernel.setsockopt(socket, level, option, algorithm.as_bytes()) {
            algorithms::check(kernel, algorithm)?;
            return Err(error).with_context(|| format!("congestion control '{algorithm}'"));
        }
    }
    let mut set = |level: i32, name: i32, value: &[u8], what: &str| {
        kernel.setsockopt(socket, level, name, value).with_context(|| what.to_owned())
    };
    let numbers = [
        (libc::SOL_SOCKET, libc::SO_SNDBUF, settings.send_buffer, "SO_SNDBUF"),
        (libc::SOL_SOCKET, libc::SO_RCVBUF, settings.receive_buffer, "SO_RCVBUF"),
        (libc::IPPROTO_TCP, TCP_WINDOW_CLAMP, settings.window_clamp, "TCP_WINDOW_CLAMP"),
        (libc::IPPROTO_TCP, libc::TCP_MAXSEG, settings.mss, "TCP_MAXSEG"),
        (libc::IPPROTO_TCP, libc::TCP_NODELAY, settings.nodelay.then_some(1), "TCP_NODELAY"),
    ];
    for (level, name, value, what) in numbers {
        if let Some(value) = value {
            set(level, name, &value.to_ne_bytes(), what)?;
        }
    }
    if let Some(rate) = settings.max_pacing_rate {
        set(libc::SOL_SOCKET, SO_MAX_PACING_RATE, &rate.to_ne_bytes(), "SO_MAX_PACING_RATE")?;
    }
    // The kernel applies a locked `cwnd` of a route only where it remembers the destination.
    if let Some(segments) = scenario.hosts[host].route.cwnd.filter(|_| kind == libc::SOCK_STREAM) {
        kernel.clamp_cwnd(socket, segments)?;
    }
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_the_kernels_layout() {
        let v4 = raw("10.1.2.3:80".parse().unwrap());
        assert_eq!(v4, [2, 0, 0, 80, 10, 1, 2, 3, 0, 0, 0, 0, 0, 0, 0, 0]);
        let v6 = raw("[fd77::1]:443".parse().unwrap());
        assert_eq!((v6.len(), &v6[..4], v6[8], v6[23]), (28, &[10, 0, 1, 187][..], 0xfd, 1));
        assert_eq!(port_of(&v6), 443);
    }
}
