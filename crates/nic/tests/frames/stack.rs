//! A small TCP/IP stack in user space (smoltcp) on a back end: the peer of the host's kernel.

use std::io::IoSlice;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{Checksum, Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::tcp;
use smoltcp::time::Instant as Moment;
use smoltcp::wire::{EthernetAddress, HardwareAddress, IpCidr};
use transom_nic::{Kind, MOST_BYTES, Nic, Received, Transmitted, VnetHeader};

use super::PATIENCE;

pub struct Stack {
    pub link: Link,
    interface: Interface,
    sockets: SocketSet<'static>,
    started: Instant,
}

pub struct Link {
    pub nic: Box<dyn Nic>,
    buffer: Vec<u8>,
}

pub struct Taken(Vec<u8>);
pub struct Given<'a>(&'a mut dyn Nic);

impl RxToken for Taken {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0)
    }
}

impl TxToken for Given<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, f: F) -> R {
        let mut frame = vec![0; length];
        let result = f(&mut frame);
        // In two parts, as a kernel gives headers and pages.
        let (head, rest) = frame.split_at(length.min(40));
        let parts = [IoSlice::new(head), IoSlice::new(rest)];
        let became = self.0.transmit(&VnetHeader::default(), &parts);
        assert_eq!(became, Transmitted::Sent);
        result
    }
}

impl Device for Link {
    type RxToken<'a> = Taken;
    type TxToken<'a> = Given<'a>;

    fn receive(&mut self, _: Moment) -> Option<(Taken, Given<'_>)> {
        match self.nic.receive(&mut self.buffer) {
            Received::Frame { length, .. } => {
                Some((Taken(self.buffer[..length].to_vec()), Given(&mut *self.nic)))
            }
            _ => None,
        }
    }

    fn transmit(&mut self, _: Moment) -> Option<Given<'_>> {
        Some(Given(&mut *self.nic))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut can = DeviceCapabilities::default();
        (can.medium, can.max_transmission_unit) = match self.nic.kind() {
            Kind::Ethernet { .. } => (Medium::Ethernet, self.nic.mtu() as usize + 14),
            Kind::RawIp => (Medium::Ip, self.nic.mtu() as usize),
        };
        // What this machine's kernel sends us may be without checksum, as the header says.
        can.checksum.tcp = Checksum::Tx;
        can
    }
}

impl Stack {
    pub fn new(nic: Box<dyn Nic>, addresses: &[IpAddr]) -> Stack {
        let hardware = match nic.kind() {
            Kind::Ethernet { mac } => HardwareAddress::Ethernet(EthernetAddress(mac)),
            Kind::RawIp => HardwareAddress::Ip,
        };
        let mut link = Link { nic, buffer: vec![0; MOST_BYTES] };
        let started = Instant::now();
        let config = Config::new(hardware);
        let mut interface = Interface::new(config, &mut link, Moment::from_millis(0));
        interface.update_ip_addrs(|all| {
            for &address in addresses {
                let prefix = if address.is_ipv4() { 24 } else { 64 };
                all.push(IpCidr::new(address.into(), prefix)).expect("room for an address");
            }
        });
        Stack { link, interface, sockets: SocketSet::new(Vec::new()), started }
    }

    pub fn connect(&mut self, port: u16, to: SocketAddr) -> SocketHandle {
        let buffer = || tcp::SocketBuffer::new(vec![0; 1 << 18]);
        let mut socket = tcp::Socket::new(buffer(), buffer());
        let to = (smoltcp::wire::IpAddress::from(to.ip()), to.port());
        socket.connect(self.interface.context(), to, port).expect("a way there");
        self.sockets.add(socket)
    }

    pub fn poll(&mut self) {
        let now = Moment::from_micros(self.started.elapsed().as_micros() as i64);
        self.interface.poll(now, &mut self.link, &mut self.sockets);
    }

    pub fn socket(&mut self, handle: SocketHandle) -> &mut tcp::Socket<'static> {
        self.sockets.get_mut(handle)
    }

    /// Sends `data` to an echo server and closes; what came back. `between` runs each round.
    pub fn echo(
        &mut self,
        port: u16,
        to: SocketAddr,
        data: &[u8],
        mut between: impl FnMut(),
    ) -> Vec<u8> {
        let handle = self.connect(port, to);
        let (mut sent, mut back) = (0, Vec::new());
        let end = Instant::now() + PATIENCE;
        while back.len() < data.len() || self.socket(handle).is_open() {
            assert!(Instant::now() < end, "{sent} sent, {} back of {}", back.len(), data.len());
            self.poll();
            between();
            let socket = self.socket(handle);
            if sent < data.len() && socket.can_send() {
                sent += socket.send_slice(&data[sent..]).expect("open");
                if sent == data.len() {
                    socket.close();
                }
            }
            let mut idle = true;
            while socket.can_recv() {
                idle = false;
                socket
                    .recv(|bytes| {
                        back.extend_from_slice(bytes);
                        (bytes.len(), ())
                    })
                    .expect("open");
            }
            // The last ACKs of a closed connection are not waited for.
            if back.len() == data.len() && socket.state() == tcp::State::TimeWait {
                self.poll();
                break;
            }
            if idle {
                super::wait(self.link.nic.descriptor(), Duration::from_millis(1));
            }
        }
        back
    }
}
