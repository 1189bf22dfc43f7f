//! An interface of the host that is one of the library's, and what becomes of it: it goes down and
//! comes back, its addresses and gateway change, it is deleted and made anew.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use anyhow::{Context, Result, ensure};
use transom_netstack::{Endpoint, EndpointFlags, Kernel, NicId, Route};
use transom_nic::{Address, Event, Interface, Nic as _, PacketNic, PacketOptions, Path, PathSpec};

use crate::card::Shared;
use crate::connections;
use crate::ports::OurPorts;
use transom_output::note;

/// Tables of the library's own: each path's routes, for packets from its addresses.
const FIRST_TABLE: u32 = 100;

pub struct Leg {
    spec: PathSpec,
    path: Path,
    pub card: Shared,
    nic: NicId,
    table: u32,
    metric: u32,
    /// The host says that it can carry something.
    up: bool,
    /// Deleted; one of its name may come.
    gone: bool,
}

/// What a leg acts on when it hears something.
pub struct Surroundings<'a> {
    pub kernel: &'a mut Kernel,
    pub ports: &'a OurPorts,
    pub mptcp: bool,
}

impl Leg {
    /// Makes the interface one of the library's, with its addresses and routes.
    pub fn attach(
        kernel: &mut Kernel,
        spec: PathSpec,
        number: u32,
        ports: &OurPorts,
    ) -> Result<Self> {
        let path = spec.resolve()?;
        let name = path.interface.name.clone();
        let card =
            Shared::new(&path, PacketNic::on_path(&path, ports.all(), PacketOptions::default())?)?;
        let nic = kernel
            .add_nic(&card.parameters(name.clone()), Box::new(card.clone()))
            .with_context(|| format!("the library's interface {name}"))?;
        let (table, metric) = (FIRST_TABLE + number, number + 1);
        let leg = Self { spec, path, card, nic, table, metric, up: true, gone: false };
        leg.configure(kernel).with_context(|| format!("the library's interface {name}"))?;
        Ok(leg)
    }

    fn configure(&self, kernel: &mut Kernel) -> transom_netstack::Result<()> {
        kernel.set_up(self.nic, true)?;
        self.path.addresses.iter().try_for_each(|address| self.add_address(kernel, address))?;
        self.path
            .link_local
            .iter()
            .try_for_each(|it| kernel.add_address(self.nic, it.ip, it.prefix))
    }

    fn add_address(&self, kernel: &mut Kernel, address: &Address) -> transom_netstack::Result<()> {
        kernel.add_address(self.nic, address.ip, address.prefix)?;
        kernel.add_source_rule(address.ip, self.table)?;
        self.add_routes(kernel, address.ip)
    }

    /// All goes out here: which station is next, the card knows.
    fn add_routes(&self, kernel: &mut Kernel, own: IpAddr) -> transom_netstack::Result<()> {
        let any: IpAddr = match own {
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let main = Route {
            destination: (any, 0),
            gateway: None,
            nic: self.nic,
            metric: Some(self.metric),
            table: None,
        };
        kernel.add_route(&main)?;
        kernel.add_route(&Route { table: Some(self.table), ..main })
    }

    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.path.addresses.iter().map(|address| address.ip)
    }

    /// Also those that reach no further than the link.
    pub fn all_addresses(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.addresses().chain(self.path.link_local.map(|address| address.ip))
    }

    /// The host's number of the interface, and the library's.
    pub fn numbers(&self, kernel: &Kernel) -> Option<(u32, u32)> {
        Some((self.path.interface.index, kernel.index_of(self.nic).ok()?))
    }

    pub fn is_up(&self) -> bool {
        self.up
    }

    pub fn is_backup(&self) -> bool {
        self.spec.backup
    }

    /// MPTCP connections use it.
    pub fn add_endpoints(&self, kernel: &mut Kernel) -> transom_netstack::Result<()> {
        self.addresses().try_for_each(|address| self.add_endpoint(kernel, address))
    }

    fn add_endpoint(&self, kernel: &mut Kernel, address: IpAddr) -> transom_netstack::Result<()> {
        let PathSpec { backup, signal, .. } = self.spec;
        // Not both: what the kernel uses for a subflow of a connection it does not announce on it.
        let flags = EndpointFlags { subflow: !signal, signal, backup, ..Default::default() };
        kernel.add_endpoint(self.nic, &Endpoint { address, id: 0, flags })
    }

    fn remove_endpoints(
        &self,
        kernel: &mut Kernel,
        which: impl Fn(IpAddr) -> bool,
    ) -> transom_netstack::Result<()> {
        let all = kernel.endpoints()?;
        all.iter().filter(|e| which(e.address)).try_for_each(|e| kernel.remove_endpoint(e))
    }

    /// What the host says of its interface.
    pub fn hear(&mut self, event: &Event, around: &mut Surroundings) {
        let done = self.follow(event, around);
        if let Err(error) = done {
            self.say(&format!("{error:#}"));
        }
    }

    fn say(&self, what: &str) {
        note!("transom run: {}: {what}", self.path.interface.name);
    }

    fn follow(&mut self, event: &Event, around: &mut Surroundings) -> Result<()> {
        if self.gone {
            return self.return_as_another(event, around);
        }
        let index = self.path.interface.index;
        match event {
            Event::Link { index: of, name, up, running, mtu } if *of == index => {
                self.path.interface.name.clone_from(name);
                self.spec.interface.clone_from(name);
                if *mtu != self.path.interface.mtu {
                    self.set_mtu(*mtu, around)?;
                }
                self.turn_to(*up && *running, around)
            }
            Event::Gone { index: of } if *of == index => {
                self.gone = true;
                self.turn_to(false, around)
            }
            Event::AddressAdded { index: of, .. }
            | Event::AddressRemoved { index: of, .. }
            | Event::Gateway { index: of }
                if *of == index =>
            {
                self.look_again(around)
            }
            Event::Overrun => self.look_again(around),
            Event::Neighbour { index: of, ip, .. } if *of == index => {
                self.card.card().heard_of(*ip);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn set_mtu(&mut self, mtu: u32, around: &mut Surroundings) -> Result<()> {
        self.path.interface.mtu = mtu;
        around.kernel.set_mtu(self.nic, mtu.min(65535)).context("its MTU")
    }

    /// One that is gone is told of by an event of its own.
    fn look_again(&mut self, around: &mut Surroundings) -> Result<()> {
        match self.path.interface.again() {
            Ok(interface) => {
                let path = self.spec.on(interface, Some(&self.path));
                self.take_over(path, around)
            }
            Err(_) => Ok(()),
        }
    }

    /// The library's addresses and neighbours become those of the path as it is now.
    fn take_over(&mut self, path: Path, around: &mut Surroundings) -> Result<()> {
        let missing =
            |from: &Path, address: &Address| from.addresses.iter().all(|a| a.ip != address.ip);
        let before = std::mem::replace(&mut self.path, path);
        for address in before.addresses.iter().filter(|address| missing(&self.path, address)) {
            self.say(&format!("{} is no longer its address", address.ip));
            self.lose(address.ip, address.prefix, around)?;
        }
        // Before anything is sent from an address that comes: a connection attempt that nobody can
        // carry fails at once.
        if let Some(hops) = &mut self.card.card().hops {
            hops.follow(&self.path);
        }
        for address in self.path.addresses.iter().filter(|address| missing(&before, address)) {
            self.say(&format!("{} is its address now", address.ip));
            self.gain(address, around)?;
        }
        self.take_over_link_local(before.link_local, around)?;
        self.try_again(&before, around)
    }

    /// Hosts learn an address first and then its gateway. A subflow that was tried in between has
    /// failed, and the kernel tries each endpoint once. One that is open stays: to close it would tell
    /// the peer that the address is gone.
    fn try_again(&self, before: &Path, around: &mut Surroundings) -> Result<()> {
        if !around.mptcp || !self.up {
            return Ok(());
        }
        let leads_on = |path: &Path, ip: IpAddr| {
            path.gateways.iter().any(|gateway| gateway.is_ipv4() == ip.is_ipv4())
        };
        let kept = before.addresses.iter().map(|address| address.ip);
        for ip in kept.filter(|ip| self.addresses().any(|own| own == *ip)) {
            if leads_on(before, ip) || !leads_on(&self.path, ip) {
                continue;
            }
            if !connections::any_from(around.kernel, ip) {
                self.remove_endpoints(around.kernel, |of| of == ip)?;
                self.add_endpoint(around.kernel, ip)?;
            }
        }
        Ok(())
    }

    fn take_over_link_local(
        &self,
        before: Option<Address>,
        around: &mut Surroundings,
    ) -> Result<()> {
        let now = self.path.link_local;
        if before.map(|address| address.ip) == now.map(|address| address.ip) {
            return Ok(());
        }
        if let Some(Address { ip, prefix, .. }) = before {
            around.kernel.remove_address(self.nic, ip, prefix)?;
            // An interface that took the place of another one never had it.
            let _ = self.card.card().nic.divert_mut().remove_address(ip);
        }
        if let Some(Address { ip, prefix, .. }) = now {
            self.card.card().nic.divert_mut().add_address(ip)?;
            around.kernel.add_address(self.nic, ip, prefix)?;
        }
        Ok(())
    }

    fn lose(&self, address: IpAddr, prefix: u8, around: &mut Surroundings) -> Result<()> {
        self.remove_endpoints(around.kernel, |of| of == address)?;
        around.kernel.remove_address(self.nic, address, prefix)?;
        around.kernel.remove_source_rule(address, self.table)?;
        self.card.card().nic.divert_mut().remove_address(address)
    }

    fn gain(&self, address: &Address, around: &mut Surroundings) -> Result<()> {
        self.card.card().nic.divert_mut().add_address(address.ip)?;
        self.add_address(around.kernel, address)?;
        if around.mptcp && self.up {
            self.add_endpoint(around.kernel, address.ip)?;
        }
        Ok(())
    }

    /// A modem that was away comes as a new interface of the old name.
    fn return_as_another(&mut self, event: &Event, around: &mut Surroundings) -> Result<()> {
        if !matches!(event, Event::Link { .. } | Event::AddressAdded { .. } | Event::Overrun) {
            return Ok(());
        }
        let Ok(interface) = Interface::find(&self.spec.interface) else { return Ok(()) };
        if !interface.up || interface.kind().is_err() {
            return Ok(());
        }
        let path = self.spec.on(interface, None);
        if path.addresses.is_empty() {
            return Ok(());
        }
        let (name, running) = (path.interface.name.clone(), path.interface.running);
        let nic = PacketNic::on_path(&path, around.ports.all(), PacketOptions::default())?;
        self.gone = false;
        ensure!(
            nic.offloads() == self.card.card().nic.offloads(),
            "the new {name} is of another kind; start the program again to use it"
        );
        self.card.replace(&path, nic)?;
        self.set_mtu(path.interface.mtu, around)?;
        self.take_over(path, around)?;
        self.turn_to(running, around)
    }

    fn turn_to(&mut self, up: bool, around: &mut Surroundings) -> Result<()> {
        if up == self.up {
            return Ok(());
        }
        self.up = up;
        note!(
            "transom run: {} is {}",
            self.path.interface.name,
            if up { "up again" } else { "down" }
        );
        let done = if up { self.come_back(around) } else { self.go_away(around) };
        Ok(done?)
    }

    fn go_away(&self, around: &mut Surroundings) -> transom_netstack::Result<()> {
        if around.mptcp {
            self.remove_endpoints(around.kernel, |of| self.addresses().any(|own| own == of))?;
        }
        around.kernel.set_carrier(self.nic, false);
        Ok(())
    }

    fn come_back(&self, around: &mut Surroundings) -> transom_netstack::Result<()> {
        around.kernel.set_carrier(self.nic, true);
        for address in self.addresses() {
            self.add_routes(around.kernel, address)?;
            if around.mptcp {
                self.add_endpoint(around.kernel, address)?;
            }
        }
        Ok(())
    }
}
