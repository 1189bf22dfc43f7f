//! Multipath TCP of the library against the host's: two paths, one dying, one kept for need, and a
//! server that knows only TCP.

mod bed;
mod namespace;

use std::io::IoSlice;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use bed::assert_read;
use namespace::{host_end, in_namespace, plug, run};
use transom_netstack::{
    Endpoint, EndpointFlags, Kernel, Nic, NicId, Route, SocketId, Tap, Transmitted, VnetHeader,
};

const SERVER: &str = "10.9.0.1:5001";
const TOTAL: u64 = 24 << 20;

/// What a path carries, and whether it lives.
#[derive(Default)]
struct Meter {
    bytes: AtomicU64,
    dead: AtomicBool,
}

struct Path {
    tap: Tap,
    meter: Arc<Meter>,
}

impl Nic for Path {
    fn transmit(&mut self, offload: VnetHeader, parts: &[IoSlice<'_>]) -> Transmitted {
        if self.meter.dead.load(Ordering::Relaxed) {
            return Transmitted::Taken;
        }
        let size: usize = parts.iter().map(|part| part.len()).sum();
        self.meter.bytes.fetch_add(size as u64, Ordering::Relaxed);
        self.tap.transmit(offload, parts)
    }

    fn receive(&mut self, buffer: &mut [u8]) -> Option<(usize, VnetHeader)> {
        let frame = self.tap.receive(buffer)?;
        (!self.meter.dead.load(Ordering::Relaxed)).then_some(frame)
    }

    fn descriptor(&self) -> Option<RawFd> {
        self.tap.descriptor()
    }
}

/// A listener of the host with this protocol.
fn host_listener(protocol: i32) -> TcpListener {
    let SocketAddr::V4(address) = SERVER.parse().unwrap() else { unreachable!() };
    // SAFETY: a new socket, which the listener owns; the address is of the size said.
    unsafe {
        let fd = libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, protocol);
        assert!(fd >= 0, "the host has no MPTCP");
        let listener = TcpListener::from_raw_fd(fd);
        let raw = bed::raw(address.into());
        assert_eq!(libc::bind(listener.as_raw_fd(), raw.as_ptr().cast(), raw.len() as u32), 0);
        assert_eq!(libc::listen(listener.as_raw_fd(), 8), 0);
        listener
    }
}

struct Bed {
    kernel: Kernel,
    nics: [NicId; 2],
    meters: [Arc<Meter>; 2],
}

/// Two paths to one host. The second path's subflows go to the first one's address, as they would
/// over a cellular network to the same server.
fn two_paths(second: EndpointFlags) -> Bed {
    run("ip mptcp limits set subflows 4 add_addr_accepted 4");
    let mut kernel = bed::boot();
    let meters = [Arc::<Meter>::default(), Arc::default()];
    let mut path = |name: &str, peer: &str, network: u8, meter: &Arc<Meter>| {
        let tap = host_end(peer, &format!("10.{network}.0.1"), &format!("fd{network:02}::1"));
        let device = Box::new(Path { tap, meter: meter.clone() });
        let (v4, v6) = (format!("10.{network}.0.2"), format!("fd{network:02}::2"));
        plug(&mut kernel, name, device, &v4, &v6)
    };
    let nics = [path("wifi0", "peer0", 9, &meters[0]), path("cell0", "peer1", 10, &meters[1])];
    let default = ("0.0.0.0".parse().unwrap(), 0);
    let gateway = Some("10.10.0.1".parse().unwrap());
    kernel
        .add_route(&Route {
            destination: default,
            gateway,
            nic: nics[1],
            metric: Some(100),
            table: None,
        })
        .unwrap();
    kernel.set_mptcp_limits(4, 4).unwrap();
    let endpoint = Endpoint { address: "10.10.0.2".parse().unwrap(), id: 0, flags: second };
    kernel.add_endpoint(nics[1], &endpoint).unwrap();
    assert_eq!(kernel.endpoints().unwrap(), [Endpoint { id: 1, ..endpoint }]);
    Bed { kernel, nics, meters }
}

/// Sends all; `during` sees how much has been sent, and the paths carry it meanwhile.
fn send_all(kernel: &mut Kernel, socket: SocketId, mut during: impl FnMut(&mut Kernel, u64)) {
    bed::send_all(kernel, socket, TOTAL, |kernel, sent| {
        during(kernel, sent);
        kernel.turn(&mut Vec::new());
    });
}

/// A connection to the host's listener, which must live on for the second subflow, and the thread
/// that reads there.
fn connected(kernel: &mut Kernel, listener: &TcpListener) -> (SocketId, JoinHandle<u64>) {
    let socket = bed::connected(kernel, SERVER.parse().unwrap(), libc::IPPROTO_MPTCP);
    (socket, bed::reader(listener.accept().unwrap().0))
}

fn carried(bed: &Bed) -> [u64; 2] {
    [0, 1].map(|path| bed.meters[path].bytes.load(Ordering::Relaxed))
}

const SUBFLOW: EndpointFlags =
    EndpointFlags { subflow: true, signal: false, backup: false, fullmesh: false };

#[test]
fn both_paths_carry_bytes_of_one_connection() {
    in_namespace(|| {
        let mut bed = two_paths(SUBFLOW);
        let listener = host_listener(libc::IPPROTO_MPTCP);
        let (socket, reader) = connected(&mut bed.kernel, &listener);
        send_all(&mut bed.kernel, socket, |_, _| {});
        assert_read(&mut bed.kernel, reader, TOTAL);
        let carried = carried(&bed);
        // Without a rate the faster one may take nearly all; a handshake is below a thousand bytes.
        assert!(carried.iter().all(|bytes| *bytes > 50_000), "{carried:?} of {TOTAL}");
    });
}

#[test]
fn a_path_that_dies_amid_the_transfer_loses_nothing() {
    in_namespace(|| {
        let mut bed = two_paths(SUBFLOW);
        let listener = host_listener(libc::IPPROTO_MPTCP);
        let (socket, reader) = connected(&mut bed.kernel, &listener);
        let dying = bed.meters[1].clone();
        send_all(&mut bed.kernel, socket, move |_, sent| {
            if sent > TOTAL / 4 {
                dying.dead.store(true, Ordering::Relaxed);
            }
        });
        assert_read(&mut bed.kernel, reader, TOTAL);
        assert!(bed.meters[1].dead.load(Ordering::Relaxed));
    });
}

#[test]
fn a_backup_path_carries_nothing_as_long_as_the_other_lives() {
    in_namespace(|| {
        let mut bed = two_paths(EndpointFlags { backup: true, ..SUBFLOW });
        let listener = host_listener(libc::IPPROTO_MPTCP);
        let (socket, reader) = connected(&mut bed.kernel, &listener);
        send_all(&mut bed.kernel, socket, |_, _| {});
        assert_read(&mut bed.kernel, reader, TOTAL);
        let [_, backup] = carried(&bed);
        assert!(backup > 0, "its subflow was made");
        assert!(backup < TOTAL / 100, "{backup} bytes on the backup path");
    });
}

#[test]
fn an_endpoint_that_is_removed_takes_its_subflow_along() {
    in_namespace(|| {
        let mut bed = two_paths(SUBFLOW);
        let listener = host_listener(libc::IPPROTO_MPTCP);
        let (socket, reader) = connected(&mut bed.kernel, &listener);
        let mut at_removal = None;
        let meter = bed.meters[1].clone();
        send_all(&mut bed.kernel, socket, |kernel, sent| {
            if sent > TOTAL / 2 && at_removal.is_none() {
                let endpoint = kernel.endpoints().unwrap()[0];
                kernel.remove_endpoint(&endpoint).unwrap();
                kernel.turn(&mut Vec::new());
                at_removal = Some(meter.bytes.load(Ordering::Relaxed));
            }
        });
        assert_read(&mut bed.kernel, reader, TOTAL);
        let later = carried(&bed)[1] - at_removal.unwrap();
        assert!(later < TOTAL / 50, "{later} bytes on a path without subflow");
        assert_eq!(bed.nics.len(), 2);
    });
}

#[test]
fn a_server_that_knows_only_tcp_is_served_with_tcp() {
    in_namespace(|| {
        let mut bed = two_paths(SUBFLOW);
        let listener = host_listener(0);
        let (socket, reader) = connected(&mut bed.kernel, &listener);
        send_all(&mut bed.kernel, socket, |_, _| {});
        assert_read(&mut bed.kernel, reader, TOTAL);
        let [_, second] = carried(&bed);
        assert!(second < 10_000, "{second} bytes on a second path of plain TCP");
    });
}
