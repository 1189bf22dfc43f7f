//! A host's largest window: a locked route metric, which the kernel takes over only from what it
//! remembers of a destination (`tcp_init_metrics`), and it remembers those it has talked to.

use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::namespace::inside;
use super::place::Place;
use super::set;
use crate::experiment::Experiment;

const REMEMBER_NOTHING: &str = "ipv4.tcp_no_metrics_save";
/// For a word each way on a slow and lossy path.
const PATIENCE: Duration = Duration::from_secs(20);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Lets each host with a largest window say hello to those it sends to, and no more be remembered.
/// Packets must move.
///
/// # Errors
/// If the hosts cannot reach one another.
pub fn teach(experiment: &Experiment, places: &[Place]) -> Result<()> {
    for place in places {
        if experiment.hosts[&place.host].largest_window.is_none() {
            continue;
        }
        inside(&place.namespace, || set(REMEMBER_NOTHING, "0"))??;
        for other in places.iter().filter(|other| sends(experiment, place, other)) {
            for address in [IpAddr::V4(other.v4), IpAddr::V6(other.v6)] {
                greet(place, other, address).with_context(|| {
                    format!("setting the largest window of '{}' towards {address}", place.host)
                })?;
            }
        }
        let host = &experiment.hosts[&place.host];
        let wanted = host.sysctl.get(REMEMBER_NOTHING).map_or("1", String::as_str);
        inside(&place.namespace, || set(REMEMBER_NOTHING, wanted))??;
    }
    Ok(())
}

fn sends(experiment: &Experiment, from: &Place, to: &Place) -> bool {
    experiment.flows.values().any(|flow| flow.from == from.host && flow.to == to.host)
}

/// One connection that ends well, after which the kernel remembers its other end.
fn greet(from: &Place, to: &Place, address: IpAddr) -> Result<()> {
    let listener = inside(&to.namespace, || TcpListener::bind(SocketAddr::new(address, 0)))??;
    let port = listener.local_addr()?.port();
    let near = inside(&from.namespace, || {
        TcpStream::connect_timeout(&SocketAddr::new(address, port), PATIENCE)
    })??;
    let (far, _) = listener.accept()?;
    drop((near, far));
    let began = Instant::now();
    while !remembers(from, address)? {
        if began.elapsed() > PATIENCE {
            bail!("the kernel does not remember a connection (net.{REMEMBER_NOTHING} = 0)");
        }
        std::thread::sleep(LOOK_AGAIN);
    }
    Ok(())
}

fn remembers(place: &Place, address: IpAddr) -> Result<bool> {
    let output = Command::new("ip")
        .args(["-n", &place.namespace, "tcp_metrics", "show", &address.to_string()])
        .output()
        .context("running ip tcp_metrics")?;
    Ok(output.status.success() && !output.stdout.trim_ascii().is_empty())
}
