//! `steady` as one of the kernel's algorithms.

use std::ffi::OsStr;
use std::fs;
use std::mem::offset_of;

use anyhow::{Context, Result};
use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::Struct;
use libbpf_rs::{MapCore, MapHandle, Object, OpenObject};
use transom_machine::load_sharing;
use transom_machine::objects::steady::types::tcp_congestion_ops;
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

/// The function of an algorithm that hears that data leaves after an idle time, since 7.1 (commit
/// d1e59a469737); before, `cwnd_event` does.
const TX_START: &str = "cwnd_event_tx_start";

fn kernel_has_tx_start() -> bool {
    let types = Btf::from_vmlinux();
    let ops =
        types.as_ref().ok().and_then(|types| types.type_by_name::<Struct>("tcp_congestion_ops"));
    ops.is_some_and(|ops| ops.iter().any(|member| member.name == Some(OsStr::new(TX_START))))
}

/// As this kernel can have it.
fn open(registration: Registration) -> Result<OpenObject> {
    let mut open = objects::steady::open()?;
    let mut maps = open.maps_mut();
    let mut map = maps.find(|map| map.name() == NAME).context("no struct_ops steady")?;
    if !kernel_has_tx_start() {
        // libbpf leaves out what the kernel lacks if nothing is there.
        let at = offset_of!(tcp_congestion_ops, cwnd_event_tx_start);
        let ops = map.initial_value_mut().context("the struct_ops steady is closed")?;
        ops[at..at + size_of::<usize>()].fill(0);
    }
    if registration == Registration::Map {
        map.set_map_flags(0)?;
    }
    drop((map, maps));
    Ok(open)
}

fn programs() -> Result<(Object, Registration)> {
    let refusal = match load_sharing(open(Registration::Link)?) {
        Ok(object) => return Ok((object, Registration::Link)),
        Err(refusal) => refusal,
    };
    match load_sharing(open(Registration::Map)?) {
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
