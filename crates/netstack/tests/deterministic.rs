//! Under a clock that is told the time, the seed decides everything: the same boot twice gives the
//! same packets, byte for byte.

mod bed;

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::IoSlice;
use std::os::fd::RawFd;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bed::{alone, connect, listener, receive, send};
use transom_netstack::{
    FakeClock, Kernel, Link, Nic, NicParameters, Offload, Parameters, Transmitted,
};

const OURS: [u8; 4] = [10, 0, 0, 1];
const BEYOND: [u8; 4] = [10, 0, 0, 2];
const SEEN_AS: [u8; 4] = [10, 0, 0, 3];

/// Every 40th packet is lost on the way.
const LOSS: usize = 40;

type Packets = Arc<Mutex<Vec<Vec<u8>>>>;

/// A path that ends where it began: what goes to `BEYOND` comes back as if `SEEN_AS` had sent it,
/// so the library is both ends of its connections, with a wire between.
struct Mirror {
    sent: Packets,
    waiting: VecDeque<Vec<u8>>,
}

fn ip_checksum(header: &[u8]) -> u16 {
    let mut sum: u32 =
        header.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Addresses are exchanged on both ends; None: not for the mirror.
fn mirrored(packet: &[u8]) -> Option<Vec<u8>> {
    let mut packet = packet.to_vec();
    if packet[0] >> 4 != 4 {
        return None;
    }
    let (source, destination): (&[u8], &[u8]) = (&packet[12..16], &packet[16..20]);
    let (source, destination) = match (source, destination) {
        (s, d) if s == OURS && d == BEYOND => (SEEN_AS, OURS),
        (s, d) if s == OURS && d == SEEN_AS => (BEYOND, OURS),
        _ => return None,
    };
    packet[12..16].copy_from_slice(&source);
    packet[16..20].copy_from_slice(&destination);
    packet[10..12].fill(0);
    let header = usize::from(packet[0] & 15) * 4;
    let sum = ip_checksum(&packet[..header]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    Some(packet)
}

impl Nic for Mirror {
    fn transmit(&mut self, _offload: Offload, parts: &[IoSlice<'_>]) -> Transmitted {
        let packet: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).collect();
        let mut sent = self.sent.lock().unwrap();
        if !sent.len().is_multiple_of(LOSS) || sent.is_empty() {
            self.waiting.extend(mirrored(&packet));
        }
        sent.push(packet);
        Transmitted::Taken
    }

    fn receive(&mut self, buffer: &mut [u8]) -> Option<(usize, Offload)> {
        let packet = self.waiting.pop_front()?;
        buffer[..packet.len()].copy_from_slice(&packet);
        // The sum was over the other addresses: as a NIC says that it has checked it.
        Some((packet.len(), Offload { flags: 2, ..Offload::default() }))
    }

    fn descriptor(&self) -> Option<RawFd> {
        None
    }
}

/// A megabyte over the mirror, a millisecond a turn: all packets that left.
fn packets(seed: u8, control: &str) -> Vec<Vec<u8>> {
    let clock = FakeClock::new(bed::WALL);
    let mut kernel = Kernel::boot(Parameters {
        memory: 64 << 20,
        seed: [seed; 32],
        command_line: String::new(),
        clock: Box::new(clock.clone()),
        console: Box::new(|_| {}),
    })
    .unwrap();
    let sent = Packets::default();
    let nic = kernel
        .add_nic(
            &NicParameters {
                name: "cell0".to_owned(),
                link: Link::RawIp,
                mtu: 1500,
                checksum: false,
                tso: false,
                uso: false,
                queue: None,
            },
            Box::new(Mirror { sent: sent.clone(), waiting: VecDeque::new() }),
        )
        .unwrap();
    kernel.set_up(nic, true).unwrap();
    kernel.add_address(nic, OURS.into(), 24).unwrap();
    kernel.set_sysctl("net.ipv4.tcp_congestion_control", control).unwrap();

    let listener = listener(&mut kernel, "10.0.0.1:80".parse().unwrap(), 0);
    let client = connect(&mut kernel, "10.0.0.2:80".parse().unwrap(), 0);
    let mut server = None;
    let (mut offset, mut received) = (0u64, 0u64);
    let mut buffer = vec![0; 1 << 16];
    const TOTAL: u64 = 1_000_000;
    for _ in 0..60_000 {
        clock.advance(Duration::from_millis(1));
        kernel.turn(&mut Vec::new());
        server = server.or_else(|| kernel.accept(listener).ok());
        let size = buffer.len().min((TOTAL - offset) as usize);
        bed::pattern(offset, &mut buffer[..size]);
        offset += send(&mut kernel, client, &buffer[..size]).unwrap_or(0) as u64;
        if let Some(server) = server {
            while let Ok(n) = receive(&mut kernel, server, &mut buffer)
                && n > 0
            {
                bed::assert_pattern(received, &buffer[..n]);
                received += n as u64;
            }
        }
        if received == TOTAL {
            break;
        }
    }
    assert_eq!(received, TOTAL, "with {control}");
    drop(kernel);
    Arc::try_unwrap(sent).unwrap().into_inner().unwrap()
}

#[test]
fn the_same_seed_gives_the_same_packets_and_another_seed_others() {
    let _alone = alone();
    for control in ["cubic", "bbr", "steady"] {
        let first = packets(1, control);
        assert!(first.len() > 700, "a megabyte is more packets than {}", first.len());
        // Elsewhere in the address space.
        let _shift = vec![1u8; 40 << 20];
        let second = packets(1, control);
        assert_eq!(first.len(), second.len(), "{control}");
        let differs = first.iter().zip(&second).position(|(a, b)| a != b);
        assert_eq!(differs, None, "{control}: the first packet that differs");
        let other = packets(2, control);
        assert_ne!(first[0], other[0], "ports and sequence numbers come from the seed");
    }
}

/// Set: print the digest of a run, and nothing else.
const ASKED: &str = "TRANSOM_TEST_DIGEST";

fn digest() -> String {
    let mut hasher = DefaultHasher::new();
    packets(3, "cubic").hash(&mut hasher);
    format!("digest={:x}.", hasher.finish())
}

#[test]
fn another_process_with_other_addresses_sends_the_same_packets() {
    let _alone = alone();
    if std::env::var_os(ASKED).is_some() {
        println!("{}", digest());
        return;
    }
    let ours = digest();
    for _ in 0..3 {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["another_process", "--nocapture"])
            .env(ASKED, "1")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains(&ours), "{ours} in {text}");
    }
}
