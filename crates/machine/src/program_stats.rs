//! What the kernel counts of each program.

use std::os::fd::{AsFd, AsRawFd};

use anyhow::{Context, Result};
use libbpf_rs::{Object, libbpf_sys};

/// Runs and time of one program, as `bpftool prog` shows them.
#[derive(Clone, Debug)]
pub struct ProgramStats {
    pub name: String,
    /// How often it ran; counted only while `kernel.bpf_stats_enabled` is 1.
    pub runs: u64,
    /// Time in it, ns, by the same condition.
    pub run_time_ns: u64,
    /// How often the kernel skipped it because it was already running on the CPU.
    pub recursion_misses: u64,
}

fn info(fd: i32) -> Option<libbpf_sys::bpf_prog_info> {
    let mut info = libbpf_sys::bpf_prog_info::default();
    let mut length = size_of::<libbpf_sys::bpf_prog_info>() as u32;
    // SAFETY: `info` is plain data of the length we name, and `fd` is open.
    let result = unsafe { libbpf_sys::bpf_prog_get_info_by_fd(fd, &mut info, &mut length) };
    (result == 0).then_some(info)
}

/// Of every program that was loaded.
pub fn program_stats(object: &Object) -> Vec<ProgramStats> {
    let loaded = object.progs_mut().filter(|program| program.autoload());
    loaded
        .filter_map(|program| {
            let info = info(program.as_fd().as_raw_fd())?;
            Some(ProgramStats {
                name: program.name().to_string_lossy().into_owned(),
                runs: info.run_cnt,
                run_time_ns: info.run_time_ns,
                recursion_misses: info.recursion_misses,
            })
        })
        .collect()
}

/// How often the kernel skipped one of them.
///
/// # Errors
/// The kernel does not say it of a program.
pub fn missed(object: &Object) -> Result<u64> {
    let loaded = object.progs_mut().filter(|program| program.autoload());
    let each = loaded.map(|program| {
        let info = info(program.as_fd().as_raw_fd());
        let info =
            info.with_context(|| format!("asking about the program {:?}", program.name()))?;
        Ok(info.recursion_misses)
    });
    each.sum()
}
