//! `steady` as one of the kernel's algorithms.

use std::fs;

use anyhow::{Context, Result};
use libbpf_rs::{Link, MapCore, MapMut, Object, ObjectBuilder};

use crate::{programs, scope};

pub const NAME: &str = "steady";

/// What the kernel offers now.
pub fn available() -> Vec<String> {
    let text = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
    text.unwrap_or_default().split_whitespace().map(str::to_owned).collect()
}

/// Has the kernel offer it, until the last scope is forgotten. Connections that
/// use it keep it alive beyond that; only new ones cannot choose it any more.
///
/// # Errors
/// When the kernel refuses, for instance before 5.13 or without `CAP_BPF`.
pub fn ensure() -> Result<()> {
    if available().iter().any(|name| name == NAME) {
        return Ok(());
    }
    let _alone = scope::alone()?;
    if available().iter().any(|name| name == NAME) {
        return Ok(());
    }
    let open = ObjectBuilder::default().open_memory(programs::steady())?;
    let mut object = transom_monitor::load_sharing(open)
        .context("the kernel did not accept the algorithm `steady`")?;
    let mut link = match attach(&mut object) {
        Ok(link) => link,
        // Somebody was quicker.
        Err(_) if available().iter().any(|name| name == NAME) => return Ok(()),
        Err(error) => return Err(error),
    };
    link.pin(scope::steady_pin()).context("pinning the algorithm `steady`")
}

/// Whether the kernel takes its programs; nothing stays.
///
/// # Errors
/// What the kernel says.
pub fn load() -> Result<()> {
    let open = ObjectBuilder::default().open_memory(programs::steady())?;
    let loaded = transom_monitor::load_sharing(open);
    loaded.map(drop).context("the kernel did not accept the algorithm `steady`")
}

fn attach(object: &mut Object) -> Result<Link> {
    let mut maps: Vec<MapMut<'_>> = object.maps_mut().collect();
    let map = maps.iter_mut().find(|map| map.name() == NAME).context("no struct_ops steady")?;
    map.attach_struct_ops().context("registering the algorithm `steady`")
}
