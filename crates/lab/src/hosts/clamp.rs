//! The largest congestion window of a host's connections, from the first on.
//!
//! The kernel clamps a window by a locked route metric only where it remembers the destination
//! already (`tcp_init_metrics` looks it up, `tcp_update_metrics` makes the entry when a connection
//! ends). So each destination is met once, over the loopback device, before the host is used.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};

use anyhow::{Context, Result};

use super::place::Place;
use super::{batch, namespace};

/// Makes the kernel remember `segments` for all `others`, of IPv4. The namespace must still save
/// metrics (`tcp_no_metrics_save` = 0).
pub fn clamp(place: &Place, others: &[Place], segments: u32) -> Result<()> {
    let others: Vec<&Place> = others.iter().filter(|other| other.host != place.host).collect();
    let route = |other: &&Place| format!("local {}/32 dev lo", other.v4);
    let own = place.v4;
    let there: Vec<String> = others
        .iter()
        .map(|other| format!("route add {} src {own} cwnd lock {segments}", route(other)))
        .collect();
    let gone: Vec<String> =
        others.iter().map(|other| format!("route delete {}", route(other))).collect();
    let name = Some(place.namespace.as_str());
    batch::ip(name, &there)?;
    namespace::inside(&place.namespace, || others.iter().try_for_each(|other| meet(other)))?
        .context("meeting a neighbour over the loopback device")?;
    batch::ip(name, &gone)
}

/// A connection that ends in order.
fn meet(other: &Place) -> io::Result<()> {
    let listener = TcpListener::bind(SocketAddr::from((other.v4, 0)))?;
    let stream = TcpStream::connect(listener.local_addr()?)?;
    let (accepted, _) = listener.accept()?;
    drop(stream);
    drop(accepted);
    Ok(())
}
