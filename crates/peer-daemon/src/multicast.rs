//! One datagram to all on the network. The whole of it is the topic and the sealed message.
//!
//! Zenoh 1.10 can use multicast too, but from the third peer on it repeats each subscription for
//! ever (its pull request 2802; 7,600 packets a second among three idle terminals here), and it
//! gives the group up at the first datagram that it cannot read.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result};
use transom_peers::seal::MOST_SEALED;

use crate::batch::Batch;
use crate::interface;
use crate::link::Inlet;

/// Link-local (RFC 5771, section 4): no router carries it on, no switch holds it back. The address
/// is the one that Zenoh uses, the port is not.
pub const GROUP: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(224, 0, 0, 224), 7450);
/// Bytes; 30 ms of 100,000 short datagrams a second, as the kernel counts them.
const RECEIVE_BUFFER: libc::c_int = 4 << 20;
/// How soon the thread sees that it shall end.
const END_WITHIN: Duration = Duration::from_millis(500);

pub struct Multicast {
    socket: UdpSocket,
    topic: Vec<u8>,
    interface: String,
    address: Ipv4Addr,
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

/// Which interface datagrams to a group leave by.
fn set_interface(socket: &UdpSocket, address: Ipv4Addr) -> Result<()> {
    let value = libc::in_addr { s_addr: u32::from(address).to_be() };
    let size = size_of_val(&value) as libc::socklen_t;
    // SAFETY: `value` is what IP_MULTICAST_IF takes.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_IP,
            libc::IP_MULTICAST_IF,
            (&raw const value).cast(),
            size,
        )
    };
    if result != 0 {
        return Err(std::io::Error::last_os_error()).context("choosing the interface of a group");
    }
    Ok(())
}

/// Room for what comes while this thread does not run. With CAP_NET_ADMIN it may be more than
/// net.core.rmem_max; less of it is no error, only less patient.
fn set_receive_buffer(socket: &UdpSocket) {
    let size = RECEIVE_BUFFER;
    for option in [libc::SO_RCVBUFFORCE, libc::SO_RCVBUF] {
        // SAFETY: both options take an int.
        let result = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                option,
                (&raw const size).cast(),
                size_of_val(&size) as libc::socklen_t,
            )
        };
        if result == 0 {
            return;
        }
    }
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
        set_interface(&socket, address)?;
        let shared = Arc::new(Shared::default());
        let topic = topic.as_bytes().to_vec();
        let thread = std::thread::spawn({
            let (socket, shared, topic) = (socket.try_clone()?, shared.clone(), topic.clone());
            move || listen(&socket, &topic, &shared, &inlet)
        });
        let (interface, thread) = (interface.to_owned(), Some(thread));
        Ok(Multicast { socket, topic, interface, address, shared, thread })
    }

    /// How many datagrams came that were of another group, access point or program.
    pub fn others(&self) -> u64 {
        self.shared.others.load(Ordering::Relaxed)
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
