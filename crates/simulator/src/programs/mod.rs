//! The programs of the hosts: they listen, connect, write, read and close when sockets and time let
//! them, as a program with an event loop does.

mod connection;
mod datagrams;
mod exchange;
mod sockets;
mod source;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

use anyhow::Result;
use transom_emulator::{Nanos, Stream};
use transom_scenario::{Failure, Flow, FlowOutcome, Protocol, Scenario, Traffic, Transfer};

use crate::kernels::{Kernels, Socket};
use crate::world::World;
use connection::Connection;
use datagrams::Datagrams;
pub use sockets::{open_all as open_sockets, raw as raw_address};
use source::Source;
pub use source::nanos;

pub struct Programs {
    scenario: Scenario,
    flows: Vec<Running>,
    connections: Vec<Connection>,
    /// Of each kernel's sockets, by their numbers.
    roles: Vec<Vec<Option<Role>>>,
    /// Who opened a connection, by flow and local port.
    opened: HashMap<(usize, u16), usize>,
    timers: BinaryHeap<Reverse<(Nanos, Timer)>>,
    /// The earliest of each connection and each stream of datagrams: one is enough.
    due: HashMap<Timer, Nanos>,
    unfinished: usize,
    failures: Vec<Failure>,
}

struct Running {
    name: String,
    start: Nanos,
    /// When the first byte was read.
    first_read: Option<Nanos>,
    listener: Option<Socket>,
    datagrams: Option<Datagrams>,
    per_second: Vec<u64>,
    received: u64,
    /// Connections, or the stream of datagrams, that have not ended, well or not.
    connections_left: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Timer {
    Begin(usize),
    Connection(usize),
    Datagrams(usize),
}

#[derive(Clone, Copy, Debug)]
enum Role {
    Listener(usize),
    Connection(usize),
    Datagrams(usize),
}

impl Programs {
    pub fn new(scenario: &Scenario) -> Result<Programs> {
        let running = |(name, flow): (&String, &Flow)| Running {
            name: name.clone(),
            start: nanos(flow.start_s),
            first_read: None,
            listener: None,
            datagrams: None,
            per_second: Vec::new(),
            received: 0,
            connections_left: connections(flow),
        };
        let flows: Vec<Running> = scenario.flows.iter().map(running).collect();
        Ok(Programs {
            scenario: scenario.clone(),
            unfinished: flows.len(),
            flows,
            connections: Vec::new(),
            roles: Vec::new(),
            opened: HashMap::new(),
            timers: BinaryHeap::new(),
            due: HashMap::new(),
            failures: Vec::new(),
        })
    }

    /// Everyone listens before the first connects.
    pub fn start(&mut self, world: &mut World) -> Result<()> {
        for index in 0..self.flows.len() {
            let flow = self.flow(index).clone();
            let (kernel, _) = world.hosts[flow.listens()];
            match sockets::listen(world.at(flow.listens()), &self.scenario, &flow) {
                Ok(id) => {
                    let socket = Socket { kernel, id };
                    let udp = flow.protocol == Protocol::Udp;
                    let role = if udp { Role::Datagrams(index) } else { Role::Listener(index) };
                    self.give(socket, role);
                    self.flows[index].listener = Some(socket);
                    self.wake(Timer::Begin(index), self.flows[index].start);
                }
                Err(error) => {
                    self.note_failure(index, format!("{error:#}"));
                    self.end_connections(index, connections(&flow));
                }
            }
        }
        Ok(())
    }

    pub fn are_done(&self) -> bool {
        self.unfinished == 0
    }

    /// When a program wants to act by itself.
    pub fn next(&self) -> Option<Nanos> {
        self.timers.peek().map(|Reverse((at, _))| *at)
    }

    /// What is due by now; false: nothing was.
    pub fn pass(&mut self, world: &mut World, now: Nanos) -> Result<bool> {
        let mut acted = false;
        while let Some(Reverse((at, timer))) =
            self.timers.peek().copied().filter(|it| it.0.0 <= now)
        {
            self.timers.pop();
            // An earlier one has taken its place.
            if self.due.get(&timer) != Some(&at) {
                continue;
            }
            self.due.remove(&timer);
            acted = true;
            match timer {
                Timer::Begin(flow) => self.begin(world, flow, now),
                Timer::Connection(connection) => self.visit(world, connection, now),
                Timer::Datagrams(flow) => self.visit_datagrams(world, flow, now),
            }
        }
        Ok(acted)
    }

    /// The kernel says that something changed for a socket.
    pub fn ready(&mut self, world: &mut World, socket: Socket, now: Nanos) -> Result<()> {
        match self.role(socket) {
            Some(Role::Listener(flow)) => self.accept(world, flow, socket, now),
            Some(Role::Connection(connection)) => self.visit(world, connection, now),
            Some(Role::Datagrams(flow)) => self.visit_datagrams(world, flow, now),
            None => {}
        }
        Ok(())
    }

    /// The TCP connections of a host that its programs have open: a number that no other connection
    /// of the run has, the socket, and the flow.
    pub fn ends(&self, host: &str) -> impl Iterator<Item = (u64, Socket, &str)> {
        self.connections.iter().enumerate().flat_map(move |(at, connection)| {
            let ends = self.ends_of(at, connection).into_iter();
            ends.filter(move |(of, _)| *of == host).map(|(_, end)| end)
        })
    }

    /// The connections that a host sends with, as [`Programs::ends`] has them, and which host is at
    /// the other end.
    pub fn sending_ends(&self, host: &str) -> impl Iterator<Item = (u64, Socket, usize)> {
        self.connections.iter().enumerate().filter_map(move |(at, connection)| {
            let flow = self.flow(connection.flow);
            let socket = connection.near.filter(|_| flow.from == host)?;
            let to = self.scenario.hosts.keys().position(|name| *name == flow.to)?;
            Some((2 * at as u64 + 1, socket, to))
        })
    }

    /// The host of a connection's socket, and what [`Programs::ends`] says of it.
    pub fn end(&self, socket: Socket) -> Option<(&str, (Socket, u64, &str))> {
        let Some(Role::Connection(at)) = self.role(socket) else { return None };
        let mut ends = self.ends_of(at, self.connections.get(at)?).into_iter();
        let (host, (cookie, _, flow)) = ends.find(|(_, end)| end.1 == socket)?;
        Some((host, (socket, cookie, flow)))
    }

    fn ends_of<'a>(
        &'a self,
        at: usize,
        connection: &'a Connection,
    ) -> Vec<(&'a str, (u64, Socket, &'a str))> {
        let name = self.flows[connection.flow].name.as_str();
        let flow = self.flow(connection.flow);
        let number = 2 * at as u64 + 1;
        let near = connection.near.map(|it| (flow.from.as_str(), (number, it, name)));
        let far = connection.far.map(|it| (flow.to.as_str(), (number + 1, it, name)));
        near.into_iter().chain(far).collect()
    }

    fn begin(&mut self, world: &mut World, index: usize, now: Nanos) {
        let flow = self.flow(index).clone();
        let (kernel, _) = world.hosts[flow.opens()];
        let wanted = connections(&flow);
        for number in 0..wanted {
            match sockets::connect(world.at(flow.opens()), &self.scenario, &flow) {
                Err(error) => {
                    self.note_failure(index, format!("{error:#}"));
                    self.end_connections(index, wanted - number);
                    return;
                }
                Ok((id, _)) if flow.protocol == Protocol::Udp => {
                    self.begin_datagrams(world, index, Socket { kernel, id }, now);
                    return;
                }
                Ok((id, port)) => {
                    let socket = Socket { kernel, id };
                    let name = format!("flow.{}.{number}", self.flows[index].name);
                    let random = Stream::new(self.scenario.seed, &name);
                    let source = Source::new(&flow.traffic, now, random);
                    let mut connection = Connection::new(index, &flow, source, now);
                    let end = if flow.reverse { &mut connection.far } else { &mut connection.near };
                    *end = Some(socket);
                    self.connections.push(connection);
                    let at = self.connections.len() - 1;
                    self.opened.insert((index, port), at);
                    self.give(socket, Role::Connection(at));
                    self.visit(world, at, now);
                }
            }
        }
    }

    fn begin_datagrams(&mut self, world: &mut World, index: usize, near: Socket, now: Nanos) {
        let flow = self.flow(index).clone();
        let (Traffic::Constant { mbit, datagram, seconds }, Some(far)) =
            (&flow.traffic, self.flows[index].listener)
        else {
            return;
        };
        let until = now + nanos(*seconds);
        let datagrams = Datagrams::new(near, far, *mbit, *datagram, now, until);
        self.flows[index].datagrams = Some(datagrams);
        self.give(near, Role::Datagrams(index));
        self.visit_datagrams(world, index, now);
    }

    fn accept(&mut self, world: &mut World, index: usize, listener: Socket, now: Nanos) {
        let here = listener.kernel;
        while let Ok(id) = world.kernels.of(here).accept(listener.id) {
            let socket = Socket { kernel: here, id };
            let port = sockets::peer_port(world.kernels.of(here), id).unwrap_or(0);
            let opened = self.opened.get(&(index, port)).copied();
            let Some(at) = opened.filter(|at| !self.connections[*at].is_over()) else {
                world.kernels.close(socket);
                continue;
            };
            let reverse = self.flow(index).reverse;
            let connection = &mut self.connections[at];
            let end = if reverse { &mut connection.near } else { &mut connection.far };
            *end = Some(socket);
            connection.is_accepted = true;
            self.give(socket, Role::Connection(at));
            self.visit(world, at, now);
        }
    }

    fn visit(&mut self, world: &mut World, at: usize, now: Nanos) {
        let connection = &mut self.connections[at];
        if connection.is_over() {
            return;
        }
        let index = connection.flow;
        match connection.visit(&mut world.kernels, now) {
            Ok(visit) => {
                if let Some(again) = visit.again {
                    self.wake(Timer::Connection(at), again.max(now + 1));
                }
                self.count(index, visit.received, now);
            }
            Err(error) => {
                connection.give_up(&mut world.kernels);
                self.note_failure(index, format!("{error}"));
            }
        }
        if self.connections[at].is_over() {
            self.end_connections(index, 1);
        }
    }

    fn visit_datagrams(&mut self, world: &mut World, index: usize, now: Nanos) {
        let running = self.flows[index].datagrams.as_mut();
        let Some(datagrams) = running.filter(|it| !it.has_failed) else { return };
        let was_over = datagrams.is_over();
        let visited = datagrams.visit(&mut world.kernels, now);
        datagrams.has_failed = visited.is_err();
        let ends = !was_over && datagrams.is_over();
        match visited {
            Ok((read, again)) => {
                if let Some(again) = again {
                    self.wake(Timer::Datagrams(index), again.max(now + 1));
                }
                self.count(index, read, now);
            }
            Err(error) => self.note_failure(index, format!("{error}")),
        }
        if ends {
            self.end_connections(index, 1);
        }
    }

    fn wake(&mut self, timer: Timer, at: Nanos) {
        if self.due.get(&timer).is_none_or(|due| at < *due) {
            self.due.insert(timer, at);
            self.timers.push(Reverse((at, timer)));
        }
    }

    fn count(&mut self, index: usize, bytes: u64, now: Nanos) {
        if bytes == 0 {
            return;
        }
        let flow = &mut self.flows[index];
        flow.received += bytes;
        let first = *flow.first_read.get_or_insert(now);
        let second = ((now - first) / 1_000_000_000) as usize;
        if flow.per_second.len() <= second {
            flow.per_second.resize(second + 1, 0);
        }
        flow.per_second[second] += bytes;
    }

    fn note_failure(&mut self, index: usize, what: String) {
        let flow = Some(self.flows[index].name.clone());
        self.failures.push(Failure { flow, what });
    }

    /// So many of a flow's connections are over, each told once; with the last the flow is.
    fn end_connections(&mut self, index: usize, number: u32) {
        let left = &mut self.flows[index].connections_left;
        *left -= number;
        self.unfinished -= usize::from(*left == 0);
    }

    fn give(&mut self, socket: Socket, role: Role) {
        let number = socket.id.number();
        self.roles.resize_with(self.roles.len().max(socket.kernel + 1), Vec::new);
        let of_kernel = &mut self.roles[socket.kernel];
        of_kernel.resize(of_kernel.len().max(number + 1), None);
        of_kernel[number] = Some(role);
    }

    fn role(&self, socket: Socket) -> Option<Role> {
        *self.roles.get(socket.kernel)?.get(socket.id.number())?
    }

    fn flow(&self, index: usize) -> &Flow {
        &self.scenario.flows[&self.flows[index].name]
    }

    /// Flows that were still trying to connect when the simulation ended: nothing else tells of them.
    fn note_unconnected(&mut self) {
        for index in 0..self.flows.len() {
            let of_flow = || self.connections.iter().filter(|it| it.flow == index);
            let tried = of_flow().filter(|it| !it.is_accepted && !it.has_failed).count();
            match (tried, of_flow().count()) {
                (0, _) => {}
                (tried, all) if tried == all => {
                    self.note_failure(index, "it was never connected".to_owned());
                }
                (tried, all) => {
                    let what = format!("{tried} of its {all} connections were never connected");
                    self.note_failure(index, what);
                }
            }
        }
    }

    /// What came of the flows, those cut off as far as they came.
    pub fn outcome(
        mut self,
        kernels: &mut Kernels,
    ) -> (BTreeMap<String, FlowOutcome>, Vec<Failure>) {
        self.note_unconnected();
        let mut transfers: Vec<Vec<Transfer>> = self.flows.iter().map(|_| Vec::new()).collect();
        let mut sent = vec![(0, 0); self.flows.len()];
        for connection in &mut self.connections {
            connection.cut();
            connection.count_sent(kernels);
            let of_flow: &mut (u64, u64) = &mut sent[connection.flow];
            of_flow.0 += connection.sent.0;
            of_flow.1 += connection.sent.1;
            transfers[connection.flow].append(&mut connection.transfers);
        }
        let mut outcome = BTreeMap::new();
        let flows = self.flows.into_iter().zip(transfers).zip(sent);
        for ((flow, mut transfers), (segments, retransmitted)) in flows {
            if let Some(datagrams) = &flow.datagrams {
                transfers.push(Transfer {
                    began_s: datagrams.began as f64 / 1e9,
                    first_read_s: datagrams.first_read.map(|at| at as f64 / 1e9),
                    ended_s: Some(datagrams.last_read as f64 / 1e9),
                    bytes: datagrams.bytes,
                });
            }
            let datagrams = flow.datagrams.map(|it| (it.sent, it.received));
            let (received, per_second) = (flow.received, flow.per_second);
            let flow_outcome =
                FlowOutcome { transfers, received, per_second, segments, retransmitted, datagrams };
            outcome.insert(flow.name, flow_outcome);
        }
        (outcome, self.failures)
    }
}

/// Datagrams are one stream, whatever number is asked for.
fn connections(flow: &Flow) -> u32 {
    if flow.protocol == Protocol::Udp { 1 } else { flow.connections }
}
