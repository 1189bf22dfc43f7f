//! Which packets are ours, and that the host gets all others and none of ours.

mod frames;

use std::io::{BufRead, BufReader, ErrorKind, IoSlice};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use frames::packets::{self, TCP, UDP, is_to, pattern};
use frames::{PATIENCE, link, next_frame};
use transom_nic::{
    Attach, Divert, Interface, Mode, Nic, PacketNic, PacketOptions, Transmitted, Transport, Tun,
    VnetHeader,
};
use transom_testbed::{Namespace, has, needs, needs_root, skip};

const OURS: u16 = 61_500;
const THEIRS: u16 = 5_000;
/// Long enough for what is already on its way in this machine.
const SHORT: Duration = Duration::from_millis(200);

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn divert(interface: &Interface, way: Attach) -> Divert {
    let mut divert = Divert::attach(interface, way).expect("attached");
    for address in ["10.99.0.1", "fd99::1"] {
        divert.add_address(ip(address)).expect("an address");
    }
    for transport in [Transport::Tcp, Transport::Udp] {
        divert.add_ports(transport, OURS..=OURS + 9).expect("ports");
    }
    divert
}

fn nic(host: &Namespace, name: &str, way: Attach) -> PacketNic {
    host.inside(|| {
        let interface = Interface::find(name).expect("the interface");
        let divert = divert(&interface, way);
        PacketNic::open(&interface, divert, PacketOptions::default()).expect("a packet socket")
    })
}

/// A host with a modem, the modem's other side, and our back end on it.
fn cellular() -> (Namespace, Tun, PacketNic) {
    let host = Namespace::new("host");
    let modem = host.inside(|| Tun::create("rmnet0", Mode::Tun, false)).expect("a TUN");
    host.ip("addr add 10.99.0.1/24 dev rmnet0");
    host.ip("addr add fd99::1/64 dev rmnet0 nodad");
    let nic = nic(&host, "rmnet0", Attach::Best);
    (host, modem, nic)
}

fn arrives(modem: &mut Tun, packet: &[u8]) {
    let became = modem.transmit(&VnetHeader::default(), &[IoSlice::new(packet)]);
    assert_eq!(became, Transmitted::Sent);
}

fn is_ours(nic: &mut PacketNic, packet: &[u8]) -> bool {
    match next_frame(nic, SHORT, |_| true) {
        Some((_, frame)) => {
            assert_eq!(frame, packet);
            true
        }
        None => false,
    }
}

fn connect(host: &Namespace, to: &str, port: u16, patience: Duration) -> ErrorKind {
    let to = SocketAddr::new(ip(to), port);
    host.inside(|| TcpStream::connect_timeout(&to, patience)).expect_err("nobody listens").kind()
}

/// Whether a reset answers, however busy this machine is.
fn refused(host: &Namespace, to: &str, port: u16) -> bool {
    connect(host, to, port, PATIENCE) == ErrorKind::ConnectionRefused
}

/// Whether nothing answers for as long as an answer usually needs.
fn silent(host: &Namespace, to: &str, port: u16) -> bool {
    connect(host, to, port, SHORT) == ErrorKind::TimedOut
}

#[test]
fn the_host_resets_what_is_not_ours_and_is_silent_about_what_is() {
    needs_root!();
    for way in [Attach::Link, Attach::Filter] {
        if way == Attach::Link && !has("linux-6.6") {
            continue;
        }
        let (near, far) = (Namespace::new("host"), Namespace::new("host"));
        link((&near, "wlan0"), (&far, "eth0"));
        assert!(refused(&far, "10.99.0.1", OURS), "before");
        let mut nic = nic(&near, "wlan0", way);
        for (n, to) in ["10.99.0.1", "fd99::1"].into_iter().enumerate() {
            let resets = near.counter("Tcp.OutRsts");
            assert!(resets > n as u64);
            assert!(silent(&far, to, OURS));
            assert_eq!(near.counter("Tcp.OutRsts"), resets);
            assert_eq!(near.counter("Tcp.InSegs"), resets);
            let syn = |frame: &[u8]| is_to(&frame[14..], OURS);
            assert!(next_frame(&mut nic, PATIENCE, syn).is_some(), "the SYN is ours");
            assert!(refused(&far, to, THEIRS));
        }
        let theirs = |frame: &[u8]| is_to(&frame[14..], THEIRS);
        assert!(next_frame(&mut nic, SHORT, theirs).is_none());
        drop(nic);
        assert!(refused(&far, "10.99.0.1", OURS), "after");
        assert_eq!(left_on(&near, "wlan0"), "");
    }
}

#[test]
fn ports_and_addresses_come_and_go_while_it_is_attached() {
    needs_root!();
    let (near, far) = (Namespace::new("host"), Namespace::new("host"));
    link((&near, "wlan0"), (&far, "eth0"));
    let mut nic = nic(&near, "wlan0", Attach::Best);
    let refused = |port| refused(&far, "10.99.0.1", port);
    let silent = |port| silent(&far, "10.99.0.1", port);
    assert!(silent(OURS) && silent(OURS + 9) && refused(OURS + 10) && refused(OURS - 1));
    nic.divert_mut().add_ports(Transport::Tcp, 80..=80).expect("a server's port");
    assert!(silent(80));
    nic.divert_mut().remove_ports(Transport::Tcp, 80..=80).expect("closed");
    nic.divert_mut().remove_ports(Transport::Tcp, OURS..=OURS).expect("given up");
    assert!(refused(80) && refused(OURS) && silent(OURS + 1));
    nic.divert_mut().remove_address(ip("10.99.0.1")).expect("gone");
    assert!(refused(OURS + 1));
}

#[test]
fn all_fragments_of_a_datagram_are_ours_and_none_is_the_hosts() {
    needs_root!();
    let (near, far) = (Namespace::new("host"), Namespace::new("host"));
    link((&near, "wlan0"), (&far, "eth0"));
    let mut nic = nic(&near, "wlan0", Attach::Best);
    for (to, fragments) in [("10.99.0.1", 3), ("fd99::1", 3)] {
        let any = SocketAddr::new(ip(to.replace(".1", ".2").replace("::1", "::2").as_str()), 0);
        let socket = far.inside(|| UdpSocket::bind(any)).expect("a socket");
        socket.send_to(&pattern(4000), (ip(to), OURS)).expect("sent");
        for _ in 0..fragments {
            next_frame(&mut nic, PATIENCE, |frame| frame[12] != 8 || frame[13] != 6)
                .expect("a fragment");
        }
    }
    assert_eq!(near.counter("Ip.ReasmReqds"), 0);
    assert_eq!(near.counter("Ip6ReasmReqds"), 0);
    assert_eq!(near.counter("Ip.InReceives"), 0);
    let counts = nic.divert().counts().expect("counts");
    assert_eq!((counts.diverted, counts.late_fragments), (6, 0));
}

#[test]
fn a_fragment_that_overtakes_the_first_goes_to_both() {
    needs_root!();
    let (host, mut modem, mut nic) = cellular();
    let (from, to) = (Ipv4Addr::new(10, 99, 0, 2), Ipv4Addr::new(10, 99, 0, 1));
    let whole = packets::udp(
        SocketAddr::new(from.into(), 9),
        SocketAddr::new(to.into(), OURS),
        &pattern(2000),
    );
    let fragment = |at: usize, end: usize| {
        let ends = (from.into(), to.into());
        packets::fragment(ends, UDP, 77, at, &whole[at..end], end < whole.len())
    };
    let (late, first) = (fragment(1000, 2008), fragment(0, 1000));
    arrives(&mut modem, &late);
    arrives(&mut modem, &first);
    arrives(&mut modem, &late);
    for wanted in [&late, &first, &late] {
        assert!(is_ours(&mut nic, wanted));
    }
    let counts = nic.divert().counts().expect("counts");
    assert_eq!((counts.diverted, counts.late_fragments), (2, 1));
    assert_eq!(host.counter("Ip.ReasmReqds"), 1);
    assert_eq!(host.counter("Udp.NoPorts"), 0);
}

/// A sender begins anew after 65,536 packets of IPv4, and we remember more first fragments than it
/// may send to us in that time.
#[test]
fn a_packet_of_the_hosts_with_the_number_of_an_earlier_one_of_ours_is_the_hosts() {
    needs_root!();
    let (host, mut modem, mut nic) = cellular();
    for (own, far) in [("10.99.0.1", "10.99.0.2"), ("fd99::1", "fd99::2")] {
        let (own, far) = (ip(own), ip(far));
        let assembled = if own.is_ipv4() { "Ip.ReasmOKs" } else { "Ip6ReasmOKs" };
        // Of a packet whose beginning is not ours, what comes later goes to both.
        for (port, beginning_is_ours, whole_ones) in
            [(OURS, true, 0), (THEIRS, false, 1), (OURS, true, 1)]
        {
            let (from, to) = (SocketAddr::new(far, 9), SocketAddr::new(own, port));
            let datagram = packets::udp(from, to, &pattern(1992));
            for (at, part) in [(0, &datagram[..1000]), (1000, &datagram[1000..])] {
                let fragment = packets::fragment((far, own), UDP, 77, at, part, at == 0);
                arrives(&mut modem, &fragment);
                let for_us = at > 0 || beginning_is_ours;
                assert_eq!(is_ours(&mut nic, &fragment), for_us, "{own}: to {port} from {at}");
            }
            assert_eq!(host.counter(assembled), whole_ones, "{own}: the host's, with {port}");
        }
    }
}

/// ICMP around the beginning of a packet, as routers send it.
fn icmp_error(from: IpAddr, to: IpAddr, quoted: &[u8]) -> Vec<u8> {
    let (protocol, kind, code) = if from.is_ipv4() { (1, 3, 4) } else { (58, 2, 0) };
    let mut message = vec![kind, code, 0, 0, 0, 0, 0x05, 0];
    message.extend(&quoted[..quoted.len().min(68)]);
    packets::ip(from, to, protocol, &message)
}

#[test]
fn icmp_errors_about_our_packets_are_ours() {
    needs_root!();
    let (host, mut modem, mut nic) = cellular();
    for (own, router) in [("10.99.0.1", "10.5.5.5"), ("fd99::1", "fd05::5")] {
        let counter = if ip(own).is_ipv4() { "Icmp.InMsgs" } else { "Icmp6InMsgs" };
        let error = |transport: u8, port: u16| {
            let far = if ip(own).is_ipv4() { ip("10.99.0.2") } else { ip("fd99::2") };
            let (from, to) = (SocketAddr::new(ip(own), port), SocketAddr::new(far, 80));
            let segment = match transport {
                UDP => packets::udp(from, to, b"question"),
                _ => packets::tcp(from, to, 5, 0x10, b"payload"),
            };
            let packet = packets::ip(from.ip(), to.ip(), transport, &segment);
            icmp_error(ip(router), ip(own), &packet)
        };
        let before = host.counter(counter);
        for transport in [TCP, UDP] {
            let about_us = error(transport, OURS);
            arrives(&mut modem, &about_us);
            assert!(is_ours(&mut nic, &about_us));
        }
        assert_eq!(host.counter(counter), before);
        let about_the_host = error(TCP, THEIRS);
        arrives(&mut modem, &about_the_host);
        assert!(!is_ours(&mut nic, &about_the_host));
        assert_eq!(host.counter(counter), before + 1);
    }
}

/// Nothing in an echo reply, or in an error about an echo request, says which of the two has asked.
#[test]
fn answers_to_a_ping_are_for_the_host_and_for_us() {
    needs_root!();
    let (host, mut modem, mut nic) = cellular();
    for (own, far) in [("10.99.0.1", "10.99.0.2"), ("fd99::1", "fd99::2")] {
        let (own, far) = (ip(own), ip(far));
        let (counter, protocol, request, reply) = match own {
            IpAddr::V4(_) => ("Icmp.InMsgs", 1, 8, 0),
            IpAddr::V6(_) => ("Icmp6InMsgs", 58, 128, 129),
        };
        let echo = |kind: u8| [kind, 0, 0, 0, 0x12, 0x34, 0, 1];
        let answer = packets::ip(far, own, protocol, &echo(reply));
        let asked = packets::ip(own, far, protocol, &echo(request));
        let before = host.counter(counter);
        for (number, packet) in (1..).zip([answer, icmp_error(far, own, &asked)]) {
            arrives(&mut modem, &packet);
            assert!(is_ours(&mut nic, &packet));
            assert_eq!(host.counter(counter), before + number, "the host has it, too");
        }
        let of_another = packets::ip(far, own, protocol, &echo(request));
        arrives(&mut modem, &of_another);
        assert!(!is_ours(&mut nic, &of_another), "a request is for the host, which answers it");
    }
}

/// What is longer than the MTU comes in fragments, of which only the first says what it is.
#[test]
fn all_fragments_of_an_answer_to_a_ping_are_for_the_host_and_for_us() {
    needs_root!();
    let (host, mut modem, mut nic) = cellular();
    for (own, far) in [("10.99.0.1", "10.99.0.2"), ("fd99::1", "fd99::2")] {
        let (own, far) = (ip(own), ip(far));
        let (assembled, protocol, request, reply) = match own {
            IpAddr::V4(_) => ("Ip.ReasmOKs", 1, 8, 0),
            IpAddr::V6(_) => ("Ip6ReasmOKs", 58, 128, 129),
        };
        for (id, kind, for_us) in [(1, reply, true), (2, request, false)] {
            let echo = [vec![kind, 0, 0, 0, 0x12, 0x34, 0, 1], pattern(2000)].concat();
            let before = host.counter(assembled);
            for (at, part) in [(0, &echo[..1000]), (1000, &echo[1000..])] {
                let fragment = packets::fragment((far, own), protocol, id, at, part, at == 0);
                arrives(&mut modem, &fragment);
                assert_eq!(is_ours(&mut nic, &fragment), for_us, "{own}: kind {kind} from {at}");
            }
            assert_eq!(host.counter(assembled), before + 1, "the host has all of it");
        }
    }
    assert_eq!(nic.divert().counts().expect("counts").late_fragments, 0);
}

#[test]
fn extension_headers_do_not_hide_our_packets() {
    needs_root!();
    let (host, mut modem, mut nic) = cellular();
    let (from, to) = (ip("fd99::2"), ip("fd99::1"));
    let packet = |port: u16, options: u8| {
        let (from, to) = (SocketAddr::new(from, 80), SocketAddr::new(to, port));
        let segment = packets::tcp(from, to, 5, 0x10, b"payload");
        let mut payload = Vec::new();
        for n in 0..options {
            // Destination options (60) that only pad, the last one before TCP.
            let next = if n + 1 == options { TCP } else { 60 };
            payload.extend([next, 0, 1, 4, 0, 0, 0, 0]);
        }
        payload.extend(segment);
        packets::ip(from.ip(), to.ip(), if options == 0 { TCP } else { 60 }, &payload)
    };
    for options in [0, 1, 8] {
        let ours = packet(OURS, options);
        arrives(&mut modem, &ours);
        assert!(is_ours(&mut nic, &ours), "{options} headers");
    }
    assert_eq!(host.counter("Tcp.InSegs"), 0);
    arrives(&mut modem, &packet(THEIRS, 1));
    assert_eq!(host.counter("Tcp.InSegs"), 1);
    // One more than the program follows: the host's, as docs/nic.md says.
    let beyond = packet(OURS, 9);
    arrives(&mut modem, &beyond);
    assert!(!is_ours(&mut nic, &beyond));
}

#[test]
fn truncated_packets_and_other_addresses_are_the_hosts() {
    needs_root!();
    let (host, mut modem, mut nic) = cellular();
    let (from, to) = (SocketAddr::new(ip("10.99.0.2"), 80), SocketAddr::new(ip("10.99.0.1"), OURS));
    let segment = packets::tcp(from, to, 5, 0x10, b"payload");
    let whole = packets::ip(from.ip(), to.ip(), TCP, &segment);
    for length in [20, 21, 23] {
        arrives(&mut modem, &whole[..length]);
    }
    let elsewhere = packets::ip(from.ip(), ip("10.99.0.3"), TCP, &segment);
    arrives(&mut modem, &elsewhere);
    assert!(next_frame(&mut nic, SHORT, |_| true).is_none());
    assert_eq!(nic.divert().counts().expect("counts").diverted, 0);
    assert_eq!(host.counter("Ip.InReceives"), 4);
}

#[test]
fn frames_of_a_vlan_belong_to_the_interface_of_the_vlan() {
    needs_root!();
    let (near, far) = (Namespace::new("host"), Namespace::new("host"));
    link((&near, "wlan0"), (&far, "eth0"));
    let mut nic = nic(&near, "wlan0", Attach::Best);
    let vlan = Command::new("ip")
        .args(["-n", near.name(), "link", "add", "link", "wlan0", "name", "wlan0.7"])
        .args(["type", "vlan", "id", "7"])
        .output()
        .expect("ip");
    if !vlan.status.success() {
        skip("vlan", "this kernel has no VLANs");
        return;
    }
    far.ip("link add link eth0 name eth0.7 type vlan id 7");
    for (host, name, n) in [(&near, "wlan0.7", 1), (&far, "eth0.7", 2)] {
        host.ip(&format!("addr add 10.97.0.{n}/24 dev {name}"));
        host.ip(&format!("link set {name} up"));
    }
    nic.divert_mut().add_address(ip("10.97.0.1")).expect("an address");
    assert!(refused(&far, "10.97.0.1", OURS));
    assert!(silent(&far, "10.99.0.1", OURS));
    let tagged = |frame: &[u8]| frame.get(30..34) == Some(&[10, 97, 0, 1]);
    assert!(next_frame(&mut nic, SHORT, tagged).is_none());
}

/// Filters and queueing disciplines of ours on an interface, as `tc` lists them.
fn left_on(host: &Namespace, name: &str) -> String {
    let filters = host.output("tc", &["filter", "show", "dev", name, "ingress"]);
    let qdiscs = host.output("tc", &["qdisc", "show", "dev", name]);
    let clsact = qdiscs.lines().filter(|line| line.contains("clsact"));
    filters.lines().chain(clsact).collect::<Vec<_>>().join("\n")
}

/// This program once more, as a process that holds a divert on `wlan0` until it is killed.
fn holder(host: &Namespace, way: &str, port: u16) -> Child {
    let mut child = Command::new("ip")
        .args(["netns", "exec", host.name()])
        .arg(std::env::current_exe().expect("this program"))
        .args(["--exact", "held_until_killed", "--ignored", "--nocapture"])
        .env("TRANSOM_NIC_HOLD", way)
        .env("TRANSOM_NIC_PORT", port.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    assert!(lines.map_while(Result::ok).any(|line| line.contains("Holding.")), "it never held");
    child
}

#[test]
#[ignore = "run by the tests that kill it"]
fn held_until_killed() {
    let Ok(way) = std::env::var("TRANSOM_NIC_HOLD") else { return };
    let port: u16 = std::env::var("TRANSOM_NIC_PORT").expect("a port").parse().expect("a port");
    let way = if way == "filter" { Attach::Filter } else { Attach::Link };
    let interface = Interface::find("wlan0").expect("the interface");
    let mut divert = Divert::attach(&interface, way).expect("attached");
    divert.add_address(ip("10.99.0.1")).expect("an address");
    divert.add_ports(Transport::Tcp, port..=port).expect("a port");
    let _nic =
        PacketNic::open(&interface, divert, PacketOptions::default()).expect("a packet socket");
    let _ports = transom_nic::Ports::claim_range(port..=port).expect("a port");
    println!("Holding.");
    std::thread::sleep(Duration::from_secs(60));
}

#[test]
fn kill_9_leaves_nothing_of_a_link() {
    needs_root!();
    needs!("linux-6.6");
    let (near, far) = (Namespace::new("host"), Namespace::new("host"));
    link((&near, "wlan0"), (&far, "eth0"));
    let settings = || {
        let read = |name| std::fs::read_to_string(format!("/proc/sys/net/ipv4/{name}"));
        near.inside(|| {
            [read("ip_local_reserved_ports"), read("ip_local_port_range")].map(Result::ok)
        })
    };
    let before = settings();
    let mut child = holder(&near, "link", OURS);
    assert!(silent(&far, "10.99.0.1", OURS));
    let claim = || near.inside(|| transom_nic::Ports::claim_range(OURS..=OURS));
    assert!(claim().is_err(), "its ports are claimed");
    child.kill().expect("killed");
    child.wait().expect("gone");
    // The kernel frees a link a moment after its process.
    let end = std::time::Instant::now() + PATIENCE;
    while silent(&far, "10.99.0.1", OURS) {
        assert!(std::time::Instant::now() < end, "the link outlives its process");
    }
    assert_eq!(left_on(&near, "wlan0"), "");
    assert_eq!(settings(), before);
    claim().expect("the ports are free");
}

#[test]
fn what_kill_9_leaves_of_a_filter_goes_at_the_next_start() {
    needs_root!();
    let (near, far) = (Namespace::new("host"), Namespace::new("host"));
    link((&near, "wlan0"), (&far, "eth0"));
    let silent = |port| silent(&far, "10.99.0.1", port);
    let refused = |port| refused(&far, "10.99.0.1", port);
    let filters = || left_on(&near, "wlan0").matches("handle 0x").count();
    let (killed, alive) = (OURS + 1024, OURS + 2048);
    let mut first = holder(&near, "filter", killed);
    let mut second = holder(&near, "filter", alive);
    first.kill().expect("killed");
    first.wait().expect("gone");
    assert!(silent(killed) && filters() == 2, "a filter stays: {}", left_on(&near, "wlan0"));
    let next = nic(&near, "wlan0", Attach::Filter);
    assert!(silent(OURS) && silent(alive) && refused(killed));
    assert_eq!(filters(), 2, "the second's and ours: {}", left_on(&near, "wlan0"));
    second.kill().expect("killed");
    second.wait().expect("gone");
    drop(next);
    assert!(silent(alive) && filters() == 1, "nobody has started since");
    drop(nic(&near, "wlan0", Attach::Filter));
    assert!(refused(alive));
    assert_eq!(left_on(&near, "wlan0"), "", "nor a qdisc");
}
