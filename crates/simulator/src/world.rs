//! Hosts as the scenario describes them: namespaces, interfaces, addresses, routes, sysctls.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use anyhow::{Context, Result, bail};
use transom_emulator::Nanos;
use transom_netstack::{
    FakeClock, FrameNic, HostId, Kernel, Link, Metrics, NicId, Parameters, Route, Series,
};
use transom_scenario::{Host, Protocol, Scenario};

use crate::algorithms;
use crate::device::Device;
use crate::kernels::Kernels;

/// The kernel's clock when virtual time begins: what is put up happens before.
pub const START: Nanos = 1_000_000_000;

/// Series of Linux that hosts may have.
pub fn kernels() -> impl Iterator<Item = Series> {
    Series::ALL.into_iter().filter(|series| series.is_built())
}

/// Of the library, beside what hosts need.
const MEMORY: usize = 256 << 20;
const MEMORY_OF_HOST: usize = 4 << 20;
/// Hash tables of the size that a simulation needs, not of the size that memory would allow.
const TABLES: &str = "loglevel=4 thash_entries=8192 uhash_entries=256 dhash_entries=4096 \
                      ihash_entries=1024 mhash_entries=256 rhash_entries=1024";
/// Routing table of what comes from a second interface's address.
const SECOND_TABLE: u32 = 101;
/// Of its route for everything else.
const SECOND_METRIC: u32 = 200;

/// A port of the links: an interface of a host.
pub struct Port {
    pub kernel: usize,
    pub nic: NicId,
    /// It is slower than its link.
    pub device: Option<Device>,
}

pub struct World {
    pub kernels: Kernels,
    pub clock: FakeClock,
    /// By the scenario's names: the kernel and its namespace.
    pub hosts: BTreeMap<String, (usize, HostId)>,
    /// In the order of the plan.
    pub ports: Vec<Port>,
    /// `uname -r` of each kernel.
    pub releases: Vec<String>,
    pub us_per_jiffy: u32,
}

impl World {
    /// # Errors
    /// What the kernel refuses, with the host's name.
    pub fn put_up(scenario: &Scenario) -> Result<World> {
        let clock = FakeClock::new(scenario.wall_ns.saturating_sub(START));
        let series = series(scenario)?;
        let mut world = World {
            kernels: Kernels(Vec::new()),
            clock,
            hosts: BTreeMap::new(),
            ports: Vec::new(),
            releases: Vec::new(),
            us_per_jiffy: 4000,
        };
        let all: BTreeSet<Series> = series.values().copied().collect();
        for one in &all {
            world.boot(scenario, *one).with_context(|| format!("Linux {one}"))?;
        }
        for (name, host) in &scenario.hosts {
            let kernel = all.iter().position(|it| *it == series[name]).unwrap_or(0);
            world.add_host(name, kernel, host).with_context(|| format!("host '{name}'"))?;
        }
        for port in &scenario.links.ports {
            let (name, is_second) = match port.name.split_once('.') {
                Some((host, _)) => (host, true),
                None => (port.name.as_str(), false),
            };
            world
                .add_port(&scenario.hosts[name], name, port.mac, is_second)
                .with_context(|| format!("the interface of '{}'", port.name))?;
        }
        world.introduce(scenario)?;
        world.clock.advance_to(START);
        for kernel in &mut world.kernels.0 {
            kernel.keep_tick(true);
            kernel.turn_without_frames(&mut Vec::new());
            // What the interfaces said while they came up reaches nobody.
            kernel.take_frames(&mut Vec::new());
        }
        Ok(world)
    }

    fn boot(&mut self, scenario: &Scenario, series: Series) -> Result<()> {
        let mut kernel = boot(scenario, series, &self.clock)?;
        // As on a machine with memory enough for all.
        kernel.set_sysctl("net.ipv4.tcp_mem", "10000000 10000000 10000000")?;
        self.releases.push(kernel.read_proc("sys/kernel/osrelease")?.trim().to_owned());
        self.kernels.0.push(kernel);
        Ok(())
    }

    /// The kernel of a host, which is in use there.
    pub fn at(&mut self, host: &str) -> &mut Kernel {
        let (kernel, id) = self.hosts[host];
        let kernel = self.kernels.of(kernel);
        kernel.use_host(id);
        kernel
    }

    /// The `uname -r` of a host.
    pub fn release(&self, host: &str) -> &str {
        &self.releases[self.hosts[host].0]
    }

    fn add_host(&mut self, name: &str, kernel: usize, host: &Host) -> Result<()> {
        let id = self.kernels.of(kernel).add_host()?;
        self.hosts.insert(name.to_owned(), (kernel, id));
        let here = self.at(name);
        let quiet = ["accept_dad", "router_solicitations", "accept_ra", "autoconf"];
        for key in quiet {
            here.set_sysctl(&format!("net.ipv6.conf.default.{key}"), "0")?;
        }
        here.set_sysctl("net.ipv6.conf.default.addr_gen_mode", "1")?;
        // What Linux chooses on machines with a gigabyte or more.
        here.set_sysctl("net.ipv4.tcp_rmem", "4096 131072 6291456")?;
        here.set_sysctl("net.ipv4.tcp_wmem", "4096 16384 4194304")?;
        here.set_loopback_up()?;
        algorithms::check_host(here, host)?;
        for (key, value) in &host.sysctl {
            here.set_sysctl(&format!("net.{key}"), value)
                .with_context(|| format!("sysctl net.{key} = {value}"))?;
        }
        Ok(())
    }

    fn add_port(&mut self, host: &Host, name: &str, mac: [u8; 6], is_second: bool) -> Result<()> {
        let second = host.cellular.as_ref().filter(|_| is_second);
        let (interface, addresses) = match (second, is_second) {
            (Some(second), _) => (&second.interface, &second.addresses),
            (None, true) => bail!("the host has no second interface"),
            (None, false) => (&host.interface, &host.addresses),
        };
        let rate = host.device_mbit.filter(|_| !is_second);
        let here = self.at(name);
        let nic = here.add_frame_nic(&FrameNic {
            name: interface.clone(),
            // A cellular interface has no link header; here its gateway's address is its own.
            link: Link::Ethernet { mac },
            mtu: host.mtu,
            queue: Some(host.queue_packets),
            gso_max_segs: host.gso_max_segs,
            gro: host.gro,
            one_at_a_time: rate.is_some(),
        })?;
        here.set_multicast(nic, false)?;
        here.set_up(nic, true)?;
        for address in addresses {
            add_address(here, host, nic, *address, is_second)
                .with_context(|| format!("address {address}"))?;
        }
        let device = rate.map(|mbit| Device::new(nic, mbit, host.device_burst));
        let (kernel, _) = self.hosts[name];
        self.ports.push(Port { kernel, nic, device });
        Ok(())
    }

    /// Hosts that have flows with one another know each other's link addresses.
    fn introduce(&mut self, scenario: &Scenario) -> Result<()> {
        let pairs: BTreeSet<(&str, &str)> = scenario
            .flows
            .values()
            .flat_map(|flow| [(&*flow.from, &*flow.to), (&*flow.to, &*flow.from)])
            .collect();
        for (here, there) in pairs {
            let own = scenario.links.ports.iter().position(|port| of_host(&port.name, here));
            let nics = scenario.links.ports.iter().zip(&self.ports);
            let nics: Vec<NicId> = nics
                .filter(|(port, _)| of_host(&port.name, here))
                .map(|(_, port)| port.nic)
                .collect();
            own.context("it has no port")?;
            for port in scenario.links.ports.iter().filter(|port| of_host(&port.name, there)) {
                let host = &scenario.hosts[there];
                let second = host.cellular.as_ref().filter(|_| port.name.contains('.'));
                for address in second.map_or(&host.addresses, |second| &second.addresses) {
                    for nic in &nics {
                        self.at(here).add_neighbour(*nic, *address, port.mac)?;
                    }
                }
            }
        }
        Ok(())
    }
}

fn add_address(
    kernel: &mut Kernel,
    host: &Host,
    nic: NicId,
    address: IpAddr,
    is_second: bool,
) -> Result<()> {
    let (everywhere, bits): (IpAddr, u8) = match address {
        IpAddr::V4(_) => ([0; 4].into(), 32),
        IpAddr::V6(_) => ([0; 16].into(), 128),
    };
    kernel.add_address(nic, address, bits)?;
    let metrics = metrics(&host.route);
    let mut route = Route {
        destination: (everywhere, 0),
        gateway: None,
        nic,
        metric: is_second.then_some(SECOND_METRIC),
        table: None,
    };
    kernel.add_route_with(&route, &metrics).context("route")?;
    if is_second {
        route.table = Some(SECOND_TABLE);
        kernel.add_route_with(&route, &metrics).context("route")?;
        kernel.add_source_rule(address, SECOND_TABLE).context("rule")?;
    }
    Ok(())
}

fn of_host(port: &str, host: &str) -> bool {
    port.split('.').next() == Some(host)
}

fn metrics(route: &transom_scenario::Route) -> Metrics {
    Metrics {
        initcwnd: route.initcwnd,
        initrwnd: route.initrwnd,
        rto_min_ms: route.rto_min_ms,
        congctl: route.congctl.clone(),
        quickack: route.quickack,
    }
}

fn boot(scenario: &Scenario, series: Series, clock: &FakeClock) -> Result<Kernel> {
    let mut parameters = Parameters::from_host().context("random bytes of this machine")?;
    parameters.series = series;
    parameters.memory = MEMORY + scenario.hosts.len() * MEMORY_OF_HOST;
    // All of a kernel's randomness comes from the scenario's seed.
    parameters.seed = [0; 32];
    parameters.seed[..8].copy_from_slice(&scenario.seed.to_le_bytes());
    parameters.command_line = TABLES.to_owned();
    parameters.clock = Box::new(clock.clone());
    Ok(Kernel::boot(parameters)?)
}

/// The series of each host.
fn series(scenario: &Scenario) -> Result<BTreeMap<String, Series>> {
    let of = |(name, host): (&String, &Host)| {
        let Some(wanted) = &host.kernel else { return Ok((name.clone(), Series::default())) };
        let Some(found) = kernels().find(|it| it.name() == wanted) else {
            let there: Vec<&str> = kernels().map(Series::name).collect();
            bail!(
                "host '{name}': there is no kernel {wanted}: there is {} (make linux builds them)",
                there.join(", ")
            );
        };
        Ok((name.clone(), found))
    };
    scenario.hosts.iter().map(of).collect()
}

/// The number that `socket(2)` knows a protocol by.
pub fn protocol(protocol: Protocol) -> (i32, i32) {
    match protocol {
        Protocol::Tcp => (libc::SOCK_STREAM, libc::IPPROTO_TCP),
        Protocol::Mptcp => (libc::SOCK_STREAM, libc::IPPROTO_MPTCP),
        Protocol::Udp => (libc::SOCK_DGRAM, libc::IPPROTO_UDP),
    }
}
