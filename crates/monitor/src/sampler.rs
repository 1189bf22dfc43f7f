//! The last resort, which needs no privilege: ask sock_diag for TCP_INFO of
//! each connection, again and again. What it yields are samples, no events.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use transom_event::{Body, Event, Kind, Open, Origin, Place, Prefix, Raw, State};

use crate::clock::boottime_ns;
use crate::filter::Filter;
use crate::owner::{owners, padded};
use crate::sock_diag::{Connection, SockDiag, bytes_of};
use transom_event::tcp_info::{TcpInfo, Waited};

/// Time between two looks when nothing is said.
pub const DEFAULT_INTERVAL: Duration = Duration::from_millis(100);

struct Seen {
    tgid: u32,
    waited: Waited,
    state: State,
    round: u64,
}

/// Polls TCP_INFO of the connections in this network namespace.
pub struct Sampler {
    sockets: SockDiag,
    filter: Filter,
    interval: Duration,
    next: Instant,
    round: u64,
    seen: HashMap<u64, Seen>,
    netns: u32,
}

fn in_prefix(prefix: &Prefix, addr: IpAddr) -> bool {
    let ((want, wanted_family), (have, family)) = (bytes_of(prefix.addr), bytes_of(addr));
    if wanted_family != family {
        return false;
    }
    let (whole, rest) = (usize::from(prefix.length / 8), prefix.length % 8);
    want[..whole] == have[..whole] && (rest == 0 || (want[whole] ^ have[whole]) >> (8 - rest) == 0)
}

fn any_or_none<T>(wanted: &[T], holds: impl FnMut(&T) -> bool) -> bool {
    wanted.is_empty() || wanted.iter().any(holds)
}

fn wanted(filter: &Filter, connection: &Connection) -> bool {
    let (local, remote) = (connection.local.port(), connection.remote.port());
    any_or_none(&filter.ports, |&port| port == local || port == remote)
        && any_or_none(&filter.local_ports, |&port| port == local)
        && any_or_none(&filter.remote_ports, |&port| port == remote)
        && any_or_none(&filter.local, |prefix| in_prefix(prefix, connection.local.ip()))
        && any_or_none(&filter.remote, |prefix| in_prefix(prefix, connection.remote.ip()))
}

impl Sampler {
    /// # Errors
    /// When a filter is given that only the kernel side can apply.
    pub fn start(filter: &Filter, interval: Duration) -> Result<Sampler> {
        if filter.cgroup.is_some() || filter.interface.is_some() || filter.netns.is_some() {
            bail!(
                "--cgroup, --interface and --netns need the probes, which cannot be loaded here: see `transom check`"
            );
        }
        Ok(Sampler {
            sockets: SockDiag::open()?,
            filter: filter.clone(),
            interval,
            next: Instant::now(),
            round: 0,
            seen: HashMap::new(),
            netns: fs::metadata("/proc/self/ns/net").map_or(0, |m| m.ino() as u32),
        })
    }

    pub fn interval(&self) -> Duration {
        self.interval
    }

    /// From now on, connections of this process are wanted.
    pub fn add_process(&mut self, pid: u32) {
        self.filter.pids.push(pid);
    }

    /// Waits for the next look, but not longer than `timeout`; a look hands
    /// `sink` an `open` of each new connection, a `sample` of each that is
    /// there, and a `close` of each that has gone.
    pub fn poll(&mut self, timeout: Duration, sink: &mut dyn FnMut(&Raw)) -> Result<usize> {
        let wait = self.next.saturating_duration_since(Instant::now());
        std::thread::sleep(wait.min(timeout));
        if wait > timeout {
            return Ok(0);
        }
        self.next = (self.next + self.interval).max(Instant::now());
        self.round += 1;
        let mut events = 0;
        for family in [libc::AF_INET, libc::AF_INET6] {
            for connection in self.sockets.connections(family)? {
                events += self.look(&connection, sink);
            }
        }
        Ok(events + self.farewell(sink))
    }

    fn look(&mut self, connection: &Connection, sink: &mut dyn FnMut(&Raw)) -> usize {
        let cookie = connection.cookie;
        let info = TcpInfo(&connection.info);
        if connection.info.is_empty() || !wanted(&self.filter, connection) {
            return 0;
        }
        let mut events = 1;
        if !self.seen.contains_key(&cookie) {
            let Some((tgid, open)) = self.identify(connection) else { return 0 };
            sink(&self.event(cookie, tgid, Kind::Open, Body::Open(open)));
            let fresh = Seen { tgid, waited: info.waited(), state: State::default(), round: 0 };
            self.seen.insert(cookie, fresh);
            events += 1;
        }
        let Some(seen) = self.seen.get_mut(&cookie) else { return 0 };
        let mut state = info.state(seen.waited);
        state.send_queue = connection.send_queue;
        state.recv_queue = connection.recv_queue;
        (seen.waited, seen.state, seen.round) = (info.waited(), state, self.round);
        let tgid = seen.tgid;
        sink(&self.event(cookie, tgid, Kind::Sample, Body::State(state)));
        events
    }

    /// The process and the description of a new connection; None if the filter excludes the process.
    fn identify(&self, connection: &Connection) -> Option<(u32, Open)> {
        let (tgid, comm) = owners(&HashSet::from([connection.inode]))
            .remove(&connection.inode)
            .unwrap_or_default();
        if self.filter.by_process && !self.filter.pids.contains(&tgid) {
            return None;
        }
        let (local, remote) = (connection.local, connection.remote);
        let (local_addr, family) = bytes_of(local.ip());
        let open = Open {
            local_addr,
            remote_addr: bytes_of(remote.ip()).0,
            local_port: local.port(),
            remote_port: remote.port(),
            netns: self.netns,
            ifindex: connection.interface,
            family,
            comm,
            algorithm: padded(&connection.algorithm),
            ..Open::default()
        };
        Some((tgid, open))
    }

    fn event(&self, cookie: u64, tgid: u32, kind: Kind, body: Body) -> Raw {
        let origin = if kind == Kind::Open { Origin::Existing as u32 } else { 0 };
        let time_ns = boottime_ns();
        let place = Place::SockDiag;
        Raw::from(&Event { time_ns, cookie, tgid, cpu: 0, kind, place, aux: [origin, 0], body })
    }

    fn farewell(&mut self, sink: &mut dyn FnMut(&Raw)) -> usize {
        let round = self.round;
        let gone: Vec<u64> =
            self.seen.iter().filter(|(_, seen)| seen.round < round).map(|(&c, _)| c).collect();
        for cookie in &gone {
            if let Some(seen) = self.seen.remove(cookie) {
                sink(&self.event(*cookie, seen.tgid, Kind::Close, Body::State(seen.state)));
            }
        }
        gone.len()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_prefix_holds_the_addresses_that_share_its_bits() {
        let prefix: Prefix = "10.16.0.0/12".parse().unwrap();
        assert!(in_prefix(&prefix, "10.31.255.1".parse().unwrap()));
        assert!(!in_prefix(&prefix, "10.32.0.1".parse().unwrap()));
        assert!(!in_prefix(&prefix, "::1".parse().unwrap()));
        assert!(in_prefix(&"0.0.0.0/0".parse().unwrap(), "1.2.3.4".parse().unwrap()));
    }

    #[test]
    fn a_live_connection_is_opened_sampled_and_closed() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let client = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
        let mut server = listener.accept().unwrap().0;
        server.write_all(b"what the client does not read").unwrap();
        let filter = Filter { remote_ports: vec![port], ..Filter::default() };
        let mut sampler = Sampler::start(&filter, Duration::from_millis(1)).unwrap();
        let (mut kinds, mut unread) = (Vec::new(), 0);
        let mut look = |sampler: &mut Sampler| {
            sampler
                .poll(Duration::from_secs(1), &mut |raw| {
                    let event = Event::try_from(raw).unwrap();
                    kinds.push((event.kind, event.tgid));
                    if let (Kind::Sample, Body::State(state)) = (event.kind, &event.body) {
                        unread = state.recv_queue;
                    }
                })
                .unwrap()
        };
        look(&mut sampler);
        // Reset instead of TIME_WAIT or FIN_WAIT2, so that it is gone at once.
        let linger = libc::linger { l_onoff: 1, l_linger: 0 };
        let fd = std::os::fd::AsRawFd::as_raw_fd(&client);
        let size = size_of::<libc::linger>() as u32;
        // SAFETY: `linger` is what SO_LINGER takes.
        let set = unsafe {
            libc::setsockopt(
                fd,
                libc::SOL_SOCKET,
                libc::SO_LINGER,
                (&raw const linger).cast(),
                size,
            )
        };
        assert_eq!(set, 0);
        drop(client);
        look(&mut sampler);
        drop(server);
        let own = std::process::id();
        assert_eq!(kinds[..2], [(Kind::Open, own), (Kind::Sample, own)]);
        assert_eq!(kinds.last().unwrap().0, Kind::Close);
        assert!(unread > 0, "bytes that wait in the receive queue");
    }
}
