//! Under a clock that is told the time, the seed decides everything: the same boot twice gives the
//! same packets, byte for byte.

mod bed;
mod mirror;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bed::{alone, connect, listener, receive, send};
use mirror::{Fate, Mirror};
use transom_netstack::FakeClock;

/// Every 40th packet is lost on the way.
const LOSS: usize = 40;

type Packets = Arc<Mutex<Vec<Vec<u8>>>>;

/// A megabyte over the mirror, a millisecond a turn: all packets that left.
fn packets(seed: u8, control: &str) -> Vec<Vec<u8>> {
    let clock = FakeClock::new(bed::WALL);
    let sent = Packets::default();
    let wire = sent.clone();
    let mirror = Mirror::new(move |packet| {
        let mut sent = wire.lock().unwrap();
        sent.push(packet.to_vec());
        if sent.len() % LOSS == 1 && sent.len() > 1 { Fate::Lost } else { Fate::Arrives }
    });
    let mut kernel = mirror::boot(seed, &clock, None, mirror);
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
