//! What is left to the interface when transmitting is done, and what the interface has left to us
//! when receiving is said: checksums and segmentation, on each back end, by the real kernel.

mod frames;

use std::io::IoSlice;
use std::net::{IpAddr, SocketAddr};

use frames::packets::{self, UDP, content, ethernet, is_right, is_to, pattern, unfinished};
use frames::{PATIENCE, next_frame};
use transom_nic::{
    Attach, Divert, Interface, Kind, Mode, Nic, PacketNic, PacketOptions, Segmentation,
    Transmitted, Transport, Tun, VnetHeader,
};
use transom_testbed::{Namespace, needs_root};

const FAR_MAC: [u8; 6] = [2, 0, 0, 0, 0, 9];
const NEAR_MAC: [u8; 6] = [2, 0, 0, 0, 0, 5];
const PORT: u16 = 7000;
const SEGMENT: u16 = 1400;

fn ends(v6: bool) -> (SocketAddr, SocketAddr) {
    let (near, far): (IpAddr, IpAddr) = match v6 {
        false => ([10, 1, 0, 2].into(), [10, 2, 0, 2].into()),
        true => ("fd01::2".parse().expect("near"), "fd02::2".parse().expect("far")),
    };
    (SocketAddr::new(near, 6000), SocketAddr::new(far, PORT))
}

fn send(nic: &mut dyn Nic, header: &VnetHeader, frame: &[u8]) {
    // Cut where nothing in the frame ends, as a kernel's pages are.
    let parts: Vec<IoSlice> = frame.chunks(4093).map(IoSlice::new).collect();
    assert_eq!(nic.transmit(header, &parts), Transmitted::Sent);
}

/// 60,000 bytes in one frame to `writer` come out of `reader`, which wants complete frames, as
/// segments of 1400 bytes with right numbers and checksums.
fn is_cut(writer: &mut dyn Nic, reader: &mut dyn Nic, v6: bool, protocol: u8) {
    let (from, to) = ends(v6);
    let payload = pattern(60_000);
    let transport = match protocol {
        UDP => packets::udp(from, to, &payload),
        _ => packets::tcp(from, to, 1000, 0x18, &payload),
    };
    let whole = packets::ip(from.ip(), to.ip(), protocol, &transport);
    let before = link(writer);
    let (header, packet) = unfinished(&whole, before, Some(SEGMENT));
    let frame = if before == 0 { packet } else { ethernet(NEAR_MAC, FAR_MAC, &packet) };
    send(writer, &header, &frame);

    let mut came: Vec<u8> = Vec::new();
    while came.len() < payload.len() {
        let skip = link(reader);
        let wanted = |frame: &[u8]| is_to(&frame[skip.min(frame.len())..], PORT);
        let (header, frame) = next_frame(reader, PATIENCE, wanted).expect("a segment");
        assert!(header.is_empty(), "{header:?}");
        let packet = &frame[skip..];
        assert!(is_right(packet), "wrong checksum at {}", came.len());
        let (sequence, bytes) = content(packet);
        assert!(bytes.len() <= SEGMENT.into(), "{} bytes", bytes.len());
        if protocol != UDP {
            assert_eq!(sequence as usize, 1000 + came.len());
        }
        came.extend(bytes);
    }
    assert_eq!(came, payload);
}

fn link(nic: &dyn Nic) -> usize {
    match nic.kind() {
        Kind::Ethernet { .. } => 14,
        Kind::RawIp => 0,
    }
}

fn tun(host: &Namespace, name: &str, offload: bool) -> Tun {
    host.inside(|| Tun::create(name, Mode::Tun, offload)).expect("a TUN")
}

fn tap(host: &Namespace, name: &str, mac: [u8; 6], offload: bool) -> Tun {
    host.inside(|| Tun::create(name, Mode::Tap { mac }, offload)).expect("a TAP")
}

/// A packet socket on an interface of the host that gets what is for port 6000 of its address.
fn packet_nic(host: &Namespace, name: &str, own: IpAddr, offload: bool) -> PacketNic {
    host.inside(|| {
        let interface = Interface::find(name).expect("the interface");
        let mut divert = Divert::attach(&interface, Attach::Best).expect("attached");
        divert.add_address(own).expect("an address");
        for transport in [Transport::Tcp, Transport::Udp] {
            divert.add_ports(transport, 6000..=6000).expect("a port");
        }
        let options = PacketOptions { offload, ..PacketOptions::default() };
        PacketNic::open(&interface, divert, options).expect("a packet socket")
    })
}

#[test]
fn the_host_cuts_and_sums_what_a_tun_leaves_to_it() {
    needs_root!();
    let host = Namespace::new("host");
    let mut near = tun(&host, "near", true);
    let mut far = tun(&host, "far", false);
    for (name, n) in [("near", 1), ("far", 2)] {
        host.ip(&format!("addr add 10.{n}.0.1/24 dev {name}"));
        host.ip(&format!("addr add fd0{n}::1/64 dev {name} nodad"));
    }
    host.sysctl("net/ipv4/ip_forward", "1");
    host.sysctl("net/ipv6/conf/all/forwarding", "1");
    for v6 in [false, true] {
        is_cut(&mut near, &mut far, v6, packets::TCP);
        if near.offloads().uso {
            is_cut(&mut near, &mut far, v6, UDP);
        }
    }
}

#[test]
fn the_host_cuts_and_sums_what_a_tap_leaves_to_it() {
    needs_root!();
    let host = Namespace::new("host");
    let mut near = tap(&host, "near", NEAR_MAC, true);
    let mut far = tap(&host, "far", FAR_MAC, false);
    host.ip("link add bridge type bridge");
    for name in ["near", "far"] {
        host.ip(&format!("link set {name} master bridge"));
    }
    host.ip("link set bridge up");
    for v6 in [false, true] {
        is_cut(&mut near, &mut far, v6, packets::TCP);
    }
}

#[test]
fn the_interface_cuts_and_sums_what_a_packet_socket_leaves_to_it() {
    needs_root!();
    let host = Namespace::new("host");
    let mut modem = tun(&host, "rmnet0", false);
    let mut wire = tap(&host, "wlan0", FAR_MAC, false);
    for v6 in [false, true] {
        let own = ends(v6).0.ip();
        for protocol in [packets::TCP, UDP] {
            let mut cellular = packet_nic(&host, "rmnet0", own, true);
            if protocol == UDP && !cellular.offloads().uso {
                continue;
            }
            is_cut(&mut cellular, &mut modem, v6, protocol);
            let mut wireless = packet_nic(&host, "wlan0", own, true);
            is_cut(&mut wireless, &mut wire, v6, protocol);
        }
    }
}

#[test]
fn a_packet_socket_gets_a_train_of_segments_in_one_frame_that_says_so() {
    needs_root!();
    let host = Namespace::new("host");
    let mut modem = tun(&host, "rmnet0", true);
    for v6 in [false, true] {
        // The other way round: from the network to our port.
        let (own, far) = ends(v6);
        let mut nic = packet_nic(&host, "rmnet0", own.ip(), true);
        let payload = pattern(60_000);
        let whole = packets::ip(far.ip(), own.ip(), 6, &packets::tcp(far, own, 1, 0x18, &payload));
        let (header, packet) = unfinished(&whole, 0, Some(SEGMENT));
        send(&mut modem, &header, &packet);
        let (came, frame) = next_frame(&mut nic, PATIENCE, |_| true).expect("a frame");
        let way = if v6 { Segmentation::Tcp6 } else { Segmentation::Tcp4 };
        assert_eq!(came.segmentation(), Some(way));
        assert_eq!((came.gso_size, came.needs_checksum()), (SEGMENT, true));
        assert_eq!(frame, packet);
    }
}

#[test]
fn without_offload_a_packet_socket_tells_that_a_local_sum_need_not_be_verified() {
    needs_root!();
    let host = Namespace::new("host");
    let mut modem = tun(&host, "rmnet0", true);
    let (own, far) = ends(false);
    let mut nic = packet_nic(&host, "rmnet0", own.ip(), false);
    let whole = packets::ip(far.ip(), own.ip(), UDP, &packets::udp(far, own, b"unfinished"));
    let (header, packet) = unfinished(&whole, 0, None);
    send(&mut modem, &header, &packet);
    let (came, frame) = next_frame(&mut nic, PATIENCE, |_| true).expect("a frame");
    assert_eq!(came, VnetHeader { flags: VnetHeader::DATA_VALID, ..VnetHeader::default() });
    assert_eq!(frame, packet);
}

#[test]
fn nothing_is_left_to_an_interface_without_offload() {
    needs_root!();
    let host = Namespace::new("host");
    let mut modem = tun(&host, "rmnet0", false);
    let (own, far) = ends(false);
    let mut nic = packet_nic(&host, "rmnet0", own.ip(), false);
    let whole = packets::ip(own.ip(), far.ip(), UDP, &packets::udp(own, far, b"unfinished"));
    let (header, packet) = unfinished(&whole, 0, None);
    for nic in [&mut nic as &mut dyn Nic, &mut modem] {
        assert_eq!(nic.transmit(&header, &[IoSlice::new(&packet)]), Transmitted::Dropped);
        assert_eq!(nic.counters().dropped, 1);
    }
    send(&mut nic, &VnetHeader::default(), &whole);
    let (_, frame) = next_frame(&mut modem, PATIENCE, |frame| is_to(frame, PORT)).expect("it");
    assert_eq!(frame, whole);
}

#[test]
fn a_frame_beyond_the_mtu_is_dropped_and_counted() {
    needs_root!();
    let host = Namespace::new("host");
    let _modem = tun(&host, "rmnet0", false);
    let (own, far) = ends(false);
    let mut nic = packet_nic(&host, "rmnet0", own.ip(), true);
    assert_eq!(nic.mtu(), 1500);
    let whole = packets::ip(own.ip(), far.ip(), UDP, &packets::udp(own, far, &pattern(1600)));
    let became = nic.transmit(&VnetHeader::default(), &[IoSlice::new(&whole)]);
    assert_eq!(became, Transmitted::Dropped);
    assert_eq!((nic.counters().dropped, nic.counters().transmitted), (1, 0));
}
