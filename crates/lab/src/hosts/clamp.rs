//! The largest congestion window of a host's connections, from the first on.
//!
//! The kernel clamps a window by a locked route metric only where it remembers the destination
//! already (`tcp_init_metrics` looks it up, `tcp_update_metrics` makes the entry when a connection
//! ends). So each destination is met once, over the loopback device, before the host is used.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};

use anyhow::{Context, Result};

use super::place::Place;
use super::{batch, namespace};

/// Makes the kernel remember `segments` for all `others`, of IPv4. The namespace must still save
/// metrics (`tcp_no_metrics_save` = 0).
pub fn clamp(place: &Place, others: &[Place], segments: u32) -> Result<()> {
    let others = others.iter().filter(|other| other.host != place.host);
    let addresses = |other: &Place| [Some(other.v4), other.cellular.as_ref().map(|it| it.v4)];
    let others: Vec<Ipv4Addr> = others.flat_map(addresses).flatten().collect();
    let route = |other: &Ipv4Addr| format!("local {other}/32 dev lo");
    let own = place.v4;
    let there: Vec<String> = others
        .iter()
        .map(|other| format!("route add {} src {own} cwnd lock {segments}", route(other)))
        .collect();
    let gone: Vec<String> =
        others.iter().map(|other| format!("route delete {}", route(other))).collect();
    let name = Some(place.namespace.as_str());
    batch::ip(name, &there)?;
    namespace::inside(&place.namespace, || others.iter().try_for_each(meet))?
        .context("meeting a neighbour over the loopback device")?;
    batch::ip(name, &gone)
}

/// A connection that ends in order.
fn meet(other: &Ipv4Addr) -> io::Result<()> {
    let listener = TcpListener::bind(SocketAddr::from((*other, 0)))?;
    let stream = TcpStream::connect(listener.local_addr()?)?;
    let (accepted, _) = listener.accept()?;
    drop(stream);
    drop(accepted);
    Ok(())
}
