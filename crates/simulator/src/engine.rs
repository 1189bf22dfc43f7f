//! The loop: whatever is due first happens first, in the kernel, the links, the devices or the
//! programs. At one moment the order is that one, so a run depends on nothing but its scenario.

use anyhow::{Context, Result, bail};
use transom_emulator::{Delivery, Frame, Nanos, Network};
use transom_netstack::{self as netstack, NicId, SocketId};
use transom_scenario::Scenario;

use crate::carried::Carried;
use crate::guards::Guardians;
use crate::kernels::Socket;
use crate::peers::Peers;
use crate::programs::Programs;
use crate::recording::Recording;
use crate::world::{Port, START, World};

/// Rounds at one moment of virtual time: more than any exchange needs that takes no time.
const MOST_AT_ONCE: u32 = 100_000;

/// Connections still say goodbye, as in real runs.
const FAREWELL: Nanos = 300_000_000;

pub struct Engine {
    pub world: World,
    pub network: Network,
    pub programs: Programs,
    pub peers: Peers,
    pub guards: Guardians,
    pub recording: Option<Recording>,
    /// Packets that reached a host.
    pub packets: u64,
    /// At this moment.
    rounds: u32,
    /// Of each kernel: NIC → port.
    ports: Vec<Vec<usize>>,
    deliveries: Vec<Delivery>,
    /// Ports that a frame has reached at this moment, and the frames that follow it there.
    reached: Vec<usize>,
    following: Vec<Delivery>,
    left: Vec<(NicId, netstack::Frame)>,
    ready: Vec<SocketId>,
}

impl Engine {
    pub fn new(
        scenario: &Scenario,
        mut world: World,
        recording: Option<Recording>,
    ) -> Result<Engine> {
        let mut links = scenario.links.clone();
        links.seed = scenario.seed;
        let network = Network::new(&links).context("links")?;
        let mut ports = vec![Vec::new(); world.kernels.0.len()];
        for (index, port) in world.ports.iter().enumerate() {
            let of_kernel: &mut Vec<usize> = &mut ports[port.kernel];
            of_kernel.resize(of_kernel.len().max(port.nic.number() + 1), usize::MAX);
            of_kernel[port.nic.number()] = index;
        }
        let programs = Programs::new(scenario)?;
        let peers = Peers::start(scenario, &mut world)?;
        Ok(Engine {
            world,
            network,
            programs,
            peers,
            guards: Guardians::of(scenario),
            recording,
            packets: 0,
            rounds: 0,
            ports,
            deliveries: Vec::new(),
            reached: Vec::new(),
            following: Vec::new(),
            left: Vec::new(),
            ready: Vec::new(),
        })
    }

    /// Until all flows have ended, or virtual time is `end`; `tick` hears the virtual time now and
    /// then. Returns the virtual time when it stopped.
    pub fn run(&mut self, end: Nanos, tick: &mut dyn FnMut(Nanos)) -> Result<Nanos> {
        let mut now = 0;
        let (mut shown, mut done) = (0, None);
        self.peers.begin(&mut self.world, &self.programs)?;
        self.programs.start(&mut self.world)?;
        self.settle(now)?;
        let mut end = end;
        while let Some(next) = self.next().filter(|next| *next <= end) {
            if next > now {
                (now, self.rounds) = (next, 0);
            }
            self.world.clock.advance_to(START + now);
            self.pass(now)?;
            self.settle(now)?;
            if self.deliver_what_follows() {
                self.settle(now)?;
            }
            if self.programs.are_done() {
                end = end.min(*done.get_or_insert(now) + FAREWELL);
            }
            if now >= shown {
                tick(now);
                shown = now + 100_000_000;
            }
        }
        Ok(now)
    }

    /// When something is due.
    fn next(&mut self) -> Option<Nanos> {
        let kernels = self.world.kernels.0.iter().filter_map(netstack::Kernel::deadline);
        let kernel = kernels.min().map(|at| at.saturating_sub(START));
        let devices = self.world.ports.iter().filter_map(|port| port.device.as_ref()?.free_at());
        let acting = [self.programs.next(), self.peers.next(), self.guards.next()];
        let own = acting.into_iter().chain([devices.min()]);
        let all = [kernel, self.network.next_delivery()].into_iter().chain(own);
        all.flatten().min()
    }

    /// What is due now at links and devices. Of the frames that reach a host at one moment, its
    /// programs see the first before the others come: a kernel offers a larger window only to a
    /// program that reads as fast as data comes, and takes what lies there when it reads as a sign
    /// that it does not (`tcp_rcv_space_adjust`).
    fn pass(&mut self, now: Nanos) -> Result<()> {
        let mut deliveries = std::mem::take(&mut self.deliveries);
        self.network.advance(now, &mut deliveries);
        self.reached.clear();
        for delivery in deliveries.drain(..) {
            if self.reached.contains(&delivery.port) {
                self.following.push(delivery);
            } else {
                self.reached.push(delivery.port);
                self.deliver(delivery.port, delivery.frame);
            }
        }
        self.deliveries = deliveries;
        for index in 0..self.world.ports.len() {
            let Some(device) = &mut self.world.ports[index].device else { continue };
            if let Some(frame) = device.sent(now) {
                let nic = device.nic;
                self.network.arrive(now, index, Frame::of(Carried(frame)));
                let kernel = self.world.ports[index].kernel;
                self.world.kernels.of(kernel).wake_nic(nic);
            }
        }
        Ok(())
    }

    /// False: there was none.
    fn deliver_what_follows(&mut self) -> bool {
        let mut following = std::mem::take(&mut self.following);
        let are_some = !following.is_empty();
        following.drain(..).for_each(|it| self.deliver(it.port, it.frame));
        self.following = following;
        are_some
    }

    fn deliver(&mut self, port: usize, frame: Frame) {
        let Port { kernel, nic, .. } = self.world.ports[port];
        let kernels = &mut self.world.kernels;
        let marked = frame.is_marked();
        let frame = match frame.body::<Carried>().map(|carried| &carried.0) {
            None => return,
            // A duplicate is still on its way.
            Some(shared) if frame.is_shared() => kernels.copied(shared, kernel),
            Some(_) => {
                let whole = frame.into_body::<Carried>();
                whole.and_then(|carried| kernels.adopted(carried.0, kernel))
            }
        };
        self.packets += 1;
        if let Some(mut frame) = frame {
            if marked {
                transom_emulator::mark(frame.head_mut());
            }
            kernels.of(kernel).deliver(nic, frame);
        }
    }

    /// Kernel and programs until neither has anything to do at this moment, unless what they have
    /// sent arrives at once.
    fn settle(&mut self, now: Nanos) -> Result<()> {
        while self.rounds < MOST_AT_ONCE {
            self.rounds += 1;
            let mut acted = false;
            let mut ready = std::mem::take(&mut self.ready);
            for kernel in 0..self.world.kernels.0.len() {
                self.world.kernels.of(kernel).turn_without_frames(&mut ready);
                for id in ready.drain(..) {
                    let socket = Socket { kernel, id };
                    if !self.peers.ready(&mut self.world, &self.programs, socket, now)? {
                        self.programs.ready(&mut self.world, socket, now)?;
                    }
                    acted = true;
                }
            }
            self.ready = ready;
            acted |= self.programs.pass(&mut self.world, now)?;
            acted |= self.peers.pass(&mut self.world, &self.programs, now)?;
            acted |= self.guards.pass(&mut self.world, &self.programs, now)?;
            self.send(now);
            if let Some(recording) = &mut self.recording {
                recording.drain()?;
            }
            if !acted {
                return Ok(());
            }
        }
        bail!(
            "the simulation stands still at {:.6} s: hosts and programs act without end",
            now as f64 / 1e9
        )
    }

    /// What has left the hosts goes to the links, or to the device in front of them.
    fn send(&mut self, now: Nanos) {
        let mut left = std::mem::take(&mut self.left);
        for kernel in 0..self.world.kernels.0.len() {
            self.world.kernels.of(kernel).take_frames(&mut left);
            for (nic, frame) in left.drain(..) {
                let port = self.ports[kernel][nic.number()];
                match &mut self.world.ports[port].device {
                    Some(device) => device.take(now, frame),
                    None => self.network.arrive(now, port, Frame::of(Carried(frame))),
                }
            }
        }
        self.left = left;
    }
}
