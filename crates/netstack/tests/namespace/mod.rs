//! A network namespace of a test: its thread's alone, and gone with it.
#![allow(dead_code)]

use std::net::{IpAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::process::Command;
use std::thread;

use transom_netstack::{Kernel, Link, Nic, NicId, NicParameters, Tap};

use transom_testbed::needs;

use crate::bed;

pub const HOST4: &str = "10.9.0.1";
pub const HOST6: &str = "fd09::1";
pub const OURS4: &str = "10.9.0.2";
pub const OURS6: &str = "fd09::2";

pub const MAC: [u8; 6] = [2, 0, 0, 0, 9, 2];

/// Runs it in a network namespace of its own. Without root the test is skipped.
pub fn in_namespace(test: impl FnOnce() + Send + 'static) {
    needs!("root");
    let _alone = bed::alone();
    let thread = thread::spawn(|| {
        // SAFETY: of this thread only, and of those that it starts.
        assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0, "a network namespace");
        run("ip link set lo up");
        test();
    });
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
    bed::assert_no_complaints();
}

/// A booted kernel with one interface, whose other end the host has.
pub fn with_host(test: impl FnOnce(&mut Kernel, NicId) + Send + 'static) {
    in_namespace(|| {
        let mut kernel = bed::boot();
        let tap = host_end("peer0", HOST4, HOST6);
        let nic = plug(&mut kernel, "wifi0", Box::new(tap), OURS4, OURS6);
        test(&mut kernel, nic);
    });
}

/// A TAP interface of the host, with its addresses.
pub fn host_end(name: &str, v4: &str, v6: &str) -> Tap {
    let tap = Tap::open(name).expect("a TAP interface");
    run(&format!("ip addr add {v4}/24 dev {name}"));
    run(&format!("ip -6 addr add {v6}/64 dev {name} nodad"));
    run(&format!("ip link set {name} up"));
    tap
}

/// An interface of the library, with its addresses.
pub fn plug(
    kernel: &mut Kernel,
    name: &str,
    device: Box<dyn Nic + Send>,
    v4: &str,
    v6: &str,
) -> NicId {
    let mut mac = MAC;
    mac[3] = name.bytes().map(u32::from).sum::<u32>() as u8;
    let parameters = NicParameters {
        name: name.to_owned(),
        link: Link::Ethernet { mac },
        mtu: 1500,
        checksum: true,
        tso: true,
        uso: false,
        queue: None,
    };
    let nic = kernel.add_nic(&parameters, device).expect("an interface");
    kernel.set_up(nic, true).expect("up");
    kernel.add_address(nic, v4.parse::<IpAddr>().unwrap(), 24).expect("an address");
    kernel.add_address(nic, v6.parse::<IpAddr>().unwrap(), 64).expect("an address");
    nic
}

pub fn ip(program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).stdout(std::process::Stdio::null());
    command
}

/// A line of shell, which must succeed.
pub fn run(line: &str) {
    let status = Command::new("sh").args(["-c", line]).status().expect("sh");
    assert!(status.success(), "{line}");
}

/// std asks for a backlog of 128.
pub fn listen_deeply(listener: &TcpListener) {
    // SAFETY: the descriptor is a listening socket.
    assert_eq!(unsafe { libc::listen(listener.as_raw_fd(), 4096) }, 0);
}

/// Closes with a reset.
pub fn reset(stream: TcpStream) {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    // SAFETY: the descriptor is a socket, the value of the size said.
    let result = unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_LINGER,
            (&raw const linger).cast(),
            size_of_val(&linger) as u32,
        )
    };
    assert_eq!(result, 0, "SO_LINGER");
}
