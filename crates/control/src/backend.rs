//! How connections can be reached on this machine.

use std::process::Command;

use transom_machine::cgroup;

use crate::kernel_scope::KernelScope;
use crate::scope::Scope;
use crate::steady;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// New and running connections, by everything a policy can ask for.
    Bpf,
    /// New connections, by prefix and interface.
    Route,
    None,
}

impl Backend {
    pub fn name(self) -> &'static str {
        match self {
            Backend::Bpf => "bpf",
            Backend::Route => "route",
            Backend::None => "none",
        }
    }

    pub fn yields(self) -> &'static str {
        match self {
            Backend::Bpf => "every rule, new and running connections, steady",
            Backend::Route => {
                "algorithm and initial window of new connections, by prefix and interface"
            }
            Backend::None => "nothing",
        }
    }
}

/// The best there is, and why not a better one.
pub fn survey() -> (Backend, Vec<String>) {
    let mut lacks = Vec::new();
    if let Err(error) = cgroup::needed_mount() {
        lacks.push(format!("bpf: {error}"));
    }
    if let Err(error) = KernelScope::look(Scope::default()).map(drop).and_then(|()| steady::load())
    {
        lacks.push(format!("bpf: {error:#}"));
    }
    if lacks.is_empty() {
        return (Backend::Bpf, lacks);
    }
    let there = Command::new("ip").arg("-V").output().is_ok_and(|output| output.status.success());
    if there && rustix::process::geteuid().is_root() {
        return (Backend::Route, lacks);
    }
    lacks.push(String::from("route: needs root and the program `ip` of iproute2"));
    (Backend::None, lacks)
}
