//! One datagram to all on the network: the topic, then the sealed message.
//!
//! Zenoh 1.10 can use multicast, too, but from the third peer on it repeats each subscription for
//! ever (its pull request 2802; 7,600 packets per second among three idle terminals here), and it
//! leaves the group at the first datagram that it cannot parse.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::net::sockopt;
use transom_peers::seal::MOST_SEALED;

use crate::batch::Batch;
use crate::interface;
use crate::kernel_sieve::KernelSieve;
use crate::link::{Early, Inlet};

/// Link-local (RFC 5771, section 4): no router forwards it, no switch holds it back. The address is
/// the one that Zenoh uses; the port is not.
pub const GROUP: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(224, 0, 0, 224), 7450);
/// Bytes; 30 ms of 100,000 short datagrams per second, as the kernel counts them.
const RECEIVE_BUFFER: usize = 4 << 20;
/// How soon the thread sees that it must end.
const END_WITHIN: Duration = Duration::from_millis(500);

pub struct Multicast {
    socket: UdpSocket,
    topic: Vec<u8>,
    interface: String,
    address: Ipv4Addr,
    /// Where the kernel does not let us, the inlet's sieve does it all.
    filter: Result<KernelSieve>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    ends: AtomicBool,
    /// Datagrams of other groups.
    others: AtomicU64,
}

fn address(interface: &str) -> Result<Ipv4Addr> {
    interface::check(interface)?;
    let v4 = interface::addresses(interface)?.into_iter().find_map(|address| match address {
        IpAddr::V4(v4) => Some(v4),
        IpAddr::V6(_) => None,
    });
    v4.with_context(|| format!("'{interface}' has lost its IPv4 address"))
}

/// Room for what arrives while the thread does not run. With CAP_NET_ADMIN it may be more than
/// net.core.rmem_max; with less, more is lost in a burst, which is no error.
fn set_receive_buffer(socket: &UdpSocket) {
    let _ = sockopt::set_socket_recv_buffer_size_force(socket, RECEIVE_BUFFER)
        .or_else(|_| sockopt::set_socket_recv_buffer_size(socket, RECEIVE_BUFFER));
}

impl Multicast {
    pub fn open(interface: &str, topic: &str, inlet: Arc<Inlet>) -> Result<Multicast> {
        let address = address(interface)?;
        // Bound to the group, so that datagrams to this host alone do not come in.
        let socket = UdpSocket::bind(SocketAddr::V4(GROUP))
            .with_context(|| format!("listening at {GROUP}: does another daemon run here?"))?;
        socket
            .join_multicast_v4(GROUP.ip(), &address)
            .with_context(|| format!("joining {} on '{interface}'", GROUP.ip()))?;
        socket.set_multicast_loop_v4(false)?;
        socket.set_read_timeout(Some(END_WITHIN))?;
        set_receive_buffer(&socket);
        sockopt::set_ip_multicast_if(&socket, &address)
            .context("choosing the group's interface")?;
        let filter = KernelSieve::attach(&socket, topic, inlet.mark_key());
        let shared = Arc::new(Shared::default());
        let topic = topic.as_bytes().to_vec();
        let thread = std::thread::spawn({
            let (socket, shared, topic) = (socket.try_clone()?, shared.clone(), topic.clone());
            move || listen(&socket, &topic, &shared, &inlet)
        });
        let (interface, thread) = (interface.to_owned(), Some(thread));
        Ok(Multicast { socket, topic, interface, address, filter, shared, thread })
    }

    /// What was dropped before it reached the inlet.
    ///
    /// # Errors
    /// The kernel's counts cannot be read.
    pub fn early(&self) -> Result<Early> {
        let mut early = match &self.filter {
            Ok(filter) => filter.early()?,
            Err(_) => Early::default(),
        };
        early.others += self.shared.others.load(Ordering::Relaxed);
        Ok(early)
    }

    /// Why forgeries are not dropped in the kernel; None if they are.
    pub fn unfiltered(&self) -> Option<String> {
        self.filter.as_ref().err().map(|error| format!("{error:#}"))
    }

    pub fn send(&self, message: &[u8]) -> Result<()> {
        let datagram = [&self.topic, message].concat();
        self.socket.send_to(&datagram, GROUP).context("telling the others")?;
        Ok(())
    }

    /// The kernel forgets the group when the address goes.
    pub fn is_alive(&self) -> bool {
        let finished = self.thread.as_ref().is_none_or(JoinHandle::is_finished);
        !finished && address(&self.interface).is_ok_and(|now| now == self.address)
    }
}

fn listen(socket: &UdpSocket, topic: &[u8], shared: &Shared, inlet: &Inlet) {
    // One byte more than may come, so that what is too long is seen to be.
    let mut batch = Batch::new(topic.len() + MOST_SEALED + 1);
    while !shared.ends.load(Ordering::Relaxed) {
        // What cannot be received is lost, as in the air.
        for datagram in batch.receive(socket) {
            match datagram.strip_prefix(topic) {
                Some(message) => inlet.take(message),
                None => drop(shared.others.fetch_add(1, Ordering::Relaxed)),
            }
        }
    }
}

impl Drop for Multicast {
    fn drop(&mut self) {
        self.shared.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
