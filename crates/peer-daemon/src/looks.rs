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
    /// Of each connection that the terminal follows, by its cookie.
    ends: BTreeMap<u64, Endpoints>,
}

impl Looks {
    pub fn start(local: Vec<IpAddr>, own: Vec<SocketAddr>) -> Result<Looks> {
        // The daemon's loop keeps the time.
        let sampler = Sampler::start(&Filter::default(), Duration::ZERO)?;
        Ok(Looks { sampler, local, own, ends: BTreeMap::new() })
    }

    /// The interface may have got other addresses.
    pub fn set_local(&mut self, local: Vec<IpAddr>) {
        self.local = local;
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
                    let ours = self.local.contains(&ends.local.ip().to_canonical());
                    if ours && !self.own.contains(&ends.remote) && terminal.flows.open(now, cookie)
                    {
                        self.ends.insert(cookie, ends);
                        come.push(cookie);
                    }
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

    /// The addresses and ports of a connection that the terminal follows.
    pub fn ends(&self, cookie: u64) -> Option<&Endpoints> {
        self.ends.get(&cookie)
    }
}
