//! The TCP packets of the interfaces, beside the events: their headers, from the IP header on.
//!
//! Which connections are recorded is known only when their handshake is over, so all TCP packets
//! are kept in a file without a name until the recording ends. Nothing of it is left if the
//! process is killed.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use anyhow::{Context, Result, anyhow};
use rustix::net::netdevice;
use transom_machine::namespace;

use crate::clock;

/// The longest headers: 60 bytes of IPv4 (40 of IPv6) and 60 of TCP.
const LONGEST_HEADERS: u32 = 120;

/// Memory for packets that wait for the thread.
const ROOM: libc::c_int = 16 << 20;

/// How long the thread waits before it looks whether to stop, ms.
const PATIENCE_MS: libc::c_int = 50;

/// How many packets it takes before it reads the clocks anew.
const ROUND: usize = 1024;

/// A packet that passed an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Captured {
    /// CLOCK_BOOTTIME, ns.
    pub time_ns: u64,
    pub ifindex: u32,
    pub outgoing: bool,
    /// Bytes from the IP header on, before it was cut.
    pub length: u32,
    pub bytes: Vec<u8>,
}

/// A capture under way.
pub struct Capture {
    socket: Arc<OwnedFd>,
    /// No packet comes any more.
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<Result<Packets>>,
}

/// All packets of a capture.
pub struct Packets {
    file: File,
    /// Name of each interface that a packet passed.
    pub interfaces: BTreeMap<u32, String>,
    /// Inode number of the network namespace that the interfaces are of.
    pub netns: u32,
    pub count: u64,
    /// Packets that the kernel had no room for.
    pub dropped: u64,
}

impl Capture {
    /// Begins: on one interface or all, of this network namespace or another. `payload`: bytes of
    /// it that are kept. The packets go to `spool`.
    ///
    /// # Errors
    /// If the interface is not there, or the kernel allows no packet socket.
    pub fn start(
        netns: Option<&str>,
        interface: Option<&str>,
        payload: u32,
        spool: File,
    ) -> Result<Capture> {
        let netns = netns.map(namespace::path).transpose()?;
        let index = interface
            .map(|name| namespace::interface_index(name, netns.as_deref()))
            .transpose()?
            .unwrap_or(0);
        let opened_ns = clock::boottime_ns();
        let socket = socket(netns.as_deref(), index, LONGEST_HEADERS + payload)
            .context("cannot capture packets (it needs CAP_NET_RAW)")?;
        let (socket, is_over) = (Arc::new(socket), Arc::new(AtomicBool::new(false)));
        let here = netns.as_deref().map_or_else(namespace::own, namespace::inode)?;
        let longest = (LONGEST_HEADERS + payload) as usize;
        let spool = Spool::new(Arc::clone(&socket), spool, longest, here, opened_ns);
        let thread = std::thread::Builder::new().name("packets".into()).spawn({
            let is_over = Arc::clone(&is_over);
            move || spool.fill(&is_over)
        })?;
        Ok(Capture { socket, is_over, thread })
    }

    /// Ends it, with all packets that have passed until now.
    ///
    /// # Errors
    /// If a packet could not be read or kept.
    pub fn finish(self) -> Result<Packets> {
        let closed = close(&self.socket).context("cannot end the capture of packets");
        self.is_over.store(true, Ordering::Release);
        closed?;
        let packets = self.thread.join().map_err(|_| anyhow!("the capture of packets panicked"))?;
        packets.context("cannot keep the packets")
    }
}

fn checked(done: libc::c_int) -> io::Result<libc::c_int> {
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(done) }
}

fn set<T>(socket: &OwnedFd, level: libc::c_int, name: libc::c_int, value: &T) -> io::Result<()> {
    let length = size_of::<T>() as libc::socklen_t;
    let value = std::ptr::from_ref(value).cast();
    // SAFETY: the kernel reads as many bytes as the value has.
    checked(unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, value, length) })?;
    Ok(())
}

/// TCP in IPv4, or in IPv6 without extension headers before it: so many bytes of it, of nothing
/// else any.
fn filter(longest: u32) -> [libc::sock_filter; 9] {
    let op = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let (load_half, load_byte, equals, end) = (0x28, 0x30, 0x15, 0x06);
    [
        // SKF_AD_OFF + SKF_AD_PROTOCOL: what the link layer says it carries.
        op(load_half, 0, 0, 0xffff_f000),
        op(equals, 0, 2, 0x0800),
        op(load_byte, 0, 0, 9),
        op(equals, 3, 4, 6),
        op(equals, 0, 3, 0x86dd),
        op(load_byte, 0, 0, 6),
        op(equals, 0, 1, 6),
        op(end, 0, 0, longest),
        op(end, 0, 0, 0),
    ]
}

fn attach(socket: &OwnedFd, program: &mut [libc::sock_filter]) -> io::Result<()> {
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    set(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

/// Lets no packet in any more. Those that wait can still be taken, and are all that passed before:
/// by their times they could not be told, if the wall clock was set meanwhile.
fn close(socket: &OwnedFd) -> io::Result<()> {
    attach(socket, &mut [libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: 0 }])
}

/// A packet socket that gives packets from their network header on.
fn socket(netns: Option<&Path>, ifindex: u32, longest: u32) -> Result<OwnedFd> {
    let open = || {
        let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: no memory is involved. Without a protocol it gets nothing before its filter.
        let socket = checked(unsafe { libc::socket(libc::AF_PACKET, kind, 0) })?;
        // SAFETY: it was just opened, and nobody else has it.
        io::Result::Ok(unsafe { OwnedFd::from_raw_fd(socket) })
    };
    let socket = match netns {
        Some(path) => namespace::inside(path, open)??,
        None => open()?,
    };
    attach(&socket, &mut filter(longest))?;
    set(&socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &1_i32)?;
    set(&socket, libc::SOL_PACKET, libc::PACKET_AUXDATA, &1_i32)?;
    // Less room costs packets, which are counted.
    let _ = set(&socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &ROOM);
    // SAFETY: integers only.
    let mut address: libc::sockaddr_ll = unsafe { zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = ifindex as i32;
    let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the address is whole, and its length is given.
    checked(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) })?;
    Ok(socket)
}

/// The thread's own: from the socket to the file.
struct Spool {
    socket: Arc<OwnedFd>,
    file: BufWriter<File>,
    buffer: Vec<u8>,
    interfaces: BTreeMap<u32, String>,
    netns: u32,
    count: u64,
    /// When the socket was last without a packet: those that it has now have passed since.
    empty_ns: u64,
    /// Of the last packet.
    last_ns: u64,
}

/// Room for the control messages of a packet, aligned as they are.
#[repr(C, align(8))]
struct Control([u8; 128]);

impl Spool {
    fn new(socket: Arc<OwnedFd>, file: File, longest: usize, netns: u32, opened_ns: u64) -> Spool {
        let file = BufWriter::with_capacity(1 << 18, file);
        let (buffer, interfaces) = (vec![0; longest], BTreeMap::new());
        let (count, empty_ns, last_ns) = (0, opened_ns, opened_ns);
        Spool { socket, file, buffer, interfaces, netns, count, empty_ns, last_ns }
    }

    fn fill(mut self, is_over: &AtomicBool) -> Result<Packets> {
        loop {
            // Asked first, so that what came before it is taken out.
            let is_over = is_over.load(Ordering::Acquire);
            if self.take()? {
                continue;
            }
            if is_over {
                break;
            }
            let fd = self.socket.as_raw_fd();
            let mut wait = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
            // SAFETY: one descriptor, which outlives the call.
            unsafe { libc::poll(&raw mut wait, 1, PATIENCE_MS) };
        }
        let dropped = statistics(&self.socket)?.tp_drops.into();
        let file = self.file.into_inner().map_err(io::IntoInnerError::into_error)?;
        let Spool { interfaces, netns, count, .. } = self;
        Ok(Packets { file, interfaces, netns, count, dropped })
    }

    /// Takes out what waits, a round of it. Whether there may be more.
    fn take(&mut self) -> io::Result<bool> {
        let offset_ns = clock::realtime_ns() - clock::boottime_ns() as i64;
        for _ in 0..ROUND {
            let asked_ns = clock::boottime_ns();
            let Some((packet, is_loopback)) = self.receive(offset_ns)? else {
                self.empty_ns = asked_ns;
                return Ok(false);
            };
            // The loopback device shows each packet twice: on its way out and in.
            if !(is_loopback && packet.outgoing) {
                self.keep(&packet)?;
            }
        }
        Ok(true)
    }

    /// The next packet, if there is one, and whether it passed the loopback device. `offset_ns`:
    /// what the wall clock is ahead of CLOCK_BOOTTIME.
    fn receive(&mut self, offset_ns: i64) -> io::Result<Option<(Captured, bool)>> {
        let mut control = Control([0; 128]);
        // SAFETY: integers only.
        let mut from: libc::sockaddr_ll = unsafe { zeroed() };
        let base = self.buffer.as_mut_ptr().cast();
        let mut room = libc::iovec { iov_base: base, iov_len: self.buffer.len() };
        // SAFETY: zeroes mean absent.
        let mut message: libc::msghdr = unsafe { zeroed() };
        message.msg_name = (&raw mut from).cast();
        message.msg_namelen = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        message.msg_iov = &raw mut room;
        message.msg_iovlen = 1;
        message.msg_control = (&raw mut control).cast();
        message.msg_controllen = size_of::<Control>() as _;
        // SAFETY: address, room and control outlive the call.
        let got = unsafe { libc::recvmsg(self.socket.as_raw_fd(), &raw mut message, 0) };
        if got < 0 {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::WouldBlock => Ok(None),
                // An interface that went down takes nothing of the others, and is told once.
                io::ErrorKind::Interrupted | io::ErrorKind::NetworkDown => self.receive(offset_ns),
                _ => Err(error),
            };
        }
        let (wall_ns, length) = noted(&message);
        let wall_ns = wall_ns.unwrap_or_else(clock::realtime_ns);
        let bytes = self.buffer[..got as usize].to_vec();
        let ifindex = from.sll_ifindex as u32;
        let outgoing = from.sll_pkttype == libc::PACKET_OUTGOING;
        self.interfaces.entry(ifindex).or_insert_with(|| name(&self.socket, ifindex));
        let time_ns = self.possible(wall_ns.saturating_sub(offset_ns).max(0).cast_unsigned());
        let length = length.unwrap_or(got as u32);
        let is_loopback = from.sll_hatype == libc::ARPHRD_LOOPBACK;
        Ok(Some((Captured { time_ns, ifindex, outgoing, length, bytes }, is_loopback)))
    }

    /// The time of a packet that has just been taken out. Where the wall clock was set between the
    /// packet and the reading of the clocks, it could not have passed then: it has the time of the
    /// one before. One of the future would hold back all packets behind it.
    fn possible(&mut self, time_ns: u64) -> u64 {
        let is_possible = (self.empty_ns..=clock::boottime_ns()).contains(&time_ns);
        self.last_ns = if is_possible { time_ns } else { self.last_ns.max(self.empty_ns) };
        self.last_ns
    }

    fn keep(&mut self, packet: &Captured) -> io::Result<()> {
        self.count += 1;
        let mut head = [0; HEAD];
        head[..8].copy_from_slice(&packet.time_ns.to_le_bytes());
        head[8..12].copy_from_slice(&packet.ifindex.to_le_bytes());
        head[12..16].copy_from_slice(&packet.length.to_le_bytes());
        head[16..18].copy_from_slice(&(packet.bytes.len() as u16).to_le_bytes());
        head[18] = packet.outgoing.into();
        self.file.write_all(&head)?;
        self.file.write_all(&packet.bytes)
    }
}

/// What came since the last time that it was asked for: the kernel begins anew.
fn statistics(socket: &OwnedFd) -> io::Result<libc::tpacket_stats> {
    // SAFETY: two integers, for which zero is a value.
    let mut stats: libc::tpacket_stats = unsafe { zeroed() };
    let mut length = size_of::<libc::tpacket_stats>() as libc::socklen_t;
    let (socket, to) = (socket.as_raw_fd(), (&raw mut stats).cast());
    // SAFETY: the kernel writes no more than `length` bytes.
    checked(unsafe {
        libc::getsockopt(socket, libc::SOL_PACKET, libc::PACKET_STATISTICS, to, &mut length)
    })?;
    Ok(stats)
}

/// What the kernel says of a packet: when it passed, ns since 1970, and how long it was.
fn noted(message: &libc::msghdr) -> (Option<i64>, Option<u32>) {
    let (mut time, mut length) = (None, None);
    // SAFETY: the kernel has filled the control buffer, whose length it gave; only messages of the
    // two kinds that were asked for are read, each as what it is.
    unsafe {
        let mut next = libc::CMSG_FIRSTHDR(message);
        while let Some(header) = next.as_ref() {
            let data = libc::CMSG_DATA(next);
            match (header.cmsg_level, header.cmsg_type) {
                (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS) => {
                    let t = data.cast::<libc::timespec>().read_unaligned();
                    time = Some(t.tv_sec * 1_000_000_000 + t.tv_nsec);
                }
                (libc::SOL_PACKET, libc::PACKET_AUXDATA) => {
                    length = Some(data.cast::<libc::tpacket_auxdata>().read_unaligned().tp_len);
                }
                _ => {}
            }
            next = libc::CMSG_NXTHDR(message, next);
        }
    }
    (time, length)
}

/// The interface's name in the network namespace of the socket.
fn name(socket: &OwnedFd, ifindex: u32) -> String {
    netdevice::index_to_name(socket, ifindex).unwrap_or_else(|_| format!("interface {ifindex}"))
}

/// Bytes before each packet of the file.
const HEAD: usize = 20;

impl Packets {
    /// From the first on.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn read(&mut self) -> io::Result<impl Iterator<Item = io::Result<Captured>> + '_> {
        self.file.rewind()?;
        let mut from = BufReader::with_capacity(1 << 18, &self.file);
        let mut left = self.count;
        Ok(std::iter::from_fn(move || {
            left = left.checked_sub(1)?;
            Some(next(&mut from))
        }))
    }
}

fn next(from: &mut impl Read) -> io::Result<Captured> {
    let mut head = [0; HEAD];
    from.read_exact(&mut head)?;
    let u32_at =
        |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let mut bytes = vec![0; u16::from_le_bytes([head[16], head[17]]).into()];
    from.read_exact(&mut bytes)?;
    let time_ns = u64::from(u32_at(0)) | u64::from(u32_at(4)) << 32;
    let (ifindex, length) = (u32_at(8), u32_at(12));
    Ok(Captured { time_ns, ifindex, outgoing: head[18] == 1, length, bytes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use transom_testbed::{Namespace, needs_root, wait_for};

    /// Puts headers of TCP on an interface of the namespace that this thread is in, each with this
    /// time of the wall clock, which the other end of the veth pair takes for that of its arrival.
    /// Without one the kernel notes the time itself.
    fn send(interface: &str, packets: usize, wall_ns: Option<i64>) {
        let mut headers = [0_u8; 40];
        (headers[0], headers[3], headers[9]) = (0x45, 40, 6);
        let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC;
        // SAFETY: no memory is involved, and the socket is nobody else's.
        let socket = unsafe {
            OwnedFd::from_raw_fd(checked(libc::socket(libc::AF_PACKET, kind, 0)).unwrap())
        };
        let clock = libc::sock_txtime { clockid: libc::CLOCK_REALTIME, flags: 0 };
        set(&socket, libc::SOL_SOCKET, libc::SO_TXTIME, &clock).unwrap();
        // SAFETY: integers only, and zeroes mean absent.
        let (mut to, mut message): (libc::sockaddr_ll, libc::msghdr) = unsafe { zeroed() };
        to.sll_family = libc::AF_PACKET as u16;
        to.sll_protocol = (libc::ETH_P_IP as u16).to_be();
        to.sll_ifindex = namespace::interface_index(interface, None).unwrap() as i32;
        let mut data =
            libc::iovec { iov_base: headers.as_mut_ptr().cast(), iov_len: headers.len() };
        let mut control = Control([0; 128]);
        message.msg_name = (&raw mut to).cast();
        message.msg_namelen = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        (message.msg_iov, message.msg_iovlen) = (&raw mut data, 1);
        // SAFETY: the control buffer has room for a header and eight bytes; address, data and
        // control outlive the calls.
        unsafe {
            if let Some(wall_ns) = wall_ns {
                message.msg_control = (&raw mut control).cast();
                message.msg_controllen = libc::CMSG_SPACE(8) as _;
                let header = libc::CMSG_FIRSTHDR(&raw const message);
                (*header).cmsg_level = libc::SOL_SOCKET;
                (*header).cmsg_type = libc::SCM_TXTIME;
                (*header).cmsg_len = libc::CMSG_LEN(8) as _;
                libc::CMSG_DATA(header).cast::<i64>().write_unaligned(wall_ns);
            }
            for _ in 0..packets {
                let sent = libc::sendmsg(socket.as_raw_fd(), &raw const message, 0);
                assert_eq!(sent, 40, "{}", io::Error::last_os_error());
            }
        }
    }

    const MINUTE_NS: u64 = 60_000_000_000;
    const HOUR_NS: i64 = 3_600_000_000_000;

    /// Two ends of a cable, and a socket at the one where the packets of the other arrive.
    fn cable() -> (Namespace, OwnedFd) {
        let namespace = Namespace::new("late");
        namespace.ip("link add near type veth peer name far");
        namespace.ip("link set near up");
        namespace.ip("link set far up");
        // Until the kernel has seen the carrier, what is sent is dropped without a word.
        wait_for("the cable", || {
            ["near", "far"]
                .iter()
                .all(|end| namespace.output("ip", &["link", "show", end]).contains("state UP"))
        });
        let far = namespace.inside(|| namespace::interface_index("far", None).unwrap());
        let socket = socket(Some(&namespace.path()), far, LONGEST_HEADERS).unwrap();
        (namespace, socket)
    }

    fn wait_for_packets(socket: &OwnedFd, count: u32) {
        let mut came = 0;
        wait_for("the packets", || {
            came += statistics(socket).unwrap().tp_packets;
            came == count
        });
    }

    /// The times of all packets that wait in the socket, taken out and read again.
    fn times(socket: OwnedFd, opened_ns: u64) -> Vec<u64> {
        let (socket, spool) = (Arc::new(socket), tempfile::tempfile().unwrap());
        let spool = Spool::new(socket, spool, LONGEST_HEADERS as usize, 0, opened_ns);
        let mut packets = spool.fill(&AtomicBool::new(true)).unwrap();
        assert_eq!(packets.dropped, 0);
        packets.read().unwrap().map(|packet| packet.unwrap().time_ns).collect()
    }

    #[test]
    fn what_waits_at_the_end_is_taken_whatever_its_time_and_nothing_that_comes_later() {
        needs_root!();
        let (namespace, socket) = cable();
        let opened_ns = clock::boottime_ns();
        // As if the clock was set back by an hour just after they came.
        let late_ns = Some(clock::realtime_ns() + HOUR_NS);
        namespace.inside(|| send("near", 100, late_ns));
        wait_for_packets(&socket, 100);
        close(&socket).unwrap();
        namespace.inside(|| send("near", 10, late_ns));
        // Of those that the kernel stamps itself, none would have just this time.
        assert_eq!(times(socket, opened_ns), [opened_ns; 100], "the kernel keeps their times");
    }

    /// The wall clock is set while packets wait.
    #[test]
    fn a_packet_from_before_the_clock_was_set_is_not_in_the_way_of_those_from_after() {
        needs_root!();
        for hours in [1, -1] {
            let (namespace, socket) = cable();
            let opened_ns = clock::boottime_ns();
            let set_ns = clock::realtime_ns() + hours * HOUR_NS;
            namespace.inside(|| send("near", 5, Some(set_ns)));
            wait_for_packets(&socket, 5);
            let before_ns = clock::boottime_ns();
            namespace.inside(|| send("near", 5, None));
            wait_for_packets(&socket, 5);
            let after_ns = clock::boottime_ns();
            let times = times(socket, opened_ns);
            let (set, others) = times.split_at(5);
            assert!(set.iter().all(|&time_ns| time_ns == opened_ns), "{set:?} {opened_ns}");
            // The two clocks are not read in the same moment, and another thread may run between; the
            // system may have been up for less than a minute.
            let passed = before_ns.saturating_sub(MINUTE_NS)..=after_ns + MINUTE_NS;
            assert!(others.iter().all(|time| passed.contains(time)), "{others:?} {passed:?}");
        }
    }
}
