//! TCP connections of a stack in user space on each back end to a kernel's server, and what the
//! host whose address they share notices of them: nothing.

mod frames;

use std::io::{IoSlice, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::thread::JoinHandle;

use frames::link;
use frames::packets::pattern;
use frames::stack::Stack;
use transom_nic::{
    Attach, Divert, Interface, MOST_BYTES, Mode, Nic, PacketNic, PacketOptions, Ports, Received,
    Transmitted, Transport, Tun,
};
use transom_testbed::{Namespace, has, needs_root};

const AMOUNT: usize = 1 << 20;

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// A server of the host's kernel for one connection, which sends back what it gets.
fn echo_server(host: &Namespace, address: IpAddr) -> (SocketAddr, JoinHandle<usize>) {
    let listener = host.inside(|| TcpListener::bind((address, 0))).expect("a listener");
    let at = listener.local_addr().expect("its address");
    let thread = std::thread::spawn(move || {
        let (mut connection, _) = listener.accept().expect("a connection");
        let mut answer = connection.try_clone().expect("a clone");
        let mut all = 0;
        let mut buffer = vec![0; 1 << 16];
        loop {
            match connection.read(&mut buffer).expect("data") {
                0 => return all,
                length => {
                    answer.write_all(&buffer[..length]).expect("taken");
                    all += length;
                }
            }
        }
    });
    (at, thread)
}

/// A megabyte there and back.
fn echo(stack: &mut Stack, port: u16, server: &Namespace, address: IpAddr, between: impl FnMut()) {
    let (at, thread) = echo_server(server, address);
    let data = pattern(AMOUNT);
    let back = stack.echo(port, at, &data, between);
    assert!(back == data, "what came back differs");
    assert_eq!(thread.join().expect("the server"), AMOUNT);
}

struct Shared {
    nic: PacketNic,
    port: u16,
    _ports: Ports,
}

/// A packet socket on an interface of the host, with its addresses and a free range of ports.
fn shared(host: &Namespace, name: &str, own: &[IpAddr], way: Attach, offload: bool) -> Shared {
    host.inside(|| {
        let interface = Interface::find(name).expect("the interface");
        let ports = Ports::claim(256).expect("ports");
        let mut divert = Divert::attach(&interface, way).expect("attached");
        own.iter().for_each(|&address| divert.add_address(address).expect("an address"));
        divert.add_ports(Transport::Tcp, ports.range()).expect("ports");
        let options = PacketOptions { offload, ..PacketOptions::default() };
        let nic = PacketNic::open(&interface, divert, options).expect("a packet socket");
        Shared { nic, port: *ports.range().start(), _ports: ports }
    })
}

/// The host's TCP has seen no segment and sent no reset; its IP has delivered nothing to anybody.
fn noticed_nothing(host: &Namespace) {
    let counters = host.counters();
    for name in ["Tcp.InSegs", "Tcp.OutSegs", "Tcp.OutRsts", "Tcp.InErrs", "Ip.InDelivers"] {
        assert_eq!(counters[name], 0, "{name}");
    }
}

#[test]
fn a_connection_over_ethernet_that_the_host_does_not_notice() {
    needs_root!();
    for (way, offload) in [(Attach::Link, true), (Attach::Link, false), (Attach::Filter, true)] {
        if way == Attach::Link && !has("linux-6.6") {
            continue;
        }
        let (near, far) = (Namespace::new("host"), Namespace::new("host"));
        link((&near, "wlan0"), (&far, "eth0"));
        let own = [ip("10.99.0.1"), ip("fd99::1")];
        let shared = shared(&near, "wlan0", &own, way, offload);
        assert_eq!(shared.nic.divert().dies_with_the_process(), way == Attach::Link);
        let port = shared.port;
        let mut stack = Stack::new(Box::new(shared.nic), &own);
        echo(&mut stack, port, &far, ip("10.99.0.2"), || ());
        echo(&mut stack, port + 1, &far, ip("fd99::2"), || ());
        noticed_nothing(&near);
        assert_eq!(stack.link.nic.counters().refused, 0);
    }
}

/// The radio network between a modem and a far host: what one has, the other gets.
fn carry(from: &mut Tun, to: &mut Tun) {
    let mut buffer = vec![0; MOST_BYTES];
    while let Received::Frame { header, length } = from.receive(&mut buffer) {
        assert_eq!(to.transmit(&header, &[IoSlice::new(&buffer[..length])]), Transmitted::Sent);
    }
}

#[test]
fn a_connection_over_raw_ip_that_the_host_does_not_notice() {
    needs_root!();
    for offload in [true, false] {
        let (near, far) = (Namespace::new("host"), Namespace::new("host"));
        let mut modem = near.inside(|| Tun::create("rmnet0", Mode::Tun, true)).expect("a TUN");
        let mut core = far.inside(|| Tun::create("core", Mode::Tun, true)).expect("a TUN");
        for (n, host, name) in [(1, &near, "rmnet0"), (2, &far, "core")] {
            host.ip(&format!("addr add 10.99.0.{n}/24 dev {name}"));
            host.ip(&format!("addr add fd99::{n}/64 dev {name} nodad"));
        }
        let own = [ip("10.99.0.1"), ip("fd99::1")];
        let shared = shared(&near, "rmnet0", &own, Attach::Best, offload);
        let port = shared.port;
        let mut stack = Stack::new(Box::new(shared.nic), &own);
        let mut radio = || {
            carry(&mut modem, &mut core);
            carry(&mut core, &mut modem);
        };
        echo(&mut stack, port, &far, ip("10.99.0.2"), &mut radio);
        echo(&mut stack, port + 1, &far, ip("fd99::2"), &mut radio);
        noticed_nothing(&near);
    }
}

#[test]
fn a_connection_over_tap_and_one_over_tun() {
    needs_root!();
    let mac = [2, 0, 0, 0, 0, 7];
    for mode in [Mode::Tap { mac }, Mode::Tun] {
        for offload in [true, false] {
            let host = Namespace::new("host");
            let tun = host.inside(|| Tun::create("tap0", mode, offload)).expect("an interface");
            host.ip("addr add 10.98.0.1/24 dev tap0");
            host.ip("addr add fd98::1/64 dev tap0 nodad");
            let mut stack = Stack::new(Box::new(tun), &[ip("10.98.0.2"), ip("fd98::2")]);
            echo(&mut stack, 40_000, &host, ip("10.98.0.1"), || ());
            echo(&mut stack, 40_001, &host, ip("fd98::1"), || ());
        }
    }
}
