//! Maps that several programs of ours share, whoever comes first: the
//! kernel's list of maps is looked through by name, so that nobody has to
//! leave anything in a file system.

use std::os::fd::AsFd;

use anyhow::{Context, Result};
use libbpf_rs::query::MapInfoIter;
use libbpf_rs::{MapHandle, Object, OpenObject};

use crate::lock;

/// What Transom changed, and how often (`bpf/tuned.h`).
const SHARED: [&str; 2] = ["transom_tuned", "transom_actions"];

/// Loads an object with the shared maps that are in the kernel already, one
/// process at a time, so that there are never two of them. A map of another
/// layout, which another version of ours made, is left alone.
///
/// # Errors
/// When a map that was found cannot be used, or the kernel refuses the object.
pub fn load_sharing(mut open: OpenObject) -> Result<Object> {
    // There is no place for the lock where nobody tunes either.
    let _one_at_a_time = lock::hold(&lock::run().join("maps.lock"));
    for mut map in open.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        if !SHARED.contains(&name.as_str()) {
            continue;
        }
        if let Some(there) = find(&name, map.value_size()) {
            map.reuse_fd(there.as_fd()).with_context(|| format!("sharing {name}"))?;
        }
    }
    Ok(open.load()?)
}

fn find(name: &str, value_size: u32) -> Option<MapHandle> {
    let same =
        MapInfoIter::default().find(|info| info.name == name && info.value_size == value_size)?;
    // It may go while we look.
    MapHandle::from_map_id(same.id).ok()
}
