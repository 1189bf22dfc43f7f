//! Who has not the key neither hears nor makes anybody do anything.

mod peering;

use std::net::{Ipv4Addr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use peering::{Group, Lan, Namespace, Terminal, names, needs_root, wait_for, wait_until_all_see};

const GROUP: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 224);
const PORT: u16 = 7450;
/// The topic's twelve digits go before the sealed message.
const TOPIC: usize = 12;

/// Somebody else on the same network, who can hear and send datagrams.
struct Stranger {
    socket: UdpSocket,
}

impl Stranger {
    fn join(host: &Namespace) -> Stranger {
        let socket = host.inside(|| {
            let socket = UdpSocket::bind((GROUP, PORT)).expect("a socket");
            socket.join_multicast_v4(&GROUP, &Ipv4Addr::UNSPECIFIED).expect("the group");
            socket
        });
        socket.set_read_timeout(Some(Duration::from_millis(200))).expect("a timeout");
        Stranger { socket }
    }

    fn listen(&self, time: Duration) -> Vec<Vec<u8>> {
        let (end, mut heard) = (Instant::now() + time, Vec::new());
        let mut buffer = [0; 2000];
        while Instant::now() < end {
            if let Ok(length) = self.socket.recv(&mut buffer) {
                heard.push(buffer[..length].to_vec());
            }
        }
        heard
    }

    fn say(&self, datagram: &[u8]) {
        // A full queue is as good as a lost datagram.
        let _ = self.socket.send_to(datagram, (GROUP, PORT));
    }
}

fn settled(net: u8) -> (Lan, Group, Vec<Terminal>, Stranger, Namespace) {
    let (lan, group) = (Lan::new(net), Group::new());
    let terminals = lan.terminals(2, &group, &["--dry-run"]);
    wait_until_all_see(&terminals, &names(1..=2));
    let host = lan.host(66);
    let stranger = Stranger::join(&host);
    (lan, group, terminals, stranger, host)
}

#[test]
fn with_another_key_a_terminal_is_neither_seen_nor_sees() {
    needs_root!();
    let (lan, _group, terminals, _stranger, _host) = settled(71);
    let other = Terminal::start(lan.host(3), 3, &Group::new(), &["--dry-run"]);
    wait_for("its messages to be counted", || {
        terminals[0].status()["messages"]["other_groups"].as_u64() > Some(2)
    });
    assert_eq!(other.sees(), names(3..=3));
    wait_until_all_see(&terminals, &names(1..=2));
    let table = String::from_utf8(terminals[0].ask(&["status"]).stdout).expect("text");
    assert!(table.contains("messages of other groups, keys or access points"), "{table}");
}

#[test]
fn names_and_numbers_do_not_cross_the_air_openly() {
    needs_root!();
    let (_lan, _group, _terminals, stranger, _host) = settled(72);
    let heard = stranger.listen(Duration::from_secs(3));
    assert!(heard.len() >= 4, "{}", heard.len());
    assert!(heard.iter().all(|datagram| !datagram.windows(5).any(|part| part == b"phone")));
}

#[test]
fn what_is_said_again_is_counted_and_changes_nothing() {
    needs_root!();
    let (_lan, _group, mut terminals, stranger, _host) = settled(73);
    let heard = stranger.listen(Duration::from_secs(3));
    heard.iter().for_each(|datagram| stranger.say(datagram));
    wait_for("replays to be counted", || terminals[0].counted("replayed") > 0);
    // Nor does it bring back who has gone, however long it is played, nor deceive a newcomer.
    terminals[1].kill();
    wait_for("the dead one to be forgotten", || terminals[0].sees() == names(1..=1));
    terminals[0].interrupt();
    terminals[0].start_again();
    for _ in 0..20 {
        heard.iter().for_each(|datagram| stranger.say(datagram));
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(terminals[0].sees(), names(1..=1));
    }
    assert!(terminals[0].counted("unproven") > 0);
}

#[test]
fn garbage_and_forgeries_are_counted_and_nobody_is_lost() {
    needs_root!();
    let (_lan, _group, terminals, stranger, _host) = settled(74);
    let one = stranger.listen(Duration::from_secs(2)).pop().expect("somebody speaks");
    for n in 0..200usize {
        let mut forged = one.clone();
        let at = TOPIC + n % (forged.len() - TOPIC);
        forged[at] ^= 1;
        stranger.say(&forged);
        stranger.say(&one[..n % one.len()]);
        stranger.say(&[one.as_slice(), &[0; 900]].concat());
    }
    wait_for("forgeries to be counted", || terminals[0].counted("foreign") > 100);
    assert_eq!(terminals[0].sees(), names(1..=2));
}

#[test]
fn nobody_is_lost_in_a_flood_of_forgeries_and_it_costs_little() {
    needs_root!();
    let (lan, group) = (Lan::new(75), Group::new());
    let terminals = lan.terminals(3, &group, &["--dry-run"]);
    wait_until_all_see(&terminals, &names(1..=3));
    let host = lan.host(66);
    let stranger = Stranger::join(&host);
    let one = stranger.listen(Duration::from_secs(2)).pop().expect("somebody speaks");
    let (memory, work) = (resident(&terminals[0]), ticks(&terminals[0]));
    let ends = AtomicBool::new(false);
    let flood = |forge: &dyn Fn(&mut [u8], u64)| {
        let (mut forged, mut sent) = (one.clone(), 0u64);
        while !ends.load(Ordering::Relaxed) {
            forge(&mut forged, sent);
            stranger.say(&forged);
            sent += 1;
        }
        sent
    };
    let began = Instant::now();
    let (sent, seen) = std::thread::scope(|scope| {
        // As one of them, each time with another counter, mark and text.
        let flood = scope.spawn(|| {
            flood(&|bytes, n| {
                let at = TOPIC + 9;
                bytes[at..at + 8].copy_from_slice(&n.to_le_bytes());
            })
        });
        // Longer than a terminal is remembered, several times.
        let mut seen = Vec::new();
        while began.elapsed() < Duration::from_secs(10) {
            seen.extend(terminals.iter().map(|terminal| terminal.sees().len()));
            std::thread::sleep(Duration::from_millis(200));
        }
        ends.store(true, Ordering::Relaxed);
        (flood.join().expect("the flood"), seen)
    });
    let seconds = began.elapsed().as_secs_f64();
    // SAFETY: sysconf takes any name.
    let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) } as f64;
    let core = (ticks(&terminals[0]) - work) as f64 / per_second / seconds * 100.0;
    println!("{:.0} forgeries a second: {core:.1} % of a core", sent as f64 / seconds);
    assert!(terminals[0].counted("foreign") > 1000, "the flood must have been heard");
    assert!(seen.iter().all(|&seen| seen == 3), "of 3 members seen: {seen:?}");
    assert!(resident(&terminals[0]) < memory + 8192, "memory grew by more than 8 MiB");
}

/// User and system time of the daemon so far, in clock ticks (proc(5): 14 and 15).
fn ticks(terminal: &Terminal) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", terminal.pid())).expect("stat");
    let after = stat.rsplit(')').next().expect("a name");
    let fields: Vec<&str> = after.split_whitespace().collect();
    fields[11..13].iter().map(|field| field.parse::<u64>().expect("a number")).sum()
}

/// kB, of the daemon's process.
fn resident(terminal: &Terminal) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", terminal.pid()));
    let status = status.expect("the daemon runs");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("a size");
    line.split_whitespace().nth(1).and_then(|kb| kb.parse().ok()).expect("a number")
}
