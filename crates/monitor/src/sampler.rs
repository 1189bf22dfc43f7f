//! The last resort, which needs no privilege: ask sock_diag for TCP_INFO of
//! each connection, again and again. What it yields are samples, no events.

use std::collections::HashMap;
use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use netlink_packet_core::{
    NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_sock_diag::SockDiagMessage;
use netlink_packet_sock_diag::constants::{AF_INET, AF_INET6, IPPROTO_TCP};
use netlink_packet_sock_diag::inet::nlas::Nla;
use netlink_packet_sock_diag::inet::{
    ExtensionFlags, InetRequest, InetResponse, SocketId, StateFlags,
};
use netlink_sys::protocols::NETLINK_SOCK_DIAG;
use netlink_sys::{Socket, SocketAddr};
use transom_event::{Body, Event, Kind, Open, Origin, Place, Prefix, Raw, State};

use crate::clock::boottime_ns;
use crate::filter::Filter;
use crate::tcp_info::{TcpInfo, Waited};

/// Time between two looks when nothing is said.
pub const DEFAULT_INTERVAL: Duration = Duration::from_millis(100);

/// Bytes of one answer of the kernel at most.
const ANSWER: usize = 1 << 16;

struct Seen {
    tgid: u32,
    waited: Waited,
    state: State,
    round: u64,
}

/// Polls TCP_INFO of the connections in this network namespace.
pub struct Sampler {
    socket: Socket,
    filter: Filter,
    interval: Duration,
    next: Instant,
    round: u64,
    seen: HashMap<u64, Seen>,
    netns: u32,
}

fn bytes_of(addr: IpAddr) -> ([u8; 16], u16) {
    let mut bytes = [0; 16];
    match addr {
        IpAddr::V4(v4) => {
            bytes[..4].copy_from_slice(&v4.octets());
            (bytes, u16::from(AF_INET))
        }
        IpAddr::V6(v6) => (v6.octets(), u16::from(AF_INET6)),
    }
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

fn wanted(filter: &Filter, id: &SocketId) -> bool {
    let (local, remote) = (id.source_port, id.destination_port);
    any_or_none(&filter.ports, |&port| port == local || port == remote)
        && any_or_none(&filter.local_ports, |&port| port == local)
        && any_or_none(&filter.remote_ports, |&port| port == remote)
        && any_or_none(&filter.local, |prefix| in_prefix(prefix, id.source_address))
        && any_or_none(&filter.remote, |prefix| in_prefix(prefix, id.destination_address))
}

/// Which process holds a socket, as far as /proc lets us look.
fn owner(inode: u32) -> Option<(u32, [u8; 16])> {
    let wanted = format!("socket:[{inode}]");
    for process in fs::read_dir("/proc").ok()?.flatten() {
        let Ok(pid) = process.file_name().to_string_lossy().parse::<u32>() else { continue };
        let Ok(files) = fs::read_dir(process.path().join("fd")) else { continue };
        let holds = |file: fs::DirEntry| {
            fs::read_link(file.path()).is_ok_and(|link| link.as_os_str() == wanted.as_str())
        };
        if files.flatten().any(holds) {
            let name = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
            return Some((pid, padded(name.trim_end())));
        }
    }
    None
}

fn padded(text: &str) -> [u8; 16] {
    let mut bytes = [0; 16];
    let length = text.len().min(15);
    bytes[..length].copy_from_slice(&text.as_bytes()[..length]);
    bytes
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
        let mut socket = Socket::new(NETLINK_SOCK_DIAG).context("opening a sock_diag socket")?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Sampler {
            socket,
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
        for family in [AF_INET, AF_INET6] {
            for answer in self.dump(family)? {
                events += self.look(&answer, sink);
            }
        }
        Ok(events + self.farewell(sink))
    }

    fn dump(&self, family: u8) -> Result<Vec<InetResponse>> {
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | NLM_F_DUMP;
        let request = InetRequest {
            family,
            protocol: IPPROTO_TCP,
            extensions: ExtensionFlags::INFO | ExtensionFlags::CONG | ExtensionFlags::SKMEMINFO,
            states: StateFlags::all() - StateFlags::LISTEN - StateFlags::TIME_WAIT,
            socket_id: if family == AF_INET { SocketId::new_v4() } else { SocketId::new_v6() },
        };
        let mut message = NetlinkMessage::new(header, SockDiagMessage::InetRequest(request).into());
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        self.socket.send(&bytes, 0).context("asking sock_diag")?;
        self.answers()
    }

    fn answers(&self) -> Result<Vec<InetResponse>> {
        let mut found = Vec::new();
        let mut buffer = Vec::with_capacity(ANSWER);
        loop {
            buffer.clear();
            self.socket.recv(&mut buffer, 0).context("reading from sock_diag")?;
            let mut rest = buffer.as_slice();
            while !rest.is_empty() {
                let message = NetlinkMessage::<SockDiagMessage>::deserialize(rest)
                    .context("sock_diag answered in an unknown form")?;
                let length = (message.header.length as usize).next_multiple_of(4).max(4);
                rest = rest.get(length..).unwrap_or_default();
                match message.payload {
                    NetlinkPayload::InnerMessage(SockDiagMessage::InetResponse(answer)) => {
                        found.push(*answer);
                    }
                    NetlinkPayload::Done(_) => return Ok(found),
                    NetlinkPayload::Error(error) => bail!("sock_diag refuses: {error}"),
                    _ => {}
                }
            }
        }
    }

    fn look(&mut self, answer: &InetResponse, sink: &mut dyn FnMut(&Raw)) -> usize {
        let id = &answer.header.socket_id;
        let cookie = u64::from_ne_bytes(id.cookie);
        let info = answer.nlas.iter().find_map(|nla| match nla {
            Nla::TcpInfo(bytes) => Some(TcpInfo(bytes)),
            _ => None,
        });
        let Some(info) = info.filter(|_| wanted(&self.filter, id)) else { return 0 };
        let mut events = 1;
        if !self.seen.contains_key(&cookie) {
            let Some((tgid, open)) = self.identify(answer) else { return 0 };
            sink(&self.event(cookie, tgid, Kind::Open, Body::Open(open)));
            let fresh = Seen { tgid, waited: info.waited(), state: State::default(), round: 0 };
            self.seen.insert(cookie, fresh);
            events += 1;
        }
        let Some(seen) = self.seen.get_mut(&cookie) else { return 0 };
        let mut state = info.state(seen.waited);
        for nla in &answer.nlas {
            if let Nla::MemInfo(memory) = nla {
                state.send_queue = memory.send_queue;
                state.recv_queue = memory.receive_queue;
            }
        }
        (seen.waited, seen.state, seen.round) = (info.waited(), state, self.round);
        let tgid = seen.tgid;
        sink(&self.event(cookie, tgid, Kind::Sample, Body::State(state)));
        events
    }

    /// Who a new connection is; None when the filter asks for other processes.
    fn identify(&self, answer: &InetResponse) -> Option<(u32, Open)> {
        let id = &answer.header.socket_id;
        let (tgid, comm) = owner(answer.header.inode).unwrap_or_default();
        if self.filter.by_process && !self.filter.pids.contains(&tgid) {
            return None;
        }
        let algorithm = answer.nlas.iter().find_map(|nla| match nla {
            Nla::Congestion(name) => Some(padded(name)),
            _ => None,
        });
        let (local_addr, family) = bytes_of(id.source_address);
        let open = Open {
            local_addr,
            remote_addr: bytes_of(id.destination_address).0,
            local_port: id.source_port,
            remote_port: id.destination_port,
            netns: self.netns,
            ifindex: id.interface_id,
            family,
            comm,
            algorithm: algorithm.unwrap_or_default(),
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
        let server = listener.accept().unwrap();
        let filter = Filter { remote_ports: vec![port], ..Filter::default() };
        let mut sampler = Sampler::start(&filter, Duration::from_millis(1)).unwrap();
        let mut kinds = Vec::new();
        let mut look = |sampler: &mut Sampler| {
            sampler
                .poll(Duration::from_secs(1), &mut |raw| {
                    let event = Event::try_from(raw).unwrap();
                    kinds.push((event.kind, event.tgid));
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
    }
}
