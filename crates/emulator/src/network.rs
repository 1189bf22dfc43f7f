//! The emulated network in logical time: no clock, no I/O.
//!
//! Frames go in with [`Network::arrive`], time passes with [`Network::advance`], which hands out
//! what reached its host and when. Every event carries its own logical time, so being late to
//! call either never adds up.

mod event;
mod pipe;
mod radio;
mod switch;

use anyhow::Result;

use crate::air::{Landing, Medium, Towards};
use crate::driver::Driver;
use crate::log::{AirLog, CellularLog, DirectionLog, QueueSeries, StageLog, Totals};
use crate::packet::{Frame, Nanos, Packet};
use crate::plan::{Path, Plan, Side, Station};
use crate::rate::Rate;
use crate::sampler::Sampler;
use crate::server::Server;
use event::{At, Event, Events, What};
use pipe::Pipe;

/// Indices of the path's directions among the pipes; the cellular hosts' follow, then the links'.
const UP: u32 = 0;
const DOWN: u32 = 1;
const FIRST_CELLULAR: u32 = 2;

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
    /// Who has which MAC address, in the order of the addresses.
    owners: Vec<([u8; 6], usize)>,
    /// Station → port.
    stations: Vec<usize>,
    air: Option<Medium>,
    pipes: Vec<Pipe>,
    /// Names of the cellular hosts, in the order of their pipes.
    cellular: Vec<String>,
    events: Events,
    totals: Totals,
    sampler: Sampler,
    now: Nanos,
    landings: Vec<Landing>,
    /// Of a stage; kept for its memory.
    leaving: Vec<(Nanos, Packet)>,
}

#[derive(Debug)]
struct Port {
    place: Place,
    /// Its own link to the switch: index of the pipe from the host; the other one follows.
    link: Option<u32>,
    receive: Option<Server>,
    receive_drops: u64,
    driver: Option<Driver>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Station(usize),
    Near,
    Far,
    /// A host with a path of its own to where the far hosts are.
    Cellular(usize),
}

impl Place {
    /// On the access point's side of the path.
    fn is_near(self) -> bool {
        matches!(self, Place::Station(_) | Place::Near)
    }

    /// The pipe from a host in this place, and the one towards it.
    fn path(self) -> (u32, u32) {
        match self {
            Place::Far => (DOWN, UP),
            Place::Near | Place::Station(_) => (UP, DOWN),
            Place::Cellular(host) => {
                let up = FIRST_CELLULAR + 2 * host as u32;
                (up, up + 1)
            }
        }
    }
}

/// Makes both directions of a path, in this order: up, down.
fn lay(
    pipes: &mut Vec<Pipe>,
    path: &Path,
    seed: u64,
    (name, streams): (&str, &str),
    ends: [What; 2],
) {
    let half = path.rtt_ms / 2.0;
    for (direction, way, ends) in [(&path.up, "up", ends[0]), (&path.down, "down", ends[1])] {
        let named = (format!("{name} {way}"), &*format!("{streams}{way}"));
        pipes.push(Pipe::new(direction, half, seed, named, ends));
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
        let mut pipes = Vec::new();
        lay(&mut pipes, &plan.path, plan.seed, ("path", ""), [What::UpEnds, What::DownEnds]);
        for (index, port) in plan.ports.iter().enumerate() {
            let (mut receive, mut driver) = (None, None);
            let place = match &port.side {
                Side::Near => Place::Near,
                Side::Far => Place::Far,
                Side::Cellular(path) => {
                    cellular.push(port.name.clone());
                    let names = (&*port.name, &*format!("{}.", port.name));
                    let ends = [What::AtFarSwitch, What::Deliver(index)];
                    lay(&mut pipes, path, plan.seed, names, ends);
                    Place::Cellular(cellular.len() - 1)
                }
                Side::Air(station) => {
                    receive = station.receive.map(|ring| {
                        let rate = Rate::constant(ring.rate_mbit);
                        Server::new(rate, Some(ring.queue_packets), None)
                    });
                    driver = Driver::new(station);
                    stations.push(index);
                    radios.push((&port.name, station));
                    Place::Station(radios.len() - 1)
                }
            };
            ports.push(Port { place, link: None, receive, receive_drops: 0, driver });
        }
        lay_links(plan, &mut ports, &mut pipes);
        let air = plan.air.as_ref().filter(|_| !radios.is_empty());
        let macs = plan.ports.iter().enumerate();
        let mut owners: Vec<_> = macs.map(|(index, port)| (port.mac, index)).collect();
        owners.sort_unstable();
        Ok(Network {
            air: air.map(|air| Medium::new(air, &radios, plan.seed)),
            sampler: Sampler::new(queue_names(plan, &pipes)),
            ports,
            owners,
            stations,
            cellular,
            pipes,
            events: Events::default(),
            totals: Totals::default(),
            now: 0,
            landings: Vec::new(),
            leaving: Vec::new(),
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
        let Port { place, link, .. } = self.ports[port];
        match place {
            Place::Near | Place::Far if link.is_some() => {
                self.enter(now, link.unwrap_or_default(), packet);
            }
            Place::Near => self.switch_near(now, packet),
            Place::Far => self.switch_far(now, packet),
            Place::Cellular(_) => self.enter(now, place.path().0, packet),
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
            let event = self.events.next();
            let access = self.air.as_ref().and_then(Medium::next_access);
            let Some(next) = earliest(event, access).filter(|next| *next <= until) else { break };
            self.sample_before(next);
            self.now = self.now.max(next);
            if event == Some(next) {
                if let Some(event) = self.events.pop() {
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
        earliest(self.events.next(), self.air.as_ref().and_then(Medium::next_arrival))
    }

    pub fn totals(&self) -> Totals {
        let mut totals = self.totals;
        for log in self.pipes.iter().flat_map(|pipe| &pipe.stages).map(|stage| stage.counts()) {
            totals.lost += log.lost;
            totals.path_queue_drops += log.queue_drops;
            totals.aqm_drops += log.aqm_drops;
            totals.outage_drops += log.outage_drops;
            totals.duplicated += log.duplicated;
        }
        totals
    }

    /// The first stage of `path.up`.
    pub fn up(&self) -> DirectionLog {
        self.pipes[UP as usize].log()
    }

    /// The first stage of `path.down`.
    pub fn down(&self) -> DirectionLog {
        self.pipes[DOWN as usize].log()
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
        let hosts = self.cellular.iter().enumerate();
        hosts
            .map(|(host, name)| {
                let (up, down) = Place::Cellular(host).path();
                let log = |pipe: u32| self.pipes[pipe as usize].log();
                CellularLog { name: name.clone(), up: log(up), down: log(down) }
            })
            .collect()
    }

    /// Further stages of the path and of cellular hosts' paths, and the links of hosts.
    pub fn stages(&self) -> Vec<StageLog> {
        let with_own_log = FIRST_CELLULAR as usize + 2 * self.cellular.len();
        let pipes = self.pipes.iter().enumerate();
        pipes.flat_map(|(index, pipe)| pipe.logs().skip((index < with_own_log).into())).collect()
    }

    pub fn queues(&self) -> Vec<QueueSeries> {
        self.sampler.series()
    }

    fn happen(&mut self, event: Event, out: &mut Vec<Delivery>) {
        let Event { at, packet, what, .. } = event;
        let Some(packet) = packet else {
            if let What::Serve(stage) = what {
                self.serve(at, stage);
            }
            return;
        };
        match what {
            What::Serve(_) => {}
            What::Enter(stage) => self.enter_stage(at, stage, packet),
            What::UpEnds => self.leave_path_far(at, packet),
            What::DownEnds => self.leave_path_near(at, packet),
            What::AtNearSwitch => self.switch_near(at, packet),
            What::AtFarSwitch => self.switch_far(at, packet),
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

    fn enter(&mut self, now: Nanos, pipe: u32, packet: Packet) {
        self.enter_stage(now, At { pipe, stage: 0 }, packet);
    }

    fn enter_stage(&mut self, now: Nanos, at: At, packet: Packet) {
        let stage = &mut self.pipes[at.pipe as usize].stages[at.stage as usize];
        stage.enter(now, packet, &mut self.leaving);
        self.leave_stage(at);
    }

    fn serve(&mut self, now: Nanos, at: At) {
        let stage = &mut self.pipes[at.pipe as usize].stages[at.stage as usize];
        stage.serve(now, &mut self.leaving);
        self.leave_stage(at);
    }

    /// What a stage has let go goes on, and what waits in it gets the event that it needs.
    fn leave_stage(&mut self, at: At) {
        let pipe = &mut self.pipes[at.pipe as usize];
        let after = pipe.after(at);
        for (at, packet) in self.leaving.drain(..) {
            self.events.push(at, after, Some(packet));
        }
        if let Some(next) = pipe.stages[at.stage as usize].next_service() {
            self.events.push(next, What::Serve(at), None);
        }
    }

    fn push(&mut self, at: Nanos, what: What, packet: Packet) {
        self.events.push(at, what, Some(packet));
    }

    /// Takes the samples that are due before something changes at `next`.
    fn sample_before(&mut self, next: Nanos) {
        while let Some(at) = self.sampler.due(next) {
            let stages = self.pipes.iter_mut().flat_map(|pipe| &mut pipe.stages);
            let mut lengths: Vec<usize> = stages.map(|stage| stage.queue_length(at)).collect();
            if let Some(air) = &self.air {
                lengths.push(air.waiting_for_station(None));
                for (station, port) in self.stations.iter().enumerate() {
                    let driver = self.ports[*port].driver.as_ref();
                    lengths.push(driver.map_or(0, Driver::waiting));
                    lengths.push(air.waiting_in_station(station));
                    lengths.push(air.waiting_for_station(Some(station)));
                    let ring = self.ports[*port].receive.as_mut();
                    lengths.push(ring.map_or(0, |ring| ring.waiting(at).0));
                }
            }
            self.sampler.take(at, &lengths);
        }
    }
}

/// The hosts' own links, in the order of their ports.
fn lay_links(plan: &Plan, ports: &mut [Port], pipes: &mut Vec<Pipe>) {
    for (index, (port, planned)) in ports.iter_mut().zip(&plan.ports).enumerate() {
        let Some(link) = plan.access_links.get(&planned.name) else { continue };
        port.link = Some(pipes.len() as u32);
        let switch = if port.place == Place::Far { What::AtFarSwitch } else { What::AtNearSwitch };
        let names = (&*format!("{} link", planned.name), &*format!("{}.link.", planned.name));
        lay(pipes, link, plan.seed, names, [switch, What::Deliver(index)]);
    }
}

/// Names of all queues, in the order in which their lengths are sampled.
fn queue_names(plan: &Plan, pipes: &[Pipe]) -> Vec<String> {
    let mut names: Vec<String> = pipes.iter().flat_map(Pipe::names).collect();
    let stations = plan.ports.iter().filter(|port| matches!(port.side, Side::Air(_)));
    for (index, port) in stations.enumerate() {
        if index == 0 {
            names.push("access point to all".to_owned());
        }
        names.push(format!("{} sending queue", port.name));
        names.push(format!("{} to air", port.name));
        names.push(format!("access point to {}", port.name));
        names.push(format!("{} receive ring", port.name));
    }
    names
}

fn earliest(one: Option<Nanos>, other: Option<Nanos>) -> Option<Nanos> {
    one.into_iter().chain(other).min()
}
