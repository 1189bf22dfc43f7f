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
                let (cookie, opened_ns) = (event.cookie, event.time_ns);
                let time = Time { cookie, netns: open.netns, opened_ns, closed_ns: None };
                self.by_ends.entry(ends).or_default().push(time);
            }
        }
        if event.kind != Kind::Close {
            return;
        }
        let times = self.opened.get(&event.cookie).and_then(|ends| self.by_ends.get_mut(ends));
        if let Some(time) = times.and_then(|times| times.last_mut()) {
            time.closed_ns = Some(event.time_ns);
        }
    }

    /// The connection of a packet between these ends. Both may be on this machine: then it is that
    /// of the end where the packet was seen, if it is recorded.
    pub fn of(
        &self,
        source: SocketAddr,
        destination: SocketAddr,
        outgoing: bool,
        time_ns: u64,
    ) -> Option<u64> {
        let sender = (source, destination);
        let receiver = (destination, source);
        let (first, second) = if outgoing { (sender, receiver) } else { (receiver, sender) };
        self.at(first, time_ns).or_else(|| self.at(second, time_ns))
    }

    /// Ports are used again: the last one that had begun, or the next one's handshake. Another
    /// network namespace may have the same ends at the same time, and its packets may pass here.
    fn at(&self, ends: (SocketAddr, SocketAddr), time_ns: u64) -> Option<u64> {
        let times = self.by_ends.get(&ends)?;
        let ours: Vec<Time> = times.iter().filter(|it| it.netns == self.netns).copied().collect();
        // What comes late, after the end, is still of the one before.
        let before = || Some(last(times, time_ns)?.cookie);
        current(&ours, time_ns).or_else(|| current(times, time_ns)).or_else(before)
    }
}

/// The last one that had begun.
fn last(times: &[Time], time_ns: u64) -> Option<&Time> {
    times.iter().rev().find(|time| time.opened_ns <= time_ns)
}

/// The one that goes on, or whose handshake it is.
fn current(times: &[Time], time_ns: u64) -> Option<u64> {
    let is_open = |time: &&Time| time.closed_ns.is_none_or(|closed| closed >= time_ns);
    let next = times.iter().find(|time| time.opened_ns > time_ns);
    let next = next.filter(|time| time.opened_ns - time_ns < HANDSHAKE_NS);
    last(times, time_ns).filter(is_open).or(next).map(|time| time.cookie)
}
