//! A TCP peer that sends what a test says, packet by packet: whatever kernel is at the other end of
//! the TUN device, it meets the same segments in the same order.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Barrier;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use transom_link::tun::{self, Frames};

use super::{ACK, Namespace, RST, SYN, Segment};

const HOST: [u8; 4] = [10, 78, 0, 1];
const PUPPET: [u8; 4] = [10, 78, 0, 2];
const PORT: u16 = 9000;
const MSS: u16 = 1000;
/// Long, so that RACK waits for what may only be late (a quarter of it) longer than a test takes to
/// say the next word; less than a second, after which the kernel sends its SYN again.
pub const ROUND_TRIP: Duration = Duration::from_millis(500);
const PATIENCE: Duration = Duration::from_secs(120);

/// `host` is 10.78.0.1, and the puppet 10.78.0.2 with one connection at a time.
pub struct Puppet {
    pub host: Namespace,
    file: File,
    /// The kernel's port and first sequence number.
    port: u16,
    first: u32,
    /// What the puppet sends next.
    next: u32,
}

impl Puppet {
    /// No tail loss probe and a long retransmission timer, so that only what is missing for good
    /// makes the kernel send anything by itself.
    pub fn new() -> Puppet {
        let host = Namespace::new("host");
        let file = host.inside(|| tun::open("wire", Frames::RawIp)).expect("a TUN interface");
        host.sysctl("net/ipv4/tcp_early_retrans", "0");
        host.sysctl("net/ipv4/tcp_timestamps", "0");
        host.sysctl("net/ipv4/tcp_window_scaling", "0");
        host.sysctl("net/ipv4/tcp_ecn", "0");
        host.sysctl("net/ipv6/conf/all/disable_ipv6", "1");
        host.ip("addr add 10.78.0.1/24 dev wire");
        host.ip("link set wire gso_max_segs 1");
        host.ip("link set wire up");
        host.ip("route replace 10.78.0.0/24 dev wire rto_min 2s");
        Puppet { host, file: file.into(), port: 0, first: 0, next: 0 }
    }

    pub fn address() -> SocketAddr {
        SocketAddr::from((PUPPET, PORT))
    }

    /// Answers the kernel's SYN, with SACK permitted and without window scaling.
    pub fn accept(&mut self) {
        let syn = self.wait("a SYN", |segment| segment.has(SYN));
        (self.port, self.first, self.next) = (syn.from.port(), syn.seq, 50_000);
        std::thread::sleep(ROUND_TRIP);
        let [high, low] = MSS.to_be_bytes();
        self.send(SYN | ACK, 0, 60_000, &[2, 4, high, low, 1, 1, 4, 2], &[]);
        self.next += 1;
        self.wait("the end of the handshake", |segment| segment.has(ACK) && !segment.has(SYN));
    }

    /// Answers the kernel's SYN as a firewall does that rejects it: with an ICMP message (port
    /// unreachable, RFC 792), which quotes the headers of the SYN.
    pub fn reject(&mut self) {
        let syn = self.wait("a SYN", |segment| segment.has(SYN));
        let mut icmp = vec![3, 3, 0, 0, 0, 0, 0, 0];
        icmp.extend(ip_header(HOST, PUPPET, 6, 20));
        icmp.extend(syn.from.port().to_be_bytes());
        icmp.extend(PORT.to_be_bytes());
        icmp.extend(syn.seq.to_be_bytes());
        let sum = checksum(&icmp);
        icmp[2..4].copy_from_slice(&sum.to_be_bytes());
        self.put(1, &icmp);
    }

    /// Connects to a port of the host.
    pub fn dial(&mut self, port: u16) {
        self.begin_to_dial(port);
        std::thread::sleep(ROUND_TRIP);
        self.flag(0, ACK);
    }

    fn begin_to_dial(&mut self, port: u16) {
        (self.port, self.next) = (port, 50_000);
        let [high, low] = MSS.to_be_bytes();
        self.send(SYN, 0, 60_000, &[2, 4, high, low, 1, 1, 4, 2], &[]);
        self.next += 1;
        let answer = self.wait("a SYN-ACK", |segment| segment.has(SYN) && segment.has(ACK));
        self.first = answer.seq;
    }

    /// Connections to the host, one after another, of which the end of each handshake comes at two
    /// CPUs at the same time; until that has made the kernel make a socket too many, a few times.
    /// How many connections there were.
    ///
    /// # Panics
    /// The CPUs never meet.
    pub fn dial_at_two_cpus(&mut self, listener: &TcpListener) -> u64 {
        const SPARE: u64 = 3;
        let port = listener.local_addr().expect("an address").port();
        let passive_opens = |of: &Puppet| of.host.counter("Tcp.PassiveOpens");
        let before = passive_opens(self);
        for connections in 1..20_000 {
            self.dial_twice(port);
            let accepted = listener.accept().expect("a connection");
            self.flag(0, RST);
            drop(accepted);
            if passive_opens(self) - before >= connections + SPARE {
                return connections;
            }
        }
        panic!("two CPUs never ended one handshake");
    }

    fn dial_twice(&mut self, port: u16) {
        self.begin_to_dial(port);
        let packet = self.packet(ACK, self.number(0), 60_000, &[], &[]);
        let both = Barrier::new(2);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    both.wait();
                    (&self.file).write_all(&packet).expect("the device is up");
                });
            }
        });
    }

    /// Bytes of the kernel's stream before this segment.
    pub fn offset(&self, segment: &Segment) -> u32 {
        segment.seq.wrapping_sub(self.first).wrapping_sub(1)
    }

    /// Takes segments until such a one has come.
    ///
    /// # Panics
    /// It does not come.
    pub fn wait(&mut self, what: &str, is_wanted: impl Fn(&Segment) -> bool) -> Segment {
        let deadline = Instant::now() + PATIENCE;
        let mut buffer = [0; 2048];
        while Instant::now() < deadline {
            match self.file.read(&mut buffer) {
                Ok(length) => {
                    let found =
                        Segment::of_ip(&buffer[..length]).filter(|segment| is_wanted(segment));
                    if let Some(segment) = found {
                        return segment;
                    }
                }
                Err(_) => {
                    let timeout = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
                    let _ = poll(&mut [PollFd::new(&self.file, PollFlags::IN)], Some(&timeout));
                }
            }
        }
        panic!("waited {} s for {what}", PATIENCE.as_secs());
    }

    /// Takes data until all before this offset has come.
    pub fn wait_for_data(&mut self, end: u32) {
        let first = self.first;
        let is_last = move |segment: &Segment| {
            segment.payload > 0 && segment.end().wrapping_sub(first).wrapping_sub(1) == end
        };
        self.wait(&format!("data until {end}"), is_last);
    }

    /// Acknowledges the stream before `offset`, with this window and blocks of the stream.
    pub fn acknowledge(&mut self, offset: u32, window: u16, blocks: &[(u32, u32)]) {
        let mut options = Vec::new();
        if !blocks.is_empty() {
            options.extend([1, 1, 5, 2 + 8 * blocks.len() as u8]);
            for &(left, right) in blocks {
                options.extend(self.number(left).to_be_bytes());
                options.extend(self.number(right).to_be_bytes());
            }
        }
        self.send(ACK, self.number(offset), window, &options, &[]);
    }

    /// Data of its own.
    pub fn say(&mut self, offset: u32, payload: &[u8]) {
        self.send(ACK, self.number(offset), 60_000, &[], payload);
        self.next += payload.len() as u32;
    }

    /// Any other segment.
    pub fn flag(&mut self, offset: u32, flags: u8) {
        self.send(flags, self.number(offset), 60_000, &[], &[]);
    }

    fn number(&self, offset: u32) -> u32 {
        self.first.wrapping_add(1).wrapping_add(offset)
    }

    fn send(&mut self, flags: u8, ack: u32, window: u16, options: &[u8], payload: &[u8]) {
        let packet = self.packet(flags, ack, window, options, payload);
        self.file.write_all(&packet).expect("the device is up");
    }

    fn packet(&self, flags: u8, ack: u32, window: u16, options: &[u8], payload: &[u8]) -> Vec<u8> {
        let ack = if flags & SYN != 0 { self.first.wrapping_add(1) } else { ack };
        let mut tcp = Vec::new();
        tcp.extend(PORT.to_be_bytes());
        tcp.extend(self.port.to_be_bytes());
        tcp.extend(self.next.to_be_bytes());
        tcp.extend(ack.to_be_bytes());
        tcp.extend([(5 + options.len() as u8 / 4) << 4, flags]);
        tcp.extend(window.to_be_bytes());
        tcp.extend([0; 4]);
        tcp.extend(options);
        tcp.extend(payload);
        let mut pseudo = [PUPPET, HOST].concat();
        pseudo.extend([0, 6]);
        pseudo.extend((tcp.len() as u16).to_be_bytes());
        let sum = checksum(&[pseudo, tcp.clone()].concat());
        tcp[16..18].copy_from_slice(&sum.to_be_bytes());
        in_ip(6, &tcp)
    }

    fn put(&mut self, protocol: u8, payload: &[u8]) {
        self.file.write_all(&in_ip(protocol, payload)).expect("the device is up");
    }
}

fn in_ip(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = ip_header(PUPPET, HOST, protocol, payload.len());
    packet.extend(payload);
    packet
}

fn ip_header(from: [u8; 4], to: [u8; 4], protocol: u8, payload: usize) -> Vec<u8> {
    let mut header = vec![0x45, 0];
    header.extend((20 + payload as u16).to_be_bytes());
    header.extend([0, 0, 0x40, 0, 64, protocol, 0, 0]);
    header.extend([from, to].concat());
    let sum = checksum(&header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    header
}

impl Default for Puppet {
    fn default() -> Puppet {
        Puppet::new()
    }
}

/// RFC 1071.
fn checksum(bytes: &[u8]) -> u16 {
    let word = |two: &[u8]| u32::from(two[0]) << 8 | u32::from(*two.get(1).unwrap_or(&0));
    let mut sum: u32 = bytes.chunks(2).map(word).sum();
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    !(sum as u16)
}
