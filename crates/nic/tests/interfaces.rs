//! What the host's kernel says of its interfaces, ports and neighbours, and what becomes of a back
//! end whose interface goes.

mod frames;

use std::io::{ErrorKind, IoSlice, Read};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use frames::packets::{self, UDP};
use frames::{PATIENCE, link, next_frame, wait};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::set_socket_reuseaddr;
use rustix::net::{AddressFamily, SocketType, bind, listen, socket};
use rustix::thread::CapabilitySet;
use transom_nic::{
    Attach, Divert, Event, HeldPort, Interface, InterfaceEvents, Kind, MOST_BYTES, Mode, Neighbour,
    Neighbours, Nic, PacketNic, PacketOptions, Path, PathSpec, Ports, Received, Transmitted,
    Transport, Tun, VnetHeader,
};
use transom_testbed::{Namespace, needs_root};

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn resolve(host: &Namespace, spec: &str) -> anyhow::Result<Path> {
    host.inside(|| spec.parse::<PathSpec>()?.resolve())
}

fn refusal(host: &Namespace, spec: &str) -> String {
    format!("{:#}", resolve(host, spec).expect_err(spec))
}

#[test]
fn a_path_is_what_the_host_knows_of_its_interface() {
    needs_root!();
    let (near, far) = (Namespace::new("host"), Namespace::new("host"));
    link((&near, "wlan0"), (&far, "eth0"));
    near.ip("link set wlan0 mtu 1400 address 02:00:00:00:00:aa");
    near.ip("addr add 10.50.0.1/16 dev wlan0");
    near.ip("route add default via 10.99.0.2 dev wlan0 metric 200");
    near.ip("route add default via 10.50.0.9 dev wlan0 metric 100");
    near.ip("-6 route add default via fd99::2 dev wlan0");
    let path = resolve(&near, "wlan0").expect("a path");
    assert_eq!(
        path.interface.kind().expect("Ethernet"),
        Kind::Ethernet { mac: [2, 0, 0, 0, 0, 0xaa] }
    );
    assert_eq!((path.interface.mtu, path.interface.running), (1400, true));
    let shown: Vec<String> = path.addresses.iter().map(ToString::to_string).collect();
    assert_eq!(shown, ["10.99.0.1/24", "fd99::1/64"]);
    assert_eq!(path.gateways, [ip("10.50.0.9"), ip("fd99::2")]);

    let path = resolve(&near, "wlan0,10.50.0.1,10.50.0.7").expect("by hand");
    assert_eq!((path.addresses[0].ip, path.addresses.len()), (ip("10.50.0.1"), 1));
    assert_eq!(path.gateways, [ip("10.50.0.7")]);
}

/// `src` of the default route, which may be an address of another interface.
#[test]
fn a_path_sends_from_the_address_that_the_default_route_names() {
    needs_root!();
    let (near, far) = (Namespace::new("host"), Namespace::new("host"));
    link((&near, "wlan0"), (&far, "eth0"));
    let shown = |path: &Path| path.addresses.iter().map(ToString::to_string).collect::<Vec<_>>();
    near.ip("addr add 10.50.0.1/16 dev wlan0");
    near.ip("route add default via 10.99.0.2 dev wlan0");
    assert_eq!(shown(&resolve(&near, "wlan0").expect("a path"))[0], "10.99.0.1/24");
    near.ip("route replace default via 10.99.0.2 dev wlan0 src 10.50.0.1");
    assert_eq!(shown(&resolve(&near, "wlan0").expect("a path"))[0], "10.50.0.1/16");
    near.ip("link set lo up");
    near.ip("addr add 10.255.0.1/24 dev lo");
    near.ip("route replace default via 10.99.0.2 dev wlan0 src 10.255.0.1");
    let path = resolve(&near, "wlan0").expect("a path");
    assert_eq!(shown(&path), ["10.255.0.1/32", "fd99::1/64"]);
    assert!(resolve(&near, "wlan0,10.255.0.1").is_ok(), "by hand, too");
    // A link that is down for a moment has no routes.
    near.ip("route del default");
    let spec: PathSpec = "wlan0".parse().expect("a path");
    let again = || near.inside(|| path.interface.again()).expect("it is there");
    assert_eq!(shown(&spec.on(again(), Some(&path)))[0], "10.255.0.1/32");
    near.ip("addr del 10.255.0.1/24 dev lo");
    assert_eq!(shown(&spec.on(again(), Some(&path)))[0], "10.99.0.1/24");
}

/// As the host itself refuses it ("Nexthop has invalid gateway").
#[test]
fn a_gateway_is_on_the_link() {
    needs_root!();
    let (near, far) = (Namespace::new("host"), Namespace::new("host"));
    link((&near, "wlan0"), (&far, "eth0"));
    let said = refusal(&near, "wlan0,,10.77.0.1");
    assert!(said.starts_with("the gateway 10.77.0.1 is on no network of wlan0"), "{said}");
    assert!(said.contains("10.99.0.1/24") && said.contains("ip route add 10.77.0.1"), "{said}");
    assert!(refusal(&near, "wlan0,,fd77::1").contains("on no network"));
    for on_link in ["wlan0,,10.99.0.7", "wlan0,,fd99::7", "wlan0,,fe80::7"] {
        assert!(resolve(&near, on_link).is_ok(), "{on_link}");
    }
    near.ip("route add 10.77.0.0/16 via inet6 fe80::7 dev wlan0");
    assert!(refusal(&near, "wlan0,,10.77.0.1").contains("on no network"), "behind a router");
    near.ip("route replace 10.77.0.0/16 dev wlan0");
    assert!(resolve(&near, "wlan0,,10.77.0.1").is_ok(), "the host has a route to it");
    near.ip("route add default via 10.88.0.1 dev wlan0 onlink");
    assert!(resolve(&near, "wlan0,,10.88.0.1").is_ok(), "the host's own gateway");
    let _tun = near.inside(|| Tun::create("rmnet0", Mode::Tun, true)).expect("a TUN");
    near.ip("addr add 10.66.0.1/32 dev rmnet0");
    assert!(resolve(&near, "rmnet0,,10.65.0.1").is_ok(), "there is no link to be on");
}

#[test]
fn a_path_that_cannot_be_is_refused_with_its_reason() {
    needs_root!();
    let host = Namespace::new("host");
    let _tun = host.inside(|| Tun::create("rmnet0", Mode::Tun, true)).expect("a TUN");
    assert_eq!(refusal(&host, "wlan9"), "there is no interface wlan9; there are: lo, rmnet0");
    assert!(refusal(&host, "lo").contains("lo is the loopback"));
    assert!(refusal(&host, "rmnet0").contains("rmnet0 has no address that can be used"));
    host.ip("addr add 10.99.0.1/24 dev rmnet0");
    let elsewhere = refusal(&host, "rmnet0,10.99.0.7");
    assert!(
        elsewhere.starts_with("10.99.0.7 is not an address of rmnet0: it has 10.99.0.1/24"),
        "{elsewhere}"
    );
    assert!(refusal(&host, "rmnet0,,fd99::9").contains("no address of the family of the gateway"));
    assert_eq!(resolve(&host, "rmnet0").expect("a path").interface.kind().ok(), Some(Kind::RawIp));
    host.ip("link set rmnet0 down");
    assert_eq!(refusal(&host, "rmnet0"), "the interface rmnet0 is down: ip link set rmnet0 up");
}

#[test]
fn an_address_that_is_still_tested_or_deprecated_is_not_taken() {
    needs_root!();
    let (near, far) = (Namespace::new("host"), Namespace::new("host"));
    link((&near, "wlan0"), (&far, "eth0"));
    near.ip("addr add fd77::1/64 dev wlan0 preferred_lft 0");
    near.ip("addr del fd99::1/64 dev wlan0");
    let path = resolve(&near, "wlan0").expect("a path");
    assert_eq!(path.addresses.len(), 1, "{:?}", path.addresses);
    assert!(resolve(&near, "wlan0,fd77::1").is_ok(), "by hand all the same");
}

#[test]
fn a_back_end_for_a_path_has_its_addresses_and_ports() {
    needs_root!();
    let (near, far) = (Namespace::new("host"), Namespace::new("host"));
    link((&near, "wlan0"), (&far, "eth0"));
    let path = resolve(&near, "wlan0").expect("a path");
    let ports = near.inside(|| Ports::claim(512)).expect("ports");
    let mut nic = near
        .inside(|| PacketNic::on_path(&path, ports.of_both(), PacketOptions::default()))
        .expect("a back end");
    assert_eq!(path.interface.kind().ok(), Some(nic.kind()));
    for (from, to) in [("10.99.0.2:0", "10.99.0.1"), ("[fd99::2]:0", "fd99::1")] {
        let socket = far.inside(|| UdpSocket::bind(from)).expect("a socket");
        socket.send_to(b"hello", (to, *ports.range().end())).expect("sent");
        let datagram = |frame: &[u8]| packets::is_to(&frame[14..], *ports.range().end());
        assert!(next_frame(&mut nic, PATIENCE, datagram).is_some(), "{to}");
    }
    assert_eq!(near.counter("Udp.NoPorts") + near.counter("Udp6NoPorts"), 0);
}

fn nic(host: &Namespace, name: &str) -> PacketNic {
    host.inside(|| {
        let interface = Interface::find(name).expect("the interface");
        let mut divert = Divert::attach(&interface, Attach::Best).expect("attached");
        divert.add_address(ip("10.99.0.1")).expect("an address");
        divert.add_ports(Transport::Udp, 61_440..=61_440).expect("a port");
        PacketNic::open(&interface, divert, PacketOptions::default()).expect("a packet socket")
    })
}

fn datagram() -> Vec<u8> {
    let (from, to) =
        (SocketAddr::new(ip("10.99.0.1"), 61_440), SocketAddr::new(ip("10.99.0.2"), 9));
    packets::ip(from.ip(), to.ip(), UDP, &packets::udp(from, to, b"hello"))
}

fn transmit(nic: &mut dyn Nic) -> Transmitted {
    let packet = datagram();
    nic.transmit(&VnetHeader::default(), &[IoSlice::new(&packet)])
}

/// What it says other than `Nothing`, soon.
fn receive(nic: &mut dyn Nic) -> Received {
    let mut buffer = vec![0; MOST_BYTES];
    let end = Instant::now() + PATIENCE;
    loop {
        let received = nic.receive(&mut buffer);
        if received != Received::Nothing || Instant::now() > end {
            return received;
        }
        wait(nic.descriptor(), Duration::from_millis(10));
    }
}

#[test]
fn an_interface_that_goes_down_comes_back_and_one_that_is_renamed_stays() {
    needs_root!();
    let host = Namespace::new("host");
    let mut modem = host.inside(|| Tun::create("rmnet0", Mode::Tun, true)).expect("a TUN");
    let mut nic = nic(&host, "rmnet0");
    assert_eq!(transmit(&mut nic), Transmitted::Sent);
    host.ip("link set rmnet0 down");
    assert_eq!(receive(&mut nic), Received::Down);
    assert_eq!(transmit(&mut nic), Transmitted::Down);
    assert_eq!(transmit(&mut modem), Transmitted::Down);
    host.ip("link set rmnet0 name cell7");
    host.ip("link set cell7 up");
    assert_eq!(transmit(&mut nic), Transmitted::Sent);
    let (from, to) =
        (SocketAddr::new(ip("10.99.0.2"), 9), SocketAddr::new(ip("10.99.0.1"), 61_440));
    let packet = packets::ip(from.ip(), to.ip(), UDP, &packets::udp(from, to, b"back"));
    let became = modem.transmit(&VnetHeader::default(), &[IoSlice::new(&packet)]);
    assert_eq!(became, Transmitted::Sent);
    let received = receive(&mut nic);
    let whole = packet.len();
    assert!(matches!(received, Received::Frame { length, .. } if length == whole), "{received:?}");
}

#[test]
fn an_interface_that_is_deleted_or_moved_away_is_gone() {
    needs_root!();
    let (near, far, other) =
        (Namespace::new("host"), Namespace::new("host"), Namespace::new("host"));
    for delete in [true, false] {
        link((&near, "wlan0"), (&far, "eth0"));
        let mut nic = nic(&near, "wlan0");
        match delete {
            true => near.ip("link del wlan0"),
            false => near.ip(&format!("link set wlan0 netns {}", other.name())),
        };
        let received = receive(&mut nic);
        assert!(matches!(received, Received::Down | Received::Gone), "{received:?}");
        assert_eq!(transmit(&mut nic), Transmitted::Gone);
    }
    let mut tun = near.inside(|| Tun::create("tun0", Mode::Tun, true)).expect("a TUN");
    near.ip("link del tun0");
    assert_eq!(receive(&mut tun), Received::Gone);
    assert_eq!(transmit(&mut tun), Transmitted::Gone);
}

#[test]
fn a_full_queue_says_so_and_the_descriptor_tells_when_there_is_room() {
    needs_root!();
    let (near, far) = (Namespace::new("host"), Namespace::new("host"));
    link((&near, "wlan0"), (&far, "eth0"));
    let slow = ["qdisc", "add", "dev", "wlan0", "root", "tbf", "rate", "1mbit"];
    near.output("tc", &[&slow[..], &["burst", "2kb", "limit", "1mb"]].concat());
    let interface = near.inside(|| Interface::find("wlan0")).expect("the interface");
    let divert = near.inside(|| Divert::attach(&interface, Attach::Best)).expect("attached");
    let options = PacketOptions { send_buffer: 1 << 16, ..PacketOptions::default() };
    let mut nic = near.inside(|| PacketNic::open(&interface, divert, options)).expect("a socket");
    let frame = packets::ethernet([2; 6], [2, 0, 0, 0, 0, 9], &datagram());
    let header = VnetHeader::default();
    let mut sent = 0;
    let full = loop {
        match nic.transmit(&header, &[IoSlice::new(&frame)]) {
            Transmitted::Sent => sent += 1,
            other => break other,
        }
        assert!(sent < 10_000, "64 KiB hold all this?");
    };
    assert_eq!(full, Transmitted::Full);
    assert_eq!((nic.counters().transmitted, nic.counters().dropped), (sent, 0));
    let writable = |time: Duration| {
        let mut one = [PollFd::from_borrowed_fd(nic.descriptor(), PollFlags::OUT)];
        let time = Timespec::try_from(time).expect("a short time");
        poll(&mut one, Some(&time)).expect("poll") > 0
    };
    assert!(!writable(Duration::ZERO), "the queue has just been full");
    assert!(writable(PATIENCE));
    assert_eq!(nic.transmit(&header, &[IoSlice::new(&frame)]), Transmitted::Sent);
}

#[test]
fn frames_that_nobody_fetches_are_counted() {
    needs_root!();
    let host = Namespace::new("host");
    let mut modem = host.inside(|| Tun::create("rmnet0", Mode::Tun, true)).expect("a TUN");
    let interface = host.inside(|| Interface::find("rmnet0")).expect("the interface");
    let mut divert = host.inside(|| Divert::attach(&interface, Attach::Best)).expect("attached");
    divert.add_address(ip("10.99.0.2")).expect("an address");
    divert.add_ports(Transport::Udp, 9..=9).expect("a port");
    let options = PacketOptions { receive_buffer: 1 << 16, ..PacketOptions::default() };
    let mut nic = host.inside(|| PacketNic::open(&interface, divert, options)).expect("a socket");
    for _ in 0..2000 {
        assert_eq!(transmit(&mut modem), Transmitted::Sent);
    }
    let mut buffer = vec![0; MOST_BYTES];
    while nic.receive(&mut buffer) != Received::Nothing {}
    let counters = nic.counters();
    assert!(counters.overrun > 0 && counters.received > 0, "{counters:?}");
    assert_eq!(counters.overrun + counters.received, 2000);
    assert_eq!(nic.counters().overrun, counters.overrun, "the kernel's count starts anew");
}

/// What `work` says to somebody without any privilege.
fn without_privilege<T: Send>(
    host: &Namespace,
    work: impl FnOnce() -> anyhow::Result<T> + Send,
) -> String {
    host.inside(|| {
        let mut sets = rustix::thread::capabilities(None).expect("ours");
        sets.effective = CapabilitySet::empty();
        rustix::thread::set_capabilities(None, sets).expect("given up");
        match work() {
            Ok(_) => panic!("it works without privilege"),
            Err(error) => format!("{error:#}"),
        }
    })
}

#[test]
fn the_privilege_that_is_missing_is_named() {
    needs_root!();
    let (near, far) = (Namespace::new("host"), Namespace::new("host"));
    link((&near, "wlan0"), (&far, "eth0"));
    let interface = near.inside(|| Interface::find("wlan0")).expect("the interface");
    let divert = near.inside(|| Divert::attach(&interface, Attach::Best)).expect("attached");
    let said =
        without_privilege(&near, || PacketNic::open(&interface, divert, PacketOptions::default()));
    assert!(said.contains("wlan0") && said.contains("CAP_NET_RAW"), "{said}");
    let said = without_privilege(&near, || Divert::attach(&interface, Attach::Best));
    assert!(said.contains("wlan0") && said.contains("CAP_BPF"), "{said}");
    let said = without_privilege(&near, || Tun::create("tun0", Mode::Tun, true));
    assert!(said.contains("tun0") && said.contains("CAP_NET_ADMIN"), "{said}");
    assert!(resolve(&near, "wlan0").is_ok());
}

#[test]
fn a_tun_with_a_bad_name_or_a_taken_one_is_refused() {
    needs_root!();
    let host = Namespace::new("host");
    let create = |name: &str| host.inside(|| Tun::create(name, Mode::Tun, true));
    let _first = create("tun0").expect("a TUN");
    let said = |name: &str| format!("{:#}", create(name).expect_err(name));
    assert!(said("tun0").contains("is in use"), "{}", said("tun0"));
    assert!(said("lo").contains("another kind"), "{}", said("lo"));
    assert!(said("").contains("1 to 15 bytes"));
    assert!(said("a-name-of-sixteen").contains("1 to 15 bytes"));
}

#[test]
fn the_host_resolves_a_neighbour_when_it_is_asked_to() {
    needs_root!();
    let (near, far) = (Namespace::new("host"), Namespace::new("host"));
    link((&near, "wlan0"), (&far, "eth0"));
    far.ip("link set eth0 address 02:00:00:00:00:bb");
    near.inside(|| {
        let index = Interface::find("wlan0").expect("the interface").index;
        let mut watch = InterfaceEvents::open().expect("a watch");
        let mut neighbours = Neighbours::open().expect("the table");
        for there in ["10.99.0.2", "fd99::2"] {
            let first = neighbours.look_up(index, ip(there)).expect("asked");
            assert_eq!(first, Neighbour::Asked);
            let wanted =
                Event::Neighbour { index, ip: ip(there), mac: Some([2, 0, 0, 0, 0, 0xbb]) };
            until(&mut watch, |event| *event == wanted);
            let known = neighbours.look_up(index, ip(there)).expect("known");
            assert_eq!(known, Neighbour::Known([2, 0, 0, 0, 0, 0xbb]));
        }
        // So that the host gives up soon; an answer on a slow machine may need more.
        for family in ["ipv4", "ipv6"] {
            near.sysctl(&format!("net/{family}/neigh/wlan0/retrans_time_ms"), "50");
        }
        for nobody in ["10.99.0.77", "fd99::77"] {
            neighbours.look_up(index, ip(nobody)).expect("asked");
            let end = Instant::now() + PATIENCE;
            while neighbours.look_up(index, ip(nobody)).expect("asked") != Neighbour::Unreachable {
                assert!(Instant::now() < end, "nobody there, and the host does not notice");
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    });
}

fn until(watch: &mut InterfaceEvents, wanted: impl Fn(&Event) -> bool) {
    let end = Instant::now() + PATIENCE;
    loop {
        if watch.by_ref().any(|event| wanted(&event)) {
            return;
        }
        assert!(Instant::now() < end, "it is never told");
        wait(watch.descriptor(), Duration::from_millis(100));
    }
}

#[test]
fn changes_of_interfaces_are_told() {
    needs_root!();
    let host = Namespace::new("host");
    let mut watch = host.inside(InterfaceEvents::open).expect("a watch");
    let _tun = host.inside(|| Tun::create("rmnet0", Mode::Tun, true)).expect("a TUN");
    let index = host.inside(|| Interface::find("rmnet0")).expect("the interface").index;
    host.ip("addr add 10.99.0.1/24 dev rmnet0");
    until(&mut watch, |event| *event == Event::AddressAdded { index, ip: ip("10.99.0.1") });
    host.ip("link set rmnet0 mtu 1280");
    until(
        &mut watch,
        |event| matches!(event, Event::Link { index: i, mtu: 1280, up: true, .. } if *i == index),
    );
    host.ip("link set rmnet0 down");
    until(&mut watch, |event| matches!(event, Event::Link { up: false, .. }));
    host.ip("link set rmnet0 name cell7");
    until(&mut watch, |event| matches!(event, Event::Link { name, .. } if name == "cell7"));
    host.ip("addr del 10.99.0.1/24 dev cell7");
    until(&mut watch, |event| *event == Event::AddressRemoved { index, ip: ip("10.99.0.1") });
    host.ip("link del cell7");
    until(&mut watch, |event| *event == Event::Gone { index });
}

#[test]
fn claimed_ports_are_free_disjoint_and_not_the_hosts() {
    needs_root!();
    let host = Namespace::new("host");
    host.inside(|| {
        let server = TcpListener::bind("127.0.0.1:61300").expect("a server");
        // Where each begins is chance, so all are taken.
        let claims = std::iter::from_fn(|| Ports::claim(1000).ok());
        // When they are all taken, some of the host's own are.
        let is_outside = |ports: &Ports| !(32_768..=60_999).contains(ports.range().start());
        let mut all: Vec<Ports> = claims.take_while(is_outside).collect();
        assert!(all.len() > 10, "only {}", all.len());
        all.sort_by_key(|ports| *ports.range().start());
        for ports in &all {
            assert!(ports.range().len() >= 1000);
            assert!(*ports.range().end() < 32_768 || *ports.range().start() > 60_999);
            assert!(!ports.range().contains(&61_300));
        }
        assert!(all.windows(2).all(|two| two[0].range().end() < two[1].range().start()));
        let again = all[0].range();
        assert!(Ports::claim_range(again.clone()).is_err(), "claimed already");
        drop(all.remove(0));
        Ports::claim_range(again).expect("given back");
        drop(server);
    });
}

#[test]
fn ports_that_cannot_be_ours_are_refused_with_the_reason() {
    needs_root!();
    let host = Namespace::new("host");
    let said = |range: std::ops::RangeInclusive<u16>| {
        format!("{:#}", host.inside(|| Ports::claim_range(range)).expect_err("refused"))
    };
    assert!(said(100..=200).contains("from 1024"));
    assert!(said(60_000..=61_500).contains("the host may pick port 60000"));
    let server = host.inside(|| TcpListener::bind("[::]:62000")).expect("a server");
    assert!(said(61_900..=62_100).contains("port 62000 of 61900-62100 is in use"));
    drop(server);
    host.sysctl("net/ipv4/ip_local_reserved_ports", "60000-60999");
    let ports = host.inside(|| Ports::claim_range(60_000..=61_500)).expect("kept from the host");
    assert_eq!(ports.range(), 60_000..=61_500);
}

#[test]
fn a_host_that_picks_from_all_ports_is_kept_from_ours_as_long_as_they_are() {
    needs_root!();
    let host = Namespace::new("host");
    host.ip("link set lo up");
    host.sysctl("net/ipv4/ip_local_port_range", "1024 65535");
    host.inside(|| {
        let (one, two) = (Ports::claim(256).expect("ports"), Ports::claim(256).expect("others"));
        assert!(!one.range().contains(two.range().start()));
        let bound = |at: &str, port: u16| {
            let at = SocketAddr::new(ip(at), port);
            let (tcp, udp) = (TcpListener::bind(at).err(), UdpSocket::bind(at).err());
            [tcp, udp].map(|error| error.map(|error| error.kind()))
        };
        for port in [*one.range().start(), *two.range().end()] {
            for at in ["127.0.0.1", "::1"] {
                assert_eq!(bound(at, port), [Some(ErrorKind::AddrInUse); 2], "{at} {port}");
            }
        }
        let port = *one.range().start();
        drop(one);
        assert_eq!(bound("127.0.0.1", port), [None; 2]);
    });
}

/// A server of the host that has bound its port, and is about to listen.
#[test]
fn a_port_that_is_bound_is_not_taken_though_nobody_listens_yet() {
    needs_root!();
    let host = Namespace::new("host");
    host.ip("link set lo up");
    host.inside(|| {
        let at = SocketAddr::new(ip("127.0.0.1"), 8080);
        let server = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
        set_socket_reuseaddr(&server, true).expect("set");
        bind(&server, &at).expect("bound");
        let held = HeldPort::hold(at, Transport::Tcp);
        assert_eq!(held.expect_err("it is taken").kind(), ErrorKind::AddrInUse);
        listen(&server, 1).expect("it listens");
    });
}

#[test]
fn a_held_port_is_taken_on_the_host() {
    needs_root!();
    let host = Namespace::new("host");
    host.inside(|| {
        let at = SocketAddr::new(ip("127.0.0.1"), 8080);
        let held = HeldPort::hold(at, Transport::Tcp).expect("held");
        assert_eq!(held.port(), 8080);
        let taken = TcpListener::bind("0.0.0.0:8080").expect_err("taken").kind();
        assert_eq!(taken, ErrorKind::AddrInUse);
        let again = HeldPort::hold(at, Transport::Tcp);
        assert_eq!(again.expect_err("taken").kind(), ErrorKind::AddrInUse);
        HeldPort::hold(at, Transport::Udp).expect("UDP is another matter");
    });
}

/// A server that moves from the host to the stack: its last connections there are over.
#[test]
fn connections_of_the_host_in_time_wait_do_not_keep_their_port() {
    needs_root!();
    let host = Namespace::new("waiting");
    host.ip("link set lo up");
    host.inside(|| {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let at = listener.local_addr().expect("its address");
        let client = TcpStream::connect(at).expect("connected");
        let (first, _) = listener.accept().expect("accepted");
        drop(listener);
        let held = HeldPort::hold(at, Transport::Tcp);
        assert_eq!(held.expect_err("a connection is left").kind(), ErrorKind::AddrInUse);
        drop(first);
        (&client).read_exact(&mut [0]).expect_err("it has ended");
        drop(client);
        let held = HeldPort::hold(at, Transport::Tcp).expect("only TIME-WAIT is left");
        let other = TcpListener::bind(at).expect_err("nobody else may listen");
        assert_eq!(other.kind(), ErrorKind::AddrInUse);
        drop(held);
        TcpListener::bind(at).expect("free again");
    });
}
