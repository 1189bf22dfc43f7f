//! The kernels of a simulation, one for each series that hosts have, under one clock.

use transom_event::tcp_info::TcpInfo;
use transom_netstack::{Error, Frame, Kernel, SocketId};

/// Bytes of `struct tcp_info`; newer kernels may have more.
const TCP_INFO_BYTES: usize = 280;
/// Of the name of a congestion control, with its end (TCP_CA_NAME_MAX).
const NAME_BYTES: usize = 16;

/// A socket of one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Socket {
    pub kernel: usize,
    pub id: SocketId,
}

pub struct Kernels(pub Vec<Kernel>);

impl Kernels {
    pub fn of(&mut self, kernel: usize) -> &mut Kernel {
        &mut self.0[kernel]
    }

    pub fn send_zeros(&mut self, socket: Socket, bytes: usize) -> Result<usize, Error> {
        self.of(socket.kernel).send_zeros(socket.id, bytes)
    }

    pub fn discard(&mut self, socket: Socket, most: usize) -> Result<usize, Error> {
        self.of(socket.kernel).discard(socket.id, most)
    }

    /// What the kernel tells of a TCP socket; none of a socket that has nothing to tell.
    pub fn tcp_info<T>(
        &mut self,
        socket: Socket,
        read: impl FnOnce(&TcpInfo<'_>) -> T,
    ) -> Option<T> {
        let mut info = [0; TCP_INFO_BYTES];
        let kernel = self.of(socket.kernel);
        let n = kernel.getsockopt(socket.id, libc::IPPROTO_TCP, libc::TCP_INFO, &mut info).ok()?;
        Some(read(&TcpInfo(&info[..n])))
    }

    /// Of a TCP socket: data segments sent, with retransmissions, and these alone. 0 of a socket
    /// that has none.
    pub fn sent(&mut self, socket: Socket) -> (u64, u64) {
        let (sent, again) = self.tcp_info(socket, |info| info.segments()).unwrap_or_default();
        (sent.into(), again.into())
    }

    /// The congestion control of a TCP socket.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub fn congestion(&mut self, socket: Socket) -> Result<Vec<u8>, Error> {
        let mut name = [0; NAME_BYTES];
        let kernel = self.of(socket.kernel);
        kernel.getsockopt(socket.id, libc::IPPROTO_TCP, libc::TCP_CONGESTION, &mut name)?;
        Ok(name.into_iter().take_while(|byte| *byte != 0).collect())
    }

    /// # Errors
    /// What the kernel refuses.
    pub fn set_congestion(&mut self, socket: Socket, algorithm: &[u8]) -> Result<(), Error> {
        let kernel = self.of(socket.kernel);
        kernel.setsockopt(socket.id, libc::IPPROTO_TCP, libc::TCP_CONGESTION, algorithm)
    }

    pub fn end_writing(&mut self, socket: Socket) -> Result<(), Error> {
        self.of(socket.kernel).shutdown(socket.id, libc::SHUT_WR)
    }

    pub fn close(&mut self, socket: Socket) {
        self.of(socket.kernel).close(socket.id);
    }

    /// A frame of the kernel that receives it; of another kernel's frame a copy. None: no memory.
    pub fn adopted(&mut self, frame: Frame, kernel: usize) -> Option<Frame> {
        if self.0[kernel].owns(&frame) {
            return Some(frame);
        }
        let owner = self.0.iter_mut().find(|other| other.owns(&frame))?;
        let bytes = owner.read_frame(&frame).ok()?;
        self.0[kernel].make_frame(&bytes)
    }

    /// The same for a frame that stays where it is, since a duplicate is on its way.
    pub fn copied(&mut self, frame: &Frame, kernel: usize) -> Option<Frame> {
        let owner = self.0.iter_mut().find(|other| other.owns(frame))?;
        let copy = owner.copy_frame(frame)?;
        self.adopted(copy, kernel)
    }
}
