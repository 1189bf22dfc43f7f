//! What is done to the sockets of a terminal: the simulated kernel's counterpart of the BPF programs
//! (bpf/policy.bpf.c).

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use transom_peers::{Algorithm, Treatment};

use crate::kernels::Socket;
use crate::world::World;

/// `snd_cwnd_clamp` of a connection that nobody has limited.
const NO_CLAMP: u32 = u32::MAX;
const STEADY: &[u8] = b"steady";

pub struct Lever {
    /// Where `steady` begins if no cap says it, segments.
    first_window: u32,
    /// The clamp that the host's route gives.
    clamp: u32,
    treated: BTreeMap<u64, Treated>,
}

/// A connection that is not as its program left it.
struct Treated {
    /// Its own congestion control.
    algorithm: Vec<u8>,
    treatment: Treatment,
}

impl Lever {
    /// `route_cap`: the cap that the host's route gives to its connections, segments.
    pub fn new(first_window: u32, route_cap: Option<u32>) -> Lever {
        Lever { first_window, clamp: route_cap.unwrap_or(NO_CLAMP), treated: BTreeMap::new() }
    }

    pub fn forget(&mut self, cookie: u64) {
        self.treated.remove(&cookie);
    }

    /// Gives a connection this treatment; the default one takes back what was done.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub fn treat(
        &mut self,
        world: &mut World,
        host: &str,
        socket: Socket,
        (cookie, treatment): (u64, Treatment),
    ) -> Result<()> {
        let now = world.kernels.congestion(socket)?;
        let treated = self.treated.entry(cookie);
        let treated = treated.or_insert(Treated { algorithm: now.clone(), treatment });
        treated.treatment = treatment;
        let own = treated.algorithm.clone();
        let is_steady = treatment.algorithm == Algorithm::Steady;
        if is_steady {
            self.set_parameters(world, host)?;
        }
        let wanted = if is_steady { STEADY } else { &own };
        if now != wanted {
            let changed = world.kernels.set_congestion(socket, wanted);
            changed.context("changing the congestion control")?;
        }
        let cap = treatment.cap.filter(|_| !is_steady || self.on_steady() > 1);
        let clamp = cap.map_or(self.clamp, |cap| cap.min(self.clamp));
        world.kernels.of(socket.kernel).clamp_cwnd(socket.id, clamp)?;
        if treatment.is_none() {
            self.treated.remove(&cookie);
        }
        Ok(())
    }

    fn on_steady(&self) -> usize {
        let is_steady = |it: &&Treated| it.treatment.algorithm == Algorithm::Steady;
        self.treated.values().filter(is_steady).count()
    }

    /// The simulated kernel has them per host (linux/arch/kernel/tcp_steady.c): those of the
    /// connection with the largest cap; the others are clamped to theirs.
    fn set_parameters(&self, world: &mut World, host: &str) -> Result<()> {
        let steady = self.treated.values().filter(|it| it.treatment.algorithm == Algorithm::Steady);
        let caps: Vec<Option<u32>> = steady.map(|it| it.treatment.cap).collect();
        let least_target = self.first_window;
        let target = caps.iter().map(|cap| cap.unwrap_or(least_target)).max();
        let cap = caps.iter().map(|cap| cap.unwrap_or(u32::MAX)).max();
        let cap = cap.filter(|cap| *cap < u32::MAX).unwrap_or(0);
        let kernel = world.at(host);
        for (name, value) in
            [("target", target.unwrap_or(least_target)), ("cap", cap), ("backoff", 0)]
        {
            kernel.set_sysctl(&format!("net.ipv4.tcp_steady_{name}"), &value.to_string())?;
        }
        Ok(())
    }
}
