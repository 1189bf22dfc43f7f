//! This terminal's own connections, by polling `sock_diag`: cheap, and without privilege.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anyhow::Result;
use transom_event::{Body, Endpoints, Event, Kind};
use transom_monitor::{Filter, Sampler};
use transom_peers::{EACH, Terminal};

pub struct Looks {
    sampler: Sampler,
    /// Connections of other interfaces do not use this air.
    local: Vec<IpAddr>,
    /// Our own way to a router is no matter of the group.
    own: Vec<SocketAddr>,
    /// Of every open connection, by its cookie: which are ours may change.
    ends: BTreeMap<u64, Endpoints>,
}

/// Connections whose interface came or went.
#[derive(Default)]
pub struct Turned {
    /// Followed from now on.
    pub come: Vec<u64>,
    /// No longer followed, and still under what was done to them.
    pub left: Vec<u64>,
}

impl Looks {
    pub fn start(local: Vec<IpAddr>, own: Vec<SocketAddr>) -> Result<Looks> {
        // The daemon's loop keeps the time.
        let sampler = Sampler::start(&Filter::default(), Duration::ZERO)?;
        Ok(Looks { sampler, local, own, ends: BTreeMap::new() })
    }

    /// The interface may have got other addresses, or be another one: the connections of these are
    /// followed from now on, and no others.
    pub fn set_local(
        &mut self,
        now: Duration,
        local: Vec<IpAddr>,
        terminal: &mut Terminal,
    ) -> Turned {
        self.local = local;
        let mut turned = Turned::default();
        for (&cookie, ends) in &self.ends {
            if self.is_ours(ends) {
                if terminal.flows.open(now, cookie) {
                    turned.come.push(cookie);
                }
            } else if terminal.flows.knows(cookie) && !terminal.close(cookie).is_none() {
                turned.left.push(cookie);
            }
        }
        turned
    }

    fn is_ours(&self, ends: &Endpoints) -> bool {
        self.local.contains(&ends.local.ip().to_canonical()) && !self.own.contains(&ends.remote)
    }

    /// Looks at all connections now, for the terminal; returns the cookies of those that opened.
    pub fn look(&mut self, now: Duration, terminal: &mut Terminal) -> Result<Vec<u64>> {
        let mut events = Vec::new();
        self.sampler.poll(EACH, &mut |raw| events.extend(Event::try_from(raw)))?;
        let stability = terminal.rules().stability;
        let mut come = Vec::new();
        for Event { cookie, kind, body, .. } in events {
            match body {
                Body::Open(open) => {
                    let ends = open.endpoints();
                    if self.is_ours(&ends) && terminal.flows.open(now, cookie) {
                        come.push(cookie);
                    }
                    self.ends.insert(cookie, ends);
                }
                Body::State(_) if kind == Kind::Close => {
                    self.ends.remove(&cookie);
                    terminal.close(cookie);
                }
                Body::State(state) => terminal.flows.look(now, cookie, &state, &stability),
                _ => {}
            }
        }
        Ok(come)
    }

    /// The addresses and ports of an open connection.
    pub fn ends(&self, cookie: u64) -> Option<&Endpoints> {
        self.ends.get(&cookie)
    }
}
