//! The largest congestion window of a host's connections, from the first on.
//!
//! The kernel clamps a window by a locked route metric only where it remembers the destination
//! already (`tcp_init_metrics` looks it up, `tcp_update_metrics` makes the entry when a connection
//! ends). So each destination is met once, over the loopback device, before the host is used.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener};

use anyhow::{Context, Result};
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};

use super::place::Place;
use super::{batch, namespace};

/// Makes the kernel remember `segments` for all `others`, of IPv4: once for each address of the
/// host's own, since it remembers pairs of addresses. The namespace must still save metrics
/// (`tcp_no_metrics_save` = 0).
pub fn clamp(place: &Place, others: &[Place], segments: u32) -> Result<()> {
    let others = others.iter().filter(|other| other.host != place.host);
    let others: Vec<Ipv4Addr> = others.flat_map(addresses).collect();
    let route = |other: &Ipv4Addr| format!("local {other}/32 dev lo");
    let there: Vec<String> = others
        .iter()
        .map(|other| format!("route add {} cwnd lock {segments}", route(other)))
        .collect();
    let gone: Vec<String> =
        others.iter().map(|other| format!("route delete {}", route(other))).collect();
    let name = Some(place.namespace.as_str());
    batch::ip(name, &there)?;
    let meet_all =
        || addresses(place).try_for_each(|own| others.iter().try_for_each(|it| meet(own, *it)));
    namespace::inside(&place.namespace, meet_all)?
        .context("meeting a neighbour over the loopback device")?;
    batch::ip(name, &gone)
}

fn addresses(place: &Place) -> impl Iterator<Item = Ipv4Addr> {
    std::iter::once(place.v4).chain(place.cellular.as_ref().map(|it| it.v4))
}

/// A connection that ends in order.
fn meet(own: Ipv4Addr, other: Ipv4Addr) -> io::Result<()> {
    let listener = TcpListener::bind(SocketAddr::from((other, 0)))?;
    let SocketAddr::V4(address) = listener.local_addr()? else {
        return Err(io::Error::other("an address of IPv4 became another"));
    };
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None)?;
    bind(&socket, &SocketAddrV4::new(own, 0))?;
    connect(&socket, &address)?;
    let (accepted, _) = listener.accept()?;
    drop(socket);
    drop(accepted);
    Ok(())
}
