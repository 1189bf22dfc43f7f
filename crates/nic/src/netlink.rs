//! Questions to the kernel's rtnetlink, and the attributes in its answers (rtnetlink(7)).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;

use anyhow::{Context, Result, bail};
use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, send, socket_with,
};

const HEADER: usize = 16;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLM_F_DUMP_INTR: u16 = 0x10;
const NLM_F_DUMP: u16 = 0x300;
/// What a kernel puts into one answer at most.
const ANSWER: usize = 1 << 16;
/// A table that changes while it is read is read again, so often.
const TRIES: usize = 5;

/// One message, without its header.
#[derive(Debug)]
pub(crate) struct Message {
    pub kind: u16,
    pub body: Vec<u8>,
}

impl Message {
    /// What follows the fixed part, which has `length` bytes.
    pub(crate) fn attributes(&self, length: usize) -> Attributes<'_> {
        Attributes(self.body.get(length.next_multiple_of(4)..).unwrap_or_default())
    }

    pub(crate) fn u32(&self, at: usize) -> u32 {
        number(self.body.get(at..).unwrap_or_default())
    }

    pub(crate) fn u16(&self, at: usize) -> u16 {
        match self.body.get(at..at + 2) {
            Some(bytes) => u16::from_ne_bytes([bytes[0], bytes[1]]),
            None => 0,
        }
    }

    pub(crate) fn u8(&self, at: usize) -> u8 {
        self.body.get(at).copied().unwrap_or(0)
    }
}

/// The first four bytes; 0 when there are fewer.
pub(crate) fn number(bytes: &[u8]) -> u32 {
    bytes.get(..4).and_then(|four| four.try_into().ok()).map_or(0, u32::from_ne_bytes)
}

/// An address by its length.
pub(crate) fn address(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(four) = <[u8; 4]>::try_from(bytes) {
        return Some(Ipv4Addr::from(four).into());
    }
    <[u8; 16]>::try_from(bytes).ok().map(|sixteen| Ipv6Addr::from(sixteen).into())
}

pub(crate) fn address_bytes(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}

pub(crate) fn family(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => libc::AF_INET as u8,
        IpAddr::V6(_) => libc::AF_INET6 as u8,
    }
}

/// Pairs of number and value, as far as they are whole.
pub(crate) struct Attributes<'a>(pub &'a [u8]);

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let head = self.0.get(..4)?;
        let length = usize::from(u16::from_ne_bytes([head[0], head[1]]));
        // The upper bits say "nested" and "network byte order".
        let kind = u16::from_ne_bytes([head[2], head[3]]) & 0x3fff;
        let value = self.0.get(4..length)?;
        self.0 = self.0.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    }
}

pub(crate) fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = (4 + value.len()) as u16;
    let mut bytes = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// The whole messages of a datagram, with their flags.
pub(crate) fn messages(mut bytes: &[u8]) -> Vec<(u16, Message)> {
    let mut found = Vec::new();
    while bytes.len() >= HEADER {
        let length = number(bytes) as usize;
        let Some(body) = bytes.get(HEADER..length) else { break };
        let kind = u16::from_ne_bytes([bytes[4], bytes[5]]);
        let flags = u16::from_ne_bytes([bytes[6], bytes[7]]);
        found.push((flags, Message { kind, body: body.to_vec() }));
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    found
}

/// A socket in the network namespace of the thread that opens it.
#[derive(Debug)]
pub(crate) struct Netlink(OwnedFd);

impl Netlink {
    pub(crate) fn open() -> Result<Netlink> {
        Ok(Netlink(netlink_socket(SocketFlags::CLOEXEC, 0)?))
    }

    /// Everything there is of a kind.
    pub(crate) fn dump(&mut self, kind: u16, body: &[u8]) -> Result<Vec<Message>> {
        for _ in 0..TRIES {
            self.ask(kind, NLM_F_DUMP, body)?;
            let mut found = Vec::new();
            if self.gather(&mut found)? {
                return Ok(found);
            }
        }
        bail!("the kernel's tables change faster than they can be read")
    }

    /// False: it changed meanwhile.
    fn gather(&mut self, found: &mut Vec<Message>) -> Result<bool> {
        let mut whole = true;
        let mut buffer = vec![0; ANSWER];
        loop {
            for (flags, message) in self.answer(&mut buffer)? {
                whole &= flags & NLM_F_DUMP_INTR == 0;
                match message.kind {
                    NLMSG_DONE => return Ok(whole),
                    NLMSG_ERROR => check(&message).context("rtnetlink")?,
                    _ => found.push(message),
                }
            }
        }
    }

    /// One thing; None: done, with nothing to tell.
    pub(crate) fn request(
        &mut self,
        kind: u16,
        flags: u16,
        body: &[u8],
    ) -> Result<Option<Message>, Errno> {
        self.ask(kind, flags | NLM_F_ACK, body)?;
        let mut answer = None;
        let mut buffer = vec![0; ANSWER];
        loop {
            for (_, message) in self.answer(&mut buffer)? {
                if message.kind == NLMSG_ERROR {
                    return check(&message).map(|()| answer);
                }
                answer = Some(message);
            }
        }
    }

    fn ask(&mut self, kind: u16, flags: u16, body: &[u8]) -> Result<(), Errno> {
        let mut request = ((HEADER + body.len()) as u32).to_ne_bytes().to_vec();
        request.extend(kind.to_ne_bytes());
        request.extend((flags | NLM_F_REQUEST).to_ne_bytes());
        request.extend([0; 8]);
        request.extend(body);
        send(&self.0, &request, SendFlags::empty()).map(drop)
    }

    fn answer(&mut self, buffer: &mut [u8]) -> Result<Vec<(u16, Message)>, Errno> {
        let (length, _) = recv(&self.0, &mut *buffer, RecvFlags::empty())?;
        Ok(messages(&buffer[..length]))
    }
}

/// `groups`: one bit each, of what is to be told unasked.
pub(crate) fn netlink_socket(flags: SocketFlags, groups: u32) -> Result<OwnedFd> {
    // No protocol is NETLINK_ROUTE.
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)
        .context("asking the kernel about its interfaces (rtnetlink)")?;
    bind(&socket, &SocketAddrNetlink::new(0, groups)).context("binding a netlink socket")?;
    Ok(socket)
}

fn check(error: &Message) -> Result<(), Errno> {
    match error.u32(0) as i32 {
        0 => Ok(()),
        code => Err(Errno::from_raw_os_error(-code)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn attributes_come_back_as_they_were_written() {
        let bytes = [attribute(1, b"abc"), attribute(0x8002, b""), attribute(3, b"12345")].concat();
        let read: Vec<_> = Attributes(&bytes).collect();
        assert_eq!(read, [(1, &b"abc"[..]), (2, b""), (3, b"12345")]);
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic_or_run_on(bytes: Vec<u8>) {
            prop_assert!(Attributes(&bytes).count() <= bytes.len() / 4);
            for (_, message) in messages(&bytes) {
                prop_assert!(message.attributes(16).count() <= bytes.len() / 4);
            }
        }
    }
}
