//! `steady` as one of the kernel's algorithms.

use std::fs;

use anyhow::{Context, Result};
use libbpf_rs::{MapCore, MapHandle, Object};
use transom_machine::load_sharing;
use transom_machine::objects::{self, map_mut};

use crate::scope;

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
    let (mut object, registration) = programs()?;
    match register(&mut object, registration) {
        // Somebody was quicker.
        Err(_) if available().iter().any(|name| name == NAME) => Ok(()),
        other => other,
    }
}

/// Takes it back: only connections that use it keep it alive.
///
/// # Errors
/// When a pin cannot be removed.
pub(crate) fn withdraw() -> Result<()> {
    let (link, map) = (scope::steady_pin(), scope::steady_map_pin());
    if let Ok(pinned) = MapHandle::from_pinned_path(&map) {
        // That it is registered is not undone by the end of the map.
        pinned.delete(&0u32.to_ne_bytes()).context("withdrawing the algorithm `steady`")?;
    }
    for pin in [link, map].iter().filter(|pin| pin.exists()) {
        fs::remove_file(pin).with_context(|| format!("removing {}", pin.display()))?;
    }
    Ok(())
}

/// Whether the kernel takes its programs; nothing stays.
///
/// # Errors
/// What the kernel says.
pub fn load() -> Result<()> {
    programs().map(drop)
}

/// How a kernel keeps an algorithm registered.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Registration {
    /// As long as there is a link.
    Link,
    /// Before 6.4 (commit 68b04864ca42): until the element of its map is deleted.
    Map,
}

fn programs() -> Result<(Object, Registration)> {
    let refusal = match load_sharing(objects::steady::open()?) {
        Ok(object) => return Ok((object, Registration::Link)),
        Err(refusal) => refusal,
    };
    let mut older = objects::steady::open()?;
    let mut maps = older.maps_mut();
    let mut map = maps.find(|map| map.name() == NAME).context("no struct_ops steady")?;
    map.set_map_flags(0)?;
    drop((map, maps));
    match load_sharing(older) {
        Ok(object) => Ok((object, Registration::Map)),
        Err(_) => Err(refusal.context("the kernel did not accept the algorithm `steady`")),
    }
}

fn register(object: &mut Object, registration: Registration) -> Result<()> {
    let mut map = map_mut(object, NAME)?;
    if registration == Registration::Map {
        map.pin(scope::steady_map_pin()).context("pinning the algorithm `steady`")?;
    }
    let mut link = map.attach_struct_ops().context("registering the algorithm `steady`")?;
    match registration {
        Registration::Link => {
            link.pin(scope::steady_pin()).context("pinning the algorithm `steady`")
        }
        Registration::Map => {
            link.disconnect();
            Ok(())
        }
    }
}
