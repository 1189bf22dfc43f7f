//! Requests to the host's kernel.

use std::os::fd::{AsRawFd, OwnedFd};

use anyhow::{Context, Result, bail};
use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, send,
    socket_with,
};

use super::{Answer, Message, NLM_F_ACK, NLM_F_DUMP, Request, messages};

const NLM_F_DUMP_INTR: u16 = libc::NLM_F_DUMP_INTR as u16;
/// The most that the kernel puts into one answer.
const ANSWER: usize = 1 << 16;
/// How often a table is read that changes during each reading.
const TRIES: usize = 5;

/// A socket in the network namespace of the thread that opens it.
#[derive(Debug)]
pub struct Netlink(OwnedFd);

impl Netlink {
    /// For links, addresses, routes, neighbours (rtnetlink(7)).
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn open() -> Result<Netlink> {
        Ok(Netlink(route_socket(SocketFlags::CLOEXEC, 0)?))
    }

    /// The same; of a table, the kernel tells only what is like the request, where it can (Linux 4.20).
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn open_strict() -> Result<Netlink> {
        let socket = route_socket(SocketFlags::CLOEXEC, 0)?;
        let (on, size) = (1_i32, size_of::<i32>() as libc::socklen_t);
        // SAFETY: the kernel reads an int. What an older one refuses, the reader of answers does.
        unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_NETLINK,
                libc::NETLINK_GET_STRICT_CHK,
                (&raw const on).cast(),
                size,
            )
        };
        Ok(Netlink(socket))
    }

    /// For the families of generic netlink.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn open_generic() -> Result<Netlink> {
        let protocol = Some(rustix::net::netlink::GENERIC);
        Ok(Netlink(netlink_socket(SocketFlags::CLOEXEC, protocol, 0)?))
    }

    /// For the sockets of the kernel (sock_diag(7)).
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn open_sock_diag() -> Result<Netlink> {
        Ok(Netlink(sock_diag_socket(SocketFlags::CLOEXEC, 0)?))
    }

    /// All objects of a table.
    ///
    /// # Errors
    /// The kernel refuses, or the table changes all the time.
    pub fn dump(&mut self, mut request: Request) -> Result<Vec<Message>> {
        request.add_flags(NLM_F_DUMP);
        let request = request.finish();
        for _ in 0..TRIES {
            let (found, whole) = self.exchange(&request)?;
            if whole {
                return Ok(found);
            }
        }
        bail!("the kernel's tables change faster than they can be read")
    }

    /// One object, or None if the kernel only acknowledges.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn request(&mut self, mut request: Request) -> Result<Option<Message>, Errno> {
        request.add_flags(NLM_F_ACK);
        Ok(self.exchange(&request.finish())?.0.pop())
    }

    /// All answers, and whether nothing changed meanwhile.
    fn exchange(&mut self, request: &[u8]) -> Result<(Vec<Message>, bool), Errno> {
        send(&self.0, request, SendFlags::empty())?;
        let mut found = Vec::new();
        let mut whole = true;
        let mut buffer = vec![0; ANSWER];
        loop {
            let (length, _) = recv(&self.0, &mut buffer[..], RecvFlags::empty())?;
            for (flags, message) in messages(&buffer[..length]) {
                whole &= flags & NLM_F_DUMP_INTR == 0;
                match message.answer() {
                    Answer::Body => found.push(message),
                    Answer::Done => return Ok((found, whole)),
                    Answer::Refused(error) => return Err(error),
                }
            }
        }
    }
}

/// A socket that also receives the notifications of `groups`, one bit each.
///
/// # Errors
/// The kernel refuses.
pub fn route_socket(flags: SocketFlags, groups: u32) -> Result<OwnedFd> {
    // No protocol is NETLINK_ROUTE.
    netlink_socket(flags, None, groups)
}

/// The same for sock_diag(7).
///
/// # Errors
/// The kernel refuses.
pub fn sock_diag_socket(flags: SocketFlags, groups: u32) -> Result<OwnedFd> {
    netlink_socket(flags, Some(rustix::net::netlink::SOCK_DIAG), groups)
}

fn netlink_socket(flags: SocketFlags, protocol: Option<Protocol>, groups: u32) -> Result<OwnedFd> {
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, protocol)
        .context("opening a netlink socket")?;
    bind(&socket, &SocketAddrNetlink::new(0, groups)).context("binding a netlink socket")?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::super::{GENERIC_HEADER, GENL_ID_CTRL, family_number};
    use super::*;

    /// The controller is a family itself, on every kernel.
    #[test]
    fn the_kernel_returns_the_number_of_a_family() {
        let mut netlink = Netlink::open_generic().unwrap();
        let mut number = |name| {
            netlink.request(Request::family(name)).map(|answer| family_number(&answer.unwrap()))
        };
        assert_eq!(number("nlctrl"), Ok(Some(GENL_ID_CTRL)));
        assert_eq!(number("no-such-family"), Err(Errno::NOENT));
    }

    #[test]
    fn a_dump_has_every_object() {
        let mut netlink = Netlink::open_generic().unwrap();
        let families = netlink.dump(Request::generic(GENL_ID_CTRL, 3, 0)).unwrap();
        assert!(families.iter().any(|family| family_number(family) == Some(GENL_ID_CTRL)));
        assert!(families.iter().all(|family| family.attributes(GENERIC_HEADER).count() > 0));
    }
}
