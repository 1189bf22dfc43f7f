//! The hosts that are terminals of a group: what `transom peer` is on a real host, with the same
//! pure decisions ([`transom_peers::Terminal`]).
//!
//! Each looks at its sockets at its interval, and sends its reports as UDP datagrams from a socket of
//! its simulated kernel, so they wait in its device's queue and use the air like any other.

mod lever;
mod member;

use anyhow::{Context, Result};
use transom_emulator::{Nanos, Stream};
use transom_peers::seal::{GroupKey, Seal};
use transom_scenario::{PeerOutcome, Scenario};

use crate::kernels::Socket;
use crate::programs::Programs;
use crate::world::World;
use member::Member;

/// The group's access point; its name is in the reports' keys only.
const ACCESS_POINT: &str = "simulated";
/// How long the terminals are there before virtual time begins: as in the lab, each has found all
/// others when the programs start.
pub const WARM_UP: Nanos = 5_000_000_000;
/// Between two rounds of that time.
const ROUND: Nanos = 50_000_000;

pub struct Peers(Vec<Member>);

impl Peers {
    /// # Errors
    /// What a kernel refuses, with the host's name.
    pub fn start(scenario: &Scenario, world: &mut World) -> Result<Peers> {
        let mut random = Stream::new(scenario.seed, "peers");
        let mut key = [0; 32];
        key[..8].copy_from_slice(&random.key().to_le_bytes());
        let key = GroupKey::new(key);
        let seal = Seal::new(&key, ACCESS_POINT);
        let mut members = Vec::new();
        for (name, host) in &scenario.hosts {
            let Some(peer) = &host.peer else { continue };
            let member = Member::start(world, &key, &seal, (name, host, peer), &mut random);
            members.push(member.with_context(|| format!("the middleware of host '{name}'"))?);
        }
        let mut peers = Peers(members);
        peers.introduce();
        Ok(peers)
    }

    /// All find each other before virtual time begins, without the air.
    fn introduce(&mut self) {
        for now in (0..WARM_UP).step_by(ROUND as usize) {
            for from in 0..self.0.len() {
                let Some(message) = self.0[from].says(now) else { continue };
                for to in (0..self.0.len()).filter(|to| *to != from) {
                    self.0[to].hears(now, &message);
                }
            }
        }
    }

    /// The first look of all, before the programs start.
    ///
    /// # Errors
    /// What a kernel refuses.
    pub fn begin(&mut self, world: &mut World, programs: &Programs) -> Result<()> {
        self.0.iter_mut().try_for_each(|member| member.look(world, programs, 0))
    }

    /// When one of them acts by itself.
    pub fn next(&self) -> Option<Nanos> {
        self.0.iter().map(Member::next).min()
    }

    /// What is due by now; false: nothing was.
    pub fn pass(&mut self, world: &mut World, programs: &Programs, now: Nanos) -> Result<bool> {
        let mut acted = false;
        for member in &mut self.0 {
            if member.next() <= now {
                member.pass(world, programs, now)?;
                acted = true;
            }
        }
        Ok(acted)
    }

    /// Something changed for a socket; true: it is one of theirs, and no program's.
    pub fn ready(
        &mut self,
        world: &mut World,
        programs: &Programs,
        socket: Socket,
        now: Nanos,
    ) -> Result<bool> {
        if let Some(member) = self.0.iter_mut().find(|member| member.is_its(socket)) {
            member.receive(world, now)?;
            return Ok(true);
        }
        if let Some((host, end)) = programs.end(socket)
            && let Some(member) = self.0.iter_mut().find(|member| member.name() == host)
        {
            member.meet(world, end, now)?;
        }
        Ok(false)
    }

    pub fn outcome(self, now: Nanos) -> impl Iterator<Item = (String, PeerOutcome)> {
        self.0.into_iter().map(move |member| member.outcome(now))
    }
}
