//! Rows without BPF: sock_diag(7) tells of each TCP socket that ends, with its counters, and is
//! asked for all that are open now and then. Needs no privilege for the own network namespace.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bytemuck::{Zeroable, bytes_of};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use transom_event::tcp_info::TcpInfo;
use transom_machine::{ProgramStats, namespace};
use transom_monitor::clock::boottime_ns;
use transom_monitor::owner::{owners, padded};
use transom_monitor::sock_diag::{Connection, Ends, SockDiag, bytes_of as address_of};
use transom_spool::RttSamples;

use crate::kernel::NAMESPACES_FOR;
use crate::raw::{Counts, FROM_SOCK_DIAG, ROW_END, ROW_FAILED, ROW_INTERIM, RawRow};
use crate::watch::{Found, Watch};

/// enum tx_row_origin
const EXISTING: u8 = 0;
const CONNECT: u8 = 1;
const ACCEPT: u8 = 2;

/// More would be more than the reader may hold; the rest waits in the socket.
const MOST_BYTES: usize = 4 << 20;

/// A network namespace.
struct Place {
    ends: Ends,
    sockets: SockDiag,
    listening: Listening,
}

/// Ports that are listened on, by the last look and the one before it: a listener may be closed
/// before what it accepted ends. What was listened on earlier says nothing of a connection now.
#[derive(Default)]
struct Listening {
    now: HashSet<u16>,
    before: HashSet<u16>,
}

impl Listening {
    fn seen(&mut self, ports: HashSet<u16>) {
        self.before = std::mem::replace(&mut self.now, ports);
    }

    fn contains(&self, port: u16) -> bool {
        self.now.contains(&port) || self.before.contains(&port)
    }
}

/// What is known of an open connection beyond what its end will tell.
struct Known {
    tgid: u32,
    comm: [u8; 16],
    cgroup: u64,
    algorithm: [u8; 16],
    existed: bool,
    accepted: bool,
    rtt: RttSamples,
    /// The kernel forgets what is older than five minutes.
    least_rtt: u32,
    largest_cwnd: u32,
    largest_window: u32,
    interim_due: u64,
    bytes: u64,
    round: u64,
}

pub struct Polling {
    places: HashMap<u64, Place>,
    /// Namespaces that exist and are none of them.
    not_entered: HashSet<u32>,
    listed: Instant,
    known: HashMap<u64, Known>,
    arrived: Vec<u8>,
    interim: Duration,
    us_per_jiffy: u32,
    most: u32,
    untracked: u64,
    /// Of namespaces that are gone.
    lost: u64,
    round: u64,
}

impl Polling {
    /// # Errors
    /// The kernel has no sock_diag.
    pub fn open(interim: Duration, most: u32, us_per_jiffy: u32) -> Result<Polling> {
        let mut polling = Polling {
            places: HashMap::new(),
            not_entered: HashSet::new(),
            listed: Instant::now(),
            known: HashMap::new(),
            arrived: Vec::new(),
            interim,
            us_per_jiffy,
            most,
            untracked: 0,
            lost: 0,
            round: 0,
        };
        polling.find_places()?;
        polling.look(None)?;
        Ok(polling)
    }

    fn find_places(&mut self) -> Result<()> {
        let here = u64::from(namespace::own()?);
        let now: HashMap<u64, PathBuf> = namespace::all();
        if let Entry::Vacant(vacant) = self.places.entry(here) {
            let place = Place::open().context("asking the kernel for connections (sock_diag)")?;
            vacant.insert(place);
        }
        for (inode, path) in &now {
            // One that must not be entered is left out, as with the probes' walk.
            if !self.places.contains_key(inode)
                && let Ok(Ok(place)) = namespace::inside(path, Place::open)
            {
                self.places.insert(*inode, place);
            }
        }
        // What still waits in a namespace that nothing lives in is read before it is let go.
        self.drain(|inode| inode != here && !now.contains_key(&inode))?;
        let lost = &mut self.lost;
        self.places.retain(|inode, place| {
            let stays = *inode == here || now.contains_key(inode);
            *lost += if stays { 0 } else { place.ends.lost() };
            stays
        });
        let not_entered = now.keys().filter(|inode| !self.places.contains_key(inode));
        self.not_entered = not_entered.map(|inode| *inode as u32).collect();
        self.listed = Instant::now();
        Ok(())
    }

    /// Rows of the connections that ended in these namespaces.
    fn drain(&mut self, of: impl Fn(u64) -> bool) -> Result<()> {
        let Polling { places, known, arrived, untracked, most, us_per_jiffy, .. } = self;
        for (&inode, place) in places.iter_mut().filter(|(inode, _)| of(**inode)) {
            let listening = &place.listening;
            place.ends.take(|end| {
                let known = known.remove(&end.cookie);
                // A socket that listened, or never was to connect.
                if end.remote.port() == 0 && TcpInfo(&end.info).rcv_mss() == 0 {
                    return;
                }
                if *most == 0 && known.is_none() {
                    *untracked += 1;
                    return;
                }
                let row = Seen { netns: inode as u32, us_per_jiffy: *us_per_jiffy, listening }
                    .end(&end, known.as_ref());
                arrived.extend_from_slice(bytes_of(&row));
            })?;
            if arrived.len() > MOST_BYTES {
                break;
            }
        }
        Ok(())
    }

    fn look_into(&mut self, inode: u64) -> Result<Vec<(u64, u32)>> {
        let Some(place) = self.places.get_mut(&inode) else { return Ok(Vec::new()) };
        let (mut found, mut listening) = (Vec::new(), HashSet::new());
        for family in [libc::AF_INET, libc::AF_INET6] {
            found.extend(place.sockets.connections(family)?);
            listening.extend(place.sockets.listening(family)?);
        }
        place.listening.seen(listening);
        let (now, mut nameless) = (boottime_ns(), Vec::new());
        let seen = Seen {
            netns: inode as u32,
            us_per_jiffy: self.us_per_jiffy,
            listening: &place.listening,
        };
        for connection in &found {
            if !self.known.contains_key(&connection.cookie) {
                if self.known.len() as u32 >= self.most {
                    continue;
                }
                let spread = self.interim.as_nanos() as u64;
                let fresh = Known {
                    tgid: 0,
                    comm: [0; 16],
                    cgroup: connection.cgroup,
                    algorithm: padded(&connection.algorithm),
                    existed: self.round == 1,
                    accepted: place.listening.contains(connection.local.port()),
                    rtt: RttSamples::default(),
                    least_rtt: u32::MAX,
                    largest_cwnd: 0,
                    largest_window: 0,
                    // Each at a moment of its own.
                    interim_due: now
                        + spread / 2
                        + connection.cookie.wrapping_mul(0x9e37_79b9) % (spread / 2).max(1),
                    bytes: 0,
                    round: 0,
                };
                self.known.insert(connection.cookie, fresh);
                nameless.push((connection.cookie, connection.inode));
            }
            let Some(known) = self.known.get_mut(&connection.cookie) else { continue };
            if known.sample(connection, self.round) && now >= known.interim_due {
                known.interim_due = now + self.interim.as_nanos() as u64;
                known.bytes = bytes(&TcpInfo(&connection.info));
                let row = seen.row(ROW_INTERIM, connection, Some(known));
                self.arrived.extend_from_slice(bytes_of(&row));
            }
        }
        Ok(nameless)
    }

    /// One walk over all processes, and only when there are new connections.
    fn find_programs(&mut self, nameless: &[(u64, u32)]) {
        let inodes: HashSet<u32> =
            nameless.iter().map(|(_, inode)| *inode).filter(|&inode| inode != 0).collect();
        if inodes.is_empty() {
            return;
        }
        let found = owners(&inodes);
        for (cookie, inode) in nameless {
            if let (Some(known), Some(&(tgid, comm))) =
                (self.known.get_mut(cookie), found.get(inode))
            {
                (known.tgid, known.comm) = (tgid, comm);
            }
        }
    }
}

impl Place {
    fn open() -> Result<Place> {
        let (ends, sockets) = (Ends::open()?, SockDiag::open()?);
        Ok(Place { ends, sockets, listening: Listening::default() })
    }
}

impl Watch for Polling {
    fn wait(&mut self, at_most: Duration) -> Result<Vec<u8>> {
        {
            let mut each: Vec<PollFd<'_>> =
                self.places.values().map(|place| PollFd::new(&place.ends, PollFlags::IN)).collect();
            let time = Timespec::try_from(at_most).context("a time to wait")?;
            match poll(&mut each, Some(&time)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error).context("waiting for sock_diag"),
            }
        }
        self.drain(|_| true)?;
        Ok(std::mem::take(&mut self.arrived))
    }

    fn reuse(&mut self, mut bytes: Vec<u8>) {
        bytes.clear();
        if self.arrived.is_empty() && bytes.capacity() <= MOST_BYTES {
            self.arrived = bytes;
        }
    }

    fn look(&mut self, found: Option<&mut Found>) -> Result<()> {
        self.round += 1;
        if self.listed.elapsed() > NAMESPACES_FOR {
            self.find_places()?;
        }
        let mut nameless = Vec::new();
        for inode in self.places.keys().copied().collect::<Vec<_>>() {
            nameless.extend(self.look_into(inode)?);
        }
        self.find_programs(&nameless);
        // Those whose end found no room.
        let round = self.round;
        self.known.retain(|_, known| known.round + 2 > round);
        if let Some(found) = found {
            found.not_entered.clone_from(&self.not_entered);
            let here = self.known.iter().filter(|(_, known)| known.round == round);
            found.cookies.extend(here.map(|(cookie, _)| *cookie));
        }
        Ok(())
    }

    fn counts(&self) -> Counts {
        let lost: u64 = self.places.values().map(|place| place.ends.lost()).sum();
        Counts {
            tracked: self.known.len() as u64,
            untracked: self.untracked,
            lost_rows: self.lost + lost,
            ..Counts::default()
        }
    }

    fn stats(&self) -> Vec<ProgramStats> {
        Vec::new()
    }

    fn has_level_1(&self) -> bool {
        false
    }

    fn set_level_1(&mut self, _on: bool) -> Result<()> {
        Ok(())
    }

    fn set_most(&mut self, most: u32) -> Result<()> {
        self.most = most;
        Ok(())
    }

    fn last(&mut self) -> Result<Vec<u8>> {
        self.drain(|_| true)?;
        self.lost += self.places.drain().map(|(_, place)| place.ends.lost()).sum::<u64>();
        Ok(std::mem::take(&mut self.arrived))
    }
}

impl Known {
    /// Notes what a look shows; whether bytes moved since the last row.
    fn sample(&mut self, connection: &Connection, round: u64) -> bool {
        let info = TcpInfo(&connection.info);
        let state = info.state(info.waited());
        self.round = round;
        self.rtt.add(state.srtt_us);
        self.least_rtt = self.least_rtt.min(state.min_rtt_us);
        self.largest_cwnd = self.largest_cwnd.max(state.cwnd);
        self.largest_window = self.largest_window.max(state.snd_wnd);
        bytes(&info) != self.bytes
    }
}

fn bytes(info: &TcpInfo<'_>) -> u64 {
    let (acked, received) = info.bytes();
    acked + received
}

/// Where a connection was seen.
struct Seen<'a> {
    netns: u32,
    us_per_jiffy: u32,
    listening: &'a Listening,
}

impl Seen<'_> {
    fn end(&self, end: &Connection, known: Option<&Known>) -> RawRow {
        let mut row = self.row(ROW_END, end, known);
        // When `connect` fails, the kernel forgets the peer and all counters. When it was not
        // waited for, it does not, but the SYN was never acknowledged.
        if row.remote_port == 0 || (row.origin == CONNECT && row.bytes_acked == 0) {
            row.kind = ROW_FAILED;
        }
        row
    }

    fn row(&self, kind: u8, connection: &Connection, known: Option<&Known>) -> RawRow {
        let info = TcpInfo(&connection.info);
        let state = info.state(info.waited());
        let (local, remote) = (connection.local, connection.remote);
        let (local_addr, family) = address_of(local.ip());
        let (acked, received) = info.bytes();
        let (sent, retransmitted) = info.bytes_sent();
        let waited = info.waited();
        let jiffies = |us: u64| (us / u64::from(self.us_per_jiffy.max(1))) as u32;
        RawRow {
            kind,
            origin: self.origin(connection, known),
            flags: FROM_SOCK_DIAG,
            family: family as u8,
            state: connection.state,
            ca_state: state.ca_state,
            tgid: known.map_or(0, |known| known.tgid),
            time_ns: boottime_ns(),
            cookie: connection.cookie,
            cgroup: known.map_or(connection.cgroup, |known| known.cgroup),
            bytes_sent: sent,
            bytes_acked: acked,
            bytes_received: received,
            bytes_retrans: retransmitted,
            netns: self.netns,
            ifindex: connection.interface,
            local_port: local.port(),
            remote_port: remote.port(),
            local_addr,
            remote_addr: address_of(remote.ip()).0,
            comm: known.map_or([0; 16], |known| known.comm),
            algorithm: known.map_or(padded(&connection.algorithm), |known| known.algorithm),
            segs_out: info.all_segments().0,
            segs_in: info.all_segments().1,
            data_segs_out: info.segments().0,
            data_segs_in: info.data_segments_in(),
            retransmitted: info.segments().1,
            timeouts: info.timeouts(),
            dsack_dups: info.spurious_and_reordered().0,
            reord_seen: info.spurious_and_reordered().1,
            rcv_ooopack: info.out_of_order(),
            delivered: state.delivered,
            delivered_ce: info.delivered_ce(),
            busy: jiffies(waited.busy),
            rwnd: jiffies(waited.rwnd),
            sndbuf: jiffies(waited.sndbuf),
            srtt_us: state.srtt_us,
            mdev_us: state.mdev_us,
            min_rtt_us: known.map_or(u32::MAX, |known| known.least_rtt).min(state.min_rtt_us),
            cwnd: state.cwnd,
            cwnd_max: known.map_or(0, |known| known.largest_cwnd).max(state.cwnd),
            ssthresh: state.ssthresh,
            max_window: known.map_or(0, |known| known.largest_window).max(state.snd_wnd),
            mss: state.mss.into(),
            unsent: connection.unacknowledged,
            rtt: known.map_or([0; _], |known| known.rtt.0),
            ..RawRow::zeroed()
        }
    }

    /// sock_diag does not tell who began. A port that is listened on does; else the SYN of the
    /// side that connects counts among its acknowledged bytes, and that of the other side not.
    fn origin(&self, connection: &Connection, known: Option<&Known>) -> u8 {
        let local = connection.local.port();
        if known.is_some_and(|known| known.existed) {
            return EXISTING;
        }
        if known.is_some_and(|known| known.accepted) || self.listening.contains(local) {
            return ACCEPT;
        }
        let info = TcpInfo(&connection.info);
        let (sent, again) = info.bytes_sent();
        let data = sent.saturating_sub(again);
        match info.bytes().0 {
            acked if acked == data && data > 0 => ACCEPT,
            acked if acked > data + 1 => CONNECT,
            // With a FIN it may be either: servers listen on the smaller port, mostly.
            _ if local < connection.remote.port() => ACCEPT,
            _ => CONNECT,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use transom_testbed::wait_for;

    /// Ports here and there of the rows that come in the meantime.
    fn came(polling: &mut Polling, ports: &mut Vec<(u16, u16)>) {
        let bytes = polling.wait(Duration::from_millis(50)).unwrap();
        let rows = bytes.chunks_exact(size_of::<RawRow>());
        let rows = rows.map(bytemuck::pod_read_unaligned::<RawRow>);
        ports.extend(rows.map(|row| (row.local_port, row.remote_port)));
    }

    #[test]
    fn with_room_for_none_connections_from_before_still_have_their_last_row() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let connect = || {
            let here = TcpStream::connect(("127.0.0.1", port)).unwrap();
            (listener.accept().unwrap().0, here)
        };
        let mut polling = Polling::open(Duration::from_secs(300), 1 << 16, 4000).unwrap();
        let before = connect();
        let mut found = Found::default();
        polling.look(Some(&mut found)).unwrap();
        let cookie = rustix::net::sockopt::socket_cookie(&before.0).unwrap();
        assert!(found.cookies.contains(&cookie));
        polling.set_most(0).unwrap();
        let after = connect();
        polling.look(None).unwrap();
        let [first, second] = [&before, &after].map(|pair| pair.1.local_addr().unwrap().port());
        drop((before, after));
        let mut ports = Vec::new();
        wait_for("the ends of both", || {
            came(&mut polling, &mut ports);
            ports.contains(&(port, first)) && polling.untracked > 0
        });
        came(&mut polling, &mut ports);
        assert!(!ports.contains(&(port, second)), "it began when there was room for none");
        let mut found = Found::default();
        polling.look(Some(&mut found)).unwrap();
        assert!(!found.cookies.contains(&cookie));
    }

    #[test]
    fn a_port_counts_as_listened_on_until_the_second_look_that_does_not_find_it() {
        let mut listening = Listening::default();
        let mut seen = |ports: &[u16]| {
            listening.seen(ports.iter().copied().collect());
            [80, 40_001].map(|port| listening.contains(port))
        };
        assert_eq!(seen(&[80, 40_001]), [true, true]);
        assert_eq!(seen(&[80]), [true, true]);
        assert_eq!(seen(&[80]), [true, false]);
        assert_eq!(seen(&[80, 40_001]), [true, true]);
    }
}
