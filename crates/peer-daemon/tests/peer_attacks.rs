//! Who has not the key neither hears nor makes anybody do anything.

mod peering;

use std::net::{Ipv4Addr, UdpSocket};
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
fn a_flood_is_cut_off_and_the_group_is_there_when_it_ends() {
    needs_root!();
    let (_lan, _group, terminals, stranger, _host) = settled(75);
    let one = stranger.listen(Duration::from_secs(2)).pop().expect("somebody speaks");
    let mut forged = one[..TOPIC + 1].to_vec();
    forged.resize(one.len(), 7);
    let memory = resident(&terminals[0]);
    for _ in 0..20 {
        (0..2000).for_each(|_| stranger.say(&forged));
        std::thread::sleep(Duration::from_millis(50));
    }
    wait_for("the flood to be counted", || terminals[0].counted("flood") > 0);
    assert!(resident(&terminals[0]) < memory + 8192, "memory grew by more than 8 MiB");
    wait_until_all_see(&terminals, &names(1..=2));
}

/// kB, of the daemon's process.
fn resident(terminal: &Terminal) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", terminal.pid()));
    let status = status.expect("the daemon runs");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("a size");
    line.split_whitespace().nth(1).and_then(|kb| kb.parse().ok()).expect("a number")
}
