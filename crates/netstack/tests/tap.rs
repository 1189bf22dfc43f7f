//! The library's stack against the host's, over TAP, in a network namespace that goes with the test.

mod bed;
mod namespace;

use std::collections::HashMap;
use std::io::{IoSlice, IoSliceMut, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use bed::{
    PATIENCE, assert_read, connect, connected, error_of, listener, receive, send, send_all,
    turn_until,
};
use namespace::{HOST4, HOST6, OURS4, OURS6, in_namespace, ip, plug, with_host};
use transom_netstack::{
    Kernel, Link, Message, Nic, NicParameters, SocketId, Tap, Transmitted, VnetHeader,
};

const BULK: u64 = 64 << 20;

fn at(address: &str, port: u16) -> SocketAddr {
    SocketAddr::new(address.parse().unwrap(), port)
}

fn writer(mut stream: impl Write + Send + 'static, total: u64) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        let mut buffer = vec![0; 1 << 18];
        let mut at = 0;
        while at < total {
            let size = buffer.len().min((total - at) as usize);
            bed::pattern(at, &mut buffer[..size]);
            stream.write_all(&buffer[..size]).expect("write");
            at += size as u64;
        }
    })
}

/// Connects to the host and sends so much, which arrives: both ends.
fn delivered(kernel: &mut Kernel, host: &str, total: u64) -> (SocketId, TcpStream) {
    let listener = TcpListener::bind(at(host, 5001)).unwrap();
    let socket = connected(kernel, at(host, 5001), 0);
    let (stream, _) = listener.accept().unwrap();
    let reader = bed::reader(stream.try_clone().unwrap());
    send_all(kernel, socket, total, |_, _| {});
    assert_read(kernel, reader, total);
    (socket, stream)
}

/// 8 MiB to the host and back.
fn carried_both_ways(kernel: &mut Kernel, host: &str) {
    let (socket, stream) = delivered(kernel, host, 8 << 20);
    let writer = writer(stream, 8 << 20);
    assert_eq!(receive_all(kernel, socket), 8 << 20);
    writer.join().unwrap();
}

/// Receives the pattern to its end.
fn receive_all(kernel: &mut Kernel, socket: SocketId) -> u64 {
    let mut buffer = vec![0; 1 << 18];
    let mut received = 0;
    turn_until(kernel, PATIENCE, |kernel| {
        loop {
            match receive(kernel, socket, &mut buffer) {
                Ok(0) => return true,
                Ok(n) => {
                    bed::assert_pattern(received, &buffer[..n]);
                    received += n as u64;
                }
                Err(error) => {
                    assert!(error.would_block(), "{error}");
                    return false;
                }
            }
        }
    });
    received
}

fn accepted(kernel: &mut Kernel, listener: SocketId) -> SocketId {
    let mut socket = None;
    turn_until(kernel, PATIENCE, |kernel| {
        socket = kernel.accept(listener).ok();
        socket.is_some()
    });
    socket.unwrap()
}

/// States of the library's TCP sockets that are none of listeners: numbers of tcp_states.h.
fn states(kernel: &mut Kernel) -> Vec<String> {
    let text = kernel.read_proc("net/tcp").unwrap();
    let states = text.lines().skip(1).filter_map(|line| line.split_whitespace().nth(3));
    states.filter(|state| *state != "0A").map(str::to_owned).collect()
}

#[test]
fn the_host_pings_the_library() {
    with_host(|kernel, _| {
        for address in [OURS4, OURS6] {
            let mut ping = ip("ping", &["-c", "3", "-i", "0.2", "-W", "5", address]);
            let mut ping = ping.spawn().expect("ping");
            let mut status = None;
            turn_until(kernel, PATIENCE, |_| {
                status = ping.try_wait().expect("ping");
                status.is_some()
            });
            assert!(status.unwrap().success(), "ping {address}");
        }
    });
}

#[test]
fn bulk_to_the_host_arrives_as_sent() {
    with_host(|kernel, _| {
        for host in [HOST4, HOST6] {
            let (socket, _) = delivered(kernel, host, BULK);
            kernel.close(socket);
        }
    });
}

#[test]
fn bulk_from_the_host_arrives_as_sent() {
    with_host(|kernel, _| {
        for ours in [OURS4, OURS6] {
            let listener = listener(kernel, at(ours, 5001), 0);
            let connecting =
                thread::spawn(move || TcpStream::connect(at(ours, 5001)).expect("connect"));
            let socket = accepted(kernel, listener);
            let writer = writer(connecting.join().unwrap(), BULK);
            assert_eq!(receive_all(kernel, socket), BULK, "at {ours}");
            writer.join().unwrap();
            kernel.close(socket);
            kernel.close(listener);
        }
    });
}

#[test]
fn without_offloads_frames_are_complete() {
    in_namespace(|| {
        let mut kernel = bed::boot();
        let tap = namespace::host_end("peer0", HOST4, HOST6);
        let parameters = NicParameters {
            name: "wifi0".to_owned(),
            link: Link::Ethernet { mac: namespace::MAC },
            mtu: 1500,
            checksum: false,
            tso: false,
            uso: false,
            queue: Some(100),
        };
        let nic = kernel.add_nic(&parameters, Box::new(Complete(tap))).unwrap();
        kernel.set_up(nic, true).unwrap();
        kernel.add_address(nic, OURS4.parse().unwrap(), 24).unwrap();
        kernel.add_address(nic, OURS6.parse().unwrap(), 64).unwrap();
        carried_both_ways(&mut kernel, HOST4);
        carried_both_ways(&mut kernel, HOST6);
    });
}

/// Sees to it that nothing is left to the host.
struct Complete(Tap);

impl Nic for Complete {
    fn transmit(&mut self, offload: VnetHeader, parts: &[IoSlice<'_>]) -> Transmitted {
        assert_eq!(offload, VnetHeader::default());
        assert!(parts.iter().map(|part| part.len()).sum::<usize>() <= 1514);
        self.0.transmit(offload, parts)
    }

    fn receive(&mut self, buffer: &mut [u8]) -> Option<(usize, VnetHeader)> {
        self.0.receive(buffer)
    }

    fn descriptor(&self) -> Option<RawFd> {
        self.0.descriptor()
    }
}

#[test]
fn datagrams_go_both_ways_whole_and_name_their_sender() {
    with_host(|kernel, _| {
        for (host, ours) in [(HOST4, OURS4), (HOST6, OURS6)] {
            let (host, ours) = (at(host, 5001), at(ours, 5002));
            let theirs = UdpSocket::bind(host).unwrap();
            let socket = kernel.socket(bed::family(ours), libc::SOCK_DGRAM, 0).unwrap();
            kernel.bind(socket, &bed::raw(ours)).unwrap();
            // One packet, and the largest datagram: 45 fragments.
            for size in [1, 1400, 65507] {
                let mut data = vec![0; size];
                bed::pattern(size as u64, &mut data);
                let pieces = [IoSlice::new(&data[..size / 2]), IoSlice::new(&data[size / 2..])];
                assert_eq!(kernel.send(socket, &pieces, 0, Some(&bed::raw(host)), &[]), Ok(size));
                kernel.turn(&mut Vec::new());
                let mut got = vec![0; 70_000];
                assert_eq!(theirs.recv_from(&mut got).unwrap(), (size, ours));
                bed::assert_pattern(size as u64, &got[..size]);

                theirs.send_to(&data, ours).unwrap();
                turn_until(kernel, PATIENCE, |kernel| {
                    kernel.poll(socket) & libc::EPOLLIN as u32 != 0
                });
                let mut message = Message::default();
                let mut pieces = [IoSliceMut::new(&mut got)];
                let n = kernel.receive(socket, &mut pieces, 0, Some(&mut message)).unwrap();
                assert_eq!((n, &message.source), (size, &bed::raw(host)));
                bed::assert_pattern(size as u64, &got[..size]);
                assert_eq!(kernel.poll(socket) & libc::EPOLLIN as u32, 0);
            }
        }
    });
}

#[test]
fn a_thousand_connections_live_at_once() {
    const CONNECTIONS: usize = 1000;
    with_host(|kernel, _| {
        let listener = TcpListener::bind(at(HOST4, 5001)).unwrap();
        namespace::listen_deeply(&listener);
        let echo = thread::spawn(move || {
            let streams: Vec<_> = (0..CONNECTIONS).map(|_| listener.accept().unwrap().0).collect();
            for mut stream in streams {
                let mut buffer = [0; 1000];
                stream.read_exact(&mut buffer).unwrap();
                stream.write_all(&buffer).unwrap();
            }
        });
        let sockets: Vec<_> =
            (0..CONNECTIONS).map(|_| connect(kernel, at(HOST4, 5001), 0)).collect();
        let mut open = HashMap::new();
        turn_until(kernel, PATIENCE, |kernel| {
            for &socket in &sockets {
                if !open.contains_key(&socket) && kernel.poll(socket) & libc::EPOLLOUT as u32 != 0 {
                    let mut data = [0; 1000];
                    bed::pattern(socket.0, &mut data);
                    assert_eq!(send(kernel, socket, &data), Ok(1000));
                    open.insert(socket, Vec::new());
                }
            }
            open.len() == CONNECTIONS
        });
        turn_until(kernel, PATIENCE, |kernel| {
            let mut buffer = [0; 1000];
            for (&socket, got) in &mut open {
                if let Ok(n) = receive(kernel, socket, &mut buffer) {
                    got.extend_from_slice(&buffer[..n]);
                }
            }
            open.values().all(|got| got.len() >= 1000)
        });
        for (socket, got) in &open {
            bed::assert_pattern(socket.0, got);
        }
        echo.join().unwrap();
    });
}

#[test]
fn a_reset_of_either_side_is_an_error_of_the_other() {
    with_host(|kernel, _| {
        let listener = TcpListener::bind(at(HOST4, 5001)).unwrap();
        let socket = connected(kernel, at(HOST4, 5001), 0);
        let (stream, _) = listener.accept().unwrap();
        namespace::reset(stream);
        turn_until(kernel, PATIENCE, |kernel| kernel.poll(socket) & libc::EPOLLERR as u32 != 0);
        assert_eq!(error_of(kernel, socket), libc::ECONNRESET);

        let socket = connected(kernel, at(HOST4, 5001), 0);
        let (mut stream, _) = listener.accept().unwrap();
        let linger = [1i32.to_ne_bytes(), 0i32.to_ne_bytes()].concat();
        kernel.setsockopt(socket, libc::SOL_SOCKET, libc::SO_LINGER, &linger).unwrap();
        kernel.close(socket);
        kernel.turn(&mut Vec::new());
        let error = stream.read(&mut [0; 1]).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    });
}

#[test]
fn a_port_where_nobody_listens_refuses_both_ways() {
    with_host(|kernel, _| {
        let socket = connect(kernel, at(HOST4, 5009), 0);
        turn_until(kernel, PATIENCE, |kernel| kernel.poll(socket) & libc::EPOLLERR as u32 != 0);
        assert_eq!(error_of(kernel, socket), libc::ECONNREFUSED);

        let host = thread::spawn(|| TcpStream::connect(at(OURS4, 5009)));
        turn_until(kernel, PATIENCE, |_| host.is_finished());
        let error = host.join().unwrap().unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
    });
}

/// RFC 9293 section 3.6: who closes first waits, who closes second does not.
#[test]
fn closing_passes_through_its_states() {
    const ESTABLISHED: &str = "01";
    const FIN_WAIT2: &str = "05";
    const TIME_WAIT: &str = "06";
    const CLOSE_WAIT: &str = "08";
    with_host(|kernel, _| {
        let listener = TcpListener::bind(at(HOST4, 5001)).unwrap();
        let socket = connected(kernel, at(HOST4, 5001), 0);
        let (stream, _) = listener.accept().unwrap();
        assert_eq!(states(kernel), [ESTABLISHED]);
        kernel.shutdown(socket, libc::SHUT_WR).unwrap();
        turn_until(kernel, PATIENCE, |kernel| states(kernel) == [FIN_WAIT2]);
        drop(stream);
        kernel.close(socket);
        turn_until(kernel, PATIENCE, |kernel| states(kernel) == [TIME_WAIT]);

        let socket = connected(kernel, at(HOST4, 5001), 0);
        drop(listener.accept().unwrap());
        turn_until(kernel, PATIENCE, |kernel| states(kernel).iter().any(|s| s == CLOSE_WAIT));
        kernel.close(socket);
        turn_until(kernel, PATIENCE, |kernel| states(kernel) == [TIME_WAIT]);
    });
}

#[test]
fn a_cable_that_is_out_for_a_while_loses_nothing() {
    with_host(|kernel, nic| {
        let listener = TcpListener::bind(at(HOST4, 5001)).unwrap();
        let socket = connected(kernel, at(HOST4, 5001), 0);
        let reader = bed::reader(listener.accept().unwrap().0);
        send_all(kernel, socket, 1 << 20, |_, _| {});
        kernel.set_carrier(nic, false);
        kernel.turn(&mut Vec::new());
        thread::sleep(Duration::from_millis(300));
        kernel.set_carrier(nic, true);
        assert_read(kernel, reader, 1 << 20);
    });
}

/// Every `each`th frame is lost, both ways.
struct Lossy {
    tap: Tap,
    each: usize,
    frames: usize,
}

impl Lossy {
    fn lost(&mut self) -> bool {
        self.frames += 1;
        self.frames.is_multiple_of(self.each)
    }
}

impl Nic for Lossy {
    fn transmit(&mut self, offload: VnetHeader, parts: &[IoSlice<'_>]) -> Transmitted {
        if self.lost() { Transmitted::Taken } else { self.tap.transmit(offload, parts) }
    }

    fn receive(&mut self, buffer: &mut [u8]) -> Option<(usize, VnetHeader)> {
        loop {
            let frame = self.tap.receive(buffer)?;
            if !self.lost() {
                return Some(frame);
            }
        }
    }

    fn descriptor(&self) -> Option<RawFd> {
        self.tap.descriptor()
    }
}

#[test]
fn what_is_lost_is_retransmitted() {
    in_namespace(|| {
        let mut kernel = bed::boot();
        let tap = namespace::host_end("peer0", HOST4, HOST6);
        // Whole segments, so that many frames are lost and not few big ones.
        namespace::run("ethtool -K peer0 tso off gso off || true");
        plug(&mut kernel, "wifi0", Box::new(Lossy { tap, each: 97, frames: 0 }), OURS4, OURS6);
        carried_both_ways(&mut kernel, HOST4);
    });
}

#[test]
fn an_interface_without_room_delays_and_loses_nothing() {
    #[derive(Default)]
    struct Counts {
        refused: AtomicUsize,
        /// Refused, and not the next frame that was offered.
        lost: AtomicUsize,
    }

    /// Takes 5 frames, then none until it was asked once more.
    struct Narrow {
        tap: Tap,
        offered: usize,
        refused: Option<Vec<u8>>,
        counts: Arc<Counts>,
    }

    impl Nic for Narrow {
        fn transmit(&mut self, offload: VnetHeader, parts: &[IoSlice<'_>]) -> Transmitted {
            let frame: Vec<u8> = parts.iter().flat_map(|part| &**part).copied().collect();
            if self.refused.take().is_some_and(|refused| refused != frame) {
                self.counts.lost.fetch_add(1, Ordering::Relaxed);
            }
            self.offered += 1;
            if self.offered.is_multiple_of(6) {
                self.counts.refused.fetch_add(1, Ordering::Relaxed);
                self.refused = Some(frame);
                return Transmitted::Full;
            }
            self.tap.transmit(offload, parts)
        }

        fn receive(&mut self, buffer: &mut [u8]) -> Option<(usize, VnetHeader)> {
            self.tap.receive(buffer)
        }

        fn descriptor(&self) -> Option<RawFd> {
            self.tap.descriptor()
        }
    }

    in_namespace(|| {
        let mut kernel = bed::boot();
        let counts = Arc::<Counts>::default();
        let tap = namespace::host_end("peer0", HOST4, HOST6);
        let device = Narrow { tap, offered: 0, refused: None, counts: counts.clone() };
        plug(&mut kernel, "wifi0", Box::new(device), OURS4, OURS6);
        delivered(&mut kernel, HOST4, 16 << 20);
        assert!(counts.refused.load(Ordering::Relaxed) > 10);
        assert_eq!(counts.lost.load(Ordering::Relaxed), 0, "frames lost");
    });
}

#[test]
fn frames_that_are_none_do_no_harm() {
    /// Gives frames of nonsense, of all sizes and with all kinds of promises.
    struct Nonsense {
        state: u64,
        left: usize,
    }

    impl Nonsense {
        /// xorshift64 (Marsaglia 2003).
        fn next(&mut self) -> u64 {
            self.state ^= self.state << 13;
            self.state ^= self.state >> 7;
            self.state ^= self.state << 17;
            self.state
        }
    }

    impl Nic for Nonsense {
        fn transmit(&mut self, _: VnetHeader, _: &[IoSlice<'_>]) -> Transmitted {
            Transmitted::Taken
        }

        fn receive(&mut self, buffer: &mut [u8]) -> Option<(usize, VnetHeader)> {
            self.left = self.left.checked_sub(1)?;
            let size = (self.next() as usize % 70_000).min(buffer.len()) >> (self.next() % 12);
            for byte in &mut buffer[..size.min(200)] {
                *byte = self.next() as u8;
            }
            // Most look like packets, for the rest is soon refused.
            if !self.next().is_multiple_of(4) && size > 60 {
                buffer[12..14].copy_from_slice(&[0x08, 0x00]);
                buffer[14] = 0x45;
                buffer[23] = 6;
                buffer[16..18].copy_from_slice(&((size - 14) as u16).to_be_bytes());
            }
            let bytes: [u8; 10] = std::array::from_fn(|_| self.next() as u8);
            let mut offload: VnetHeader = bytemuck::cast(bytes);
            offload.gso_type = [0, 1, 3, 4, 5, 0x81, 0x84, 77][self.next() as usize % 8];
            Some((size, offload))
        }

        fn descriptor(&self) -> Option<RawFd> {
            None
        }
    }

    let _alone = bed::alone();
    let mut kernel = bed::boot();
    let nonsense = Nonsense { state: 0x9e37_79b9_7f4a_7c15, left: 50_000 };
    plug(&mut kernel, "wifi0", Box::new(nonsense), OURS4, OURS6);
    while kernel.turn(&mut Vec::new()) {}
    // It still works.
    let address = "127.0.0.1:4000".parse().unwrap();
    let listener = listener(&mut kernel, address, 0);
    connect(&mut kernel, address, 0);
    kernel.turn(&mut Vec::new());
    kernel.accept(listener).expect("a connection");
    bed::assert_no_complaints();
}

#[test]
fn an_interface_that_is_removed_is_gone_with_its_addresses() {
    with_host(|kernel, nic| {
        let listener = TcpListener::bind(at(HOST4, 5001)).unwrap();
        connected(kernel, at(HOST4, 5001), 0);
        drop(listener);
        assert!(kernel.remove_nic(nic).is_some());
        assert!(kernel.remove_nic(nic).is_none());
        assert_eq!(kernel.nic_index(nic), None);
        let devices = kernel.read_proc("net/dev").unwrap();
        assert!(!devices.contains("wifi0"), "{devices}");
        let other = kernel.socket(libc::AF_INET, libc::SOCK_STREAM, 0).unwrap();
        let error = kernel.connect(other, &bed::raw(at(HOST4, 5001))).unwrap_err();
        assert_eq!(error.errno, libc::ENETUNREACH);
    });
}
