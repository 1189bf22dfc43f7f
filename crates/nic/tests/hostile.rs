//! Frames and headers of strangers: nothing panics, and nothing is handed on that a kernel refuses.

mod frames;

use std::io::IoSlice;
use std::net::{IpAddr, SocketAddr};

use frames::packets::{self, TCP, UDP, ethernet, pattern, unfinished};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use transom_nic::check::{self, Refusal};
use transom_nic::{
    Attach, Divert, Interface, Kind, MOST_BYTES, Mode, Nic, PacketNic, PacketOptions, Received,
    Segmentation, Transmitted, Transport, Tun, VnetHeader,
};
use transom_testbed::{Namespace, needs_root};

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const ETHERNET: Kind = Kind::Ethernet { mac: MAC };

/// A good frame of each kind that is left to be finished, with its header.
fn good(kind: Kind, v6: bool, protocol: u8, size: Option<u16>) -> (VnetHeader, Vec<u8>) {
    let ip = |last: u8| -> IpAddr {
        match v6 {
            false => [192, 0, 2, last].into(),
            true => [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last].into(),
        }
    };
    // A port whose first byte, were the packet one of ICMP, makes it no echo reply: those are for both.
    let (from, to) = (SocketAddr::new(ip(1), 0x0900), SocketAddr::new(ip(2), 61_440));
    let payload = pattern(5000);
    let transport = match protocol {
        UDP => packets::udp(from, to, &payload),
        _ => packets::tcp(from, to, 1, 0x18, &payload),
    };
    let packet = packets::ip(from.ip(), to.ip(), protocol, &transport);
    match kind {
        Kind::RawIp => unfinished(&packet, 0, size),
        Kind::Ethernet { .. } => {
            let (header, packet) = unfinished(&packet, 14, size);
            (header, ethernet(MAC, [2, 0, 0, 0, 0, 2], &packet))
        }
    }
}

fn every_good() -> Vec<(Kind, VnetHeader, Vec<u8>)> {
    let mut all = Vec::new();
    for kind in [ETHERNET, Kind::RawIp] {
        for v6 in [false, true] {
            for protocol in [TCP, UDP] {
                for size in [None, Some(1000)] {
                    let (header, frame) = good(kind, v6, protocol, size);
                    all.push((kind, header, frame));
                }
            }
        }
    }
    all
}

#[test]
fn good_frames_are_handed_on_as_they_are() {
    for (kind, header, frame) in every_good() {
        assert_eq!(check::received(kind, &header, &frame), Ok(header));
    }
}

#[test]
fn no_frame_may_be_cut_short() {
    for (kind, header, frame) in every_good() {
        for length in 0..frame.len().min(120) {
            let checked = check::received(kind, &header, &frame[..length]);
            let sums = usize::from(header.csum_start + header.csum_offset) + 2;
            assert!(checked.is_err() || (length >= sums && header.gso_type == 0), "{length}");
        }
    }
}

#[test]
fn a_checksum_has_its_place_in_the_transport_header() {
    let (good, frame) = good(ETHERNET, false, TCP, None);
    let with = |start: u16, offset: u16| {
        check::received(
            ETHERNET,
            &VnetHeader { csum_start: start, csum_offset: offset, ..good },
            &frame,
        )
    };
    assert_eq!(with(34, 16), Ok(good));
    for (start, offset) in [(0, 0), (13, 16), (33, 16), (34, 65535), (65535, 65535), (34, 5020)] {
        assert_eq!(with(start, offset), Err(Refusal::Checksum), "{start}+{offset}");
    }
    // Both bytes of the sum must be inside.
    let last = frame.len() as u16 - 34 - 2;
    assert!(with(34, last).is_ok() && with(34, last + 1).is_err());
}

#[test]
fn a_segmentation_fits_its_frame() {
    let (tcp4, frame) = good(Kind::RawIp, false, TCP, Some(1000));
    let check = |header: VnetHeader| check::received(Kind::RawIp, &header, &frame);
    let refused = Err(Refusal::Segmentation);
    assert_eq!(check(VnetHeader { gso_size: 0, ..tcp4 }), refused);
    assert_eq!(check(VnetHeader { gso_size: 7, ..tcp4 }), refused);
    assert_eq!(check(VnetHeader { gso_type: Segmentation::Tcp6 as u8, ..tcp4 }), refused);
    assert_eq!(check(VnetHeader { gso_type: Segmentation::Udp as u8, ..tcp4 }), refused);
    // UDP fragmentation offload, which nobody asked for; a number of nothing; only a flag.
    for gso_type in [2, 3, 6, 0x7f, VnetHeader::ECN] {
        assert_eq!(check(VnetHeader { gso_type, ..tcp4 }), refused, "{gso_type}");
    }
    let marked = VnetHeader { gso_type: tcp4.gso_type | VnetHeader::ECN, ..tcp4 };
    assert_eq!(check(marked), Ok(marked));
    let lying = VnetHeader { hdr_len: 65535, flags: 0xff, ..tcp4 };
    assert_eq!(check(lying), Ok(tcp4), "hints are replaced, unknown flags removed");
    let one = check(VnetHeader { gso_size: 5000, ..tcp4 }).expect("one segment");
    assert_eq!((one.gso_type, one.gso_size), (0, 0));
}

#[test]
fn a_frame_of_few_bytes_does_not_become_a_flood() {
    let (udp, frame) = good(Kind::RawIp, false, UDP, Some(1000));
    let check = |size| check::received(Kind::RawIp, &VnetHeader { gso_size: size, ..udp }, &frame);
    assert!(check(40).is_ok(), "125 datagrams");
    assert_eq!(check(39), Err(Refusal::Segmentation), "129 datagrams");
}

#[test]
fn a_fragment_or_a_wrong_length_is_not_cut() {
    for (at, value) in [(6, 0x20), (7, 1), (2, 0), (3, 0)] {
        let (header, mut frame) = good(Kind::RawIp, false, TCP, Some(1000));
        frame[at] = if frame[at] == value { value + 1 } else { value };
        let checked = check::received(Kind::RawIp, &header, &frame);
        assert_eq!(checked, Err(Refusal::Segmentation), "byte {at}");
    }
}

/// A good frame with some bytes of its headers changed, cut or grown, and some of its header.
fn damaged() -> impl Strategy<Value = (Kind, VnetHeader, Vec<u8>)> {
    let all = every_good();
    let bytes = prop::collection::vec((0usize..80, any::<u8>()), 0..4);
    let words = prop::collection::vec((0usize..10, any::<u8>()), 0..3);
    let length = prop_oneof![4 => Just(None), 1 => (0usize..5200).prop_map(Some)];
    (0..all.len(), bytes, words, length).prop_map(move |(which, bytes, words, length)| {
        let (kind, mut header, mut frame) = all[which].clone();
        for (at, value) in bytes {
            frame[at] = value;
        }
        for (at, value) in words {
            bytemuck::bytes_of_mut(&mut header)[at] = value;
        }
        frame.resize(length.unwrap_or(frame.len()), 0);
        (kind, header, frame)
    })
}

fn noise() -> impl Strategy<Value = (Kind, VnetHeader, Vec<u8>)> {
    let header = any::<[u8; 10]>().prop_map(|bytes| *bytemuck::from_bytes(&Aligned(bytes).0));
    let kind = prop_oneof![Just(ETHERNET), Just(Kind::RawIp)];
    (kind, header, prop::collection::vec(any::<u8>(), 0..300))
}

#[repr(C, align(2))]
struct Aligned([u8; 10]);

/// What is handed on holds together, whatever it was made of.
fn holds_together(kind: Kind, header: &VnetHeader, frame: &[u8]) -> Option<VnetHeader> {
    let checked = check::received(kind, header, frame).ok()?;
    let known = VnetHeader::NEEDS_CSUM | VnetHeader::DATA_VALID;
    assert_eq!(checked.flags & !known, 0);
    if checked.needs_checksum() {
        let end = usize::from(checked.csum_start) + usize::from(checked.csum_offset) + 2;
        assert!(end <= frame.len());
    }
    match checked.segmentation().expect("a known one") {
        Segmentation::None => assert_eq!((checked.gso_size, checked.hdr_len), (0, 0)),
        _ => {
            let payload = frame.len() - usize::from(checked.hdr_len);
            assert!(checked.gso_size > 0 && payload > usize::from(checked.gso_size));
        }
    }
    assert_eq!(
        check::received(kind, &checked, frame),
        Ok(checked),
        "checking twice changes nothing"
    );
    Some(checked)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, ..ProptestConfig::default() })]

    #[test]
    fn damaged_frames_hold_together_or_are_refused((kind, header, frame) in damaged()) {
        holds_together(kind, &header, &frame);
    }

    #[test]
    fn noise_holds_together_or_is_refused((kind, header, frame) in noise()) {
        holds_together(kind, &header, &frame);
    }
}

#[test]
fn the_kernel_takes_all_that_is_handed_on() {
    needs_root!();
    let host = Namespace::new("host");
    let mut tap = host.inside(|| Tun::create("tap0", Mode::Tap { mac: MAC }, true)).expect("a TAP");
    let mut tun = host.inside(|| Tun::create("tun0", Mode::Tun, true)).expect("a TUN");
    let mut runner = prop::test_runner::TestRunner::new(ProptestConfig::default());
    let mut taken = 0;
    let strategy = damaged();
    for _ in 0..20_000 {
        let (kind, header, frame) = strategy.new_tree(&mut runner).expect("a value").current();
        let Some(checked) = holds_together(kind, &header, &frame) else { continue };
        let nic: &mut Tun = if kind == Kind::RawIp { &mut tun } else { &mut tap };
        if checked.segmentation() == Some(Segmentation::Udp) && !nic.offloads().uso {
            continue;
        }
        let became = nic.transmit(&checked, &[IoSlice::new(&frame)]);
        assert_eq!(became, Transmitted::Sent, "{checked:?} {:02x?}", &frame[..frame.len().min(90)]);
        taken += 1;
    }
    assert!(taken > 1000, "only {taken} were handed on");
}

/// What is kept from the host and what a stack gets is the same, whatever arrives.
#[test]
fn no_packet_is_lost_between_the_host_and_us() {
    needs_root!();
    let host = Namespace::new("host");
    let mut modem = host.inside(|| Tun::create("rmnet0", Mode::Tun, false)).expect("a TUN");
    let mut nic = host.inside(|| {
        let interface = Interface::find("rmnet0").expect("the interface");
        let mut divert = Divert::attach(&interface, Attach::Best).expect("attached");
        for own in ["192.0.2.2", "2001:db8::2"] {
            divert.add_address(own.parse().expect("an address")).expect("added");
        }
        for transport in [Transport::Tcp, Transport::Udp] {
            divert.add_ports(transport, 1024..=65535).expect("ports");
        }
        PacketNic::open(&interface, divert, PacketOptions::default()).expect("a packet socket")
    });
    host.ip("addr add 192.0.2.2/24 dev rmnet0");
    let mut runner = prop::test_runner::TestRunner::new(ProptestConfig::default());
    let mut buffer = vec![0; MOST_BYTES];
    let (strategy, mut sent, mut ours) = (damaged(), 0, 0);
    while sent < 10_000 {
        let (kind, _, frame) = strategy.new_tree(&mut runner).expect("a value").current();
        // A write of nothing never reaches the driver.
        if kind != Kind::RawIp || frame.is_empty() {
            continue;
        }
        let frame = &frame[..frame.len().min(1500)];
        // A TUN takes nothing that is of no IP version.
        if modem.transmit(&VnetHeader::default(), &[IoSlice::new(frame)]) != Transmitted::Sent {
            continue;
        }
        sent += 1;
        if let Received::Frame { length, .. } = nic.receive(&mut buffer) {
            assert_eq!(&buffer[..length], frame);
            ours += 1;
        }
    }
    let counts = nic.divert().counts().expect("counts");
    let counters = nic.counters();
    assert_eq!(ours + counters.refused + counters.overrun, counts.diverted + counts.late_fragments);
    assert_eq!((counters.refused, counters.overrun), (0, 0));
    let unknown = host.counter("Ip.InReceives") + host.counter("Ip6InReceives");
    assert_eq!(unknown, sent - counts.diverted, "the host got all others");
    assert!(ours > 1000 && unknown > 100, "{ours} ours, {unknown} the host's");
}
