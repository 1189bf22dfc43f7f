//! Hosts: one network namespace each, with a TAP device as its network card.

pub mod accepted;
mod batch;
mod clamp;
pub mod namespace;
mod netem;
mod place;
mod preflight;
mod settings;

use std::fs;
use std::os::fd::OwnedFd;

use anyhow::{Context, Result, ensure};

pub use place::{Cellular, MOST_HOSTS, Place, Side, places};
pub use preflight::check;
pub use settings::burst;

use crate::clean::{self, Registered};
use crate::experiment::{Experiment, Host, sysctl};
use transom_link::tun::{self, Frames};
use transom_output::note;

/// What carries packets between the hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backend {
    /// Our own, in user space: air and path, on every kernel that has TAP devices.
    #[default]
    Emulator,
    /// The kernel's, where it has one: the path alone.
    Netem,
}

impl Backend {
    /// As the command line calls it.
    pub fn name(self) -> &'static str {
        match self {
            Backend::Emulator => "emulator",
            Backend::Netem => "netem",
        }
    }
}

/// What is put up, and for whom.
#[derive(Clone, Copy)]
pub struct Wish<'a> {
    /// The experiment's name.
    pub lab: &'a str,
    /// The user's command line, for the lab's file.
    pub command: &'a str,
    pub experiment: &'a Experiment,
    pub backend: Backend,
    /// tcpdump will be needed, too.
    pub pcap: bool,
}

impl Wish<'_> {
    /// Name of a namespace besides those of the hosts.
    fn between(&self) -> Option<String> {
        (self.backend == Backend::Netem).then(|| netem::between(self.lab))
    }
}

/// Hosts that are up. Dropping it takes all of it down again.
pub struct Topology {
    registered: Registered,
    /// One end of each device, in the order of [`Topology::places`] and of their interfaces; none
    /// with netem.
    devices: Vec<OwnedFd>,
}

impl Topology {
    /// Makes the hosts. With [`Backend::Emulator`], packets do not move until it takes the devices.
    ///
    /// # Errors
    /// If something is missing ([`check`]), a name is taken, or the kernel refuses; nothing is
    /// left behind then.
    pub fn put_up(wish: &Wish<'_>) -> Result<Topology> {
        let places = check(wish)?;
        let registered = Registered::new(wish.lab, wish.command, places, wish.between())?;
        let mut topology = Topology { registered, devices: Vec::new() };
        topology.make(wish)?;
        Ok(topology)
    }

    fn make(&mut self, wish: &Wish<'_>) -> Result<()> {
        self.registered.make()?;
        if let Some(between) = wish.between() {
            batch::ip(Some(&between), &netem::links(self.places()))?;
            batch::tc(Some(&between), &netem::queues(wish.experiment))?;
        }
        for index in 0..self.places().len() {
            let place = &self.places()[index];
            let name = &place.namespace;
            let devices = match wish.backend {
                Backend::Emulator => namespace::inside(name, || open(place))??,
                Backend::Netem => Vec::new(),
            };
            configure(place, wish.experiment, self.places())
                .with_context(|| format!("host '{}'", place.host))?;
            self.devices.extend(devices);
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
            Err(error) => note!("transom: {error:#}"),
        }
    }
}

/// The devices of a host, in the namespace that this thread is in.
fn open(place: &Place) -> Result<Vec<OwnedFd>> {
    let mut devices = vec![tun::open(&place.interface, Frames::Ethernet)?];
    if let Some(cellular) = &place.cellular {
        devices.push(tun::open(&cellular.interface, Frames::RawIp)?);
    }
    Ok(devices)
}

/// Makes a namespace with its devices the host of the experiment.
fn configure(place: &Place, experiment: &Experiment, all: &[Place]) -> Result<()> {
    let host = &experiment.hosts[&place.host];
    let ipv6 = preflight::has_ipv6();
    let chosen = namespace::inside(&place.namespace, || -> Result<bool> {
        if ipv6 {
            place.interfaces().try_for_each(|name| set_all(&settings::quiet(name)))?;
        }
        choose_algorithm(settings::algorithm(host))
    })??;
    let by_route = (!chosen && agree(place, experiment)).then(|| settings::algorithm(host));
    let name = Some(place.namespace.as_str());
    let links = settings::links(place, host, all, by_route);
    match ipv6 {
        true => {
            batch::ip(name, &links)?;
            batch::ip6(name, &settings::rules6(place))?;
        }
        false => batch::ip(name, &settings::without_ipv6(links))?,
    }
    if let Some(segments) = host.largest_window {
        clamp::clamp(place, all, segments)?;
    }
    let sysctls = settings::sysctls(host);
    namespace::inside(&place.namespace, || set_all(&sysctls))??;
    let mut queues = settings::queue(&place.interface, host.driver.as_ref());
    if let Some(cellular) = &place.cellular {
        queues.extend(settings::queue(&cellular.interface, None));
    }
    batch::tc(name, &queues)
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

/// The network sysctls of a host, as the library takes them: `net.ipv4.tcp_sack=1`.
pub fn sysctls(experiment: &Experiment, host: &str) -> Vec<String> {
    let all = settings::given(&experiment.hosts[host]);
    all.iter().map(|(key, value)| format!("net.{key}={value}")).collect()
}

/// Sysctls of a host (their names without `net.`).
pub(crate) fn settings(host: &Host) -> Vec<(String, String)> {
    settings::sysctls(host)
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
    let path = sysctl::path(key);
    ensure!(
        path.exists(),
        "net.{key} is no sysctl of this kernel, or none that a namespace has of its own"
    );
    fs::write(&path, value).with_context(|| format!("the kernel refused net.{key} = {value}"))
}
