//! `steady` as one of the kernel's algorithms.

use std::fs;

use anyhow::{Context, Result};
use libbpf_rs::{Link, MapCore, MapMut, Object, ObjectBuilder};

use crate::programs;

pub const NAME: &str = "steady";

/// Registered for as long as this lives. Connections that use it keep it alive
/// beyond that; only new ones cannot choose it any more.
pub struct Steady {
    pub link: Link,
    _object: Object,
}

/// What the kernel offers now.
pub fn available() -> Vec<String> {
    let text = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
    text.unwrap_or_default().split_whitespace().map(str::to_owned).collect()
}

impl Steady {
    /// Registers it; `None` if somebody else of ours has.
    ///
    /// # Errors
    /// When the kernel refuses, for instance before 5.13 or without `CAP_BPF`.
    pub fn register() -> Result<Option<Steady>> {
        if available().iter().any(|name| name == NAME) {
            return Ok(None);
        }
        let mut open = ObjectBuilder::default().open_memory(programs::steady())?;
        transom_monitor::adopt(&mut open)?;
        let mut object = open.load().context("the kernel did not accept the algorithm `steady`")?;
        let link = attach(&mut object)?;
        Ok(Some(Steady { link, _object: object }))
    }
}

fn attach(object: &mut Object) -> Result<Link> {
    let mut maps: Vec<MapMut<'_>> = object.maps_mut().collect();
    let map = maps.iter_mut().find(|map| map.name() == NAME).context("no struct_ops steady")?;
    map.attach_struct_ops().context("registering the algorithm `steady`")
}
