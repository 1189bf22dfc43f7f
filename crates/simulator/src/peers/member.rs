//! One terminal: its socket, its looks at the host's connections, and what it does to them.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{IoSlice, IoSliceMut};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use anyhow::{Context, Result};
use transom_emulator::{Nanos, Stream};
use transom_event::State;
use transom_event::tcp_info::Waited;
use transom_peers::seal::{GroupKey, MOST_SEALED, Seal};
use transom_peers::wire::Session;
use transom_peers::{
    Algorithm, EACH, Group, Identity, Opening, Report, Terminal, TerminalId, Treatment,
};
use transom_scenario::{Host, Lie, Peer, PeerAction, PeerOutcome};

use super::lever::Lever;
use super::{ACCESS_POINT, WARM_UP};
use crate::kernels::Socket;
use crate::programs::{Programs, raw_address};
use crate::world::World;

/// The port of the daemon, and all hosts on the link: the simulated hosts are on one.
const ALL: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::BROADCAST, 7450);
/// RFC 9293's established state, as the kernel numbers it.
const ESTABLISHED: u8 = 1;

pub struct Member {
    name: String,
    id: TerminalId,
    topic: String,
    terminal: Terminal,
    lie: Option<Lie>,
    socket: Socket,
    lever: Lever,
    looks_at: Nanos,
    openings: Vec<Opening>,
    /// The kernel's clocks of each connection at the last look.
    waited: BTreeMap<u64, Waited>,
    /// Connections whose handshake has been seen to end.
    met: BTreeSet<u64>,
    actions: Vec<PeerAction>,
}

/// The terminals' clocks begin before virtual time.
fn clock(now: Nanos) -> Duration {
    Duration::from_nanos(WARM_UP + now)
}

impl Member {
    pub fn start(
        world: &mut World,
        key: &GroupKey,
        seal: &Seal,
        (name, host, peer): (&str, &Host, &Peer),
        random: &mut Stream,
    ) -> Result<Member> {
        let id = key.terminal(name.as_bytes());
        let identity = Identity {
            terminal: id,
            name: transom_peers::tidy_name(name),
            class: (peer.class * 10.0).round() as u16,
            rules: peer.rules.clone(),
            dry_run: false,
        };
        let group = Group::new(seal.clone(), id, Session(random.key()));
        let (kernel, _) = world.hosts[name];
        let here = world.at(name);
        let socket = here.socket(libc::AF_INET, libc::SOCK_DGRAM, libc::IPPROTO_UDP)?;
        here.setsockopt(socket, libc::SOL_SOCKET, libc::SO_BROADCAST, &1i32.to_ne_bytes())?;
        let place = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, ALL.port());
        here.bind(socket, &raw_address(place.into())).context("its UDP port")?;
        Ok(Member {
            name: name.to_owned(),
            id,
            topic: key.topic(ACCESS_POINT),
            lever: Lever::new(peer.rules.share.first_window, host.route.cwnd),
            terminal: Terminal::new(identity, group),
            lie: peer.lie,
            socket: Socket { kernel, id: socket },
            // Daemons have not started at one moment.
            looks_at: (random.uniform() * EACH.as_nanos() as f64) as Nanos,
            openings: Vec::new(),
            waited: BTreeMap::new(),
            met: BTreeSet::new(),
            actions: Vec::new(),
        })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn is_its(&self, socket: Socket) -> bool {
        self.socket == socket
    }

    /// Before virtual time begins: the message that is due, `now` since the terminal started.
    pub fn says(&mut self, now: Nanos) -> Option<Vec<u8>> {
        self.says_at(Duration::from_nanos(now))
    }

    pub fn hears(&mut self, now: Nanos, sealed: &[u8]) {
        self.terminal.hear(Duration::from_nanos(now), sealed);
    }

    fn says_at(&mut self, at: Duration) -> Option<Vec<u8>> {
        let report = self.report(at);
        self.terminal.speak(at, report)
    }

    fn report(&self, at: Duration) -> Report {
        let mut report = self.terminal.report(at);
        if let Some(lie) = &self.lie {
            let verdict = self.terminal.verdict();
            let own = verdict.decisions.iter().find(|decision| decision.terminal == self.id);
            let choices = own.map_or(&[][..], |own| &own.flows);
            lie.tell(&mut report, |flow| {
                Some(choices.iter().find(|choice| choice.flow == flow)?.treatment)
            });
        }
        report
    }

    pub fn next(&self) -> Nanos {
        let speaks = self.terminal.speaks_at().as_nanos() as Nanos;
        self.looks_at.min(speaks.saturating_sub(WARM_UP))
    }

    /// # Errors
    /// What the kernel refuses.
    pub fn pass(&mut self, world: &mut World, programs: &Programs, now: Nanos) -> Result<()> {
        self.terminal.expire(clock(now));
        if now >= self.looks_at {
            self.looks_at = now + EACH.as_nanos() as Nanos;
            self.look(world, programs, now)?;
        }
        self.speak(world, now)
    }

    /// Reads what came.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub fn receive(&mut self, world: &mut World, now: Nanos) -> Result<()> {
        let mut buffer = [0; 12 + MOST_SEALED];
        loop {
            let kernel = world.kernels.of(self.socket.kernel);
            let piece = &mut [IoSliceMut::new(&mut buffer)];
            match kernel.receive(self.socket.id, piece, 0, None) {
                Ok(n) => {
                    if let Some(sealed) = buffer[..n].strip_prefix(self.topic.as_bytes()) {
                        self.terminal.hear(clock(now), sealed);
                    }
                }
                Err(error) if error.would_block() => break,
                Err(error) => return Err(error).context("receiving a report"),
            }
        }
        self.speak(world, now)
    }

    fn speak(&mut self, world: &mut World, now: Nanos) -> Result<()> {
        let Some(sealed) = self.says_at(clock(now)) else { return Ok(()) };
        let kernel = world.kernels.of(self.socket.kernel);
        let pieces = [IoSlice::new(self.topic.as_bytes()), IoSlice::new(&sealed)];
        let to = raw_address(ALL.into());
        match kernel.send(self.socket.id, &pieces, 0, Some(&to), &[]) {
            Ok(_) => Ok(()),
            // The device's queue is full: the report is lost.
            Err(error) if error.would_block() || error.errno == libc::ENOBUFS => Ok(()),
            Err(error) => Err(error).context("sending a report"),
        }
    }

    /// Looks at its connections, decides, and acts.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub fn look(&mut self, world: &mut World, programs: &Programs, now: Nanos) -> Result<()> {
        let ends: BTreeMap<u64, (Socket, &str)> = programs
            .ends(&self.name)
            .map(|(cookie, socket, flow)| (cookie, (socket, flow)))
            .collect();
        let gone: Vec<u64> =
            self.waited.keys().filter(|it| !ends.contains_key(it)).copied().collect();
        for cookie in gone {
            self.waited.remove(&cookie);
            self.lever.forget(cookie);
            self.terminal.close(cookie);
        }
        let stability = self.terminal.rules().stability;
        for (&cookie, (socket, _)) in &ends {
            let Some(state) = self.state(world, *socket, cookie) else { continue };
            self.terminal.flows.open(clock(now), cookie);
            self.terminal.flows.look(clock(now), cookie, &state, &stability);
        }
        self.terminal.decide(clock(now));
        let orders = self.terminal.orders(&BTreeSet::new());
        for (cookie, treatment) in &orders {
            let Some((socket, flow)) = ends.get(cookie) else { continue };
            self.act(world, (*socket, flow), *cookie, *treatment, now)?;
        }
        self.openings = self.terminal.openings();
        Ok(())
    }

    fn state(&mut self, world: &mut World, socket: Socket, cookie: u64) -> Option<State> {
        world.kernels.tcp_info(socket, |info| {
            let before = self.waited.insert(cookie, info.waited()).unwrap_or(info.waited());
            info.state(before)
        })
    }

    fn act(
        &mut self,
        world: &mut World,
        (socket, flow): (Socket, &str),
        cookie: u64,
        treatment: Treatment,
        now: Nanos,
    ) -> Result<()> {
        if !self.lie.is_some_and(|lie| lie.disobeys) {
            self.lever.treat(world, &self.name, socket, (cookie, treatment))?;
        }
        self.terminal.done(&[(cookie, treatment)]);
        let verdict = self.terminal.verdict();
        let own = verdict.decisions.iter().find(|decision| decision.terminal == self.id);
        let mut choices = own.into_iter().flat_map(|own| &own.flows);
        let choice = choices.find(|it| self.terminal.flows.cookie(it.flow) == Some(cookie));
        self.actions.push(PeerAction {
            at_s: now as f64 / 1e9,
            flow: flow.to_owned(),
            steady: treatment.algorithm == Algorithm::Steady,
            cap: treatment.cap,
            why: choice.map_or("new".to_owned(), |choice| choice.why.to_string()),
        });
        Ok(())
    }

    /// A connection whose handshake ends gets what new ones are to get.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub fn meet(
        &mut self,
        world: &mut World,
        (socket, cookie, flow): (Socket, u64, &str),
        now: Nanos,
    ) -> Result<()> {
        if self.openings.is_empty() || self.met.contains(&cookie) {
            return Ok(());
        }
        let Some(state) = self.state(world, socket, cookie) else { return Ok(()) };
        if state.tcp_state != ESTABLISHED {
            return Ok(());
        }
        self.met.insert(cookie);
        let rtt = state.min_rtt_us;
        let fits = |opening: &&Opening| (opening.from_us..=opening.to_us).contains(&rtt);
        let Some(opening) = self.openings.iter().find(fits).copied() else { return Ok(()) };
        self.terminal.flows.open(clock(now), cookie);
        self.act(world, (socket, flow), cookie, opening.treatment, now)
    }

    pub fn outcome(self, now: Nanos) -> (String, PeerOutcome) {
        let counted = self.terminal.counters();
        let outcome = PeerOutcome {
            terminals: 1 + self.terminal.members(clock(now)).len(),
            spoken: counted.spoken,
            believed: counted.believed,
            actions: self.actions,
        };
        (self.name, outcome)
    }
}
