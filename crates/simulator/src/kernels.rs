//! The kernels of a simulation, one for each series that hosts have, under one clock.

use transom_netstack::{Error, Frame, Kernel, SocketId};

/// Where `tcpi_total_retrans` and `tcpi_data_segs_out` are, and where the latter ends.
const TOTAL_RETRANS: usize = 100;
const DATA_SEGS_OUT: usize = 156;
const TCP_INFO_BYTES: usize = 160;

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

    /// Of a TCP socket: data segments sent, with retransmissions, and these alone
    /// (`struct tcp_info`, linux/tcp.h). 0 of a socket that has none.
    pub fn sent(&mut self, socket: Socket) -> (u64, u64) {
        let mut info = [0; TCP_INFO_BYTES];
        let kernel = self.of(socket.kernel);
        if kernel.getsockopt(socket.id, libc::IPPROTO_TCP, libc::TCP_INFO, &mut info).is_err() {
            return (0, 0);
        }
        let number = |at: usize| {
            info[at..].first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes).into())
        };
        (number(DATA_SEGS_OUT), number(TOTAL_RETRANS))
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
