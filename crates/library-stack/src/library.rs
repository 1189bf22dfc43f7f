//! Linux as a library, as the stack that the supervisor works on.

use std::collections::HashMap;
use std::fs;
use std::io::{IoSlice, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use transom_netstack::{Error, Kernel, Message, Parameters};
use transom_nic::{InterfaceEvents, Transport};
use transom_supervisor::{
    Address, Arguments, Errno, PathStatus, PollFd, Received, SocketId, Stack, Sysctl, Undelivered,
    tcp_info,
};

use crate::connections;
use crate::events::Pipe;
use crate::leg::{Leg, Surroundings};
use crate::memory;
use crate::moderation::Moderation;
use crate::numbers::{self, Numbers, Way};
use crate::paths;
use crate::ports::OurPorts;
use crate::privilege;
use crate::resolvers::Resolvers;
use crate::subflows;

/// MPTCP's limits of the in-kernel path manager: all that it takes.
const MOST_SUBFLOWS: u32 = 8;

pub struct Library {
    kernel: Kernel,
    legs: Vec<Leg>,
    ports: OurPorts,
    watch: InterfaceEvents,
    resolvers: Resolvers,
    mptcp: bool,
    transports: HashMap<SocketId, Transport>,
    poll_fds: Vec<PollFd>,
    events: Option<Pipe>,
    /// An interface has more frames than one turn took.
    more: bool,
    moderation: Moderation,
}

const PORT_RANGE: &str = "net.ipv4.ip_local_port_range";

const SETTINGS: [(&str, &str); 6] = [
    // Who may send echo requests without a privilege, the host says (`ping_group_range`).
    ("net.ipv4.ping_group_range", "0 2147483647"),
    // Its addresses are the host's, which hears the routers for both (RFC 4861).
    ("net.ipv6.conf.default.accept_ra", "0"),
    ("net.ipv6.conf.default.autoconf", "0"),
    // Also those of link scope: nobody would answer for another one.
    ("net.ipv6.conf.default.addr_gen_mode", "1"),
    // It has fewer ports than a host: those in TIME-WAIT are used again after a second (RFC 6191).
    ("net.ipv4.tcp_tw_reuse", "1"),
    // Linux 6.18 drops an announcement that comes with the first bytes of a connection: it comes again
    // after a second, not after two minutes.
    ("net.mptcp.add_addr_timeout", "1"),
];

/// The most that a program may ask for: it reads the host's in `/proc/sys`. Where a namespace has not
/// got one of them, the library keeps its own.
const OF_THE_HOST: [&str; 3] = ["net.core.rmem_max", "net.core.wmem_max", "net.core.somaxconn"];

/// Answers to other ports than ours would go to the host.
fn set_as_asked(kernel: &mut Kernel, setting: &Sysctl, ports: &OurPorts) -> Result<()> {
    let parts = |key: &str| key.split(['/', '.']).map(str::to_owned).collect::<Vec<_>>();
    if parts(&setting.key) == parts(PORT_RANGE) {
        bail!(
            "its ports are those that the host leaves free, here {}; others become free if the host \
             picks from fewer (its own {PORT_RANGE})",
            ports.range()
        );
    }
    kernel.set_sysctl(&setting.key, &setting.value)?;
    Ok(())
}

/// With all settings that do not depend on paths and options.
fn booted(memory: usize, ports: &str) -> Result<Kernel> {
    let parameters = Parameters { memory, ..Parameters::from_host()? };
    let mut kernel = Kernel::boot(parameters).context("booting the library")?;
    kernel.set_loopback_up()?;
    kernel.set_sysctl(PORT_RANGE, ports)?;
    kernel.set_sysctl("net.ipv4.tcp_mem", &memory::for_tcp(memory))?;
    for (name, value) in SETTINGS {
        kernel.set_sysctl(name, value)?;
    }
    for name in OF_THE_HOST {
        if let Ok(value) = fs::read_to_string(format!("/proc/sys/{}", name.replace('.', "/"))) {
            kernel.set_sysctl(name, value.trim())?;
        }
    }
    Ok(kernel)
}

impl Library {
    pub fn boot(arguments: &Arguments, events: Option<Pipe>) -> Result<Self> {
        privilege::check()?;
        let specs = paths::asked_for(arguments)?;
        let ports = OurPorts::claim()?;
        let watch = InterfaceEvents::open()?;
        let mut kernel = booted(memory::of_the_library(), &ports.range())?;
        if let Some(pipe) = &events {
            let events = pipe.events(kernel.now());
            kernel.trace(Some(events)).context("--record")?;
        }
        let mut legs = Vec::new();
        for (number, spec) in (0..).zip(specs) {
            legs.push(Leg::attach(&mut kernel, spec, number, &ports)?);
        }
        if arguments.mptcp {
            kernel.set_mptcp_limits(MOST_SUBFLOWS, MOST_SUBFLOWS)?;
            for leg in &legs {
                leg.add_endpoints(&mut kernel)?;
            }
        }
        for setting in &arguments.sysctls {
            set_as_asked(&mut kernel, setting, &ports)
                .with_context(|| format!("--sysctl {}={}", setting.key, setting.value))?;
        }
        let own: Vec<IpAddr> = legs.iter().flat_map(Leg::all_addresses).collect();
        let mut library = Self {
            resolvers: Resolvers::of_host(&own),
            kernel,
            legs,
            ports,
            watch,
            mptcp: arguments.mptcp,
            transports: HashMap::new(),
            poll_fds: Vec::new(),
            events,
            more: false,
            moderation: Moderation::default(),
        };
        library.look_at_descriptors();
        Ok(library)
    }

    fn hear_the_host(&mut self) {
        let (kernel, ports) = (&mut self.kernel, &self.ports);
        let mut around = Surroundings { kernel, ports, mptcp: self.mptcp };
        for event in self.watch.by_ref() {
            for leg in &mut self.legs {
                leg.hear(&event, &mut around);
            }
        }
    }

    /// An address of the program's as the library knows it: interfaces have other numbers there.
    fn inwards(&self, address: &[u8]) -> Address {
        self.exchanged(address, Way::Inwards)
    }

    /// An address of the library's for the program.
    fn outwards(&self, address: &[u8]) -> Address {
        self.exchanged(address, Way::Outwards)
    }

    fn exchanged(&self, address: &[u8], way: Way) -> Address {
        let address = Address::from_bytes(address);
        // Most name no interface, and no time is spent on them.
        match address.ip() {
            Some(SocketAddr::V6(v6)) if v6.scope_id() != 0 => self.numbers().address(v6, way),
            _ => address,
        }
    }

    fn numbers(&self) -> Numbers {
        Numbers(self.legs.iter().filter_map(|leg| leg.numbers(&self.kernel)).collect())
    }

    fn look_at_descriptors(&mut self) {
        let input = libc::EPOLLIN as u32;
        let output = libc::EPOLLOUT as u32;
        let frames = if self.moderation.left(Instant::now()).is_some() { 0 } else { input };
        self.poll_fds.clear();
        self.poll_fds.push(PollFd { fd: self.watch.descriptor().as_raw_fd(), events: input });
        let nics = self.kernel.descriptors();
        self.poll_fds.extend(nics.map(|(fd, stopped)| PollFd {
            fd,
            events: if stopped { frames | output } else { frames },
        }));
    }
}

fn errno(error: Error) -> Errno {
    Errno(error.errno)
}

fn inner(socket: SocketId) -> transom_netstack::SocketId {
    transom_netstack::SocketId(socket.0)
}

impl Stack for Library {
    fn socket(&mut self, domain: i32, kind: i32, protocol: i32) -> Result<SocketId, Errno> {
        let made = self.kernel.socket(domain, kind, protocol).map_err(errno)?;
        let socket = SocketId(made.0);
        let transport = match (kind, protocol) {
            (libc::SOCK_STREAM, _) => Some(Transport::Tcp),
            (libc::SOCK_DGRAM, 0 | libc::IPPROTO_UDP) => Some(Transport::Udp),
            // What those of ICMP are bound to is no port.
            _ => None,
        };
        self.transports.extend(transport.map(|transport| (socket, transport)));
        Ok(socket)
    }

    fn bind(&mut self, socket: SocketId, address: &[u8]) -> Result<(), Errno> {
        let cards: Vec<_> = self.legs.iter().map(|leg| leg.card.clone()).collect();
        let at = Address::from_bytes(address).bound_to();
        let mut begun = None;
        if let (Some(at), Some(&transport)) = (at, self.transports.get(&socket)) {
            let own: Vec<IpAddr> = self.legs.iter().flat_map(Leg::all_addresses).collect();
            let is_new = self.ports.serve(transport, at, &own, &cards)?;
            begun = is_new.then_some((transport, at.port()));
        }
        let address = self.inwards(address);
        let bound = self.kernel.bind(inner(socket), address.as_bytes());
        if let (Err(_), Some((transport, port))) = (&bound, begun) {
            self.ports.give_back(transport, port, &cards);
        }
        bound.map_err(errno)
    }

    fn connect(&mut self, socket: SocketId, address: &[u8]) -> Result<(), Errno> {
        self.resolvers.asked(Address::from_bytes(address).ip());
        let address = self.inwards(address);
        self.kernel.connect(inner(socket), address.as_bytes()).map_err(errno)
    }

    fn listen(&mut self, socket: SocketId, backlog: i32) -> Result<(), Errno> {
        self.kernel.listen(inner(socket), backlog).map_err(errno)
    }

    fn accept(&mut self, socket: SocketId) -> Result<(SocketId, Address), Errno> {
        let made = self.kernel.accept(inner(socket)).map_err(errno)?;
        let peer = self.kernel.getpeername(made).unwrap_or_default();
        Ok((SocketId(made.0), self.outwards(&peer)))
    }

    fn shutdown(&mut self, socket: SocketId, how: i32) -> Result<(), Errno> {
        self.kernel.shutdown(inner(socket), how).map_err(errno)
    }

    fn close(&mut self, socket: SocketId) {
        self.transports.remove(&socket);
        self.kernel.close(inner(socket));
    }

    fn send(
        &mut self,
        socket: SocketId,
        data: &[IoSlice],
        flags: i32,
        destination: Option<&[u8]>,
        control: &[u8],
    ) -> Result<usize, Errno> {
        let flags = flags | libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        if let Some(address) = destination {
            self.resolvers.asked(Address::from_bytes(address).ip());
        }
        let destination = destination.map(|address| self.inwards(address));
        let destination = destination.as_ref().map(Address::as_bytes);
        let mut control = control.to_vec();
        if !control.is_empty() {
            self.numbers().control(&mut control, Way::Inwards);
        }
        self.kernel.send(inner(socket), data, flags, destination, &control).map_err(errno)
    }

    fn recv(
        &mut self,
        socket: SocketId,
        data: &mut [IoSliceMut],
        flags: i32,
        message: Option<&mut Received>,
    ) -> Result<usize, Errno> {
        let flags = flags | libc::MSG_DONTWAIT;
        let Some(message) = message else {
            return self.kernel.receive(inner(socket), data, flags, None).map_err(errno);
        };
        let control = std::mem::take(&mut message.control);
        let mut told = Message { control, ..Message::default() };
        let got = self.kernel.receive(inner(socket), data, flags, Some(&mut told));
        message.control = told.control;
        if !message.control.is_empty() {
            self.numbers().control(&mut message.control, Way::Outwards);
        }
        let got = got.map_err(errno)?;
        message.source = self.outwards(&told.source);
        message.flags = told.flags;
        Ok(got)
    }

    fn getsockopt(
        &mut self,
        socket: SocketId,
        level: i32,
        name: i32,
        value: &mut [u8],
    ) -> Result<usize, Errno> {
        let numbers = numbers::may_be_in(level, name).then(|| self.numbers());
        if let Some(numbers) = &numbers {
            numbers.option(level, name, value, Way::Inwards);
        }
        let length = self.kernel.getsockopt(inner(socket), level, name, value).map_err(errno)?;
        if let (Some(numbers), Some(answer)) = (numbers, value.get_mut(..length)) {
            numbers.option(level, name, answer, Way::Outwards);
        }
        Ok(length)
    }

    fn setsockopt(
        &mut self,
        socket: SocketId,
        level: i32,
        name: i32,
        value: &[u8],
    ) -> Result<(), Errno> {
        let mut exchanged;
        let value = match numbers::may_be_in(level, name) {
            true => {
                exchanged = value.to_vec();
                self.numbers().option(level, name, &mut exchanged, Way::Inwards);
                &exchanged
            }
            false => value,
        };
        self.kernel.setsockopt(inner(socket), level, name, value).map_err(errno)
    }

    fn ioctl(&mut self, socket: SocketId, request: u32, argument: &mut [u8]) -> Result<(), Errno> {
        self.kernel.ioctl(inner(socket), request, argument).map_err(errno)
    }

    fn interfaces(&mut self, socket: SocketId, list: Option<&mut [u8]>) -> Result<usize, Errno> {
        self.kernel.interface_list(inner(socket), list).map_err(errno)
    }

    fn sysctl(&mut self, name: &str) -> String {
        self.kernel.sysctl(name).unwrap_or_default()
    }

    fn getsockname(&mut self, socket: SocketId) -> Result<Address, Errno> {
        let name = self.kernel.getsockname(inner(socket)).map_err(errno)?;
        Ok(self.outwards(&name))
    }

    fn getpeername(&mut self, socket: SocketId) -> Result<Address, Errno> {
        let name = self.kernel.getpeername(inner(socket)).map_err(errno)?;
        Ok(self.outwards(&name))
    }

    fn poll(&mut self, socket: SocketId) -> u32 {
        self.kernel.poll(inner(socket))
    }

    fn turn(&mut self, ready: &mut Vec<SocketId>) {
        self.hear_the_host();
        let mut named = Vec::new();
        if self.moderation.left(Instant::now()).is_some() {
            self.kernel.turn_without_frames(&mut named);
        } else {
            self.more = self.kernel.turn(&mut named);
            let arrived = self.legs.iter().map(|leg| leg.card.take_arrived());
            let (frames, bytes) = arrived.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
            self.moderation.saw(Instant::now(), frames, bytes);
        }
        ready.extend(named.into_iter().map(|socket| SocketId(socket.0)));
        self.look_at_descriptors();
        self.more |= self.legs.iter().any(|leg| leg.card.has_errors());
        if let Some(pipe) = &self.events {
            pipe.flush();
        }
    }

    fn deadline(&mut self) -> Option<Duration> {
        if self.more {
            return Some(Duration::ZERO);
        }
        let held = self.moderation.left(Instant::now());
        [self.kernel.time_left(), held].into_iter().flatten().min()
    }

    fn poll_fds(&self) -> &[PollFd] {
        &self.poll_fds
    }

    fn lingering(&mut self) -> Undelivered {
        let down = self.legs.iter().filter(|leg| !leg.is_up());
        let cut_off: Vec<IpAddr> = down.flat_map(Leg::addresses).collect();
        connections::undelivered(&mut self.kernel, &cut_off)
    }

    fn paths(&mut self, socket: SocketId, accepted: bool) -> Vec<PathStatus> {
        let mut subflows = subflows::of(&mut self.kernel, inner(socket), accepted);
        if !subflows.is_empty() {
            let spare = self.legs.iter().filter(|leg| leg.is_backup());
            let spare: Vec<IpAddr> = spare.flat_map(Leg::addresses).collect();
            for path in &mut subflows {
                path.backup = path.local.ip().is_some_and(|local| spare.contains(&local.ip()));
            }
            return subflows;
        }
        let (Ok(local), Ok(remote)) = (self.getsockname(socket), self.getpeername(socket)) else {
            return Vec::new();
        };
        let mut bytes = [0; 256];
        match self.getsockopt(socket, libc::IPPROTO_TCP, libc::TCP_INFO, &mut bytes) {
            Ok(length) => vec![tcp_info::path(&bytes[..length], accepted, local, remote)],
            Err(_) => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_has_the_memory_that_it_is_given_and_tcp_half_of_it() {
        const MEMORY: usize = 512 << 20;
        let mut kernel = booted(MEMORY, "61440 63487").expect("a library");
        let three = kernel.sysctl("net.ipv4.tcp_mem").expect("a setting");
        assert_eq!(three.replace('\t', " "), memory::for_tcp(MEMORY));
        let told = kernel.read_proc("meminfo").expect("a file");
        let total = told.lines().find_map(|line| line.strip_prefix("MemTotal:")).expect("a total");
        let kib: usize = total.trim_end_matches("kB").trim().parse().expect("a number");
        let bytes = kib << 10;
        assert!((MEMORY / 10 * 9..=MEMORY).contains(&bytes), "{bytes} of {MEMORY}");
    }
}
