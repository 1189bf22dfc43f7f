//! The kernels of a simulation, one for each series that hosts have, under one clock.

use transom_netstack::{Error, Frame, Kernel, SocketId};

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
