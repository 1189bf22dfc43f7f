//! What a lab needs of the machine, looked at before anything is made.

use std::collections::BTreeSet;
use std::env;
use std::fs::{self, OpenOptions};
use std::path::Path;
use std::process::Command;
use std::sync::Once;

use anyhow::{Context, Result, bail};

use super::{Backend, Place, Wish, namespace, netem, places};
use crate::clean;
use crate::experiment::{Experiment, Host, Stack, Tool};
use transom_control::{Policy, available_algorithms};
use transom_output::note;

/// Where the hosts will be.
///
/// # Errors
/// The first thing that is missing or in the way, and the remedy.
pub fn check(wish: &Wish<'_>) -> Result<Vec<Place>> {
    let experiment = wish.experiment;
    let places = places(wish.lab, experiment)?;
    if !rustix::process::geteuid().is_root() {
        bail!("a lab makes network namespaces and needs root: run it with sudo");
    }
    program("ip", "iproute2")?;
    program("tc", "iproute2")?;
    for flow in experiment.flows.values() {
        match flow.tool {
            Tool::Iperf => program("iperf", "iperf")?,
            Tool::Iperf3 => program("iperf3", "iperf3")?,
        };
    }
    if wish.pcap {
        program("tcpdump", "tcpdump")?;
    }
    algorithms(experiment)?;
    multipath(experiment)?;
    names(&places, wish.between())?;
    sysctls()?;
    if !has_ipv6() {
        static TOLD: Once = Once::new();
        TOLD.call_once(|| note!("transom: this kernel has no IPv6: hosts have IPv4 alone"));
    }
    match wish.backend {
        Backend::Emulator => tun()?,
        Backend::Netem => netem::check(experiment)?,
    }
    Ok(places)
}

fn tun() -> Result<()> {
    OpenOptions::new().read(true).write(true).open("/dev/net/tun").context(
        "/dev/net/tun cannot be opened: load the module (modprobe tun); a container must be given the device",
    )?;
    Ok(())
}

/// Whether the kernel has IPv6: it may be built or booted without (`ipv6.disable=1`).
pub(super) fn has_ipv6() -> bool {
    Path::new("/proc/sys/net/ipv6").exists()
}

fn sysctls() -> Result<()> {
    rustix::fs::access("/proc/sys/net/ipv4/tcp_congestion_control", rustix::fs::Access::WRITE_OK)
        .context(
            "/proc/sys/net cannot be written, where hosts are set: a container must be privileged",
        )
}

fn names(places: &[Place], between: Option<String>) -> Result<()> {
    let labs = clean::labs();
    for name in places.iter().map(|place| &place.namespace).chain(&between) {
        if let Some(lab) = labs.iter().find(|lab| lab.namespaces.contains(name)) {
            bail!(
                "a lab '{}' is up already (process {}: {}): wait for its end or end it",
                lab.id,
                lab.owner.pid,
                lab.command
            );
        }
        if namespace::exists(name) {
            bail!(
                "there is a network namespace {name} already, and it is none of a lab: remove it (ip netns delete {name}) or give the experiment's file another name"
            );
        }
    }
    Ok(())
}

fn program(name: &str, package: &str) -> Result<()> {
    let found = env::var_os("PATH").is_some_and(|path| {
        env::split_paths(&path).any(|directory| directory.join(name).is_file())
    });
    if !found {
        bail!(
            "{name} is not installed: it comes with the package {package} (apt-get install {package})"
        );
    }
    Ok(())
}

fn multipath(experiment: &Experiment) -> Result<()> {
    let own = |host: &Host| host.mptcp && host.stack == Stack::Host;
    if experiment.hosts.values().any(own) && !Path::new("/proc/sys/net/mptcp/enabled").exists() {
        bail!(
            "a host has `mptcp`, and this kernel has none (CONFIG_MPTCP): boot another, or give the host `stack = \"library\"`"
        );
    }
    Ok(())
}

/// Of the kernel's connections: the library has algorithms of its own.
fn algorithms(experiment: &Experiment) -> Result<()> {
    let of_kernel = |name: &String| experiment.hosts[name].stack == Stack::Host;
    let hosts = experiment.hosts.iter().filter(|(name, _)| of_kernel(name));
    let of_hosts = hosts.clone().filter_map(|(_, host)| host.algorithm.as_deref());
    let flows = experiment.flows.values().filter(|flow| of_kernel(&flow.from));
    let of_flows = flows.filter_map(|flow| flow.algorithm.as_deref());
    let of_policies = hosts.filter_map(|(_, host)| host.policy.as_ref()).flat_map(named_by);
    let wanted = of_hosts.chain(of_flows).map(str::to_owned).chain(of_policies);
    for wanted in wanted.collect::<BTreeSet<_>>() {
        if !available()?.split_whitespace().any(|name| name == wanted) {
            // Kernels load an algorithm when root asks for it by name.
            let _ = Command::new("modprobe").args(["-q", &format!("tcp_{wanted}")]).status();
            let all = available()?;
            if !all.split_whitespace().any(|name| name == wanted) {
                bail!(
                    "this kernel has no congestion control '{wanted}': it has {}",
                    all.trim().replace(' ', ", ")
                );
            }
        }
    }
    Ok(())
}

/// Those that its rules would give to connections and that are not there; `steady` comes with it.
fn named_by(policy: &toml::Table) -> Vec<String> {
    let policy = toml::to_string(policy).ok();
    let policy = policy.and_then(|text| Policy::parse_for_elsewhere(&text).ok());
    let rules = policy.into_iter().flat_map(|policy| policy.rules);
    let named = rules.filter_map(|rule| rule.treatment.algorithm);
    let there = available_algorithms();
    named.filter(|name| !there.contains(name)).collect()
}

fn available() -> Result<String> {
    let path = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    fs::read_to_string(path).with_context(|| format!("reading {path}"))
}
