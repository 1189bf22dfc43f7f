//! Hosts whose connections on `steady` are guarded: what `transom tune` is on a real host, with the
//! same pure decisions ([`transom_guard::Guards`]).

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use transom_emulator::Nanos;
use transom_event::tcp_info::{TcpInfo, Waited};
use transom_guard::{Connection, Counters, EACH, Guards, Verdict, Window};
use transom_scenario::{GuardAction, GuardLook, GuardOutcome, Guarded, Scenario};

use crate::kernels::Socket;
use crate::programs::Programs;
use crate::world::World;

const STEADY: &[u8] = b"steady";

#[derive(Default)]
pub struct Guardians {
    all: Vec<Guardian>,
    looks_at: Nanos,
}

struct Guardian {
    host: String,
    guarded: Guarded,
    /// Paths by the host at the other end.
    guards: Guards<usize>,
    /// Segments of connections that have ended, as of their last look.
    ended: (u64, u64),
    alive: BTreeMap<u64, (u64, u64)>,
    outcome: GuardOutcome,
}

/// One connection of a host that it sends with.
struct End {
    id: u64,
    socket: Socket,
    path: usize,
}

impl Guardians {
    pub fn of(scenario: &Scenario) -> Guardians {
        let guardian = |(host, described): (&String, &transom_scenario::Host)| {
            Some(Guardian {
                host: host.clone(),
                guarded: described.guard.clone()?,
                guards: Guards::default(),
                ended: (0, 0),
                alive: BTreeMap::new(),
                outcome: GuardOutcome::default(),
            })
        };
        Guardians { all: scenario.hosts.iter().filter_map(guardian).collect(), looks_at: 0 }
    }

    /// When the next look is due.
    pub fn next(&self) -> Option<Nanos> {
        (!self.all.is_empty()).then_some(self.looks_at)
    }

    /// The look that is due by now; false: none was.
    ///
    /// # Errors
    /// What a kernel refuses.
    pub fn pass(&mut self, world: &mut World, programs: &Programs, now: Nanos) -> Result<bool> {
        if self.next().is_none_or(|at| at > now) {
            return Ok(false);
        }
        self.looks_at = now + EACH.as_nanos() as Nanos;
        for one in &mut self.all {
            one.look(world, programs, now)
                .with_context(|| format!("the guard of host '{}'", one.host))?;
        }
        Ok(true)
    }

    pub fn outcome(self) -> BTreeMap<String, GuardOutcome> {
        self.all.into_iter().map(|one| (one.host, one.outcome)).collect()
    }
}

fn counters(info: &TcpInfo<'_>) -> Counters {
    let ((sent, retransmitted), state) = (info.segments(), info.state(Waited::default()));
    Counters {
        sent,
        retransmitted,
        delivered: state.delivered,
        srtt_us: state.srtt_us,
        min_rtt_us: state.min_rtt_us,
        unsent: state.unsent,
    }
}

impl Guardian {
    fn look(&mut self, world: &mut World, programs: &Programs, now: Nanos) -> Result<()> {
        let at_s = now as f64 / 1e9;
        let sends = programs.sending_ends(&self.host);
        let ends: Vec<End> = sends.map(|(id, socket, path)| End { id, socket, path }).collect();
        let mut seen = Vec::new();
        for end in &ends {
            let Some(now) = world.kernels.tcp_info(end.socket, counters) else { continue };
            let is_steady = world.kernels.congestion(end.socket)? == STEADY;
            let window = match (is_steady, self.guarded.chosen) {
                (false, _) => Window::Own,
                (true, false) => Window::Found,
                (true, true) => Window::Chosen,
            };
            seen.push(Connection { id: end.id, path: end.path, window, now });
        }
        self.count(at_s, &seen);
        let before: Vec<Verdict> = seen.iter().map(|it| self.guards.verdict(&it.path)).collect();
        self.guards.look(Duration::from_nanos(now), &seen, &self.guarded.settings);
        let mut told: Vec<usize> = Vec::new();
        for (connection, before) in seen.iter().zip(before) {
            let verdict = self.guards.verdict(&connection.path);
            if verdict != before && !told.contains(&connection.path) {
                told.push(connection.path);
                let withdrawn = match verdict {
                    Verdict::Allowed => None,
                    Verdict::Withdrawn(hurt) => Some(hurt),
                };
                let srtt_us = connection.now.srtt_us;
                self.outcome.actions.push(GuardAction { at_s, withdrawn, srtt_us });
            }
            let wanted = match verdict {
                Verdict::Allowed => STEADY,
                Verdict::Withdrawn(_) => self.guarded.instead.as_bytes(),
            };
            let differs = (connection.window == Window::Own) == (wanted == STEADY);
            if let Some(end) = ends.iter().find(|end| differs && end.id == connection.id) {
                world.kernels.set_congestion(end.socket, wanted)?;
            }
        }
        Ok(())
    }

    /// Notes how much was sent.
    fn count(&mut self, at_s: f64, seen: &[Connection<usize>]) {
        let alive: BTreeMap<u64, (u64, u64)> = seen
            .iter()
            .map(|it| (it.id, (it.now.sent.into(), it.now.retransmitted.into())))
            .collect();
        let gone = self.alive.iter().filter(|(id, _)| !alive.contains_key(id));
        let mut sum = gone.fold(self.ended, |sum, (_, it)| (sum.0 + it.0, sum.1 + it.1));
        self.ended = sum;
        for it in alive.values() {
            sum = (sum.0 + it.0, sum.1 + it.1);
        }
        self.alive = alive;
        let last = self.outcome.looks.last();
        if last.map_or(sum.0 > 0, |last| last.sent != sum.0) {
            let (sent, retransmitted) = sum;
            self.outcome.looks.push(GuardLook { at_s, sent, retransmitted });
        }
    }
}
