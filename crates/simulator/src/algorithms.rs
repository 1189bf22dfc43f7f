//! Congestion controls: those that a scenario names, and those that the kernels of its hosts have.

use anyhow::{Result, bail};
use transom_netstack::Kernel;
use transom_scenario::Host;

const AVAILABLE: &str = "sys/net/ipv4/tcp_available_congestion_control";
/// A host's default, as a sysctl.
const DEFAULT: &str = "ipv4.tcp_congestion_control";

/// Whether the host's kernel has all that the host names; before they are set, where the kernel would
/// only say that there is no such file.
///
/// # Errors
/// The first that it lacks, and what it has.
pub fn check_host(kernel: &mut Kernel, host: &Host) -> Result<()> {
    let of_sysctls = host.sysctl.iter().filter(|(key, _)| key.replace('/', ".") == DEFAULT);
    let of_guard = host.guard.as_ref().map(|guard| &guard.instead);
    let all = of_sysctls.map(|(_, name)| name).chain(&host.route.congctl).chain(of_guard);
    all.into_iter().try_for_each(|name| check(kernel, name))
}

/// The same of one algorithm.
///
/// # Errors
/// As [`check_host`].
pub fn check(kernel: &mut Kernel, name: &str) -> Result<()> {
    let all = kernel.read_proc(AVAILABLE)?;
    if !all.split_whitespace().any(|one| one == name) {
        let all = all.split_whitespace().collect::<Vec<_>>().join(", ");
        bail!("the simulated kernel has no congestion control '{name}': it has {all}");
    }
    Ok(())
}
