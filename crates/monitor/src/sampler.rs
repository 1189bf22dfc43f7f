//! The last resort, which needs no privilege: ask sock_diag for TCP_INFO of
//! each connection, again and again. What it yields are samples, no events.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use transom_event::{Body, Event, Kind, Open, Origin, Place, Raw, State};

use crate::clock::boottime_ns;
use crate::filter::Filter;
use crate::owner::{Owners, owners, padded};
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

/// A connection of a process that is not wanted, or of nobody as far as we may look.
struct Rejected {
    /// No walk will tell more.
    settled: bool,
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
    rejected: HashMap<u64, Rejected>,
    owners: fn(&HashSet<u32>) -> Owners,
    netns: u32,
}

fn any_or_none<T>(wanted: &[T], holds: impl FnMut(&T) -> bool) -> bool {
    wanted.is_empty() || wanted.iter().any(holds)
}

fn wanted(filter: &Filter, connection: &Connection) -> bool {
    let (local, remote) = (connection.local.port(), connection.remote.port());
    any_or_none(&filter.ports, |&port| port == local || port == remote)
        && any_or_none(&filter.local_ports, |&port| port == local)
        && any_or_none(&filter.remote_ports, |&port| port == remote)
        && any_or_none(&filter.local, |prefix| prefix.holds(connection.local.ip()))
        && any_or_none(&filter.remote, |prefix| prefix.holds(connection.remote.ip()))
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
            rejected: HashMap::new(),
            owners,
            netns: fs::metadata("/proc/self/ns/net").map_or(0, |m| m.ino() as u32),
        })
    }

    pub fn interval(&self) -> Duration {
        self.interval
    }

    /// From now on, connections of this process are wanted.
    pub fn add_process(&mut self, pid: u32) {
        self.filter.pids.push(pid);
        self.rejected.clear();
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
        let mut found = Vec::new();
        for family in [libc::AF_INET, libc::AF_INET6] {
            found.extend(self.sockets.connections(family)?);
        }
        found.retain(|it| !it.info.is_empty() && wanted(&self.filter, it));
        let owners = self.owners_of_new(&found);
        let events: usize = found.iter().map(|it| self.look(it, &owners, sink)).sum();
        Ok(events + self.farewell(sink))
    }

    /// Who holds those that were not seen before: one walk over all processes for all of them,
    /// and none for what a walk has told already.
    fn owners_of_new(&self, found: &[Connection]) -> Owners {
        let told = |cookie: &u64| {
            let settled = self.rejected.get(cookie).is_some_and(|it| it.settled);
            settled || self.seen.contains_key(cookie)
        };
        // What waits to be accepted has no inode, and nobody holds it.
        let new = found.iter().filter(|it| it.inode != 0 && !told(&it.cookie));
        let inodes: HashSet<u32> = new.map(|it| it.inode).collect();
        if inodes.is_empty() { Owners::new() } else { (self.owners)(&inodes) }
    }

    fn look(
        &mut self,
        connection: &Connection,
        owners: &Owners,
        sink: &mut dyn FnMut(&Raw),
    ) -> usize {
        let cookie = connection.cookie;
        let info = TcpInfo(&connection.info);
        let mut events = 1;
        if !self.seen.contains_key(&cookie) {
            let Some((tgid, open)) = self.identify(connection, owners) else { return 0 };
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
    fn identify(&mut self, connection: &Connection, owners: &Owners) -> Option<(u32, Open)> {
        let holder = owners.get(&connection.inode);
        let (tgid, comm) = holder.copied().unwrap_or_default();
        if self.filter.by_process && !self.filter.pids.contains(&tgid) {
            self.reject(connection, holder.is_some());
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

    fn reject(&mut self, connection: &Connection, holder_is_known: bool) {
        if connection.inode == 0 {
            return;
        }
        // `accept` gives a socket its inode a moment before the process holds it: asked once more.
        let settled = holder_is_known || self.rejected.contains_key(&connection.cookie);
        self.rejected.insert(connection.cookie, Rejected { settled, round: self.round });
    }

    fn event(&self, cookie: u64, tgid: u32, kind: Kind, body: Body) -> Raw {
        let origin = if kind == Kind::Open { Origin::Existing as u32 } else { 0 };
        let time_ns = boottime_ns();
        let place = Place::SockDiag;
        Raw::from(&Event { time_ns, cookie, tgid, cpu: 0, kind, place, aux: [origin, 0], body })
    }

    fn farewell(&mut self, sink: &mut dyn FnMut(&Raw)) -> usize {
        let round = self.round;
        self.rejected.retain(|_, rejected| rejected.round == round);
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
    use std::cell::RefCell;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    use transom_testbed::set_linger_zero;

    use super::*;

    thread_local! {
        /// How many sockets each walk over all processes was for.
        static WALKS: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
    }

    fn counted(inodes: &HashSet<u32>) -> Owners {
        WALKS.with_borrow_mut(|walks| walks.push(inodes.len()));
        owners(inodes)
    }

    fn of_nobody(inodes: &HashSet<u32>) -> Owners {
        WALKS.with_borrow_mut(|walks| walks.push(inodes.len()));
        Owners::new()
    }

    fn connect(listener: &TcpListener) -> [TcpStream; 2] {
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        [client, listener.accept().unwrap().0]
    }

    /// What the walks of one look were for.
    fn walks(sampler: &mut Sampler) -> Vec<usize> {
        sampler.poll(Duration::from_secs(1), &mut |_| {}).unwrap();
        WALKS.take()
    }

    fn sampler_of(listener: &TcpListener, pid: u32) -> Sampler {
        let filter = Filter {
            ports: vec![listener.local_addr().unwrap().port()],
            pids: vec![pid],
            by_process: true,
            ..Filter::default()
        };
        let mut sampler = Sampler::start(&filter, Duration::from_millis(1)).unwrap();
        sampler.owners = counted;
        sampler
    }

    #[test]
    fn the_holders_of_all_new_sockets_are_found_by_one_walk_and_not_asked_for_again() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut held: Vec<_> = (0..3).map(|_| connect(&listener)).collect();
        let own = std::process::id();
        for (wanted, there) in [(own, 6), (1, 8)] {
            let mut sampler = sampler_of(&listener, wanted);
            assert_eq!(walks(&mut sampler), [there], "of process {wanted}");
            assert_eq!(walks(&mut sampler), [0; 0]);
            held.push(connect(&listener));
            assert_eq!(walks(&mut sampler), [2]);
            assert_eq!(walks(&mut sampler), [0; 0]);
        }
        let mut sampler = sampler_of(&listener, 1);
        walks(&mut sampler);
        assert_eq!((sampler.seen.len(), sampler.rejected.len()), (0, 10));
        sampler.add_process(own);
        assert_eq!(walks(&mut sampler), [10], "another process is wanted");
        assert_eq!((sampler.seen.len(), sampler.rejected.len()), (10, 0));
        drop(held);
    }

    #[test]
    fn a_socket_that_nobody_seems_to_hold_is_asked_for_twice() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let pair = connect(&listener);
        let mut sampler = sampler_of(&listener, std::process::id());
        sampler.owners = of_nobody;
        let asked: Vec<_> = (0..4).map(|_| walks(&mut sampler)).collect();
        assert_eq!(asked, [vec![2], vec![2], vec![], vec![]]);
        drop(pair);
    }

    #[test]
    fn a_connection_that_waits_to_be_accepted_is_found_when_it_is() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut sampler = sampler_of(&listener, std::process::id());
        assert_eq!((walks(&mut sampler), walks(&mut sampler)), (vec![1], vec![]));
        let server = listener.accept().unwrap().0;
        assert_eq!(walks(&mut sampler), [1]);
        assert_eq!(sampler.seen.len(), 2);
        drop((client, server));
    }

    #[test]
    fn what_was_rejected_is_forgotten_when_it_is_gone() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let pair = connect(&listener);
        let mut sampler = sampler_of(&listener, 1);
        walks(&mut sampler);
        assert_eq!(sampler.rejected.len(), 2);
        set_linger_zero(&pair[0]);
        drop(pair);
        walks(&mut sampler);
        assert_eq!(sampler.rejected.len(), 0);
    }

    #[test]
    fn an_ipv4_connection_of_an_ipv6_socket_has_the_addresses_that_prefixes_mean() {
        let listener = TcpListener::bind("[::]:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let server = listener.accept().unwrap().0;
        let seen = |prefix: &str| {
            let remote = vec![prefix.parse().unwrap()];
            let filter = Filter { remote, local_ports: vec![port], ..Filter::default() };
            let mut sampler = Sampler::start(&filter, Duration::from_millis(1)).unwrap();
            let mut opened = Vec::new();
            let mut note = |raw: &Raw| {
                if let Body::Open(open) = Event::try_from(raw).unwrap().body {
                    opened.push((open.family, open.endpoints().remote));
                }
            };
            sampler.poll(Duration::from_secs(1), &mut note).unwrap();
            opened
        };
        let expected = (libc::AF_INET as u16, client.local_addr().unwrap());
        assert_eq!(seen("127.0.0.0/8"), [expected]);
        assert_eq!(seen("::/0"), []);
        drop(server);
    }

    #[test]
    fn a_live_connection_is_opened_sampled_and_closed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let client = TcpStream::connect(("127.0.0.1", port)).unwrap();
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
        set_linger_zero(&client);
        drop(client);
        look(&mut sampler);
        drop(server);
        let own = std::process::id();
        assert_eq!(kinds[..2], [(Kind::Open, own), (Kind::Sample, own)]);
        assert_eq!(kinds.last().unwrap().0, Kind::Close);
        assert!(unread > 0, "bytes that wait in the receive queue");
    }
}
