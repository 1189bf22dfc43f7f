//! How fast frames go through each back end: frames and bits a second that come out, with and
//! without virtio-net headers, everything in one run. Needs root; makes network namespaces of its
//! own.
//!
//! `cargo run --release -p transom-nic --example interface_throughput [SECONDS]`

use std::fs::File;
use std::io::IoSlice;
use std::net::IpAddr;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use libbpf_rs::libbpf_sys;
use libbpf_rs::query::ProgInfoIter;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use transom_nic::{
    Attach, Divert, Interface, Kind, MOST_BYTES, Mode, Nic, PacketNic, PacketOptions, Received,
    Transmitted, Transport, Tun, VnetHeader,
};

const PORT: u16 = 61_440;
const NEAR: [u8; 4] = [10, 1, 0, 2];
const FAR: [u8; 4] = [10, 2, 0, 2];
const NEAR_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const FAR_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
/// Payload of a TCP segment in 1500 bytes.
const SEGMENT: usize = 1460;
const SEGMENTS: usize = 44;

struct Host(String);

impl Host {
    fn new(name: &str) -> Result<Host> {
        let name = format!("tx-throughput-{}-{name}", std::process::id());
        run("ip", &["netns", "add", &name])?;
        let host = Host(name);
        host.ip("link set lo up")?;
        Ok(host)
    }

    fn ip(&self, words: &str) -> Result<()> {
        run("ip", &["-n", &self.0].into_iter().chain(words.split(' ')).collect::<Vec<_>>())
    }

    fn inside<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        let namespace = File::open(format!("/run/netns/{}", self.0))?;
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
                work()
            });
            thread.join().expect("no panic")
        })
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = run("ip", &["netns", "del", &self.0]);
    }
}

fn run(program: &str, words: &[&str]) -> Result<()> {
    let output = Command::new(program).args(words).output().context("starting it")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{program} {}: {said}", words.join(" "));
    Ok(())
}

/// A TCP segment, complete or a train of them, of which only the headers matter.
fn frame(kind: Kind, offload: bool) -> (VnetHeader, Vec<u8>) {
    let payload = if offload { SEGMENT * SEGMENTS } else { SEGMENT };
    let mut ip = vec![0x45, 0];
    ip.extend(((40 + payload) as u16).to_be_bytes());
    ip.extend([0, 1, 0x40, 0, 64, 6, 0, 0]);
    ip.extend(NEAR);
    ip.extend(FAR);
    let sum: u32 = ip.chunks(2).map(|two| u32::from(two[0]) << 8 | u32::from(two[1])).sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    ip.extend([0x20, 0, (PORT >> 8) as u8, PORT as u8, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10]);
    ip.extend([255, 255, 0, 0, 0, 0]);
    ip.resize(40 + payload, 0x5a);
    let before = if kind == Kind::RawIp { 0 } else { 14 };
    let mut header = VnetHeader::default();
    if offload {
        header = VnetHeader {
            flags: VnetHeader::NEEDS_CSUM,
            gso_type: 1,
            hdr_len: before + 40,
            gso_size: SEGMENT as u16,
            csum_start: before + 20,
            csum_offset: 16,
        };
    }
    let link = [&FAR_MAC[..], &NEAR_MAC, &[8, 0]].concat();
    (header, [&link[..usize::from(before)], &ip].concat())
}

fn wait(nic: &dyn Nic, flags: PollFlags) {
    let time = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
    let descriptor = nic.descriptor();
    let _ = poll(&mut [PollFd::from_borrowed_fd(descriptor, flags)], Some(&time));
}

/// Frames given in, frames and bytes that came out, in `time`.
fn flood(
    from: &mut (dyn Nic + Send),
    to: &mut (dyn Nic + Send),
    time: Duration,
) -> (u64, u64, u64) {
    let offload = from.offloads().checksum;
    let (header, bytes) = frame(from.kind(), offload);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let mut given = 0;
            while !over.load(Ordering::Relaxed) {
                match from.transmit(&header, &[IoSlice::new(&bytes)]) {
                    Transmitted::Sent => given += 1,
                    Transmitted::Full => wait(from, PollFlags::OUT),
                    Transmitted::Dropped => {}
                    other => panic!("{other:?}"),
                }
            }
            given
        });
        let mut buffer = vec![0; MOST_BYTES];
        let (mut frames, mut came) = (0, 0);
        let start = Instant::now();
        while start.elapsed() < time {
            match to.receive(&mut buffer) {
                Received::Frame { length, .. } => {
                    frames += 1;
                    came += length as u64;
                }
                _ => wait(to, PollFlags::IN),
            }
        }
        over.store(true, Ordering::Relaxed);
        (sender.join().expect("no panic"), frames, came)
    })
}

fn packet_nic(host: &Host, name: &str, own: [u8; 4], offload: bool) -> Result<PacketNic> {
    host.inside(|| {
        let interface = Interface::find(name)?;
        let mut divert = Divert::attach(&interface, Attach::Best)?;
        divert.add_address(IpAddr::from(own))?;
        divert.add_ports(Transport::Tcp, PORT..=PORT)?;
        PacketNic::open(&interface, divert, PacketOptions { offload, ..PacketOptions::default() })
    })
}

type Pair = (Box<dyn Nic + Send>, Box<dyn Nic + Send>);

fn tap_pair(host: &Host, offload: bool) -> Result<Pair> {
    let tap = |name, mac| host.inside(|| Tun::create(name, Mode::Tap { mac }, offload));
    let pair = (tap("near", NEAR_MAC)?, tap("far", FAR_MAC)?);
    host.ip("link add bridge type bridge")?;
    host.ip("link set near master bridge")?;
    host.ip("link set far master bridge")?;
    host.ip("link set bridge up")?;
    Ok((Box::new(pair.0), Box::new(pair.1)))
}

fn tun_pair(host: &Host, offload: bool) -> Result<Pair> {
    let tun = |name| host.inside(|| Tun::create(name, Mode::Tun, offload));
    let pair = (tun("near")?, tun("far")?);
    host.ip("addr add 10.1.0.1/24 dev near")?;
    host.ip("addr add 10.2.0.1/24 dev far")?;
    host.inside(|| Ok(std::fs::write("/proc/sys/net/ipv4/ip_forward", "1")?))?;
    Ok((Box::new(pair.0), Box::new(pair.1)))
}

fn ethernet_pair(near: &Host, far: &Host, offload: bool) -> Result<Pair> {
    near.ip(&format!("link add wlan0 type veth peer name eth0 netns {}", far.0))?;
    near.ip("link set wlan0 up")?;
    far.ip("link set eth0 address 02:00:00:00:00:02 up")?;
    let to = packet_nic(far, "eth0", FAR, offload)?;
    Ok((Box::new(packet_nic(near, "wlan0", NEAR, offload)?), Box::new(to)))
}

/// The packet socket sends, the TUN's other end receives, or the other way round.
fn raw_pair(host: &Host, offload: bool, sends: bool) -> Result<Pair> {
    let tun = host.inside(|| Tun::create("rmnet0", Mode::Tun, offload))?;
    let own = if sends { NEAR } else { FAR };
    let packet = packet_nic(host, "rmnet0", own, offload)?;
    Ok(match sends {
        true => (Box::new(packet), Box::new(tun)),
        false => (Box::new(tun), Box::new(packet)),
    })
}

/// What our programs cost a packet of the host that is not ours, and one that is, in ns.
fn costs(time: Duration) -> Result<()> {
    // SAFETY: the descriptor keeps the kernel measuring until it is closed.
    let measuring = unsafe {
        let fd = libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME);
        ensure!(fd >= 0, "the kernel does not measure programs");
        OwnedFd::from_raw_fd(fd)
    };
    for (what, own) in [("of the host", NEAR), ("of ours", FAR)] {
        let host = Host::new("near")?;
        let mut from = host.inside(|| Tun::create("rmnet0", Mode::Tun, false))?;
        let start = Instant::now();
        let mut to = packet_nic(&host, "rmnet0", own, false)?;
        println!("opened in {:.1} ms", start.elapsed().as_secs_f64() * 1e3);
        let before = ran();
        flood(&mut from, &mut to, time);
        for ((name, ns, runs), (_, ns_before, runs_before)) in ran().into_iter().zip(before) {
            let each = (ns - ns_before) as f64 / (runs - runs_before).max(1) as f64;
            println!("{name:10} {each:>4.0} ns a packet {what}");
        }
    }
    drop(measuring);
    Ok(())
}

/// Name, ns and runs of our programs. Only those of this process run meanwhile.
fn ran() -> [(&'static str, u64, u64); 2] {
    let mut all = [("pick", 0, 0), ("divert", 0, 0)];
    for info in ProgInfoIter::default() {
        if let Some(one) = all.iter_mut().find(|one| info.name == one.0) {
            one.1 += info.run_time_ns;
            one.2 += info.run_cnt;
        }
    }
    all
}

fn main() -> Result<()> {
    let seconds = std::env::args().nth(1).map_or(Ok(2.0), |text| text.parse())?;
    let time = Duration::from_secs_f64(seconds);
    println!("{:34} {:>8} {:>9} {:>9} {:>8}", "", "headers", "frames/s", "Gbit/s", "lost");
    for way in ["TAP, bridge, TAP", "TUN, forwarding, TUN", "packet Ethernet, veth, the same"]
        .into_iter()
        .chain(["packet raw IP, TUN", "TUN, packet raw IP"])
    {
        for offload in [false, true] {
            let (near, far) = (Host::new("near")?, Host::new("far")?);
            let (mut from, mut to) = match way {
                "TAP, bridge, TAP" => tap_pair(&near, offload)?,
                "TUN, forwarding, TUN" => tun_pair(&near, offload)?,
                "packet raw IP, TUN" => raw_pair(&near, offload, true)?,
                "TUN, packet raw IP" => raw_pair(&near, offload, false)?,
                _ => ethernet_pair(&near, &far, offload)?,
            };
            let (given, frames, bytes) = flood(&mut *from, &mut *to, time);
            println!(
                "{way:34} {:>8} {:>9.0} {:>9.2} {:>6.1} %",
                if offload { "yes" } else { "no" },
                frames as f64 / seconds,
                bytes as f64 * 8e-9 / seconds,
                100.0 * (given.saturating_sub(frames)) as f64 / given.max(1) as f64,
            );
        }
    }
    costs(time)
}
