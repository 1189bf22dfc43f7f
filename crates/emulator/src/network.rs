//! The emulated network in logical time: no clock, no I/O.
//!
//! Frames go in with [`Network::arrive`], time passes with [`Network::advance`], which hands out
//! what reached its host and when. Every event carries its own logical time, so being late to
//! call either never adds up.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use anyhow::Result;

use crate::air::{Landing, Medium, Towards};
use crate::direction::Direction;
use crate::driver::{Driver, Step};
use crate::log::{AirLog, CellularLog, DirectionLog, QueueSeries, Totals};
use crate::packet::{Frame, Nanos, Packet, is_group};
use crate::plan::{Path, Plan, Side, Station};
use crate::sampler::Sampler;
use crate::server::Server;

/// A frame that has reached the host of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// When it did, in logical time.
    pub at: Nanos,
    /// Index into the plan's ports.
    pub port: usize,
    pub frame: Frame,
}

#[derive(Debug)]
pub struct Network {
    ports: Vec<Port>,
    /// Station → port.
    stations: Vec<usize>,
    air: Option<Medium>,
    up: Direction,
    down: Direction,
    cellular: Vec<Cellular>,
    events: BinaryHeap<Reverse<Event>>,
    /// Numbers events, so that those of one moment keep their order.
    next_number: u64,
    totals: Totals,
    sampler: Sampler,
    now: Nanos,
    landings: Vec<Landing>,
}

#[derive(Debug)]
struct Port {
    mac: [u8; 6],
    place: Place,
    receive: Option<Server>,
    receive_drops: u64,
    driver: Option<Driver>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Station(usize),
    Near,
    Far,
    Cellular(usize),
}

/// A host with a path of its own to where the far hosts are.
#[derive(Debug)]
struct Cellular {
    name: String,
    up: Direction,
    down: Direction,
}

impl Place {
    /// On the access point's side of the path.
    fn is_near(self) -> bool {
        matches!(self, Place::Station(_) | Place::Near)
    }
}

impl Cellular {
    fn new(name: &str, path: &Path, seed: u64) -> Cellular {
        let half = path.rtt_ms / 2.0;
        let way = |direction, way| Direction::new(direction, half, seed, &format!("{name}.{way}"));
        Cellular { name: name.to_owned(), up: way(&path.up, "up"), down: way(&path.down, "down") }
    }
}

#[derive(Debug)]
struct Event {
    at: Nanos,
    number: u64,
    packet: Packet,
    what: What,
}

#[derive(Clone, Copy, Debug)]
enum What {
    /// Reached the far end of the path.
    UpEnds,
    /// Reached the near end of the path.
    DownEnds,
    /// Of a cellular host's packet: reached the far hosts' switch.
    CellularUpEnds,
    Landed(Towards),
    /// A station's processor is done with the packet.
    Worked(usize, Step),
    Deliver(usize),
}

impl PartialEq for Event {
    fn eq(&self, other: &Event) -> bool {
        self.number == other.number
    }
}

impl Eq for Event {}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Event) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Event {
    fn cmp(&self, other: &Event) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

impl Network {
    /// Refuses a plan that [`Plan::check`] refuses.
    pub fn new(plan: &Plan) -> Result<Network> {
        plan.check()?;
        let mut stations = Vec::new();
        let mut radios: Vec<(&str, &Station)> = Vec::new();
        let mut ports = Vec::new();
        let mut cellular = Vec::new();
        for (index, port) in plan.ports.iter().enumerate() {
            let (mut receive, mut driver) = (None, None);
            let place = match &port.side {
                Side::Near => Place::Near,
                Side::Far => Place::Far,
                Side::Cellular(path) => {
                    cellular.push(Cellular::new(&port.name, path, plan.seed));
                    Place::Cellular(cellular.len() - 1)
                }
                Side::Air(station) => {
                    receive = station
                        .receive
                        .map(|ring| Server::new(ring.rate_mbit, Some(ring.queue_packets), None));
                    driver = Driver::new(station);
                    stations.push(index);
                    radios.push((&port.name, station));
                    Place::Station(radios.len() - 1)
                }
            };
            ports.push(Port { mac: port.mac, place, receive, receive_drops: 0, driver });
        }
        let half = plan.path.rtt_ms / 2.0;
        let air = plan.air.as_ref().filter(|_| !radios.is_empty());
        Ok(Network {
            air: air.map(|air| Medium::new(air, &radios, plan.seed)),
            sampler: Sampler::new(plan),
            ports,
            stations,
            cellular,
            up: Direction::new(&plan.path.up, half, plan.seed, "up"),
            down: Direction::new(&plan.path.down, half, plan.seed, "down"),
            events: BinaryHeap::new(),
            next_number: 0,
            totals: Totals::default(),
            now: 0,
            landings: Vec::new(),
        })
    }

    /// A host sends a frame. `now` is at or after every time given before.
    pub fn arrive(&mut self, now: Nanos, port: usize, frame: Frame) {
        debug_assert!(now >= self.now, "logical time never goes back");
        self.now = self.now.max(now);
        self.totals.entered += 1;
        let packet = Packet { frame, from: port };
        if packet.frame.destination().is_none() {
            self.totals.malformed += 1;
            return;
        }
        match self.ports[port].place {
            Place::Near => self.switch_near(now, packet),
            Place::Far => self.switch_far(now, packet),
            Place::Cellular(_) => self.enter_path(now, packet, self.ports[port].place),
            Place::Station(station) => match &mut self.ports[port].driver {
                None => self.send_on_air(now, station, packet),
                Some(driver) => {
                    driver.take_from_kernel(packet);
                    self.work(now, station);
                }
            },
        }
    }

    /// All that happens up to and including `until`; what reaches hosts is added to `out`, in the
    /// order of time.
    pub fn advance(&mut self, until: Nanos, out: &mut Vec<Delivery>) {
        loop {
            let event = self.events.peek().map(|Reverse(event)| event.at);
            let access = self.air.as_ref().and_then(Medium::next_access);
            let Some(next) = earliest(event, access).filter(|next| *next <= until) else { break };
            self.sample_before(next);
            self.now = self.now.max(next);
            if event == Some(next) {
                if let Some(Reverse(event)) = self.events.pop() {
                    self.happen(event, out);
                }
            } else {
                self.access(next);
            }
        }
        self.sample_before(until);
        self.now = self.now.max(until);
    }

    /// Nothing reaches a host before this, unless something arrives; none: nothing is inside.
    pub fn next_delivery(&self) -> Option<Nanos> {
        let event = self.events.peek().map(|Reverse(event)| event.at);
        earliest(event, self.air.as_ref().and_then(Medium::next_arrival))
    }

    pub fn totals(&self) -> Totals {
        self.totals
    }

    pub fn up(&self) -> DirectionLog {
        self.up.log
    }

    pub fn down(&self) -> DirectionLog {
        self.down.log
    }

    pub fn air(&self) -> Option<AirLog> {
        let mut log = self.air.as_ref()?.log(self.now);
        for (station, port) in self.stations.iter().enumerate() {
            let driver = self.ports[*port].driver.as_ref();
            log.stations[station].receive_drops = self.ports[*port].receive_drops;
            log.stations[station].sending_queue_drops = driver.map_or(0, |driver| driver.drops);
        }
        Some(log)
    }

    pub fn cellular(&self) -> Vec<CellularLog> {
        let log = |host: &Cellular| CellularLog {
            name: host.name.clone(),
            up: host.up.log,
            down: host.down.log,
        };
        self.cellular.iter().map(log).collect()
    }

    pub fn queues(&self) -> Vec<QueueSeries> {
        self.sampler.series()
    }

    fn happen(&mut self, event: Event, out: &mut Vec<Delivery>) {
        let Event { at, packet, what, .. } = event;
        match what {
            What::UpEnds => self.leave_path_far(at, packet),
            What::CellularUpEnds => self.switch_far(at, packet),
            What::DownEnds => self.leave_path_near(at, packet),
            What::Landed(Towards::AccessPoint) => self.switch_near(at, packet),
            What::Landed(Towards::Station(station)) => self.receive(at, station, packet),
            What::Landed(Towards::AllStations) => self.receive_group(at, packet),
            What::Worked(station, step) => {
                self.worked(at, station, step, packet);
                self.work(at, station);
            }
            What::Deliver(port) => {
                self.totals.delivered += 1;
                out.push(Delivery { at, port, frame: packet.frame });
            }
        }
    }

    /// At the access point, from a station or a near host.
    fn switch_near(&mut self, now: Nanos, packet: Packet) {
        let Some(to) = packet.frame.destination() else { return };
        if is_group(to) {
            let far = self.ports.iter().any(|port| port.place == Place::Far);
            let receivers = self.near_receivers(packet.from) + u64::from(far);
            self.count_copies(receivers);
            self.flood_near(now, &packet);
            if far {
                self.enter_path(now, packet, Place::Near);
            }
            return;
        }
        match self.host_of(to, packet.from) {
            None => self.totals.no_host += 1,
            Some((_, Place::Far | Place::Cellular(_))) => {
                self.enter_path(now, packet, Place::Near);
            }
            Some((port, place)) => self.hand_near(now, port, place, packet),
        }
    }

    /// At the far end of the path, from a far host.
    fn switch_far(&mut self, now: Nanos, packet: Packet) {
        let Some(to) = packet.frame.destination() else { return };
        if is_group(to) {
            let near = self.ports.iter().any(|port| port.place.is_near());
            let others = self.wired(Place::Far, packet.from).count() as u64;
            self.count_copies(others + u64::from(near));
            self.flood_wired(now, Place::Far, &packet);
            if near {
                self.enter_path(now, packet, Place::Far);
            }
            return;
        }
        match self.host_of(to, packet.from) {
            None => self.totals.no_host += 1,
            Some((port, Place::Far)) => self.push(now, What::Deliver(port), packet),
            Some((port, Place::Cellular(host))) => self.enter_cellular(now, packet, port, host),
            Some(_) => self.enter_path(now, packet, Place::Far),
        }
    }

    /// The path in the direction that begins at `from`.
    fn enter_path(&mut self, now: Nanos, packet: Packet, from: Place) {
        let (direction, ends) = match from {
            Place::Far => (&mut self.down, What::DownEnds),
            Place::Cellular(host) => (&mut self.cellular[host].up, What::CellularUpEnds),
            _ => (&mut self.up, What::UpEnds),
        };
        let out = pass(direction, &mut self.totals, now, &packet);
        self.push_all(out, ends, &packet);
    }

    fn enter_cellular(&mut self, now: Nanos, packet: Packet, port: usize, host: usize) {
        let out = pass(&mut self.cellular[host].down, &mut self.totals, now, &packet);
        self.push_all(out, What::Deliver(port), &packet);
    }

    fn push_all(&mut self, times: [Option<Nanos>; 2], what: What, packet: &Packet) {
        for at in times.into_iter().flatten() {
            self.push(at, what, packet.clone());
        }
    }

    fn leave_path_near(&mut self, now: Nanos, packet: Packet) {
        let Some(to) = packet.frame.destination() else { return };
        if is_group(to) {
            self.count_copies(self.near_receivers(packet.from));
            self.flood_near(now, &packet);
            return;
        }
        match self.host_of(to, packet.from) {
            None => self.totals.no_host += 1,
            Some((port, place)) => self.hand_near(now, port, place, packet),
        }
    }

    fn leave_path_far(&mut self, now: Nanos, packet: Packet) {
        let Some(to) = packet.frame.destination() else { return };
        if is_group(to) {
            self.count_copies(self.wired(Place::Far, packet.from).count() as u64);
            self.flood_wired(now, Place::Far, &packet);
            return;
        }
        match self.host_of(to, packet.from) {
            None => self.totals.no_host += 1,
            Some((port, Place::Cellular(host))) => self.enter_cellular(now, packet, port, host),
            Some((port, _)) => self.push(now, What::Deliver(port), packet),
        }
    }

    fn hand_near(&mut self, now: Nanos, port: usize, place: Place, packet: Packet) {
        match place {
            Place::Station(station) => self.queue_for_air(now, Some(station), packet),
            _ => self.push(now, What::Deliver(port), packet),
        }
    }

    fn queue_for_air(&mut self, now: Nanos, station: Option<usize>, packet: Packet) {
        let Some(air) = &mut self.air else { return };
        if !air.send_from_access_point(now, station, packet) {
            self.totals.air_queue_drops += 1;
        }
    }

    fn flood_near(&mut self, now: Nanos, packet: &Packet) {
        self.flood_wired(now, Place::Near, packet);
        if self.stations.iter().any(|port| *port != packet.from) {
            self.queue_for_air(now, None, packet.clone());
        }
    }

    fn flood_wired(&mut self, now: Nanos, place: Place, packet: &Packet) {
        let receivers: Vec<usize> = self.wired(place, packet.from).collect();
        for port in receivers {
            self.push(now, What::Deliver(port), packet.clone());
        }
    }

    fn wired(&self, place: Place, except: usize) -> impl Iterator<Item = usize> {
        let ports = self.ports.iter().enumerate();
        ports
            .filter(move |(index, port)| port.place == place && *index != except)
            .map(|(index, _)| index)
    }

    /// Copies that a group frame makes at the access point; one for the air.
    fn near_receivers(&self, from: usize) -> u64 {
        let air = self.stations.iter().any(|port| *port != from);
        self.wired(Place::Near, from).count() as u64 + u64::from(air)
    }

    /// One packet becomes as many as there are receivers.
    fn count_copies(&mut self, receivers: u64) {
        match receivers {
            0 => self.totals.no_host += 1,
            more => self.totals.copied += more - 1,
        }
    }

    fn send_on_air(&mut self, now: Nanos, station: usize, packet: Packet) {
        let Some(air) = &mut self.air else { return };
        let sent = air.send_from_station(now, station, packet);
        self.totals.air_queue_drops += u64::from(!sent);
    }

    /// Gives the station's processor what it can do now.
    fn work(&mut self, now: Nanos, station: usize) {
        let index = self.stations[station];
        let room = |air: &Option<Medium>| air.as_ref().is_some_and(|air| air.has_room(station));
        while let Some(driver) = &mut self.ports[index].driver {
            let Some((step, packet, lasts)) = driver.begin(room(&self.air)) else { break };
            if lasts > 0 {
                self.push(now + lasts, What::Worked(station, step), packet);
                break;
            }
            self.worked(now, station, step, packet);
        }
    }

    /// A station's processor has done this with the packet.
    fn worked(&mut self, now: Nanos, station: usize, step: Step, packet: Packet) {
        let index = self.stations[station];
        let Some(driver) = &mut self.ports[index].driver else { return };
        driver.end();
        match step {
            Step::Send => {
                let queued = driver.enqueue(packet);
                self.totals.sending_queue_drops += u64::from(!queued);
            }
            Step::Transfer => self.send_on_air(now, station, packet),
            Step::Receive => self.push(now, What::Deliver(index), packet),
        }
    }

    fn receive(&mut self, now: Nanos, station: usize, packet: Packet) {
        let index = self.stations[station];
        let port = &mut self.ports[index];
        if let Some(driver) = &mut port.driver
            && port.receive.is_none()
        {
            driver.take_from_radio(packet);
            return self.work(now, station);
        }
        let at = match &mut port.receive {
            None => Some(now),
            Some(ring) => ring.enter(now, packet.frame.ip_bytes()),
        };
        match at {
            Some(at) => self.push(at, What::Deliver(index), packet),
            None => {
                port.receive_drops += 1;
                self.totals.receive_drops += 1;
            }
        }
    }

    fn receive_group(&mut self, now: Nanos, packet: Packet) {
        let receivers: Vec<usize> = (0..self.stations.len())
            .filter(|station| self.stations[*station] != packet.from)
            .collect();
        self.count_copies(receivers.len() as u64);
        for station in receivers {
            let heard = self.air.as_mut().is_some_and(|air| air.hears_group_frame(station));
            if heard {
                self.receive(now, station, packet.clone());
            } else {
                self.totals.group_errors += 1;
            }
        }
    }

    fn access(&mut self, now: Nanos) {
        let Some(air) = &mut self.air else { return };
        let mut landings = std::mem::take(&mut self.landings);
        air.access(now, &mut landings);
        for landing in landings.drain(..) {
            match landing {
                Landing::OutOfRetries => self.totals.retry_drops += 1,
                Landing::Arrived { at, towards, packet } => {
                    self.push(at, What::Landed(towards), packet);
                }
            }
        }
        self.landings = landings;
        // A frame that was sent or given up has left room in a radio.
        for station in 0..self.stations.len() {
            self.work(now, station);
        }
    }

    fn host_of(&self, mac: [u8; 6], except: usize) -> Option<(usize, Place)> {
        let index = self.ports.iter().position(|port| port.mac == mac)?;
        (index != except).then(|| (index, self.ports[index].place))
    }

    fn push(&mut self, at: Nanos, what: What, packet: Packet) {
        let number = self.next_number;
        self.next_number += 1;
        self.events.push(Reverse(Event { at, number, packet, what }));
    }

    /// Takes the samples that are due before something changes at `next`.
    fn sample_before(&mut self, next: Nanos) {
        while let Some(at) = self.sampler.due(next) {
            let (up, down) = (self.up.queue_length(at), self.down.queue_length(at));
            let mut lengths = vec![up, down];
            for host in &mut self.cellular {
                lengths.extend([host.up.queue_length(at), host.down.queue_length(at)]);
            }
            if let Some(air) = &self.air {
                lengths.push(air.waiting_for_station(None));
                for (station, port) in self.stations.iter().enumerate() {
                    let driver = self.ports[*port].driver.as_ref();
                    lengths.push(driver.map_or(0, Driver::waiting));
                    lengths.push(air.waiting_in_station(station));
                    lengths.push(air.waiting_for_station(Some(station)));
                    let ring = self.ports[*port].receive.as_mut();
                    lengths.push(ring.map_or(0, |ring| ring.length(at)));
                }
            }
            self.sampler.take(at, &lengths);
        }
    }
}

/// When a packet and its duplicate come out of a direction of a path.
fn pass(
    direction: &mut Direction,
    totals: &mut Totals,
    now: Nanos,
    packet: &Packet,
) -> [Option<Nanos>; 2] {
    let before = direction.log;
    let out = direction.enter(now, packet.frame.ip_bytes());
    let after = direction.log;
    totals.lost += after.lost - before.lost;
    totals.path_queue_drops += after.queue_drops - before.queue_drops;
    totals.duplicated += after.duplicated - before.duplicated;
    out
}

fn earliest(one: Option<Nanos>, other: Option<Nanos>) -> Option<Nanos> {
    one.into_iter().chain(other).min()
}
