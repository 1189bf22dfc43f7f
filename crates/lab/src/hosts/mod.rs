//! Hosts: one network namespace each, with a TAP device as its network card.

mod batch;
mod clamp;
pub mod namespace;
mod place;
mod preflight;
mod settings;

use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;

use anyhow::{Context, Result, ensure};

pub use place::{MOST_HOSTS, Place, Side, places};
pub use preflight::check;

use crate::clean::{self, Registered};
use crate::experiment::Experiment;

/// Hosts that are up. Dropping it takes all of it down again.
pub struct Topology {
    registered: Registered,
    /// One end of each host's device, in the order of [`Topology::places`].
    devices: Vec<OwnedFd>,
}

impl Topology {
    /// Makes the hosts; packets do not move until the emulator takes the devices.
    ///
    /// # Errors
    /// If something is missing ([`check`]), a name is taken, or the kernel refuses; nothing is
    /// left behind then.
    pub fn put_up(
        lab: &str,
        command: &str,
        experiment: &Experiment,
        pcap: bool,
    ) -> Result<Topology> {
        let places = places(lab, experiment)?;
        check(experiment, &places, pcap)?;
        let registered = Registered::new(lab, command, places)?;
        let mut topology = Topology { registered, devices: Vec::new() };
        topology.make(experiment)?;
        Ok(topology)
    }

    fn make(&mut self, experiment: &Experiment) -> Result<()> {
        let names: Vec<_> = self.places().iter().map(|place| place.namespace.clone()).collect();
        namespace::add(&names)?;
        self.registered.made()?;
        for index in 0..names.len() {
            let place = &self.registered.lab.hosts[index];
            let device = configure(place, experiment, self.places())
                .with_context(|| format!("host '{}'", place.host))?;
            self.devices.push(device);
        }
        Ok(())
    }

    pub fn places(&self) -> &[Place] {
        &self.registered.lab.hosts
    }

    pub fn place(&self, host: &str) -> Result<&Place> {
        let mut all = self.places().iter();
        all.find(|place| place.host == host).with_context(|| format!("there is no host '{host}'"))
    }

    /// The ends of the devices that the emulator reads and writes, in the order of the places.
    pub fn take_devices(&mut self) -> Vec<OwnedFd> {
        std::mem::take(&mut self.devices)
    }
}

impl Drop for Topology {
    fn drop(&mut self) {
        self.devices.clear();
        match clean::take_down(&self.registered.lab) {
            Ok(()) => self.registered.gone(),
            Err(error) => eprintln!("transom: {error:#}"),
        }
    }
}

fn configure(place: &Place, experiment: &Experiment, all: &[Place]) -> Result<OwnedFd> {
    let host = &experiment.hosts[&place.host];
    let (device, chosen) = namespace::inside(&place.namespace, || -> Result<_> {
        let device = transom_emulator::open_tap(&place.interface)?;
        set_all(&settings::quiet(&place.interface))?;
        Ok((device, choose_algorithm(settings::algorithm(host))?))
    })??;
    let by_route = (!chosen && agree(place, experiment)).then(|| settings::algorithm(host));
    let name = Some(place.namespace.as_str());
    batch::ip(name, &settings::links(place, host, all, by_route))?;
    if let Some(segments) = host.largest_window {
        clamp::clamp(place, all, segments)?;
    }
    let sysctls = settings::sysctls(host);
    namespace::inside(&place.namespace, || set_all(&sysctls))??;
    batch::tc(name, &settings::queue(&place.interface, host.driver.as_ref()))?;
    Ok(device)
}

/// Makes it the default of this thread's namespace. Kernels since 5.14 refuse one that is not for
/// everybody (`tcp_allowed_congestion_control` of the machine, which is not ours to change): false.
fn choose_algorithm(name: &str) -> Result<bool> {
    let path = "/proc/sys/net/ipv4/tcp_congestion_control";
    match fs::write(path, name) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => Ok(false),
        Err(error) => Err(error)
            .with_context(|| format!("the kernel refused the congestion control '{name}'")),
    }
}

/// Whether all flows that leave a host use its algorithm: a route's goes before a socket's.
fn agree(place: &Place, experiment: &Experiment) -> bool {
    let own = algorithm(experiment, &place.host);
    let mut flows = experiment.flows.values().filter(|flow| flow.from == place.host);
    flows.all(|flow| flow.algorithm.as_deref().is_none_or(|name| name == own))
}

/// Congestion control of a host's connections, if they name none themselves.
pub fn algorithm<'a>(experiment: &'a Experiment, host: &str) -> &'a str {
    settings::algorithm(&experiment.hosts[host])
}

fn set_all(sysctls: &[(String, String)]) -> Result<()> {
    sysctls.iter().try_for_each(|(key, value)| set(key, value))
}

/// A sysctl of the namespace that this thread is in.
fn set(key: &str, value: &str) -> Result<()> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    ensure!(
        !key.is_empty() && key.chars().all(plain) && !key.contains(".."),
        "'{key}' is no sysctl: write it as in `sysctl -a`, without net., such as ipv4.tcp_sack"
    );
    let path = Path::new("/proc/sys/net").join(key.replace('.', "/"));
    ensure!(
        path.exists(),
        "net.{key} is no sysctl of this kernel, or none that a namespace has of its own"
    );
    fs::write(&path, value).with_context(|| format!("the kernel refused net.{key} = {value}"))
}
