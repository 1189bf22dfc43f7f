//! A host on the same network that does not have the key: it receives and sends datagrams.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::Namespace;

const GROUP: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 224);
const PORT: u16 = 7450;
/// The topic's twelve digits precede the sealed message.
pub const TOPIC: usize = 12;
/// Datagrams of one system call.
const BATCH: usize = 64;

pub struct Stranger {
    pub host: Namespace,
    socket: UdpSocket,
}

impl Stranger {
    pub fn join(host: Namespace) -> Stranger {
        let socket = host.inside(|| {
            let socket = UdpSocket::bind((GROUP, PORT)).expect("a socket");
            socket.join_multicast_v4(&GROUP, &Ipv4Addr::UNSPECIFIED).expect("the group");
            socket
        });
        socket.set_read_timeout(Some(Duration::from_millis(200))).expect("a timeout");
        Stranger { host, socket }
    }

    pub fn listen(&self, time: Duration) -> Vec<Vec<u8>> {
        let (end, mut heard) = (Instant::now() + time, Vec::new());
        let mut buffer = [0; 2000];
        while Instant::now() < end {
            if let Ok(length) = self.socket.recv(&mut buffer) {
                heard.push(buffer[..length].to_vec());
            }
        }
        heard
    }

    pub fn say(&self, datagram: &[u8]) {
        // A full queue is as good as a lost datagram.
        let _ = self.socket.send_to(datagram, (GROUP, PORT));
    }

    /// Sends datagrams, one after the other and over again, at this rate if the machine can, until
    /// it is dropped. `from`: the source address, which need not be its own.
    pub fn flood(&self, per_second: u64, from: Option<Ipv4Addr>, datagrams: Vec<Vec<u8>>) -> Flood {
        if let Some(from) = from {
            self.host.ip(&format!("addr add {from}/32 dev eth0"));
        }
        let from = from.unwrap_or(Ipv4Addr::UNSPECIFIED);
        let socket = self.host.inside(|| UdpSocket::bind((from, 0)).expect("a socket"));
        Flood::start(socket, per_second, datagrams)
    }
}

/// A flood that goes on until it is dropped.
pub struct Flood {
    sent: Arc<AtomicU64>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Flood {
    fn start(socket: UdpSocket, per_second: u64, datagrams: Vec<Vec<u8>>) -> Flood {
        socket.set_multicast_loop_v4(false).expect("an option");
        socket.connect(SocketAddr::from((GROUP, PORT))).expect("a route");
        let (sent, ends) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let thread = std::thread::spawn({
            let (sent, ends) = (sent.clone(), ends.clone());
            move || {
                let began = Instant::now();
                let mut batches = datagrams.chunks(BATCH).cycle();
                while !ends.load(Ordering::Relaxed) {
                    let due = began.elapsed().as_secs_f64() * per_second as f64;
                    if (sent.load(Ordering::Relaxed) as f64) < due {
                        let count = send(&socket, batches.next().expect("datagrams"));
                        sent.fetch_add(count, Ordering::Relaxed);
                    } else {
                        std::thread::sleep(Duration::from_micros(300));
                    }
                }
            }
        });
        Flood { sent, ends, thread: Some(thread) }
    }

    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// How many were sent.
fn send(socket: &UdpSocket, datagrams: &[Vec<u8>]) -> u64 {
    let mut vectors: Vec<libc::iovec> = datagrams
        .iter()
        .map(|bytes| libc::iovec {
            iov_base: bytes.as_ptr().cast_mut().cast(),
            iov_len: bytes.len(),
        })
        .collect();
    // SAFETY: zeros are a header without address, vectors or control data.
    let empty: libc::mmsghdr = unsafe { std::mem::zeroed() };
    let mut headers = [empty; BATCH];
    for (header, vector) in headers.iter_mut().zip(&mut vectors) {
        header.msg_hdr.msg_iov = vector;
        header.msg_hdr.msg_iovlen = 1;
    }
    let count = vectors.len() as libc::c_uint;
    // SAFETY: each header has one vector, which is one of the datagrams.
    let sent = unsafe { libc::sendmmsg(socket.as_raw_fd(), headers.as_mut_ptr(), count, 0) };
    u64::try_from(sent).unwrap_or(0)
}
