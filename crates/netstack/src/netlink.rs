//! Netlink to the library's kernel, which answers at once.

use std::io::{IoSlice, IoSliceMut};

use transom_link::netlink::{Answer, Message, Request, messages};

use crate::error::{Error, Result};
use crate::host::HostId;
use crate::kernel::Kernel;
use crate::socket::SocketId;

/// The sockets to the kernel, made when first needed.
#[derive(Default)]
pub(crate) struct Netlink {
    sockets: Vec<(HostId, i32, SocketId)>,
}

impl Kernel {
    fn netlink_socket(&mut self, protocol: i32) -> Result<SocketId> {
        let host = self.hosts.in_use;
        let is_it = |(of, it, _): &&(HostId, i32, SocketId)| (*of, *it) == (host, protocol);
        if let Some((.., socket)) = self.netlink.sockets.iter().find(is_it) {
            return Ok(*socket);
        }
        let socket = self.socket(libc::AF_NETLINK, libc::SOCK_RAW, protocol)?;
        self.netlink.sockets.push((host, protocol, socket));
        Ok(socket)
    }

    /// Sends a request and returns the answers, for a dump all.
    pub(crate) fn ask(
        &mut self,
        protocol: i32,
        request: Request,
        what: &'static str,
    ) -> Result<Vec<Message>> {
        let socket = self.netlink_socket(protocol)?;
        self.send(socket, &[IoSlice::new(&request.finish())], 0, None, &[])?;
        let mut answers = Vec::new();
        let mut buffer = vec![0; 1 << 16];
        loop {
            let n = match self.receive(socket, &mut [IoSliceMut::new(&mut buffer)], 0, None) {
                Ok(n) => n,
                Err(error) if error.would_block() => return Ok(answers),
                Err(error) => return Err(Error::new(error.errno, what)),
            };
            for (_, message) in messages(&buffer[..n]) {
                match message.answer() {
                    Answer::Body => answers.push(message),
                    Answer::Done => return Ok(answers),
                    Answer::Refused(error) => return Err(Error::new(error.raw_os_error(), what)),
                }
            }
        }
    }
}
