//! Which recorded connection a packet belongs to.

use std::collections::HashMap;
use std::net::SocketAddr;

use transom_event::{Body, Event, Kind};

/// A connection whose handshake is reported after its first packets: they belong to it if they
/// are not older than this, ns.
const HANDSHAKE_NS: u64 = 200_000_000_000;

/// The recorded connections, by their ends.
#[derive(Clone, Debug, Default)]
pub struct Owners {
    /// The network namespace where the packets are seen.
    netns: u32,
    by_ends: HashMap<(SocketAddr, SocketAddr), Vec<Time>>,
    opened: HashMap<u64, (SocketAddr, SocketAddr)>,
}

/// Whose a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    pub cookie: u64,
    /// The connection sent it, whatever way it passed the interface: what a container sends comes
    /// in at the bridge.
    pub sent: bool,
}

/// When a connection had these ends.
#[derive(Clone, Copy, Debug)]
struct Time {
    cookie: u64,
    netns: u32,
    opened_ns: u64,
    closed_ns: Option<u64>,
}

impl Owners {
    /// For packets of this network namespace.
    pub fn seen_in(netns: u32) -> Owners {
        Owners { netns, ..Owners::default() }
    }

    /// Learns from an event.
    pub fn learn(&mut self, event: &Event) {
        if let Body::Open(open) = &event.body {
            let ends = open.endpoints();
            let ends = (ends.local, ends.remote);
            if self.opened.insert(event.cookie, ends) != Some(ends) {
                let (cookie, netns, opened_ns) = (event.cookie, open.netns, event.time_ns);
                let times = self.by_ends.entry(ends).or_default();
                // There it is the only one, even if the end of the one before was not recorded.
                for before in times.iter_mut().filter(|time| time.netns == netns) {
                    before.closed_ns.get_or_insert(opened_ns);
                }
                times.push(Time { cookie, netns, opened_ns, closed_ns: None });
            }
        }
        if event.kind != Kind::Close {
            return;
        }
        let times = self.opened.get(&event.cookie).and_then(|ends| self.by_ends.get_mut(ends));
        let mut times = times.into_iter().flatten().rev();
        if let Some(time) = times.find(|time| time.cookie == event.cookie) {
            time.closed_ns = Some(event.time_ns);
        }
    }

    /// The connection of a packet between these ends that left by the interface, or came in. Both
    /// ends may be on this machine: then it is that of the end where the packet was seen, if it is
    /// recorded.
    pub fn of(
        &self,
        source: SocketAddr,
        destination: SocketAddr,
        outgoing: bool,
        time_ns: u64,
    ) -> Option<Owner> {
        let end = |sent: bool| {
            let ends = if sent { (source, destination) } else { (destination, source) };
            Some(Owner { cookie: self.at(ends, time_ns)?, sent })
        };
        end(outgoing).or_else(|| end(!outgoing))
    }

    /// Ports are used again: the last one that had begun, or the next one's handshake. Another
    /// network namespace may have the same ends at the same time, and its packets may pass here.
    fn at(&self, ends: (SocketAddr, SocketAddr), time_ns: u64) -> Option<u64> {
        let times = self.by_ends.get(&ends)?;
        let ours: Vec<Time> = times.iter().filter(|it| it.netns == self.netns).copied().collect();
        // What comes late, after the end, is still of the one before.
        let before = || Some(last_closed(times, time_ns)?.cookie);
        current(&ours, time_ns).or_else(|| current(times, time_ns)).or_else(before)
    }
}

/// Of those that have ended the last one.
fn last_closed(times: &[Time], time_ns: u64) -> Option<&Time> {
    times.iter().filter(|time| time.opened_ns <= time_ns).max_by_key(|time| time.closed_ns)
}

/// The one that goes on, the last if there are several, or whose handshake it is.
fn current(times: &[Time], time_ns: u64) -> Option<u64> {
    let is_open = |time: &&Time| {
        time.opened_ns <= time_ns && time.closed_ns.is_none_or(|closed| closed >= time_ns)
    };
    let next = times.iter().find(|time| time.opened_ns > time_ns);
    let next = next.filter(|time| time.opened_ns - time_ns < HANDSHAKE_NS);
    times.iter().rev().find(is_open).or(next).map(|time| time.cookie)
}
