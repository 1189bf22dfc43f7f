//! What this process may do: its capabilities, and what takes their effect from them.

use std::os::unix::fs::MetadataExt;
use std::{fs, io};

use crate::survey::{Fact, fact};

/// Capabilities the monitor needs, with their numbers (`capabilities(7)`).
const CAPABILITIES: &[(&str, u32, &str)] = &[
    ("CAP_BPF", 39, "load programs and maps"),
    ("CAP_PERFMON", 38, "attach to tracepoints and read kernel memory"),
    ("CAP_NET_ADMIN", 12, "read the sockets of others"),
    ("CAP_SYS_ADMIN", 21, "enter other network namespaces; mount bpffs for the journal"),
];

const SYS_ADMIN: u64 = 1 << 21;
/// What it includes (`bpf_capable()` and `perfmon_capable()` of the kernel), as in containers whose
/// engine is older than these two.
const IN_SYS_ADMIN: [&str; 2] = ["CAP_BPF", "CAP_PERFMON"];

/// The inode of the user namespace that a machine starts with (`PROC_USER_INIT_INO`).
const FIRST_USER_NAMESPACE: u64 = 0xefff_fffd;

/// A line of `/proc/self/status`.
fn status(name: &str) -> Option<String> {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.map(|value| value.trim().to_owned())
}

fn effective_capabilities() -> u64 {
    status("CapEff").and_then(|hex| u64::from_str_radix(&hex, 16).ok()).unwrap_or(0)
}

/// BPF asks for capabilities of the machine: those that a container's own root has are none.
fn is_machines_own() -> bool {
    fs::metadata("/proc/self/ns/user").map_or(true, |file| file.ino() == FIRST_USER_NAMESPACE)
}

/// Whether these capabilities contain the one of this name and number, and by which of them.
fn held(have: u64, name: &str, bit: u32) -> Option<&'static str> {
    if have & (1 << bit) != 0 {
        Some("yes")
    } else if have & SYS_ADMIN != 0 && IN_SYS_ADMIN.contains(&name) {
        Some("yes (CAP_SYS_ADMIN)")
    } else {
        None
    }
}

pub(crate) fn facts() -> Vec<Fact> {
    let (have, own) = (effective_capabilities(), is_machines_own());
    let each =
        CAPABILITIES.iter().map(|&(name, bit, purpose)| match (held(have, name, bit), own) {
            (Some(found), true) => fact(name, true, found.into(), ""),
            (Some(_), false) => {
                let remedy = format!(
                    "needed to {purpose}, from the machine itself: run outside of it, not rootless"
                );
                fact(name, false, "in this user namespace only".into(), &remedy)
            }
            (None, _) => {
                fact(name, false, "no".into(), &format!("needed to {purpose}: run as root (sudo)"))
            }
        });
    each.collect()
}

/// Whether the kernel refuses for lack of a right, not of a feature.
pub fn is_refusal(why: &str) -> bool {
    let refusals = [libc::EPERM, libc::EACCES, libc::ENOSYS];
    refusals.iter().any(|&number| why == io::Error::from_raw_os_error(number).to_string())
}

/// What may refuse bpf(2) to a process that has the capabilities, and what to do.
pub(crate) fn who_refuses() -> String {
    if status("Seccomp").as_deref() == Some("2") {
        return "a seccomp filter is on this process, as containers and services have: let it \
                allow bpf and perf_event_open (Docker, Podman: --cap-add BPF --cap-add PERFMON)"
            .to_owned();
    }
    "the capabilities are there, and no seccomp filter: a security module of this machine \
     refuses it, or the kernel was built without CONFIG_BPF_SYSCALL"
        .to_owned()
}
