//! Processes by the kernel's own numbers: in a PID namespace, as a container has, they have others.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;

use anyhow::{Context, Result};
use libbpf_rs::Link;

use crate::iterator;
use crate::objects;

/// The inode of the PID namespace that a machine starts with (`PROC_PID_INIT_INO`).
const FIRST: u64 = 0xefff_fffc;

/// The numbers that events, and so filters in the kernel, have for these processes of ours.
///
/// # Errors
/// There is no such process in this PID namespace, or the kernel does not tell.
pub fn kernel_numbers(pids: &[u32]) -> Result<Vec<u32>> {
    let namespace = fs::metadata("/proc/self/ns/pid").map_or(FIRST, |file| file.ino());
    if namespace == FIRST || pids.is_empty() {
        return Ok(pids.to_vec());
    }
    let known =
        all_in(u32::try_from(namespace)?).context("numbers of this container's processes")?;
    let number =
        |pid| known.get(pid).copied().with_context(|| format!("there is no process {pid}"));
    pids.iter().map(number).collect()
}

/// The process that this number names: as its own, or as one of its threads'.
pub fn process_of(thread: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok())
}

/// All processes that this PID namespace shows: their numbers here, and the kernel's.
fn all_in(namespace: u32) -> Result<HashMap<u32, u32>> {
    let mut open = objects::processes::open()?;
    objects::put_settings(&mut open, &namespace.to_ne_bytes())?;
    let object = open.load()?;
    let link: Link = objects::program(&object, "process_numbers")?.attach()?;
    let told = iterator::run(&link, None)?;
    let numbers =
        told.chunks_exact(4).map(|four| u32::from_ne_bytes([four[0], four[1], four[2], four[3]]));
    let numbers: Vec<u32> = numbers.collect();
    Ok(numbers.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect())
}
